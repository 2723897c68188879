//! One step of the drawing as a card: its statement, the values it saw, why it
//! is marked, and what is not known of it.
//!
//! The figures of a predictor stand where it is drawn: a small link shows them
//! on hover and on focus, without a script, and leads to the table's row.

use crate::escape::{self, NAME_LIMIT, STATEMENT_LIMIT};
use crate::facts;
use crate::numbers::{self, interval, probability, share};
use crate::syntax::{self, Token};
use maud::{Markup, html};
use sketch_model::{
    Emphasis, FailureSketch, SketchPredictor, SketchStep, SketchThread, SketchValue,
};

/// `begins` says that the card is to name its function.
pub fn card(sketch: &FailureSketch, threads: &[SketchThread], row: usize, begins: bool) -> Markup {
    let step = &sketch.steps[row];
    let thread = facts::column_of(threads, step.thread);
    let function = escape::visible(&step.statement.function, NAME_LIMIT);
    let location = &step.statement.location;
    let root_cause = facts::is_root_cause(sketch, step);
    let before = facts::ran_before(sketch, step);
    html! {
        @if begins { p.function aria-hidden="true" { span { (function) "()" } } }
        div class={ "card" @if root_cause { " boxed" } } {
            p.badges {
                span.tag { "T" (thread + 1) " " (escape::visible(&threads[thread].role, NAME_LIMIT)) }
                @if step.emphasis == Emphasis::Failing { strong.badge.fails { "✗ Fails here" } }
                @if root_cause { strong.badge.root { "◆ Root cause" } }
                @for i in facts::named_by(sketch, step) { (figures(sketch, step, i)) }
            }
            div.statement {
                (source(step))
                p.line title=(escape::visible(&location.file, NAME_LIMIT)) {
                    span.hidden { "in " (function) ", " }
                    (escape::visible(location.file_name(), NAME_LIMIT)) ":" (location.line)
                }
            }
            @if !step.values.is_empty() {
                ul.values aria-label="Values seen" {
                    @for value in &step.values { (chip(value, facts::is_telling(sketch, step, value))) }
                }
            }
            @if !before.is_empty() {
                p.note.order { "Ran before "
                    @for (i, number) in before.iter().enumerate() {
                        @if i > 0 { ", " }
                        a href={ "#step-" (number) } { "step " (number) }
                    }
                }
            }
            @for note in facts::notes(sketch, step) { p.note { (note) } }
        }
    }
}

/// A predictor's figures, shown on hover and focus.
fn figures(sketch: &FailureSketch, step: &SketchStep, i: usize) -> Markup {
    let predictor = &sketch.predictors[i];
    let id = format!("figures-{}-{i}", step.number);
    html! {
        span.predictor {
            a.figures href={ "#predictor-" (i + 1) } aria-describedby=(id) {
                (predictor.class) " · F " (share(predictor.score.f_measure))
            }
            span.tip role="tooltip" id=(id) { (tip(predictor)) }
        }
    }
}

fn tip(predictor: &SketchPredictor) -> Markup {
    let s = &predictor.score;
    let unobserved = s.support.failing_unobserved + s.support.successful_unobserved;
    html! {
        span { b { (numbers::failing_support(s)) } " failing runs" }
        span { b { (numbers::successful_support(s)) } " successful runs" }
        span { "precision " b { (share(s.precision)) } " (" (interval(s.precision_interval)) ")" }
        span { "recall " b { (share(s.recall)) } " (" (interval(s.recall_interval)) ")" }
        span { "F " b { (share(s.f_measure)) } ", p " b { (probability(s.corrected_p)) } }
        @if unobserved > 0 { span { "not observable in " (numbers::count(unobserved)) " runs" } }
    }
}

pub fn source(step: &SketchStep) -> Markup {
    let text = escape::visible(&step.statement.text, STATEMENT_LIMIT);
    html! {
        @if text.is_empty() {
            p.source.absent { "its source is not at hand" }
        } @else {
            p.source { (code(&text)) }
        }
    }
}

/// A line of source, coloured.
pub fn code(visible: &str) -> Markup {
    coloured(&syntax::tokens(visible))
}

pub fn coloured(pieces: &[(Token, &str)]) -> Markup {
    html! {
        code {
            @for (token, piece) in pieces {
                @if let Some(class) = token.class() { span class=(class) { (piece) } } @else { (piece) }
            }
        }
    }
}

pub fn chip(value: &SketchValue, telling: bool) -> Markup {
    html! {
        li class={ "value" @if telling { " telling" } @if !value.exact { " stale" } } {
            span.verb { @if value.written { "wrote" } @else { "read" } }
            code {
                (escape::visible(&value.of, NAME_LIMIT)) " " (facts::value_sign(value)) " "
                b { (escape::visible(&value.shown, NAME_LIMIT)) }
            }
            @if !value.exact { span.doubt { "≈ may be stale" } }
        }
    }
}
