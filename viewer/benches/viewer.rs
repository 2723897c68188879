//! `./dev bench viewer`: how long a sketch takes to become a page, how large the
//! page is, and how soon a browser paints it, for a small sketch and a huge one.
//!
//! Every figure is the median of several; the browser's come from its own
//! Performance API, over a local server, with a warm process. The small sketch is
//! measured twice: the difference between the two rows is what noise alone does.

#[path = "../tests/it/common/mod.rs"]
mod common;

use common::{campaigns, sized};
use sketch_model::FailureSketch;
use std::collections::HashMap;
use std::time::Instant;
use test_support::browser::chromium::Browser;
use test_support::browser::site::{Served, Site};

const RENDERINGS: usize = 21;
const LOADS: usize = 7;

struct Row {
    name: &'static str,
    render_ms: f64,
    text_ms: f64,
    svg_ms: f64,
    kilobytes: f64,
    paint_ms: f64,
    loaded_ms: f64,
}

fn main() {
    let small = sized(2, 10);
    let large = sized(64, 2_000);
    let mut browser = Browser::start();
    let mut row =
        |name, sketch: &FailureSketch, unfolded| measure(&mut browser, name, sketch, unfolded);
    let rows = [
        row("2 threads × 10 steps", &small, false),
        row("the same again", &small, false),
        row("64 threads × 2,000 steps", &large, false),
        row("the same, unfolded", &large, true),
    ];
    println!(
        "{:<26} {:>9} {:>9} {:>9} {:>10} {:>13} {:>10}",
        "sketch", "page", "text", "SVG", "page size", "first paint", "loaded"
    );
    for r in &rows {
        println!(
            "{:<26} {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>7.0} kB {:>10.0} ms {:>7.0} ms",
            r.name, r.render_ms, r.text_ms, r.svg_ms, r.kilobytes, r.paint_ms, r.loaded_ms
        );
    }
    println!(
        "large against small: page {:.0}×, size {:.0}×, first paint {:.1}×; noise (small again): first paint {:.2}×",
        rows[2].render_ms / rows[0].render_ms,
        rows[2].kilobytes / rows[0].kilobytes,
        rows[2].paint_ms / rows[0].paint_ms,
        rows[1].paint_ms / rows[0].paint_ms
    );
}

fn measure(
    browser: &mut Browser,
    name: &'static str,
    sketch: &FailureSketch,
    unfolded: bool,
) -> Row {
    let campaign = campaigns().remove(0);
    let page = || {
        let view = viewer::SketchView {
            campaign: &campaign,
            versions: &[1, 2, 3],
            unfolded,
        };
        viewer::sketch_page(sketch, view)
    };
    let html = page();
    let kilobytes = html.len() as f64 / 1_000.0;
    let (listener, origin) = Site::listen();
    let pages = HashMap::from([
        (
            "/page",
            Served::html(html, Some(viewer::CONTENT_SECURITY_POLICY)),
        ),
        (viewer::SCRIPT_PATH, Served::script(viewer::SCRIPT)),
    ]);
    let site = Site::serve(listener, origin, pages);
    let mut paints = Vec::new();
    let mut loads = Vec::new();
    for _ in 0..LOADS {
        browser.open(&format!("{}/page", site.origin));
        let paint = "performance.getEntriesByName('first-contentful-paint')";
        browser.wait_for(&format!("{paint}.length === 1"));
        paints.push(browser.eval(&format!("{paint}[0].startTime")).as_f64());
        let loaded = "performance.getEntriesByType('navigation')[0].loadEventEnd";
        loads.push(browser.eval(loaded).as_f64());
    }
    let told = |times: Vec<Option<f64>>| median(times.into_iter().flatten().collect());
    Row {
        name,
        render_ms: timed(|| page().len()),
        text_ms: timed(|| viewer::text(sketch, 100, false).len()),
        svg_ms: timed(|| viewer::svg(sketch).len()),
        kilobytes,
        paint_ms: told(paints),
        loaded_ms: told(loads),
    }
}

/// Milliseconds, the median of several; the first is for the caches.
fn timed(mut work: impl FnMut() -> usize) -> f64 {
    std::hint::black_box(work());
    let times = (0..RENDERINGS).map(|_| {
        let begun = Instant::now();
        std::hint::black_box(work());
        begun.elapsed().as_secs_f64() * 1_000.0
    });
    median(times.collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
