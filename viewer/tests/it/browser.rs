//! The pages in a real browser: they load under their own policy and ask for
//! nothing else, the arrow runs between the right two steps at every width,
//! figures appear on hover and focus, keys move between steps, hostile values
//! stay text, and pictures of all this are left in `target/screenshots`.

use crate::common::{
    campaigns, first_failure, five_threads, hostile, large, pbzip2, real, served, three_threads,
    turns_text,
};
use serde_json::Value;
use sketch_model::FailureSketch;
use std::collections::HashMap;
use test_support::browser::chromium::{Browser, Scheme};
use test_support::browser::site::{Served, Site};

const POLICY: Option<&str> = Some(viewer::CONTENT_SECURITY_POLICY);

/// Where the parts of the drawing are.
const MEASURE: &str = r#"(() => {
  const box = e => { const r = e.getBoundingClientRect(); return {left: r.left, right: r.right, top: r.top, bottom: r.bottom}; };
  const shown = e => e.checkVisibility() && e.getBoundingClientRect().width > 0;
  const d = document, arrows = [], heads = [], cards = {};
  for (const row of d.querySelectorAll('.step, .fold-line')) {
    const name = row.id || 'fold';
    const card = row.querySelector('.card');
    if (card && shown(card)) cards[name] = box(card);
    for (const svg of [...row.querySelectorAll('svg.arrow')].filter(shown))
      arrows.push({step: name, strokes: svg.dataset.strokes, ...box(svg)});
    for (const svg of [...row.querySelectorAll('svg.head')].filter(shown))
      heads.push({step: name, ...box(svg)});
  }
  return {arrows, heads, cards,
    steps: d.querySelectorAll('.step').length,
    scripts: [...d.scripts].filter(s => s.getAttribute('src') !== '/assets/page.js').length,
    images: d.images.length, frames: d.querySelectorAll('iframe,object,embed').length,
    handlers: [...d.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length,
    styled: getComputedStyle(d.body).marginTop === '0px',
    overflow: d.documentElement.scrollWidth - d.documentElement.clientWidth};
})()"#;

/// A site with these pages and the script that they ask for.
fn site(pages: Vec<(&'static str, String)>) -> Site {
    let (listener, origin) = Site::listen();
    site_at(listener, origin, pages, POLICY)
}

fn site_at(
    listener: std::net::TcpListener,
    origin: String,
    pages: Vec<(&'static str, String)>,
    policy: Option<&'static str>,
) -> Site {
    let mut all: HashMap<&'static str, Served> = pages
        .into_iter()
        .map(|(path, html)| (path, Served::html(html, policy)))
        .collect();
    all.insert(viewer::SCRIPT_PATH, Served::script(viewer::SCRIPT));
    Site::serve(listener, origin, all)
}

fn measure(html: String, width: u32) -> Value {
    let site = site(vec![("/page", html)]);
    let mut browser = Browser::start();
    browser.window((width, 900), Scheme::Light);
    browser.open(&format!("{}/page", site.origin));
    browser.eval(MEASURE)
}

fn at(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(f64::NAN)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 6.0
}

#[test]
fn the_pages_load_under_their_policy_and_ask_for_nothing_else() {
    let sketch = served(&pbzip2(), &[1, 2, 3]);
    let altered = sketch.replacen(":root {", ":root  {", 1);
    assert_ne!(sketch, altered);
    let site = site(vec![
        ("/campaigns/7", sketch),
        ("/altered", altered),
        ("/", viewer::failures_page(&campaigns())),
        ("/empty", viewer::failures_page(&[])),
        ("/alone", viewer::standalone(&real())),
    ]);
    let mut browser = Browser::start();
    for path in ["/campaigns/7", "/", "/empty", "/alone"] {
        browser.open(&format!("{}{path}", site.origin));
        browser.wait_for("document.title.includes('Failsketch')");
        assert_eq!(browser.complaints(), [""; 0], "{path} complained");
        let mut own = vec![format!("{}{path}", site.origin)];
        if path != "/alone" {
            own.push(format!("{}/assets/page.js", site.origin));
        }
        assert_eq!(browser.requests(), own);
    }
    // The control: a style sheet that is not the one of the policy is refused, loudly.
    browser.open(&format!("{}/altered", site.origin));
    browser.expect_complaint("Content Security Policy");
}

#[test]
fn in_columns_the_arrow_runs_from_the_right_of_its_cause_into_the_left_of_the_failure() {
    let found = measure(served(&pbzip2(), &[1]), 1280);
    assert_eq!(
        pieces(&found),
        [
            ("step-6", "down left"),
            ("step-7", "up down"),
            ("step-8", "up right")
        ]
    );
    runs_between(&found, "step-6", "step-8");
}

#[test]
fn the_real_sketch_of_the_miniature_has_its_arrow_from_the_store_of_null_to_the_failing_read() {
    let sketch = real();
    let text = |number: u64| -> &str {
        let mut steps = sketch.steps.iter();
        let step = steps.find(|s| u64::from(s.number) == number);
        step.map_or("", |s| s.statement.text.as_str())
    };
    let found = measure(served(&sketch, &[1]), 1280);
    let ends: Vec<u64> = ["down left", "up right"]
        .iter()
        .map(|end| {
            let pieces = pieces(&found);
            let step = pieces.iter().find(|(_, strokes)| strokes == end);
            let (step, _) = step.unwrap_or_else(|| panic!("no arrow {end}: {pieces:?}"));
            step.trim_start_matches("step-").parse().expect("a number")
        })
        .collect();
    assert_eq!(text(ends[0]), "q->mut = NULL;");
    assert!(text(ends[1]).contains("fifo->mut"), "{}", text(ends[1]));
    let names = (format!("step-{}", ends[0]), format!("step-{}", ends[1]));
    runs_between(&found, &names.0, &names.1);
    assert!(
        pieces(&found).contains(&("fold", "up down")),
        "the arrow passes what is folded: {found}"
    );
}

fn pieces(found: &Value) -> Vec<(&str, &str)> {
    let arrows = found["arrows"].as_array().expect("arrows");
    arrows
        .iter()
        .map(|a| {
            (
                a["step"].as_str().unwrap_or(""),
                a["strokes"].as_str().unwrap_or(""),
            )
        })
        .collect()
}

/// The pieces join without a gap, from the right of one card to the left of another.
fn runs_between(found: &Value, from: &str, to: &str) {
    let arrows = found["arrows"].as_array().expect("arrows");
    for pair in arrows.windows(2) {
        assert!(
            close(at(&pair[0], "bottom"), at(&pair[1], "top")),
            "a gap: {pair:?}"
        );
    }
    let (cause, failure) = (&found["cards"][from], &found["cards"][to]);
    assert!(
        at(cause, "right") < at(failure, "left"),
        "side by side: {found}"
    );
    let last = &arrows[arrows.len() - 1];
    assert!(close(at(&arrows[0], "left"), at(cause, "right")), "{found}");
    assert!(close(at(last, "right"), at(failure, "left")), "{found}");
    head_points_at(found, to);
    assert_eq!(found["overflow"], 0);
    assert_eq!(found["styled"], true);
}

#[test]
fn in_one_column_the_arrow_runs_down_its_left_side() {
    // 360: a phone. 640: a window of 1280 at 200%.
    for width in [360, 640] {
        let found = measure(served(&pbzip2(), &[1]), width);
        let strokes: Vec<&str> = pieces(&found).iter().map(|(_, s)| *s).collect();
        assert_eq!(strokes, ["down right", "up down", "up right"]);
        let (cause, failure) = (&found["cards"]["step-6"], &found["cards"]["step-8"]);
        assert_eq!(
            at(cause, "left"),
            at(failure, "left"),
            "one below the other"
        );
        let arrows = found["arrows"].as_array().expect("arrows");
        assert!(close(at(&arrows[0], "right"), at(cause, "left")), "{found}");
        head_points_at(&found, "step-8");
        assert_eq!(found["overflow"], 0, "no sideways scrolling at {width}");
    }
}

/// One head, at the left side of the failing card, within its height.
fn head_points_at(found: &Value, step: &str) {
    let failure = &found["cards"][step];
    let heads = found["heads"].as_array().expect("heads");
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert_eq!(heads[0]["step"], step);
    assert!(
        close(at(&heads[0], "right"), at(failure, "left")),
        "{found}"
    );
    assert!(at(&heads[0], "top") > at(failure, "top"), "{found}");
    assert!(at(&heads[0], "bottom") < at(failure, "bottom"), "{found}");
}

#[test]
fn figures_folds_and_keys() {
    let site = site(vec![("/page", served(&pbzip2(), &[1]))]);
    let mut browser = Browser::start();
    browser.open(&format!("{}/page", site.origin));
    let tip = "document.querySelector('#step-6 .tip').checkVisibility()";
    browser.expect(tip, false);
    // So low that the step has to be scrolled to, which the page does smoothly.
    browser.window((1280, 300), Scheme::Light);
    browser.hover("#step-6 .figures", tip);
    let figures = browser.eval("document.querySelector('#step-6 .tip').innerText");
    for figure in ["9 of 9", "0 of 41", "1.00 (0.70–1.00)", "3e-8"] {
        assert!(figures.to_string().contains(figure), "{figures}");
    }
    browser.eval("document.querySelector('#step-8 .figures').focus()");
    let tip = "document.querySelector('#step-8 .tip').checkVisibility()";
    browser.expect(tip, true); // figures on focus
    browser.press("Escape");
    browser.expect(tip, false); // Escape puts them away

    // Steps 1 to 5 only lead up to it: folded, opened by a key, kept in the address.
    let open = "document.querySelector('#step-1').checkVisibility()";
    browser.expect(open, false);
    browser.press("e");
    browser.expect(open, true);
    browser.expect("location.search", "?open=all");
    let address = browser.eval("location.href");
    browser.open(address.as_str().expect("an address"));
    browser.expect(open, true);
    for (key, step) in [("j", "step-1"), ("j", "step-2"), ("k", "step-1")] {
        browser.press(key);
        browser.expect("document.activeElement.id", step);
        browser.expect("location.hash", format!("#{step}"));
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_screen_reader_hears_the_steps_in_order_with_their_roles() {
    let site = site(vec![("/page", served(&pbzip2(), &[1, 2]))]);
    let mut browser = Browser::start();
    browser.open(&format!("{}/page?open=all", site.origin));
    browser.call("Accessibility.enable", serde_json::json!({}));
    let tree = browser.call("Accessibility.getFullAXTree", serde_json::json!({}));
    let all = tree["nodes"].as_array().expect("a tree");
    let mut nodes: Vec<(&str, &str)> = Vec::new();
    // Depth first is the order in which it is read aloud.
    let mut stack = vec![&all[0]];
    while let Some(node) = stack.pop() {
        let word = |key: &str| node[key]["value"].as_str().unwrap_or("");
        if node["ignored"] != true {
            nodes.push((word("role"), word("name")));
        }
        let children = node["childIds"].as_array().into_iter().flatten().rev();
        stack.extend(children.filter_map(|id| all.iter().find(|n| n["nodeId"] == *id)));
    }
    for landmark in [
        ("main", ""),
        ("heading", "How it happens"),
        ("navigation", "Versions of this sketch"),
        ("list", "Steps of the failing run, in the order of time"),
    ] {
        assert!(nodes.contains(&landmark), "{landmark:?} in {nodes:?}");
    }
    let spoken: String = nodes
        .iter()
        .filter(|(role, _)| *role == "StaticText")
        .map(|(_, text)| format!("{text} "))
        .collect();
    let mut rest = spoken.as_str();
    for said in [
        "Step 1 ",
        "Step 6 ",
        "Root cause",
        "q->mut = ",
        "Step 8 ",
        "Fails here",
    ] {
        let found = rest.find(said.trim_end());
        let found =
            found.unwrap_or_else(|| panic!("{said:?} is not said after the others: {spoken}"));
        rest = &rest[found..];
    }
}

#[test]
fn hostile_values_stay_text() {
    let (listener, origin) = Site::listen();
    let sketch: FailureSketch = hostile(&origin);
    for html in [served(&sketch, &[1]), viewer::standalone(&sketch)] {
        assert!(html.len() < 400_000, "{} bytes", html.len());
        assert!(!html.chars().any(turns_text));
    }
    // No policy at all: escaping alone must do.
    let bare = served(&sketch, &[1]).replace("http-equiv", "data-was");
    let site = site_at(listener, origin, vec![("/page", bare)], None);
    let mut browser = Browser::start();
    browser.open(&format!("{}/page", site.origin));
    let found = browser.eval(MEASURE);
    for none in ["scripts", "images", "frames", "handlers", "overflow"] {
        assert_eq!(found[none], 0, "{none}");
    }
    assert_eq!(browser.complaints(), [""; 0]);
    assert!(
        !site.asked().iter().any(|p| p.contains("leak")),
        "{:?}",
        site.asked()
    );
}

#[test]
fn a_large_sketch_loads_whole_and_shows_what_matters_first() {
    let site = site(vec![("/page", served(&large(), &[1]))]);
    let mut browser = Browser::start();
    browser.open(&format!("{}/page", site.origin));
    let found = browser.eval(MEASURE);
    assert_eq!(found["steps"], 2_000);
    browser.expect(
        "[...document.querySelectorAll('.step')].filter(s => s.checkVisibility()).map(s => s.id)",
        serde_json::json!(["step-100", "step-2000"]),
    );
    browser.press("e");
    browser.wait_for("[...document.querySelectorAll('.step')].every(s => s.checkVisibility())");
    let found = browser.eval(MEASURE);
    assert_eq!(
        pieces(&found).iter().filter(|(s, _)| *s != "fold").count(),
        1_901
    );
}

#[test]
fn pictures_for_people() {
    let (listener, origin) = Site::listen();
    let pages = vec![
        ("/real", served(&real(), &[1, 2, 3, 4, 5, 6, 7])),
        ("/campaigns/7", served(&pbzip2(), &[1, 2, 3])),
        ("/three", served(&three_threads(), &[1])),
        ("/five", served(&five_threads(), &[1])),
        ("/first", served(&first_failure(), &[1])),
        ("/large", served(&large(), &[1])),
        ("/hostile", served(&hostile(&origin), &[1])),
        ("/alone", viewer::standalone(&real())),
        ("/", viewer::failures_page(&campaigns())),
        ("/empty", viewer::failures_page(&[])),
    ];
    let site = site_at(listener, origin, pages, POLICY);
    let mut browser = Browser::start();
    let wide = (1280, 900);
    for (path, name, size, zoom, scheme) in [
        ("/real", "sketch-real-light", wide, 1.0, Scheme::Light),
        ("/real", "sketch-real-dark", wide, 1.0, Scheme::Dark),
        (
            "/real",
            "sketch-real-200-percent",
            (1280, 3000),
            2.0,
            Scheme::Light,
        ),
        (
            "/real",
            "sketch-real-narrow",
            (390, 1500),
            1.0,
            Scheme::Dark,
        ),
        ("/campaigns/7", "sketch-light", wide, 1.0, Scheme::Light),
        ("/campaigns/7", "sketch-dark", wide, 1.0, Scheme::Dark),
        (
            "/campaigns/7",
            "sketch-narrow",
            (500, 900),
            1.0,
            Scheme::Light,
        ),
        ("/three", "sketch-three-threads", wide, 1.0, Scheme::Light),
        ("/five", "sketch-five-threads", wide, 1.0, Scheme::Light),
        ("/first", "sketch-first-failure", wide, 1.0, Scheme::Light),
        ("/large", "sketch-large", wide, 1.0, Scheme::Light),
        ("/hostile", "sketch-hostile", wide, 1.0, Scheme::Dark),
        ("/alone", "sketch-standalone", wide, 1.0, Scheme::Light),
        ("/", "failures-light", wide, 1.0, Scheme::Light),
        ("/", "failures-narrow-dark", (500, 900), 1.0, Scheme::Dark),
        ("/empty", "failures-empty", wide, 1.0, Scheme::Light),
    ] {
        browser.zoomed(size, zoom, scheme);
        browser.open(&format!("{}{path}", site.origin));
        match size {
            (_, 900) => browser.picture(name),
            _ => browser.picture_of_window(name),
        };
    }
    browser.window(wide, Scheme::Light);
    browser.open(&format!("{}/real", site.origin));
    browser.hover(
        ".cause .figures",
        "document.querySelector('.cause .tip').checkVisibility()",
    );
    browser.picture("sketch-real-figures");
}
