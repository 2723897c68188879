//! Which steps are folded away until the reader asks for them.
//!
//! A step that no predictor names and no arrow touches only leads up to the
//! failure. Two or more of them in a row become one line that says what it holds;
//! a single one takes no more room than that line would, so it stays. Before
//! there is an answer such steps are all there is to read, and a short sketch is
//! then left whole.

use crate::facts;
use sketch_model::{Emphasis, FailureSketch, SketchStep};
use std::ops::Range;

/// Without an answer, a sketch up to this long is shown whole.
const SHORT: usize = 30;
/// Fewer in a row are not worth a line of their own.
const WORTH_FOLDING: usize = 2;

/// A piece of the drawing, by rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    Shown(usize),
    Folded(Range<usize>),
}

/// The steps in their order, those that only lead up to the failure together.
pub fn groups(sketch: &FailureSketch) -> Vec<Group> {
    let answered = sketch.steps.iter().any(|s| facts::is_root_cause(sketch, s));
    let fold = answered || sketch.steps.len() > SHORT;
    let mut groups = Vec::new();
    let mut row = 0;
    while row < sketch.steps.len() {
        let rest = &sketch.steps[row..];
        let run = match fold {
            true => rest.iter().take_while(|s| leads_up(sketch, s)).count(),
            false => 0,
        };
        if run >= WORTH_FOLDING {
            groups.push(Group::Folded(row..row + run));
            row += run;
        } else {
            groups.push(Group::Shown(row));
            row += 1;
        }
    }
    groups
}

fn leads_up(sketch: &FailureSketch, step: &SketchStep) -> bool {
    let touched = sketch
        .arrows
        .iter()
        .any(|a| a.from_step == step.number || a.to_step == step.number);
    step.emphasis == Emphasis::Context && !touched
}

/// What a folded line must not keep to itself, in words.
pub fn doubts(steps: &[SketchStep]) -> Vec<String> {
    let count = |f: &dyn Fn(&SketchStep) -> bool| steps.iter().filter(|s| f(s)).count();
    let unordered = count(&|s| !s.unordered_with.is_empty());
    let stale = count(&|s| s.values.iter().any(|v| !v.exact));
    let unrecorded = count(&|s| s.static_only);
    [
        (unordered, "∥", "in an order that is not proven"),
        (stale, "≈", "with a value that may be stale"),
        (unrecorded, "◌", "not recorded"),
    ]
    .into_iter()
    .filter(|(n, _, _)| *n > 0)
    .map(|(n, sign, words)| format!("{sign} {n} {words}"))
    .collect()
}
