//! The static slice: every statement that can have led to the failure, and why
//! it is in it.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT, STATEMENT_LIMIT};
use crate::numbers::counted;
use crate::page::card::code;
use crate::shell::{self, Frame, document, sentence};
use crate::table::{Name, short, table, words};
use maud::{Markup, html};
use sketch_model::{CampaignSummary, FailureSketch, Slice, SliceEntry};

/// `sketch` is the latest one, to say which statements it draws.
pub fn slice_page(
    campaign: &CampaignSummary,
    slice: &Slice,
    sketch: Option<&FailureSketch>,
) -> String {
    let title = escape::visible(&campaign.title, SENTENCE_LIMIT);
    let body = html! {
        section.answer {
            h1 { "Slice of " (title) }
            p.lead {
                (counted(slice.entries.len() as u64, "statement")) " can have led to the failure, nearest first. "
                "The first " b { (campaign.sigma) } " are tracked now (σ); the others wait."
            }
        }
        section.panel aria-label="Statements of the slice" {
            (table(Name::Is("Statements of the slice"), Some("slice"), html! {
                (short("Distance", "dependences from the failing statement")) (words("Statement"))
                (words("Why it is here")) (words("Threads")) (words("State"))
            }, html! {
                @for (i, entry) in slice.entries.iter().enumerate() {
                    (row(campaign, slice, sketch, i, entry))
                }
            }))
        }
        section.panel aria-labelledby="gaps" {
            h2 #gaps { "What the slice did not follow" }
            ul.gaps {
                @if slice.gaps.is_empty() { li { "Nothing was reported." } }
                @for gap in &slice.gaps { li { (sentence(&gap.to_string())) } }
            }
        }
    };
    document(
        Frame::Served,
        &format!("Slice of {title}"),
        shell::of_campaign(campaign.id, "/slice"),
        body,
    )
}

fn row(
    campaign: &CampaignSummary,
    slice: &Slice,
    sketch: Option<&FailureSketch>,
    i: usize,
    entry: &SliceEntry,
) -> Markup {
    let statement = &entry.statement;
    let tracked = i < campaign.sigma as usize;
    let drawn = sketch.is_some_and(|s| s.steps.iter().any(|s| s.statement.id == statement.id));
    let text = escape::visible(&statement.text, STATEMENT_LIMIT);
    html! {
        tr id={ "s-" (statement.id) } class=[tracked.then_some("best")] {
            td.figure data-label="Distance" { (entry.steps()) }
            th scope="row" {
                @if text.is_empty() { span.absent { "its source is not at hand" } } @else { (code(&text)) }
                span.fine {
                    (escape::visible(&statement.function, NAME_LIMIT)) "() "
                    a href=(source_link(campaign, &statement.location.file, statement.location.line)) {
                        (escape::visible(&statement.location.to_string(), NAME_LIMIT))
                    }
                }
            }
            td.because { (why(slice, entry)) }
            td data-label="Threads" { (escape::visible(&entry.roles.join(", "), NAME_LIMIT)) }
            td data-label="State" {
                @if drawn { "drawn" } @else if tracked { "tracked" } @else { span.fine { "not tracked yet" } }
                @if entry.points.is_empty() { span.fine { "nothing in it can be recorded" } }
            }
        }
    }
}

fn why(slice: &Slice, entry: &SliceEntry) -> Markup {
    let Some(why) = &entry.why else {
        return html! { strong.badge.fails { "the failing statement" } };
    };
    html! {
        (why.kind) " "
        @match slice.entry(why.parent) {
            Some(parent) => {
                a href={ "#s-" (why.parent) } {
                    @if parent.statement.text.is_empty() {
                        (escape::visible(&parent.statement.location.to_string(), NAME_LIMIT))
                    } @else {
                        code { (escape::visible(&parent.statement.text, NAME_LIMIT)) }
                    }
                }
            }
            None => "a statement that is not listed",
        }
    }
}

/// The source page of a campaign at a line. The file's name may hold anything.
pub fn source_link(campaign: &CampaignSummary, file: &str, line: u32) -> String {
    let mut encoded = String::new();
    for byte in file.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                encoded.push(byte as char);
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    format!("/campaigns/{}/source?file={encoded}#L{line}", campaign.id)
}
