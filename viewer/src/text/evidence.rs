//! What stands below the drawing, for a terminal: the predictors with their
//! figures, where the figures come from, and what is not known.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::numbers::{self, interval, probability, share};
use crate::prose;
use crate::text::line::{Line, Tone};
use sketch_model::{FailureSketch, SketchPredictor};

/// The predictors: a table where it fits, otherwise a paragraph for each.
pub fn predictors(sketch: &FailureSketch, width: usize) -> Vec<Line> {
    if sketch.predictors.is_empty() {
        return vec![Line::of(
            Tone::Dim,
            "  No predictor yet: failing and successful runs of the tracked build are needed.",
        )]
        .into_iter()
        .map(|l| l.fitted(width))
        .collect();
    }
    let mut table = vec![
        [
            "class",
            "precision",
            "recall",
            "F",
            "failing",
            "successful",
            "p",
        ]
        .map(str::to_owned),
    ];
    table.extend(sketch.predictors.iter().map(figures));
    let mut widths = [0; 7];
    for row in &table {
        for (i, cell) in row.iter().enumerate() {
            widths[i] = widths[i].max(escape::width(cell));
        }
    }
    let needed = 2 + widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    let as_table = needed <= width;

    let row = |cells: &[String; 7]| -> String {
        cells
            .iter()
            .zip(widths)
            .map(|(cell, w)| format!("{cell}{}", " ".repeat(w - escape::width(cell))))
            .collect::<Vec<_>>()
            .join("  ")
    };
    let mut lines = Vec::new();
    if as_table {
        lines.push(Line::of(Tone::Dim, format!("  {}", row(&table[0]))));
    }
    for (predictor, cells) in sketch.predictors.iter().zip(&table[1..]) {
        let (star, tone) = if predictor.best {
            ("★ ", Tone::Cause)
        } else {
            ("  ", Tone::Plain)
        };
        if as_table {
            lines.push(Line::of(tone, format!("{star}{}", row(cells))));
        } else {
            let [class, precision, recall, f, failing, successful, p] = cells;
            let words = format!(
                "{class}: precision {precision}, recall {recall}, F {f}, held in {failing} \
                 failing and {successful} successful runs, p {p}"
            );
            lines.extend(hanging(star, &words, tone, width));
        }
        let sentence = escape::visible(&predictor.sentence, SENTENCE_LIMIT);
        lines.extend(hanging("  ", &sentence, Tone::Plain, width));
        for note in prose::predictor_notes(predictor) {
            lines.extend(hanging("  ", &note, Tone::Dim, width));
        }
    }
    lines.extend(hanging("  ", prose::FIGURES, Tone::Dim, width));
    lines
}

fn figures(predictor: &SketchPredictor) -> [String; 7] {
    let score = &predictor.score;
    [
        predictor.class.to_string(),
        format!(
            "{} ({})",
            share(score.precision),
            interval(score.precision_interval)
        ),
        format!(
            "{} ({})",
            share(score.recall),
            interval(score.recall_interval)
        ),
        share(score.f_measure),
        numbers::failing_support(score),
        numbers::successful_support(score),
        probability(score.corrected_p),
    ]
}

/// Where the figures come from.
pub fn provenance(sketch: &FailureSketch, width: usize) -> Vec<Line> {
    let facts = prose::provenance(sketch);
    let label_width = facts
        .iter()
        .map(|(l, _)| escape::width(l))
        .max()
        .unwrap_or(0);
    let mut lines = Vec::new();
    for (label, fact) in facts {
        let fact = escape::visible(&fact, SENTENCE_LIMIT);
        for (i, part) in escape::wrap(&fact, width.saturating_sub(label_width + 4))
            .into_iter()
            .enumerate()
        {
            let label = if i == 0 { label } else { "" };
            lines.push(
                Line::of(Tone::Dim, format!("  {label}"))
                    .padded(label_width + 4)
                    .with(Tone::Plain, part),
            );
        }
    }
    lines
}

/// The failing stack, innermost first.
pub fn stack(sketch: &FailureSketch, width: usize) -> Vec<Line> {
    sketch
        .stack
        .iter()
        .enumerate()
        .map(|(i, frame)| {
            let tone = if i == 0 { Tone::Strong } else { Tone::Plain };
            Line::of(Tone::Dim, format!("  #{i} "))
                .with(tone, escape::visible(frame, NAME_LIMIT))
                .fitted(width)
        })
        .collect()
}

/// What was lost, refused or not followed.
pub fn gaps(sketch: &FailureSketch, width: usize) -> Vec<Line> {
    prose::gaps(sketch)
        .iter()
        .flat_map(|gap| {
            hanging(
                "• ",
                &escape::visible(gap, SENTENCE_LIMIT),
                Tone::Plain,
                width,
            )
        })
        .collect()
}

/// A paragraph whose first line carries a mark.
pub fn hanging(mark: &str, text: &str, tone: Tone, width: usize) -> Vec<Line> {
    let indent = escape::width(mark);
    escape::wrap(text, width.saturating_sub(indent))
        .into_iter()
        .enumerate()
        .map(|(i, part)| {
            let lead = if i == 0 {
                mark.to_owned()
            } else {
                " ".repeat(indent)
            };
            Line::of(tone, lead).with(tone, part)
        })
        .collect()
}
