//! The campaign's own page: how far it is, what a developer can do about it, and
//! its sketches side by side with what changed between them.

use super::change_words::change_words;
use crate::escape::{self, SENTENCE_LIMIT};
use crate::facts;
use crate::numbers::{count, probability, share};
use crate::page::live;
use crate::shell::{self, Frame, document, sentence};
use crate::table::{Name, figure, short, table, words};
use maud::{Markup, html};
use sketch_model::{CampaignSummary, FailureSketch};

/// `sketches` are the campaign's versions, oldest first; `left_out` how many
/// versions before them are not among them.
pub fn progress_page(
    campaign: &CampaignSummary,
    sketches: &[FailureSketch],
    left_out: u32,
) -> String {
    let title = escape::visible(&campaign.title, SENTENCE_LIMIT);
    let body = html! {
        section.answer {
            h1 { (title) }
            p.lead { "Tracking begins with the σ statements nearest to the failure, 16 at first; σ doubles until the diagnosis settles." }
        }
        div.progress { (live::strip(campaign, campaign.sketch_version, true)) }
        @if let Some(best) = &campaign.best {
            section.panel aria-labelledby="best" {
                h2 #best { "Best predictor so far" }
                p { (sentence(&best.sentence)) }
                p.fine { (best.class) " · precision " (share(best.precision)) " · recall " (share(best.recall)) " · F " (share(best.f_measure)) }
            }
        }
        section.panel aria-labelledby="versions" {
            h2 #versions { "Sketches so far" }
            @if sketches.is_empty() {
                p.empty { "The first sketch appears when the slice is made." }
            } @else {
                (table(Name::StandsIn("versions"), None, html! {
                    (words("Sketch and what changed")) (figure("Iteration")) (short("σ", "tracked statements"))
                    (figure("Failing")) (figure("Successful")) (figure("Steps")) (figure("F")) (figure("p"))
                }, html! {
                    @for (i, sketch) in sketches.iter().enumerate().rev() {
                        (row(campaign, i.checked_sub(1).map(|b| &sketches[b]), sketch))
                    }
                }))
                @if left_out > 0 { p.fine { (left_out) " earlier sketches are not listed; they can be opened by their number." } }
            }
        }
    };
    document(
        Frame::Served,
        &title,
        shell::of_campaign(campaign.id, "/progress"),
        body,
    )
}

fn row(c: &CampaignSummary, before: Option<&FailureSketch>, sketch: &FailureSketch) -> Markup {
    let p = &sketch.provenance;
    let said = match before {
        Some(before) => change_words(before, sketch),
        None if sketch.version == 1 => vec!["Drawn from the slice alone.".to_owned()],
        None => Vec::new(),
    };
    let leading = facts::leading(sketch);
    html! {
        tr {
            th scope="row" {
                a.title href={ "/campaigns/" (c.id) "?version=" (sketch.version) } { "Sketch " (sketch.version) }
                @if said.is_empty() { span.fine { "only the counts changed" } }
                ul.changes { @for change in &said { li { (sentence(change)) } } }
            }
            td.figure data-label="Iteration" { (p.iteration) }
            td.figure data-label="σ" { (p.sigma) }
            td.figure data-label="Failing" { (count(p.failing_runs)) }
            td.figure data-label="Successful" { (count(p.successful_runs)) }
            td.figure data-label="Steps" { (sketch.steps.len()) }
            td.figure data-label="F" { @if let Some(l) = leading { b { (share(l.score.f_measure)) } } @else { "–" } }
            td.figure data-label="p" { @if let Some(l) = leading { (probability(l.score.corrected_p)) } @else { "–" } }
        }
    }
}
