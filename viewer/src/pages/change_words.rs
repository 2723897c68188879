//! What changed from one version of a sketch to the next, in sentences.
//!
//! Numbers that grow with every run (counts, intervals) are columns of the table
//! of versions, not changes; the leading predictor's F is both.

use crate::changes::{Change, changes};
use crate::facts;
use crate::numbers::share;
use sketch_model::{FailureSketch, SketchStep};

/// New statements are named up to this many, the others counted.
const NAMED: usize = 4;

/// Most important first; empty if only the counts changed. Backticks mark code.
pub fn change_words(before: &FailureSketch, after: &FailureSketch) -> Vec<String> {
    let changes = changes(before, after);
    let mut said: Vec<String> = changes.iter().map(sentence).collect();
    let settled = usize::from(changes.first() == Some(&Change::Settled));
    if let Some(moved) = moved(before, after) {
        said.insert(settled, moved);
    }
    said
}

fn sentence(change: &Change<'_>) -> String {
    match change {
        Change::Settled => "The diagnosis has settled.".to_owned(),
        Change::Leading {
            before: None,
            after,
        } => format!(
            "There is a first predictor, F {}.",
            share(after.score.f_measure)
        ),
        Change::Leading {
            before: Some(before),
            after,
        } => format!(
            "Another predictor leads, F {} after {}.",
            share(after.score.f_measure),
            share(before.score.f_measure)
        ),
        Change::Sigma { before, after } => format!("σ went from {before} to {after}."),
        Change::Iteration(number) => {
            format!("Iteration {number} began: runs are counted anew.")
        }
        Change::FirstRunDrawn => "The first failing run of a tracked build is drawn.".to_owned(),
        Change::Drawn(steps) => named("new", steps),
        Change::NoLongerDrawn(steps) => named("gone", steps),
        Change::NotKnown(gap) => format!("New gap: {gap}"),
        Change::Details => "Details of the drawing changed.".to_owned(),
    }
}

/// The same predictor leads, with another F.
fn moved(before: &FailureSketch, after: &FailureSketch) -> Option<String> {
    let (old, new) = (facts::leading(before)?, facts::leading(after)?);
    let (from, to) = (share(old.score.f_measure), share(new.score.f_measure));
    (old.predictor == new.predictor && from != to)
        .then(|| format!("The leading predictor's F went from {from} to {to}."))
}

/// "2 statements new: `a = b;` (x.c:3, found by a watchpoint), …"
fn named(what: &str, steps: &[&SketchStep]) -> String {
    let mut words: Vec<String> = steps
        .iter()
        .take(NAMED)
        .map(|s| {
            let found = if s.discovered {
                ", found by a watchpoint"
            } else {
                ""
            };
            let text = s.statement.text.replace('`', "'");
            format!("`{text}` ({}{found})", s.statement.location)
        })
        .collect();
    if steps.len() > NAMED {
        words.push(format!("and {} more", steps.len() - NAMED));
    }
    let plural = if steps.len() == 1 { "" } else { "s" };
    format!(
        "{} statement{plural} {what}: {}.",
        steps.len(),
        words.join(", ")
    )
}
