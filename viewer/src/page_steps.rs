//! The drawing itself, for a browser: an ordered list of steps, each a row with
//! one place per thread.
//!
//! A row draws its own piece of every arrow that crosses it (see `routing`), as
//! an SVG stretched over the row's height. Rows can therefore be as high as
//! their text needs, at any zoom, and no script has to measure them. Two routes
//! are written, one for columns and one for a narrow window where the columns
//! fall into one; the style sheet shows the one that fits.

use crate::escape::{self, NAME_LIMIT, STATEMENT_LIMIT};
use crate::facts;
use crate::routing::{self, Row, Strokes, Touch};
use crate::syntax;
use maud::{Markup, html};
use sketch_model::{Emphasis, FailureSketch, SketchStep, SketchThread, SketchValue};

/// More threads than this share one column.
const MOST_COLUMNS: usize = 3;

/// The drawing.
pub fn drawing(sketch: &FailureSketch) -> Markup {
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
    html! {
        div class={ "sketch columns-" (columns) @if threads.len() > 1 { " several" } } {
            div.threads {
                span.number {}
                @for (i, thread) in threads.iter().enumerate() {
                    @if (1..columns).contains(&i) {
                        div class={ "gutter wide lanes-" (wide.first().map_or(0, |r| r.lanes[i].len())) } {}
                    }
                    div class={ "thread thread-" (hue(i)) } {
                        span.role { (escape::visible(&thread.role, NAME_LIMIT)) }
                        span.tid { "T" (i + 1) " · tid " (thread.tid) }
                    }
                }
            }
            ol.steps aria-label="Steps of the failing run, in the order of time" {
                @for (row, step) in sketch.steps.iter().enumerate() {
                    (step_row(sketch, &threads, row, place(step), &wide[row], &narrow[row]))
                }
            }
        }
    }
}

/// Threads keep telling colours as far as there are colours.
fn hue(column: usize) -> usize {
    column % 6
}

fn step_row(
    sketch: &FailureSketch,
    threads: &[SketchThread],
    row: usize,
    place: usize,
    wide: &Row,
    narrow: &Row,
) -> Markup {
    let step = &sketch.steps[row];
    let thread = facts::column_of(threads, step.thread);
    let columns = wide.crossed_columns.len();
    let emphasis = match step.emphasis {
        Emphasis::Failing => "failing",
        Emphasis::RootCause => "cause",
        Emphasis::Context if step.static_only => "context unrecorded",
        Emphasis::Context => "context",
    };
    html! {
        li class={ "step " (emphasis) " thread-" (hue(thread)) } id={ "step-" (step.number) } {
            span.number { span.hidden { "Step " } (step.number) }
            (gutter(narrow, 0, "narrow"))
            @for column in 0..columns {
                @if column > 0 || columns == 1 { (gutter(wide, column, "wide")) }
                @if column == place {
                    div class={ "place at-" (column) } {
                        (heads(wide, "wide"))
                        (heads(narrow, "narrow"))
                        (card(sketch, threads, row))
                    }
                } @else {
                    div class={ "place vacant" @if wide.crossed_columns[column] { " crossed" } } aria-hidden="true" {}
                }
            }
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

fn card(sketch: &FailureSketch, threads: &[SketchThread], row: usize) -> Markup {
    let step = &sketch.steps[row];
    let thread = facts::column_of(threads, step.thread);
    let begins = facts::begins_function(&sketch.steps, row);
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

fn source(step: &SketchStep) -> Markup {
    let text = escape::visible(&step.statement.text, STATEMENT_LIMIT);
    html! {
        @if text.is_empty() {
            p.source.absent { "its source is not at hand" }
        } @else {
            p.source { code {
                @for (token, piece) in syntax::tokens(&text) {
                    @if let Some(class) = token.class() { span class=(class) { (piece) } } @else { (piece) }
                }
            } }
        }
    }
}

fn chip(value: &SketchValue, telling: bool) -> Markup {
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
