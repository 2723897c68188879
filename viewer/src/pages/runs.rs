//! A failing and a successful run side by side, statement by statement: the
//! reader sees with their own eyes what the predictors claim.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT, STATEMENT_LIMIT};
use crate::numbers::{count, counted};
use crate::page::card::{chip, code};
use crate::shell::{self, Frame, document, sentence};
use maud::{Markup, html};
use sketch_model::{CampaignSummary, Emphasis, FailureSketch, Gap, SketchValue, Statement};

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSide {
    pub id: String,
    pub agent: String,
    pub wall_us: u64,
    pub cpu_us: u64,
    pub gaps: Vec<Gap>,
}

/// What a run did at one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideCell {
    pub times: u64,
    /// Where its last execution stands among those of the run's other
    /// statements, from 1.
    pub position: u32,
    /// Roles of the threads that ran it.
    pub threads: Vec<String>,
    /// Those of the last execution.
    pub values: Vec<SketchValue>,
}

/// A statement and what either run did there; `None`: nothing was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideRow {
    pub statement: Statement,
    pub failing: Option<SideCell>,
    pub successful: Option<SideCell>,
}

/// Two runs of the same tracked build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideBySide {
    pub iteration: u32,
    pub failing: Option<RunSide>,
    pub successful: Option<RunSide>,
    pub rows: Vec<SideRow>,
}

/// The page.
pub fn runs_page(
    campaign: &CampaignSummary,
    runs: &SideBySide,
    sketch: Option<&FailureSketch>,
) -> String {
    let title = escape::visible(&campaign.title, SENTENCE_LIMIT);
    let (telling, alike): (Vec<&SideRow>, Vec<&SideRow>) = runs
        .rows
        .iter()
        .partition(|row| marked(row, sketch).is_some() || differs(row));
    let body = html! {
        section.answer {
            h1 { "Runs of " (title) }
            p.lead { "Two runs of the tracked build of iteration " (runs.iteration) ", statement by statement. Numbers give the order of the last executions." }
        }
        section.panel aria-label="Runs side by side" {
            @if runs.rows.is_empty() {
                p.empty { "No run of this tracked build has been counted yet." }
            } @else {
                h2 { "Where they differ, and what the sketch marks" }
                (table(runs, &telling, sketch))
            }
            @if !alike.is_empty() {
                details.others {
                    summary { (counted(alike.len() as u64, "more statement")) span.fine { "where both runs saw the same" } }
                    (table(runs, &alike, sketch))
                }
            }
        }
        section.panel aria-labelledby="gaps" {
            h2 #gaps { "What was lost of these runs" }
            ul.gaps {
                @for (which, run) in [("failing", &runs.failing), ("successful", &runs.successful)] {
                    @for gap in run.iter().flat_map(|r| &r.gaps) { li { (which) ": " (sentence(&gap.to_string())) } }
                }
                @if runs.failing.iter().chain(&runs.successful).all(|r| r.gaps.is_empty()) { li { "Nothing was reported lost." } }
            }
        }
    };
    document(
        Frame::Served,
        &format!("Runs · {title}"),
        shell::of_campaign(campaign.id, "/runs"),
        body,
    )
}

fn table(runs: &SideBySide, rows: &[&SideRow], sketch: Option<&FailureSketch>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Runs side by side" {
            table.runs {
                thead { tr {
                    th scope="col" { "Statement" }
                    th.in-failing scope="col" { (side("Failing run", runs.failing.as_ref())) }
                    th.in-successful scope="col" { (side("Successful run", runs.successful.as_ref())) }
                } }
                tbody { @for row in rows { (statement(row, sketch)) } }
            }
        }
    }
}

/// Whether one run did there what the other did not, or saw another value.
fn differs(row: &SideRow) -> bool {
    match (&row.failing, &row.successful) {
        (Some(a), Some(b)) => {
            let news = |a: &SideCell, b: &SideCell| a.values.iter().any(|v| is_news(v, b));
            news(a, b) || news(b, a)
        }
        (a, b) => a.is_some() != b.is_some(),
    }
}

/// Whether the other run did not see such a value at the same place.
fn is_news(value: &SketchValue, other: &SideCell) -> bool {
    let same = |w: &&SketchValue| (&w.of, w.written) == (&value.of, value.written);
    let seen = other.values.iter().find(same);
    seen.is_none_or(|w| shape(w) != shape(value))
}

/// How the sketch marks the statement, if it does.
fn marked(row: &SideRow, sketch: Option<&FailureSketch>) -> Option<&'static str> {
    let mut steps = sketch?.steps.iter();
    match steps.find(|s| s.statement.id == row.statement.id)?.emphasis {
        Emphasis::Failing => Some("marked-failing"),
        Emphasis::RootCause => Some("marked-cause"),
        Emphasis::Context => None,
    }
}

fn side(name: &str, run: Option<&RunSide>) -> Markup {
    html! {
        (name)
        @match run {
            Some(run) => span.fine {
                (escape::visible(&run.id, NAME_LIMIT)) " on " (escape::visible(&run.agent, NAME_LIMIT))
                " · " (count(run.wall_us / 1_000)) " ms, " (count(run.cpu_us / 1_000)) " ms of CPU"
            },
            None => span.fine { "none yet" },
        }
    }
}

fn statement(row: &SideRow, sketch: Option<&FailureSketch>) -> Markup {
    let text = escape::visible(&row.statement.text, STATEMENT_LIMIT);
    html! {
        tr class=[marked(row, sketch)] {
            th scope="row" {
                @if text.is_empty() { span.absent { "its source is not at hand" } } @else { (code(&text)) }
                span.fine { (escape::visible(&row.statement.function, NAME_LIMIT)) "() " (escape::visible(&row.statement.location.to_string(), NAME_LIMIT)) }
            }
            td data-label="Failing run" { (cell(row.failing.as_ref(), row.successful.as_ref())) }
            td data-label="Successful run" { (cell(row.successful.as_ref(), row.failing.as_ref())) }
        }
    }
}

/// Values that the other run did not see at the same place are marked.
fn cell(this: Option<&SideCell>, other: Option<&SideCell>) -> Markup {
    let Some(this) = this else {
        return html! { span.fine { "did not run, or was not recorded" } };
    };
    let differs = |v: &SketchValue| other.is_some_and(|o| is_news(v, o));
    html! {
        span.order { b { "#" (this.position) } " " (escape::visible(&this.threads.join(", "), NAME_LIMIT)) }
        @if this.times > 1 { span.fine { "ran " (count(this.times)) " times, the last is shown" } }
        @if !this.values.is_empty() {
            ul.values { @for value in &this.values { (chip(value, differs(value))) } }
        }
    }
}

/// Addresses differ from run to run; that they do says nothing.
fn shape(value: &SketchValue) -> &str {
    match value.shown.as_str() {
        address if address.starts_with("0x") => "an address",
        shown => shown,
    }
}
