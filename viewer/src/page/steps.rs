//! The drawing itself, for a browser: an ordered list of steps, each a row with
//! one place per thread.
//!
//! A row draws its own piece of every arrow that crosses it (see `routing`), as
//! an SVG stretched over the row's height. Rows can therefore be as high as
//! their text needs, at any zoom, and no script has to measure them. Two routes
//! are written, one for columns and one for a narrow window where the columns
//! fall into one; the style sheet shows the one that fits.
//!
//! Steps that only lead up to the failure are folded (see `fold`): no arrow ends
//! among them, so the line that stands for them draws what passes by.

use crate::escape::{self, NAME_LIMIT, STATEMENT_LIMIT};
use crate::facts;
use crate::fold::{self, Group};
use crate::numbers::counted;
use crate::page::card::card;
use crate::page::threads;
use crate::routing::{self, Row, Strokes, Touch};
use maud::{Markup, html};
use sketch_model::{Emphasis, FailureSketch, SketchStep, SketchThread};
use std::ops::Range;

/// More threads than this share one column.
const MOST_COLUMNS: usize = 3;
/// Statements that a folded line names; the others it counts.
const NAMED: usize = 3;

/// What all rows of one drawing share.
struct Drawing<'a> {
    sketch: &'a FailureSketch,
    threads: Vec<SketchThread>,
    columns: usize,
    wide: Vec<Row>,
    narrow: Vec<Row>,
    unfolded: bool,
    /// By row.
    folded: Vec<bool>,
}

/// The drawing, with its folds open or closed.
pub fn drawing(sketch: &FailureSketch, unfolded: bool) -> Markup {
    let threads = facts::columns(sketch);
    let columns = if threads.len() > MOST_COLUMNS {
        1
    } else {
        threads.len()
    };
    let place = |s: &SketchStep| match columns {
        1 => 0,
        _ => facts::column_of(&threads, s.thread),
    };
    let rows = sketch.steps.len();
    let wide = routing::route(rows, columns, &facts::arrows(sketch, place));
    let narrow = routing::route(rows, 1, &facts::arrows(sketch, |_| 0));
    let lanes: Vec<usize> = match wide.first() {
        Some(row) => row.lanes.iter().map(Vec::len).collect(),
        None => vec![0; columns + 1],
    };
    let groups = fold::groups(sketch);
    let mut folded = vec![false; rows];
    for group in &groups {
        if let Group::Folded(rows) = group {
            folded[rows.clone()].fill(true);
        }
    }
    let drawing = Drawing {
        folded,
        sketch,
        columns,
        wide,
        narrow,
        unfolded,
        threads,
    };
    html! {
        div class={ "sketch columns-" (columns) @if drawing.threads.len() > 1 { " several" } } {
            (threads::heading(sketch, &drawing.threads, columns, &lanes))
            ol.steps aria-label="Steps of the failing run, in the order of time" {
                @for group in groups {
                    @match group {
                        Group::Shown(row) => (drawing.step(row)),
                        Group::Folded(rows) => (drawing.fold(rows)),
                    }
                }
            }
        }
    }
}

/// Threads keep telling colours as far as there are colours.
pub fn hue(column: usize) -> usize {
    column % 6
}

impl Drawing<'_> {
    fn place(&self, step: &SketchStep) -> usize {
        match self.columns {
            1 => 0,
            _ => facts::column_of(&self.threads, step.thread),
        }
    }

    fn step(&self, row: usize) -> Markup {
        let step = &self.sketch.steps[row];
        let (wide, narrow) = (&self.wide[row], &self.narrow[row]);
        let thread = facts::column_of(&self.threads, step.thread);
        let place = self.place(step);
        let emphasis = match step.emphasis {
            Emphasis::Failing => "failing",
            Emphasis::RootCause => "cause",
            Emphasis::Context if step.static_only => "context unrecorded",
            Emphasis::Context => "context",
        };
        html! {
            li class={ "step " (emphasis) " thread-" (hue(thread)) } id={ "step-" (step.number) } tabindex="-1" {
                span.number { span.hidden { "Step " } (step.number) }
                (gutter(narrow, 0, "narrow"))
                @for column in 0..self.columns {
                    @if column > 0 || self.columns == 1 { (gutter(wide, column, "wide")) }
                    @if column == place {
                        div class={ "place at-" (column) @if column > 0 { " right" } } {
                            (heads(wide, "wide"))
                            (heads(narrow, "narrow"))
                            (card(self.sketch, &self.threads, row, self.begins_function(row)))
                        }
                    } @else {
                        div class={ "place vacant" @if wide.crossed_columns[column] { " crossed" } } aria-hidden="true" {}
                    }
                }
            }
        }
    }

    /// Whether the step goes over to another function, or the step that began
    /// its function is folded away.
    fn begins_function(&self, row: usize) -> bool {
        let steps = &self.sketch.steps;
        let same_thread = |r: &usize| steps[*r].thread == steps[row].thread;
        let hidden = match (0..row).rev().find(same_thread) {
            Some(previous) => !self.folded[row] && self.folded[previous],
            None => false,
        };
        hidden || facts::begins_function(steps, row)
    }

    /// Steps that only lead up to it, behind one line.
    fn fold(&self, rows: Range<usize>) -> Markup {
        let steps = &self.sketch.steps[rows.clone()];
        let (first, last) = (rows.start, rows.end - 1);
        let number = |row: usize| self.sketch.steps[row].number;
        html! {
            li.fold {
                details open[self.unfolded] {
                    summary.fold-line {
                        span.number { span.hidden { "Steps " } (number(first)) "–" wbr; (number(last)) }
                        (gutter(&self.narrow[first], 0, "narrow"))
                        @for column in 0..self.columns {
                            @if column > 0 || self.columns == 1 { (gutter(&self.wide[first], column, "wide")) }
                            @let here: Vec<&SketchStep> = steps.iter().filter(|s| self.place(s) == column).collect();
                            @if here.is_empty() {
                                div.place.vacant aria-hidden="true" {}
                            } @else {
                                div.place { (preview(&here)) }
                            }
                        }
                    }
                    ol.steps { @for row in rows { (self.step(row)) } }
                }
            }
        }
    }
}

/// What a folded line holds: how much, the first statements, and every doubt.
fn preview(steps: &[&SketchStep]) -> Markup {
    let owned: Vec<SketchStep> = steps.iter().map(|s| (*s).clone()).collect();
    let more = steps.len().saturating_sub(NAMED);
    html! {
        span.folded {
            span.count { (counted(steps.len() as u64, "more step")) }
            @for step in steps.iter().take(NAMED) {
                @let text = escape::visible(&step.statement.text, STATEMENT_LIMIT);
                @let place = escape::visible(&step.statement.location.to_string(), NAME_LIMIT);
                code { @if text.is_empty() { (place) } @else { (text) } }
            }
            @if more > 0 { span { "and " (more) " more" } }
            @for doubt in fold::doubts(&owned) { span.doubt { (doubt) } }
        }
    }
}

/// The lanes of one gutter in one row. A gutter without lanes still keeps columns apart.
fn gutter(row: &Row, gutter: usize, layout: &str) -> Markup {
    let lanes = &row.lanes[gutter];
    let crossed = row.crossed_gutters[gutter] && lanes.is_empty();
    html! {
        div class={ "gutter " (layout) " lanes-" (lanes.len()) @if crossed { " crossed" } } aria-hidden="true" {
            @for strokes in lanes { (lane(*strokes, layout == "wide" && lanes.len() == 1)) }
        }
    }
}

fn lane(s: Strokes, label: bool) -> Markup {
    let begins = s.down && !s.up;
    html! {
        span.lane {
            @if s != Strokes::default() {
                svg.arrow data-strokes=(stroke_names(s)) {
                    @if s.up { line x1="50%" y1="0" x2="50%" y2="50%" {} }
                    @if s.down { line x1="50%" y1="50%" x2="50%" y2="100%" {} }
                    @if s.left { line x1="0" y1="50%" x2="50%" y2="50%" {} }
                    @if s.right { line x1="50%" y1="50%" x2="100%" y2="50%" {} }
                }
            }
            @if begins && label { span.label { "ran before" } }
        }
    }
}

/// For tests and for whoever inspects the page.
fn stroke_names(s: Strokes) -> String {
    [
        (s.up, "up"),
        (s.down, "down"),
        (s.left, "left"),
        (s.right, "right"),
    ]
    .into_iter()
    .filter_map(|(on, name)| on.then_some(name))
    .collect::<Vec<_>>()
    .join(" ")
}

/// Arrow heads at the sides of a step.
fn heads(row: &Row, layout: &str) -> Markup {
    html! {
        @if row.left == Some(Touch::Arrives) {
            svg class={ "head left " (layout) } viewBox="0 0 10 12" aria-hidden="true" { path d="M0 0L10 6L0 12z" {} }
        }
        @if row.right == Some(Touch::Arrives) {
            svg class={ "head right " (layout) } viewBox="0 0 10 12" aria-hidden="true" { path d="M10 0L0 6L10 12z" {} }
        }
    }
}
