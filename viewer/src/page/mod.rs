//! The sketch as a web page: from the server, or on its own as one file.

pub(crate) mod card;
pub(crate) mod evidence;
pub(crate) mod live;
pub(crate) mod steps;
pub(crate) mod threads;

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::shell::{self, Frame, document, sentence};
use crate::{facts, headline};
use maud::{Markup, html};
use sketch_model::{CampaignState, CampaignSummary, FailureSketch};

/// What a server knows beside the sketch.
#[derive(Clone, Copy, Debug)]
pub struct SketchView<'a> {
    pub campaign: &'a CampaignSummary,
    /// The versions one can go to.
    pub versions: &'a [u32],
    /// Whether steps that only lead up to the failure are shown at once.
    pub unfolded: bool,
}

/// The page of a sketch on a server.
pub fn sketch_page(sketch: &FailureSketch, view: SketchView<'_>) -> String {
    let title = escape::visible(&sketch.title, SENTENCE_LIMIT);
    let navigation = html! {
        (shell::of_campaign(sketch.campaign, ""))
        (versions(sketch, view.versions))
    };
    // Who comes for an answer reads that first; who waits for one, how far it is.
    let going = !view.campaign.state.is_over();
    let body = html! {
        @if going { (live::strip(view.campaign, Some(sketch.version), false)) }
        (head(sketch, &title, Some(view.campaign)))
        (drawing(sketch, view.unfolded, true))
        (evidence(sketch))
        (exports(sketch))
        @if !going { (live::strip(view.campaign, Some(sketch.version), false)) }
    };
    document(Frame::Served, &title, navigation, body)
}

/// The sketch as one file that needs nothing else: no script, no request.
pub fn standalone(sketch: &FailureSketch) -> String {
    let title = escape::visible(&sketch.title, SENTENCE_LIMIT);
    let navigation = html! {
        p.trail { span { "Campaign " (sketch.campaign) ", sketch " (sketch.version) } }
    };
    let body = html! {
        (head(sketch, &title, None))
        (drawing(sketch, false, false))
        (evidence(sketch))
    };
    document(Frame::Standalone, &title, navigation, body)
}

fn drawing(sketch: &FailureSketch, unfolded: bool, served: bool) -> Markup {
    html! {
        section.drawing aria-labelledby="drawing" {
            div.over {
                h2 #drawing { "How it happens" }
                (legend(sketch))
            }
            @if sketch.steps.is_empty() {
                p.empty { "No step is drawn yet." }
            } @else {
                (steps::drawing(sketch, unfolded))
                @if served {
                    p.fine.keys {
                        kbd { "j" } " " kbd { "k" } " next and previous step, " kbd { "e" } " unfold or fold · "
                        a href={ "?version=" (sketch.version) @if !unfolded { "&unfolded=true" } } {
                            @if unfolded { "fold what leads up to it" } @else { "show every step" }
                        }
                    }
                }
            }
        }
    }
}

fn evidence(sketch: &FailureSketch) -> Markup {
    html! {
        (evidence::predictors(sketch))
        (evidence::provenance(sketch))
        (evidence::stack(sketch))
    }
}

fn versions(sketch: &FailureSketch, versions: &[u32]) -> Markup {
    html! {
        @if versions.len() > 1 {
            nav.versions aria-label="Versions of this sketch" {
                span { "Sketch" }
                @for version in versions {
                    a href={ "?version=" (version) }
                        aria-current=[(*version == sketch.version).then_some("page")] { (version) }
                }
            }
        }
    }
}

fn exports(sketch: &FailureSketch) -> Markup {
    let formats = [
        ("html", "one HTML file"),
        ("svg", "SVG"),
        ("text", "text"),
        ("markdown", "Markdown for a ticket"),
        ("json", "JSON"),
        ("callgrind", "Callgrind, for KCachegrind"),
    ];
    html! {
        section.panel aria-labelledby="exports" {
            h2 #exports { "Export" }
            ul.exports {
                @for (format, name) in formats {
                    li { a href={ "/campaigns/" (sketch.campaign) "/export/" (format) "?version=" (sketch.version) } download { (name) } }
                }
            }
        }
    }
}

fn head(sketch: &FailureSketch, title: &str, campaign: Option<&CampaignSummary>) -> Markup {
    let (class, state) = state(sketch, campaign);
    html! {
        section.answer {
            p.eyebrow {
                span class={ "state " (class) } { (state) }
                span { (escape::visible(&sketch.program, NAME_LIMIT)) }
                @if let Some(sort) = headline::sort_of_bug(sketch) { span { (sort) } }
                span { "sketch " (sketch.version) }
                span { "build " code { (escape::visible(&facts::short_build(sketch), NAME_LIMIT)) } }
            }
            h1 { (title) }
            div.why {
                div {
                    @if let Some(what) = headline::what_failed(sketch) {
                        h2.what { "What failed" }
                        p.what { (sentence(&what)) }
                    }
                    @if let Some(said) = &sketch.said {
                        p.what { "It said: " code { (escape::visible(said, SENTENCE_LIMIT)) } }
                    }
                    h2 { @if class == "settled" { "Why it fails" } @else { "Best answer so far" } }
                    p.summary { (sentence(&sketch.summary)) }
                }
                @if let Some(leading) = facts::leading(sketch) {
                    (evidence::at_a_glance(&leading.score))
                }
            }
        }
    }
}

/// The state's class and words: the campaign's where it is known, as a developer
/// may have stopped it or declared it answered after the sketch was drawn.
fn state(
    sketch: &FailureSketch,
    campaign: Option<&CampaignSummary>,
) -> (&'static str, &'static str) {
    match campaign {
        _ if sketch.settled => ("settled", "settled"),
        Some(c) if c.declared => ("settled", "accepted by a developer"),
        Some(c) if c.state == CampaignState::Stopped => ("stopped", "stopped"),
        Some(c) if c.state == CampaignState::Failed => ("failed", "failed"),
        _ => ("tracking", facts::state(sketch)),
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
