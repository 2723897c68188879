//! The sketch as one SVG picture: for a slide, a wiki, a ticket that takes images.
//!
//! A picture cannot ask a browser how wide its text is, so the layout reckons
//! with a fixed-width font and wraps every text to its box. Heights follow from
//! the number of lines, and the arrows from the boxes. Light and dark follow the
//! reader's setting where the viewer heeds it.
//!
//! Deliberately absent: links, scripts, fonts and the tables below the drawing.

pub(crate) mod arrows;

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT, STATEMENT_LIMIT};
use crate::facts;
use crate::fold::{self, Group};
use crate::headline;
use crate::numbers::counted;
use crate::page::threads::created;
use maud::{Markup, PreEscaped, html};
use sketch_model::{Emphasis, FailureSketch, SketchStep, SketchThread};

pub const WIDTH: usize = 1200;
pub const MARGIN: usize = 28;
const LINE: usize = 19;
const PADDING: usize = 10;
/// Between columns: room for arrows.
pub const GUTTER: usize = 90;
const NUMBERS: usize = 48;
/// A character of the fixed-width font at 13 pixels.
const CHARACTER: f64 = 7.9;
const MOST_COLUMNS: usize = 3;

const STYLE: &str = "text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#161925}\
    .ground{fill:#f5f6fa}.box{fill:#fff;stroke:#dfe3ee}.fold{fill:#eef0f6;stroke:#cfd5e4;stroke-dasharray:4 3}\
    .cause{fill:#fff6e5;stroke:#e59a2f;stroke-width:2;stroke-dasharray:7 4}.failing{fill:#fff0f1;stroke:#c4162f;stroke-width:3}\
    .title{font-size:22px;font-weight:700}.strong{font-weight:700}.dim{fill:#586079}.bad{fill:#c4162f;font-weight:700}\
    .root{fill:#b25a00;font-weight:700}.arrow{fill:none;stroke:#e59a2f;stroke-width:3}.head{fill:#e59a2f}\
    .life{stroke:#dfe3ee;stroke-width:2;stroke-dasharray:2 4}\
    @media(prefers-color-scheme:dark){text{fill:#e9ecf5}.ground{fill:#0d1017}.box{fill:#161a24;stroke:#2a3142}\
    .fold{fill:#11141c;stroke:#2a3142}.cause{fill:#2a2113;stroke:#d18a1f}.failing{fill:#331720;stroke:#d92b45}\
    .dim{fill:#9aa4bd}.bad{fill:#ff8391}.root{fill:#ffb84d}.life{stroke:#2a3142}}";

/// A line of text and its class.
type Line = (&'static str, String);

/// A box of the drawing, placed.
pub struct Placed {
    /// Rows of the sketch that it stands for.
    pub rows: std::ops::Range<usize>,
    pub left: usize,
    pub top: usize,
    pub width: usize,
    pub height: usize,
}

struct Drawn {
    place: Placed,
    class: &'static str,
    lines: Vec<Line>,
    number: String,
}

/// The sketch as an SVG document.
pub fn svg(sketch: &FailureSketch) -> String {
    let threads = facts::columns(sketch);
    let columns = match threads.len() {
        0 => 1,
        n if n > MOST_COLUMNS => 1,
        n => n,
    };
    let (head, below_head) = heading(sketch);
    let drawn = boxes(sketch, &threads, columns, below_head + 3 * LINE);
    let bottom = drawn
        .last()
        .map_or(below_head, |d| d.place.top + d.place.height)
        + MARGIN;
    let places: Vec<&Placed> = drawn.iter().map(|d| &d.place).collect();
    let arrows = arrows::arrows(sketch, &places, columns == 1);
    let title = escape::visible(&sketch.title, SENTENCE_LIMIT);
    html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        svg xmlns="http://www.w3.org/2000/svg" role="img" width=(WIDTH) height=(bottom)
            viewBox={ "0 0 " (WIDTH) " " (bottom) } {
            title { (title) }
            desc { (escape::visible(&sketch.summary, SENTENCE_LIMIT)) }
            style { (PreEscaped(STYLE)) }
            rect.ground width="100%" height="100%" {}
            (head)
            @if columns > 1 || threads.len() == 1 {
                @for (i, thread) in threads.iter().enumerate() {
                    @let (left, width) = column(i, columns);
                    text.strong x=(left) y=(below_head + LINE) { (fitted(&role(thread, i), width)) }
                    line.life x1=(left + width / 2) x2=(left + width / 2) y1=(below_head + 2 * LINE) y2=(bottom - MARGIN) {}
                }
            }
            @for d in &drawn { (one_box(d)) }
            @for arrow in arrows { path.arrow d=(arrow.line) {} path.head d=(arrow.head) {} }
        }
    }
    .into_string()
}

fn role(thread: &SketchThread, i: usize) -> String {
    let created = created(thread).map_or(String::new(), |at| format!(", created at {at}"));
    format!(
        "T{} {}{created}",
        i + 1,
        escape::visible(&thread.role, NAME_LIMIT)
    )
}

/// Title, what failed and why; and where they end.
fn heading(sketch: &FailureSketch) -> (Markup, usize) {
    let room = WIDTH - 2 * MARGIN;
    let title = escape::visible(&sketch.title, SENTENCE_LIMIT);
    let facts = format!(
        "{} · {} · sketch {} · σ {} · {} failing, {} successful runs",
        escape::visible(&sketch.program, NAME_LIMIT),
        facts::state(sketch),
        sketch.version,
        sketch.provenance.sigma,
        sketch.provenance.failing_runs,
        sketch.provenance.successful_runs
    );
    let mut lines: Vec<Line> = vec![("dim", fitted(&facts, room))];
    let what = headline::what_failed(sketch).unwrap_or_default();
    for (class, words) in [("", what.as_str()), ("root", sketch.summary.as_str())] {
        let words = escape::visible(words, SENTENCE_LIMIT).replace('`', "");
        lines.extend(wrapped(&words, room).into_iter().map(|l| (class, l)));
    }
    let first = MARGIN + 50;
    let markup = html! {
        text.title x=(MARGIN) y=(MARGIN + 20) { (escape::fit(&title, 80)) }
        @for (i, (class, line)) in lines.iter().enumerate() {
            text class=(class) x=(MARGIN) y=(first + i * LINE) { (line) }
        }
    };
    (markup, first + lines.len() * LINE)
}

/// Left edge and width of a column.
fn column(i: usize, columns: usize) -> (usize, usize) {
    let left = MARGIN + NUMBERS;
    // In one column the arrows run on its left.
    let left = if columns == 1 {
        left + GUTTER / 2
    } else {
        left
    };
    let free = WIDTH - MARGIN - left - GUTTER * (columns - 1);
    let width = free / columns;
    (left + i * (width + GUTTER), width)
}

fn boxes(
    sketch: &FailureSketch,
    threads: &[SketchThread],
    columns: usize,
    mut top: usize,
) -> Vec<Drawn> {
    let place = |s: &SketchStep| match columns {
        1 => 0,
        _ => facts::column_of(threads, s.thread),
    };
    let mut drawn = Vec::new();
    for group in fold::groups(sketch) {
        let (rows, at) = match &group {
            Group::Shown(row) => (*row..*row + 1, place(&sketch.steps[*row])),
            Group::Folded(rows) => {
                let first = place(&sketch.steps[rows.start]);
                (rows.clone(), first)
            }
        };
        let (mut left, mut width) = column(at, columns);
        let steps = &sketch.steps[rows.clone()];
        if columns > 1 && steps.iter().any(|s| place(s) != at) {
            // Steps of several threads behind one line: it reaches over them all.
            left = column(0, columns).0;
            width = WIDTH - MARGIN - left;
        }
        let (class, lines) = match &group {
            Group::Shown(row) => step_lines(sketch, threads, *row, width, columns == 1),
            Group::Folded(_) => ("fold", folded_lines(steps, width)),
        };
        let height = lines.len() * LINE + 2 * PADDING;
        drawn.push(Drawn {
            number: match steps {
                [one] => one.number.to_string(),
                [first, .., last] => format!("{}–{}", first.number, last.number),
                [] => String::new(),
            },
            place: Placed {
                rows,
                left,
                top,
                width,
                height,
            },
            class,
            lines,
        });
        top += height + 14;
    }
    drawn
}

fn step_lines(
    sketch: &FailureSketch,
    threads: &[SketchThread],
    row: usize,
    width: usize,
    tagged: bool,
) -> (&'static str, Vec<Line>) {
    let step = &sketch.steps[row];
    let room = width - 2 * PADDING;
    let mut lines: Vec<Line> = Vec::new();
    let thread = facts::column_of(threads, step.thread);
    if tagged && threads.len() > 1 {
        lines.push(("strong", fitted(&role(&threads[thread], thread), room)));
    }
    let class = match step.emphasis {
        Emphasis::Failing => "failing",
        Emphasis::RootCause => "cause",
        Emphasis::Context => "box",
    };
    if step.emphasis == Emphasis::Failing {
        lines.push(("bad", "✗ FAILS HERE".to_owned()));
    }
    if facts::is_root_cause(sketch, step) {
        lines.push(("root", "◆ root cause".to_owned()));
    }
    let text = match escape::visible(&step.statement.text, STATEMENT_LIMIT) {
        empty if empty.is_empty() => "(its source is not at hand)".to_owned(),
        text => text,
    };
    let weight = if class == "box" { "dim" } else { "strong" };
    lines.extend(wrapped(&text, room).into_iter().map(|l| (weight, l)));
    let at = format!("{}() {}", step.statement.function, step.statement.location);
    lines.push(("dim", fitted(&escape::visible(&at, NAME_LIMIT), room)));
    for value in &step.values {
        let class = if facts::is_telling(sketch, step, value) {
            "bad"
        } else {
            ""
        };
        let shown = format!(
            "{} {} {}{}",
            escape::visible(&value.of, NAME_LIMIT),
            facts::value_sign(value),
            escape::visible(&value.shown, NAME_LIMIT),
            if value.exact {
                ""
            } else {
                "  ≈ may be stale"
            }
        );
        lines.extend(wrapped(&shown, room).into_iter().map(|l| (class, l)));
    }
    let before = facts::ran_before(sketch, step);
    if !before.is_empty() {
        lines.push(("root", format!("ran before {}", facts::step_list(&before))));
    }
    for note in facts::notes(sketch, step) {
        lines.extend(wrapped(&note, room).into_iter().map(|l| ("dim", l)));
    }
    (class, lines)
}

fn folded_lines(steps: &[SketchStep], width: usize) -> Vec<Line> {
    let room = width - 2 * PADDING;
    let named: Vec<String> = steps
        .iter()
        .take(3)
        .map(|s| escape::visible(&s.statement.text, STATEMENT_LIMIT))
        .collect();
    let count = counted(steps.len() as u64, "step");
    let mut lines = vec![(
        "dim",
        fitted(&format!("{count}: {}", named.join(" ")), room),
    )];
    let doubts = fold::doubts(steps).join(", ");
    if !doubts.is_empty() {
        lines.push(("root", fitted(&doubts, room)));
    }
    lines
}

fn one_box(d: &Drawn) -> Markup {
    let p = &d.place;
    html! {
        rect class=(d.class) x=(p.left) y=(p.top) width=(p.width) height=(p.height) rx="8" {}
        text.dim x=(MARGIN) y=(p.top + p.height / 2 + 4) { (d.number) }
        @for (i, (class, line)) in d.lines.iter().enumerate() {
            text class=(class) x=(p.left + PADDING) y=(p.top + PADDING + i * LINE + 13) { (line) }
        }
    }
}

fn characters(pixels: usize) -> usize {
    (pixels as f64 / CHARACTER) as usize
}

fn fitted(text: &str, pixels: usize) -> String {
    escape::fit(text, characters(pixels))
}

fn wrapped(text: &str, pixels: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    escape::wrap(text, characters(pixels))
}
