//! The drawing itself, for a terminal: time downward, one column per thread, the
//! order arrow in the gutter between them.
//!
//! With more than three threads, or too little room for columns, all threads
//! share one column and each step carries its thread's tag.

use crate::escape::{self, NAME_LIMIT, STATEMENT_LIMIT};
use crate::facts;
use crate::page::threads::created;
use crate::routing::{self, Row, Strokes, Touch};
use crate::text::line::{Line, Tone};
use sketch_model::{Emphasis, FailureSketch, SketchStep, SketchThread};

const LANE: usize = 3;
/// Between the last lane and the column: room for an arrow's head.
const APPROACH: usize = 2;
const NARROWEST_COLUMN: usize = 30;
const MOST_COLUMNS: usize = 3;
const WIDEST_TAG: usize = 14;

/// How the room is divided.
struct Layout {
    threads: Vec<SketchThread>,
    /// Whether threads have columns of their own.
    apart: bool,
    number: usize,
    tag: usize,
    column: usize,
    gutters: Vec<usize>,
    rows: Vec<Row>,
}

pub fn draw(sketch: &FailureSketch, width: usize) -> Vec<Line> {
    if sketch.steps.is_empty() {
        return vec![Line::of(Tone::Dim, "No step is drawn yet.")];
    }
    let layout = Layout::of(sketch, width);
    let mut lines = layout.heading();
    for row in 0..sketch.steps.len() {
        lines.extend(layout.step(sketch, row));
    }
    lines.into_iter().map(|l| l.fitted(width)).collect()
}

impl Layout {
    fn of(sketch: &FailureSketch, width: usize) -> Layout {
        let threads = facts::columns(sketch);
        let last = sketch.steps.iter().map(|s| s.number).max().unwrap_or(0);
        let number = last.to_string().len().max(2) + 2;
        if (2..=MOST_COLUMNS).contains(&threads.len()) {
            let count = threads.len();
            let arrows = facts::arrows(sketch, |s| facts::column_of(&threads, s.thread));
            let rows = routing::route(sketch.steps.len(), count, &arrows);
            let gutters = gutter_widths(&rows, |g| (1..count).contains(&g));
            let free = width.saturating_sub(number + gutters.iter().sum::<usize>());
            if free / count >= NARROWEST_COLUMN {
                return Layout {
                    threads,
                    apart: true,
                    number,
                    tag: 0,
                    column: free / count,
                    gutters,
                    rows,
                };
            }
        }
        let rows = routing::route(sketch.steps.len(), 1, &facts::arrows(sketch, |_| 0));
        let gutters = gutter_widths(&rows, |_| false);
        let tag = match threads.len() {
            1 => 0,
            count => (0..count)
                .map(|i| escape::width(&tag(&threads, i)) + 2)
                .max()
                .unwrap_or(0)
                .min(WIDEST_TAG + 2),
        };
        Layout {
            apart: false,
            number,
            tag,
            column: width.saturating_sub(number + gutters.iter().sum::<usize>() + tag),
            gutters,
            rows,
            threads,
        }
    }

    fn heading(&self) -> Vec<Line> {
        let name = |i: usize| {
            let thread = &self.threads[i];
            let tid = match thread.tid {
                0 => String::new(),
                tid => format!("  tid {tid}"),
            };
            let created = created(thread).map_or(String::new(), |at| format!("  from {at}"));
            Line::of(Tone::Strong, tag(&self.threads, i)).with(Tone::Dim, tid + &created)
        };
        if !self.apart {
            return (0..self.threads.len())
                .map(|i| {
                    let mut line = Line::of(Tone::Plain, " ".repeat(self.number));
                    line.append(name(i));
                    line
                })
                .collect();
        }
        let mut names = Line::of(Tone::Plain, " ".repeat(self.number));
        let mut rules = names.clone();
        for i in 0..self.threads.len() {
            for line in [&mut names, &mut rules] {
                line.push(Tone::Plain, " ".repeat(self.gutters[i]));
            }
            names.append(name(i).fitted(self.column).padded(self.column));
            rules.push(Tone::Dim, "━".repeat(self.column));
        }
        vec![names, rules]
    }

    /// The lines of one step. The first keeps it apart from the step above.
    fn step(&self, sketch: &FailureSketch, row: usize) -> Vec<Line> {
        const ATTACH: usize = 1;
        let step = &sketch.steps[row];
        let thread = facts::column_of(&self.threads, step.thread);
        let column = if self.apart { thread } else { 0 };
        let routes = &self.rows[row];
        let mut cells = vec![self.separator(&sketch.steps, row)];
        cells.push(statement(step, self.column, routes.right));
        cells.extend(details(sketch, step, self.column));

        let mut lines = Vec::new();
        for (i, cell) in cells.into_iter().enumerate() {
            let attach = i == ATTACH;
            let number = if attach {
                format!("{:>w$}  ", step.number, w = self.number - 2)
            } else {
                " ".repeat(self.number)
            };
            let mut line = Line::of(number_tone(step), number);
            let columns = if self.apart { self.threads.len() } else { 1 };
            for c in 0..columns {
                line.push(Tone::Cause, self.gutter(routes, c, i, ATTACH, column));
                if !self.apart {
                    let tag = if attach {
                        tag(&self.threads, thread)
                    } else {
                        String::new()
                    };
                    let shown = escape::fit(&tag, self.tag.saturating_sub(2));
                    line.append(Line::of(Tone::Strong, shown).padded(self.tag));
                }
                if c == column {
                    line.append(cell.clone().fitted(self.column).padded(self.column));
                } else {
                    let crossed = attach && routes.crossed_columns[c];
                    let fill = if crossed { "─" } else { " " };
                    line.push(Tone::Cause, fill.repeat(self.column));
                }
            }
            lines.push(line);
        }
        lines
    }

    /// A rule where the column goes over to another function, else an empty line.
    fn separator(&self, steps: &[SketchStep], row: usize) -> Line {
        let first = !steps[..row]
            .iter()
            .any(|s| !self.apart || s.thread == steps[row].thread);
        if !first && facts::begins_function(steps, row) {
            Line::of(Tone::Dim, "╌".repeat(self.column))
        } else {
            Line::new()
        }
    }

    /// The gutter left of column `g` in line `i` of a step's lines.
    fn gutter(
        &self,
        routes: &Row,
        g: usize,
        i: usize,
        attach: usize,
        step_column: usize,
    ) -> String {
        let lanes = &routes.lanes[g];
        let mut drawn = String::new();
        for strokes in lanes {
            let upright = match i.cmp(&attach) {
                std::cmp::Ordering::Less => strokes.up,
                std::cmp::Ordering::Equal => {
                    drawn.push(if strokes.left { '─' } else { ' ' });
                    drawn.push(corner(*strokes));
                    drawn.push(if strokes.right { '─' } else { ' ' });
                    continue;
                }
                std::cmp::Ordering::Greater => strokes.down,
            };
            drawn.push_str(if upright { " │ " } else { "   " });
        }
        let here = i == attach && g == step_column;
        let approach = match routes.left {
            Some(Touch::Arrives) if here => "▶ ",
            Some(Touch::Leaves) if here => "─ ",
            _ if i == attach && routes.crossed_gutters[g] => "──",
            _ => "  ",
        };
        if self.gutters[g] > 0 {
            drawn.push_str(approach);
        }
        drawn
    }
}

fn gutter_widths(rows: &[Row], needed: impl Fn(usize) -> bool) -> Vec<usize> {
    let lanes = rows.first().map(|r| r.lanes.as_slice()).unwrap_or_default();
    lanes
        .iter()
        .enumerate()
        .map(|(g, lanes)| match lanes.len() {
            0 if !needed(g) => 0,
            count => count * LANE + APPROACH,
        })
        .collect()
}

/// "T2 consumer"
fn tag(threads: &[SketchThread], i: usize) -> String {
    format!(
        "T{} {}",
        i + 1,
        escape::visible(&threads[i].role, NAME_LIMIT)
    )
}

fn corner(s: Strokes) -> char {
    match (s.up, s.down, s.left, s.right) {
        (true, true, true, true) => '┼',
        (true, true, true, false) => '┤',
        (true, true, false, true) => '├',
        (true, true, false, false) => '│',
        (true, false, true, true) => '┴',
        (false, true, true, true) => '┬',
        (true, false, true, false) => '╯',
        (true, false, false, true) => '╰',
        (false, true, true, false) => '╮',
        (false, true, false, true) => '╭',
        (false, false, true, _) | (false, false, _, true) => '─',
        (true, false, false, false) | (false, true, false, false) => '│',
        (false, false, false, false) => ' ',
    }
}

fn number_tone(step: &SketchStep) -> Tone {
    match step.emphasis {
        Emphasis::Failing => Tone::Failing,
        Emphasis::RootCause => Tone::Cause,
        Emphasis::Context => Tone::Dim,
    }
}

/// The statement, and the line from it to an arrow on its right.
fn statement(step: &SketchStep, room: usize, right: Option<Touch>) -> Line {
    let (mark, tone) = match step.emphasis {
        Emphasis::Failing => ("✗ ", Tone::Failing),
        Emphasis::RootCause => ("◆ ", Tone::Cause),
        Emphasis::Context if step.static_only => ("◌ ", Tone::Dim),
        Emphasis::Context => ("  ", Tone::Dim),
    };
    let text = match escape::visible(&step.statement.text, STATEMENT_LIMIT) {
        empty if empty.is_empty() => "(its source is not at hand)".to_owned(),
        text => text,
    };
    let line = Line::of(tone, mark).with(tone, text);
    let Some(touch) = right else {
        return line.fitted(room);
    };
    let mut line = line.fitted(room.saturating_sub(3));
    let dashes = room.saturating_sub(line.width() + 2);
    let head = match touch {
        Touch::Arrives => " ◀",
        Touch::Leaves => " ─",
    };
    line.push(Tone::Cause, format!("{head}{}", "─".repeat(dashes)));
    line
}

/// What stands below a statement.
fn details(sketch: &FailureSketch, step: &SketchStep, room: usize) -> Vec<Line> {
    let at = |file: &str| format!("{}:{}", file, step.statement.location.line);
    let mut lines = vec![Line::of(
        Tone::Dim,
        format!(
            "  {} {}",
            escape::visible(&step.statement.function, NAME_LIMIT),
            at(&escape::visible(
                step.statement.location.file_name(),
                NAME_LIMIT
            )),
        ),
    )];
    for value in &step.values {
        let tone = if facts::is_telling(sketch, step, value) {
            Tone::Cause
        } else {
            Tone::Value
        };
        let line = Line::of(
            tone,
            format!(
                "  {} {} {}",
                escape::visible(&value.of, NAME_LIMIT),
                facts::value_sign(value),
                escape::visible(&value.shown, NAME_LIMIT),
            ),
        );
        let mark = "≈ may be stale";
        if value.exact {
            lines.push(line);
        } else if line.width() + 2 + escape::width(mark) <= room {
            lines.push(line.with(Tone::Dim, format!("  {mark}")));
        } else {
            // The mark must survive a long value.
            lines.extend([line, Line::of(Tone::Dim, format!("    {mark}"))]);
        }
    }
    if step.emphasis == Emphasis::Failing {
        lines.push(Line::of(Tone::Failing, "  ✗ FAILS HERE"));
        if facts::is_root_cause(sketch, step) {
            lines.push(Line::of(Tone::Cause, "  ◆ root cause"));
        }
    }
    let before = facts::ran_before(sketch, step);
    if !before.is_empty() {
        let note = format!("◆ ran before {}", facts::step_list(&before));
        lines.extend(indented(Tone::Cause, &note, room));
    }
    for note in facts::notes(sketch, step) {
        lines.extend(indented(Tone::Dim, &note, room));
    }
    lines
}

fn indented(tone: Tone, text: &str, room: usize) -> impl Iterator<Item = Line> {
    escape::wrap(text, room.saturating_sub(2))
        .into_iter()
        .map(move |l| Line::of(tone, format!("  {l}")))
}
