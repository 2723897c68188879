//! The sketch as one web page that needs nothing else: no script, no request.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::shell::{document, sentence};
use crate::{facts, page_evidence, page_steps};
use maud::{Markup, html};
use sketch_model::FailureSketch;

/// The page of a sketch; `versions` are those of the same campaign one can go to.
pub fn page(sketch: &FailureSketch, versions: &[u32]) -> String {
    let title = escape::visible(&sketch.title, SENTENCE_LIMIT);
    let body = html! {
        (head(sketch, &title))
        section.drawing aria-labelledby="drawing" {
            div.over {
                h2 #drawing { "How it happens" }
                (legend(sketch))
            }
            @if sketch.steps.is_empty() {
                p.empty { "No step is drawn yet." }
            } @else {
                (page_steps::drawing(sketch))
            }
        }
        (page_evidence::predictors(sketch))
        (page_evidence::provenance(sketch))
        (page_evidence::stack(sketch))
    };
    document(&title, navigation(sketch, versions), body)
}

fn navigation(sketch: &FailureSketch, versions: &[u32]) -> Markup {
    html! {
        nav.trail aria-label="Where you are" {
            a href="/" { "All failures" }
            span { "Campaign " (sketch.campaign) }
        }
        @if versions.len() > 1 {
            nav.versions aria-label="Versions of this sketch" {
                span { "Sketch" }
                @for version in versions {
                    @if *version == sketch.version {
                        a href={ "?version=" (version) } aria-current="page" { (version) }
                    } @else {
                        a href={ "?version=" (version) } { (version) }
                    }
                }
            }
        }
    }
}

fn head(sketch: &FailureSketch, title: &str) -> Markup {
    let state = if sketch.settled {
        "state settled"
    } else {
        "state tracking"
    };
    html! {
        section.answer {
            p.eyebrow {
                span class=(state) { (facts::state(sketch)) }
                span { (escape::visible(&sketch.program, NAME_LIMIT)) }
                span { "sketch " (sketch.version) }
                span { "build " code { (escape::visible(&facts::short_build(sketch), NAME_LIMIT)) } }
            }
            h1 { (title) }
            div.why {
                div {
                    h2 { @if sketch.settled { "Why it fails" } @else { "Best answer so far" } }
                    p.summary { (sentence(&sketch.summary)) }
                }
                @if let Some(leading) = page_evidence::leading(sketch) {
                    (page_evidence::at_a_glance(&leading.score))
                }
            }
        }
    }
}

/// Only the signs that this drawing uses.
fn legend(sketch: &FailureSketch) -> Markup {
    let any = |f: &dyn Fn(&sketch_model::SketchStep) -> bool| sketch.steps.iter().any(f);
    html! {
        ul.legend aria-label="Signs" {
            li { span.sign.time { "↓" } "time" }
            @if !sketch.arrows.is_empty() { li { span.sign.order { "⤷" } "order seen in failing runs" } }
            @if any(&|s| facts::is_root_cause(sketch, s)) { li { span.sign.root { "◆" } "root cause" } }
            @if any(&|s| s.static_only) { li { span.sign.ghost { "┄" } "not recorded" } }
            @if any(&|s| !s.unordered_with.is_empty()) { li { span.sign { "∥" } "order not proven" } }
            @if any(&|s| s.values.iter().any(|v| !v.exact)) { li { span.sign { "≈" } "may be stale" } }
        }
    }
}
