//! What changed from one version of a sketch to the next, in sentences.
//!
//! Numbers that grow with every run (counts, intervals) are columns of the table
//! of versions, not changes.

use crate::facts;
use crate::numbers::share;
use sketch_model::{FailureSketch, SketchStep, StatementId};
use std::collections::BTreeSet;

/// New statements are named up to this many, the others counted.
const NAMED: usize = 4;

/// Most important first; empty if only counts have moved. Backticks mark code.
pub fn changes(before: &FailureSketch, after: &FailureSketch) -> Vec<String> {
    let mut said = Vec::new();
    if after.settled && !before.settled {
        said.push("The diagnosis settled.".to_owned());
    }
    said.extend(answer(before, after));
    let (b, a) = (&before.provenance, &after.provenance);
    if a.sigma != b.sigma {
        said.push(format!("σ went from {} to {}.", b.sigma, a.sigma));
    }
    if a.iteration != b.iteration {
        said.push(format!(
            "Iteration {} began: runs are counted anew.",
            a.iteration
        ));
    }
    if b.drawn_run.is_none() && a.drawn_run.is_some() {
        said.push("The first failing run of a tracked build is drawn.".to_owned());
    }
    let (old, new) = (statements(before), statements(after));
    let added = after
        .steps
        .iter()
        .filter(|s| !old.contains(&s.statement.id));
    said.extend(named("new", added));
    let gone = before
        .steps
        .iter()
        .filter(|s| !new.contains(&s.statement.id));
    said.extend(named("gone", gone));
    for gap in after.gaps.iter().filter(|gap| !before.gaps.contains(gap)) {
        said.push(format!("Newly not known: {gap}"));
    }
    said
}

fn answer(before: &FailureSketch, after: &FailureSketch) -> Option<String> {
    let (old, new) = (facts::leading(before), facts::leading(after)?);
    let f = new.score.f_measure;
    match old {
        None => Some(format!("A first predictor, F {}.", share(f))),
        Some(old) if old.predictor != new.predictor => Some(format!(
            "Another predictor leads, F {} after {}.",
            share(f),
            share(old.score.f_measure)
        )),
        Some(old) if share(old.score.f_measure) != share(f) => Some(format!(
            "The leading predictor's F went from {} to {}.",
            share(old.score.f_measure),
            share(f)
        )),
        Some(_) => None,
    }
}

fn statements(sketch: &FailureSketch) -> BTreeSet<StatementId> {
    sketch.steps.iter().map(|s| s.statement.id).collect()
}

/// "2 statements new: `a = b;` (x.c:3, found by a watchpoint), …"
fn named<'a>(what: &str, steps: impl Iterator<Item = &'a SketchStep>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let steps: Vec<&SketchStep> = steps.filter(|s| seen.insert(s.statement.id)).collect();
    if steps.is_empty() {
        return None;
    }
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
    Some(format!(
        "{} statement{plural} {what}: {}.",
        steps.len(),
        words.join(", ")
    ))
}
