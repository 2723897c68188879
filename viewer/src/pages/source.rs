//! The program's source with the slice in it: what can have led to the failure,
//! where it stands in its file.

use super::slice::source_link;
use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT, STATEMENT_LIMIT};
use crate::numbers::counted;
use crate::page::card::coloured;
use crate::shell::{self, Frame, document};
use crate::syntax::tokens_in_file;
use maud::{Markup, html};
use sketch_model::{CampaignSummary, Emphasis, FailureSketch, Slice, SliceEntry};
use std::collections::{BTreeMap, BTreeSet};

/// Longer files are cut, and the cut says so.
const MOST_LINES: usize = 20_000;

/// A file of the slice; `text` is `None` if the build store does not have it.
pub fn source_page(
    campaign: &CampaignSummary,
    slice: &Slice,
    sketch: Option<&FailureSketch>,
    file: &str,
    text: Option<&str>,
) -> String {
    let title = escape::visible(&campaign.title, SENTENCE_LIMIT);
    let here: Vec<&SliceEntry> = slice
        .entries
        .iter()
        .filter(|e| e.statement.location.file == file)
        .collect();
    let body = html! {
        section.answer {
            h1 { (escape::visible(file, NAME_LIMIT)) }
            p.lead {
                (counted(here.len() as u64, "statement")) " of the slice of " (title) " here. "
                "Marked: " mark.failing { "fails" } " " mark.cause { "root cause" } " "
                mark.drawn { "drawn" } " " mark { "in the slice" }
            }
            @if let Some(failing) = here.first().filter(|e| e.why.is_none()) {
                p { a href={ "#L" (failing.statement.location.line) } { "Go to the failing statement" } }
            }
            (files(campaign, slice, file))
        }
        section.panel.listing aria-label="Source" {
            @match text {
                None => p.empty { "The source of this file was not registered with the build." },
                Some(text) => (listing(&here, sketch, text)),
            }
        }
    };
    document(
        Frame::Served,
        &format!("Source · {title}"),
        shell::of_campaign(campaign.id, "/source"),
        body,
    )
}

fn files(campaign: &CampaignSummary, slice: &Slice, current: &str) -> Markup {
    let files: BTreeSet<&str> = slice
        .entries
        .iter()
        .map(|e| e.statement.location.file.as_str())
        .collect();
    html! {
        nav.files aria-label="Files of the slice" {
            @for file in files {
                a href=(source_link(campaign, file, 1)) aria-current=[(file == current).then_some("page")] {
                    (escape::visible(file, NAME_LIMIT))
                }
            }
        }
    }
}

fn listing(here: &[&SliceEntry], sketch: Option<&FailureSketch>, text: &str) -> Markup {
    let mut by_line: BTreeMap<usize, &SliceEntry> = BTreeMap::new();
    for entry in here {
        by_line
            .entry(entry.statement.location.line as usize)
            .or_insert(entry);
    }
    let all = text.lines().count();
    let mut inside = false;
    let mut coloured_line = |line: &str| {
        let shown = escape::visible(line, STATEMENT_LIMIT);
        let (pieces, after) = tokens_in_file(&shown, inside);
        inside = after;
        coloured(&pieces)
    };
    html! {
        ol.source-lines {
            @for (i, line) in text.lines().take(MOST_LINES).enumerate() {
                @let entry = by_line.get(&(i + 1));
                li id={ "L" (i + 1) } class=[entry.map(|e| mark(e, sketch))] {
                    a.at href={ "#L" (i + 1) } { (i + 1) }
                    (coloured_line(line))
                    @if let Some(entry) = entry {
                        span.fine { "distance " (entry.steps()) @if let Some(why) = &entry.why { ", " (why.kind) " what follows" } }
                    }
                }
            }
        }
        @if all > MOST_LINES { p.fine { (all - MOST_LINES) " further lines are not shown." } }
    }
}

fn mark(entry: &SliceEntry, sketch: Option<&FailureSketch>) -> &'static str {
    let steps = sketch.map_or(&[][..], |s| &s.steps);
    let mut drawn = steps
        .iter()
        .filter(|s| s.statement.id == entry.statement.id);
    let strongest = drawn.clone().find(|s| s.emphasis == Emphasis::Failing);
    let strongest = strongest.or_else(|| drawn.clone().find(|s| s.emphasis == Emphasis::RootCause));
    match strongest.or_else(|| drawn.next()).map(|s| s.emphasis) {
        Some(Emphasis::Failing) => "failing",
        Some(Emphasis::RootCause) => "cause",
        Some(Emphasis::Context) => "drawn",
        None => "sliced",
    }
}
