//! The pages in a real browser: they load under their own policy, the arrow runs
//! between the right two steps at every width, hostile values stay text, and
//! pictures of them are left in `target/screenshots`.
//!
//! The pages hold no script, so a second page measures them: it opens them in a
//! frame of the same origin and writes what it found as JSON.

mod common;

use common::chromium::{Scheme, open, screenshot};
use common::site::{Served, Site};
use common::{
    campaigns, first_failure, five_threads, hostile, large, pbzip2, three_threads, turns_text,
};
use serde_json::Value;
use std::collections::HashMap;

const POLICY: Option<&str> = Some(viewer::CONTENT_SECURITY_POLICY);

/// Opens `/page` in a frame of some width and tells where its parts are. `WIDTH` is replaced.
const MEASURE: &str = r#"<!doctype html><iframe id=f width=WIDTH height=900 src=/page></iframe><pre id=found></pre><script>
const box = e => { const r = e.getBoundingClientRect(); return {left: r.left, right: r.right, top: r.top, bottom: r.bottom}; };
const shown = e => e.getBoundingClientRect().width > 0;
f.onload = () => {
  const d = f.contentDocument, arrows = [], heads = [], cards = {};
  for (const step of d.querySelectorAll('.step')) {
    cards[step.id] = box(step.querySelector('.card'));
    for (const svg of [...step.querySelectorAll('svg.arrow')].filter(shown))
      arrows.push({step: step.id, strokes: svg.dataset.strokes, ...box(svg)});
    for (const svg of [...step.querySelectorAll('svg.head')].filter(shown))
      heads.push({step: step.id, ...box(svg)});
  }
  found.textContent = JSON.stringify({arrows, heads, cards,
    steps: d.querySelectorAll('.step').length,
    scripts: d.scripts.length, images: d.images.length, frames: d.querySelectorAll('iframe,object,embed').length,
    handlers: [...d.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length,
    styled: getComputedStyle(d.body).marginTop === '0px',
    overflow: d.documentElement.scrollWidth - d.documentElement.clientWidth});
};</script>"#;

fn measure(html: String, width: u32) -> Value {
    let (listener, origin) = Site::listen();
    let pages = HashMap::from([
        // The header forbids frames, so here the policy within the page is at work.
        ("/page", Served { html, policy: None }),
        (
            "/measure",
            Served {
                html: MEASURE.replace("WIDTH", &width.to_string()),
                policy: None,
            },
        ),
    ]);
    let site = Site::serve(listener, origin, pages);
    let dom = open(&format!("{}/measure", site.origin)).dom;
    let found = dom
        .split_once("<pre id=\"found\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .map(|(json, _)| json)
        .unwrap_or_else(|| panic!("the measuring page did not run: {dom}"));
    serde_json::from_str(found).unwrap_or_else(|e| panic!("{e}: {found}"))
}

fn at(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(f64::NAN)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 6.0
}

#[test]
fn the_pages_load_under_their_policy_and_ask_for_nothing() {
    let sketch = viewer::page(&pbzip2(), &[1, 2, 3]);
    let altered = sketch.replacen(":root {", ":root  {", 1);
    assert_ne!(sketch, altered);
    let (listener, origin) = Site::listen();
    let serve = |html: String| Served {
        html,
        policy: POLICY,
    };
    let pages = HashMap::from([
        ("/campaigns/7", serve(sketch)),
        ("/altered", serve(altered)),
        ("/", serve(viewer::failures_page(&campaigns()))),
        ("/empty", serve(viewer::failures_page(&[]))),
    ]);
    let site = Site::serve(listener, origin, pages);
    for path in ["/campaigns/7", "/", "/empty"] {
        let seen = open(&format!("{}{path}", site.origin));
        assert!(
            seen.dom.contains("Failsketch"),
            "{path} did not load: {}",
            seen.dom
        );
        assert_eq!(seen.console, [""; 0], "{path} complained");
    }
    assert_eq!(site.asked(), ["/campaigns/7", "/", "/empty"]);

    // The control: a style sheet that is not the one of the policy is refused, loudly.
    let console = open(&format!("{}/altered", site.origin)).console.join("\n");
    assert!(console.contains("Content Security Policy"), "{console:?}");
}

#[test]
fn in_columns_the_arrow_runs_from_the_right_of_its_cause_into_the_left_of_the_failure() {
    let found = measure(viewer::page(&pbzip2(), &[1]), 1280);
    let arrows = found["arrows"].as_array().expect("arrows");
    let pieces: Vec<(&str, &str)> = arrows
        .iter()
        .map(|a| {
            (
                a["step"].as_str().unwrap_or(""),
                a["strokes"].as_str().unwrap_or(""),
            )
        })
        .collect();
    assert_eq!(
        pieces,
        [
            ("step-6", "down left"),
            ("step-7", "up down"),
            ("step-8", "up right")
        ]
    );
    for pair in arrows.windows(2) {
        assert!(
            close(at(&pair[0], "bottom"), at(&pair[1], "top")),
            "a gap: {pair:?}"
        );
    }
    let (cause, failure) = (&found["cards"]["step-6"], &found["cards"]["step-8"]);
    assert!(
        at(cause, "right") < at(failure, "left"),
        "side by side: {found}"
    );
    assert!(close(at(&arrows[0], "left"), at(cause, "right")), "{found}");
    assert!(
        close(at(&arrows[2], "right"), at(failure, "left")),
        "{found}"
    );
    head_points_at(&found, failure);
    assert_eq!(found["overflow"], 0);
    assert_eq!(found["styled"], true);
}

#[test]
fn in_one_column_the_arrow_runs_down_its_left_side() {
    // 360: a phone. 640: a window of 1280 at 200%.
    for width in [360, 640] {
        let found = measure(viewer::page(&pbzip2(), &[1]), width);
        let arrows = found["arrows"].as_array().expect("arrows");
        let pieces: Vec<&str> = arrows
            .iter()
            .map(|a| a["strokes"].as_str().unwrap_or(""))
            .collect();
        assert_eq!(pieces, ["down right", "up down", "up right"]);
        let (cause, failure) = (&found["cards"]["step-6"], &found["cards"]["step-8"]);
        assert_eq!(
            at(cause, "left"),
            at(failure, "left"),
            "one below the other"
        );
        assert!(close(at(&arrows[0], "right"), at(cause, "left")), "{found}");
        head_points_at(&found, failure);
        assert_eq!(found["overflow"], 0, "no sideways scrolling at {width}");
    }
}

/// One head, at the left side of the failing card, within its height.
fn head_points_at(found: &Value, failure: &Value) {
    let heads = found["heads"].as_array().expect("heads");
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert_eq!(heads[0]["step"], "step-8");
    assert!(
        close(at(&heads[0], "right"), at(failure, "left")),
        "{found}"
    );
    assert!(at(&heads[0], "top") > at(failure, "top"), "{found}");
    assert!(at(&heads[0], "bottom") < at(failure, "bottom"), "{found}");
}

#[test]
fn hostile_values_stay_text() {
    let (listener, origin) = Site::listen();
    let html = viewer::page(&hostile(&origin), &[1]);
    assert!(html.len() < 300_000, "{} bytes", html.len());
    assert!(!html.chars().any(turns_text));
    // No policy at all: escaping alone must do.
    let bare = html.replace("http-equiv", "data-was");
    let pages = HashMap::from([(
        "/page",
        Served {
            html: bare.clone(),
            policy: None,
        },
    )]);
    let site = Site::serve(listener, origin, pages);
    let seen = open(&format!("{}/page", site.origin));
    assert!(
        !seen.dom.contains("<script") && !seen.dom.contains("<img"),
        "{}",
        seen.dom
    );
    assert!(
        !site.asked().iter().any(|p| p.contains("leak")),
        "{:?}",
        site.asked()
    );

    let found = measure(bare, 1280);
    for none in ["scripts", "images", "frames", "handlers", "overflow"] {
        assert_eq!(found[none], 0, "{none}");
    }
}

#[test]
fn a_large_sketch_loads_whole() {
    let found = measure(viewer::page(&large(), &[1]), 1280);
    assert_eq!(found["steps"], 2_000);
    assert_eq!(found["arrows"].as_array().map(Vec::len), Some(1_801));
}

#[test]
fn pictures_for_people() {
    let (listener, origin) = Site::listen();
    let served = |html: String| Served {
        html,
        policy: POLICY,
    };
    let pages = HashMap::from([
        ("/campaigns/7", served(viewer::page(&pbzip2(), &[1, 2, 3]))),
        ("/three", served(viewer::page(&three_threads(), &[1]))),
        ("/five", served(viewer::page(&five_threads(), &[1]))),
        ("/first", served(viewer::page(&first_failure(), &[1]))),
        ("/hostile", served(viewer::page(&hostile(&origin), &[1]))),
        ("/", served(viewer::failures_page(&campaigns()))),
        ("/empty", served(viewer::failures_page(&[]))),
    ]);
    let site = Site::serve(listener, origin, pages);
    let take = |path: &str, name: &str, scheme, size| {
        screenshot(&format!("{}{path}", site.origin), name, scheme, size);
    };
    take("/campaigns/7", "sketch-light", Scheme::Light, (1280, 2320));
    take("/campaigns/7", "sketch-dark", Scheme::Dark, (1280, 2320));
    take(
        "/campaigns/7",
        "sketch-narrow-light",
        Scheme::Light,
        (500, 3600),
    );
    take(
        "/campaigns/7",
        "sketch-narrow-dark",
        Scheme::Dark,
        (500, 3600),
    );
    take(
        "/three",
        "sketch-three-threads",
        Scheme::Light,
        (1280, 1700),
    );
    take("/five", "sketch-five-threads", Scheme::Light, (1280, 1700));
    take(
        "/first",
        "sketch-first-failure",
        Scheme::Light,
        (1280, 1200),
    );
    take("/hostile", "sketch-hostile", Scheme::Dark, (1280, 3500));
    take("/", "failures-light", Scheme::Light, (1280, 640));
    take("/", "failures-narrow-dark", Scheme::Dark, (500, 1200));
    take("/empty", "failures-empty", Scheme::Light, (1280, 640));
}
