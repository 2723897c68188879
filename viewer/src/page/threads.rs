//! The heads of the columns: which thread, what it runs, where it was created.
//!
//! Many threads would bury the drawing under their names, so those that only
//! lead up to the failure are folded, as their steps are.

use crate::escape::{self, NAME_LIMIT};
use crate::numbers::counted;
use crate::page::steps::hue;
use maud::{Markup, html};
use sketch_model::{Emphasis, FailureSketch, SketchThread};

/// More threads than this are not all named at once.
const NAMED: usize = 8;

/// `lanes` says how many arrows run in the gutter left of each column.
pub fn heading(
    sketch: &FailureSketch,
    threads: &[SketchThread],
    columns: usize,
    lanes: &[usize],
) -> Markup {
    let matters = |t: &SketchThread| {
        let mut steps = sketch.steps.iter();
        steps.any(|s| s.thread == t.index && s.emphasis != Emphasis::Context)
    };
    let numbered: Vec<(usize, &SketchThread)> = threads.iter().enumerate().collect();
    let (shown, folded): (Vec<_>, Vec<_>) = numbered
        .into_iter()
        .partition(|(_, t)| threads.len() <= NAMED || matters(t));
    html! {
        div.threads {
            span.number {}
            @for (i, thread) in shown {
                @if (1..columns).contains(&i) {
                    div class={ "gutter wide lanes-" (lanes.get(i).copied().unwrap_or(0)) } {}
                }
                (head(i, thread))
            }
            @if !folded.is_empty() {
                details.more-threads {
                    summary { (counted(folded.len() as u64, "more thread")) }
                    @for (i, thread) in folded { (head(i, thread)) }
                }
            }
        }
    }
}

fn head(i: usize, thread: &SketchThread) -> Markup {
    html! {
        div class={ "thread thread-" (hue(i)) } {
            span.role { (escape::visible(&thread.role, NAME_LIMIT)) }
            span.tid {
                "T" (i + 1)
                @if thread.tid != 0 { " · tid " (thread.tid) }
                @if let Some(created) = created(thread) { " · created at " (created) }
            }
        }
    }
}

/// "pbzip2.c:235", or several places joined by "or".
pub fn created(thread: &SketchThread) -> Option<String> {
    let places: Vec<String> = thread
        .created_at
        .iter()
        .map(|l| escape::visible(&l.to_string(), NAME_LIMIT))
        .collect();
    (!places.is_empty()).then(|| places.join(" or "))
}
