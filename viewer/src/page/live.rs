//! How far a diagnosis is, as a strip that the page's script keeps up to date,
//! and what a developer can do about it.
//!
//! The strip is complete without the script: it then shows what was so when the
//! page was made. Fields carry the names of the summary's own, and the script
//! copies values by name, as text.

use crate::escape::SENTENCE_LIMIT;
use crate::escape::visible;
use crate::numbers::count;
use maud::{Markup, html};
use sketch_model::{CampaignState, CampaignSummary};

/// `version` is that of the sketch on the same page; with `reload` the page loads
/// itself again when there is a newer one, else it offers a link.
pub fn strip(c: &CampaignSummary, version: Option<u32>, reload: bool) -> Markup {
    let going = !c.state.is_over();
    html! {
        section.live aria-label="Progress" data-version=[version] data-reload[reload]
            data-events=[going.then(|| format!("/api/v1/campaigns/{}/events", c.id))] {
            p aria-live="polite" {
                span class={ "state " (c.state) } data-field="state" { (c.state) }
                " iteration " b data-field="iteration" { (c.iteration) }
                " · σ " b data-field="sigma" { (c.sigma) }
                " · tracked runs: " b data-field="tracked_failing" { (count(c.tracked_failing)) } " failing, "
                b data-field="tracked_successful" { (count(c.tracked_successful)) } " successful"
                " · all runs: " b data-field="runs" { (count(c.runs)) } ", "
                b data-field="failures" { (count(c.failures)) } " failed"
            }
            p.problem data-field="problem" { (c.problem.as_deref().map(|p| visible(p, SENTENCE_LIMIT)).unwrap_or_default()) }
            p.newer hidden data-newer { a href={ "/campaigns/" (c.id) } { "A newer sketch is ready" } }
            (steering(c, going))
        }
    }
}

/// What a developer can do now, as forms: they work without the script.
fn steering(c: &CampaignSummary, going: bool) -> Markup {
    let answered = c.state == CampaignState::Settled;
    let possible = c.state != CampaignState::Failed;
    let has_sketch = c.sketch_version.is_some();
    html! {
        div.steering {
            @if going { (button(c, "stop", "Stop", "Stop tracking; the sketch stays as it is")) }
            @if possible && !going { (button(c, "resume", "Resume", "Resume tracking where it stopped")) }
            @if going && !c.pinned { (button(c, "pin", "Pin", "Keep tracking these statements; add no more")) }
            @if going && c.pinned { (button(c, "unpin", "Unpin", "Add statements again when these do not explain the failure")) }
            @if possible { (button(c, "widen", "Widen", "Track twice as many statements now")) }
            @if possible && !answered && has_sketch {
                (button(c, "declare", "Accept", "The sketch explains the failure: end the diagnosis"))
            }
        }
    }
}

fn button(c: &CampaignSummary, verb: &str, name: &str, title: &str) -> Markup {
    html! {
        form method="post" action={ "/campaigns/" (c.id) "/" (verb) } {
            button type="submit" title=(title) { (name) }
        }
    }
}
