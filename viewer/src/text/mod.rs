//! The sketch for a terminal, fitting its width.

pub(crate) mod evidence;
pub(crate) mod line;
pub(crate) mod steps;

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::facts;
use crate::headline;
use evidence::hanging;
use line::{Line, Tone};
use sketch_model::FailureSketch;

/// Below this nothing would be readable; the terminal wraps instead.
const NARROWEST: usize = 60;

/// The sketch as lines of at most `width` cells (at least 60), each ended by a newline.
pub fn text(sketch: &FailureSketch, width: usize, color: bool) -> String {
    let width = width.max(NARROWEST);
    let mut lines = head(sketch, width);
    lines.push(Line::new());
    lines.extend(steps::draw(sketch, width));
    let sections = [
        (
            "What separates failing from successful runs",
            evidence::predictors(sketch, width),
        ),
        ("Where this comes from", evidence::provenance(sketch, width)),
        ("What is not known", evidence::gaps(sketch, width)),
        ("Stack of the failure", evidence::stack(sketch, width)),
    ];
    for (title, section) in sections {
        if !section.is_empty() {
            lines.push(Line::new());
            lines.push(Line::of(Tone::Strong, title));
            lines.extend(section);
        }
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(&line.render(color));
        out.push('\n');
    }
    out
}

fn head(sketch: &FailureSketch, width: usize) -> Vec<Line> {
    let mut lines = hanging(
        "✗ ",
        &escape::visible(&sketch.title, SENTENCE_LIMIT),
        Tone::Failing,
        width,
    );
    let tone = if sketch.settled {
        Tone::Good
    } else {
        Tone::Cause
    };
    lines.push(
        Line::of(tone, format!("  {}", facts::state(sketch)))
            .with(
                Tone::Dim,
                format!(
                    " · {} · campaign {} · sketch {}",
                    escape::visible(&sketch.program, NAME_LIMIT),
                    sketch.campaign,
                    sketch.version
                ),
            )
            .fitted(width),
    );
    lines.push(Line::new());
    if let Some(what) = headline::what_failed(sketch) {
        let what = escape::visible(&what, SENTENCE_LIMIT);
        lines.extend(hanging("  ", &what, Tone::Plain, width));
        lines.push(Line::new());
    }
    if let Some(said) = &sketch.said {
        let said = format!("It said: {}", escape::visible(said, SENTENCE_LIMIT));
        lines.extend(hanging("  ", &said, Tone::Plain, width));
        lines.push(Line::new());
    }
    lines.extend(hanging(
        "  ",
        &escape::visible(&sketch.summary, SENTENCE_LIMIT),
        Tone::Strong,
        width,
    ));
    lines
}

/// The drawing alone, without colour: for a ticket.
pub fn drawing(sketch: &FailureSketch, width: usize) -> String {
    steps::draw(sketch, width)
        .iter()
        .map(|l| l.render(false))
        .collect::<Vec<_>>()
        .join("\n")
}
