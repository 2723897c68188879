//! What changed from one version of a sketch to the next: the one comparison of two
//! sketches.
//!
//! Every failing run moves the counts beside a sketch. A version for each of them
//! would bury the few in which the answer changed, so the server gives a sketch
//! without changes the number of its predecessor; the page of versions words the
//! changes of the others. Figures are no changes: counts, rates, intervals, how often
//! a statement ran, addresses that differ in every run. What is compared is which
//! statements, in which threads, in which order, with which marks, which predictors in
//! which order, and the words around them.
//!
//! It stands in this crate because the server and the pages both use it, and neither
//! the diagnosis nor this crate may know the other.

use crate::facts;
use sketch_model::{
    FailureSketch, Gap, SketchPredictor, SketchStep, SketchThread, SketchValue, StatementId,
};
use std::collections::BTreeSet;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'a> {
    Settled,
    /// Another predictor is the answer, or there is a first one.
    Leading {
        before: Option<&'a SketchPredictor>,
        after: &'a SketchPredictor,
    },
    Sigma {
        before: u32,
        after: u32,
    },
    Iteration(u32),
    /// Until then the slice alone was drawn.
    FirstRunDrawn,
    /// Steps of statements that were not drawn before, or are not any more.
    Drawn(Vec<&'a SketchStep>),
    NoLongerDrawn(Vec<&'a SketchStep>),
    /// A gap that was not there before.
    NotKnown(&'a Gap),
    /// Nothing of these, but something that a reader sees.
    Details,
}

/// Most important first; empty if `new` shows what `old` shows, figures aside.
pub fn changes<'a>(old: &'a FailureSketch, new: &'a FailureSketch) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    if new.settled && !old.settled {
        changes.push(Change::Settled);
    }
    let before = facts::leading(old);
    if let Some(after) = facts::leading(new)
        && before.is_none_or(|before| before.predictor != after.predictor)
    {
        changes.push(Change::Leading { before, after });
    }
    let (before, after) = (old.provenance.sigma, new.provenance.sigma);
    if before != after {
        changes.push(Change::Sigma { before, after });
    }
    if old.provenance.iteration != new.provenance.iteration {
        changes.push(Change::Iteration(new.provenance.iteration));
    }
    if old.provenance.drawn_run.is_none() && new.provenance.drawn_run.is_some() {
        changes.push(Change::FirstRunDrawn);
    }
    let drawn = only_in(new, old);
    if !drawn.is_empty() {
        changes.push(Change::Drawn(drawn));
    }
    let gone = only_in(old, new);
    if !gone.is_empty() {
        changes.push(Change::NoLongerDrawn(gone));
    }
    let known: Vec<Gap> = old.gaps.iter().map(Gap::without_figures).collect();
    let gaps = new.gaps.iter();
    let unknown = gaps.filter(|gap| !known.contains(&gap.without_figures()));
    changes.extend(unknown.map(Change::NotKnown));
    if changes.is_empty() && !looks_the_same(old, new) {
        changes.push(Change::Details);
    }
    changes
}

/// The first steps of the statements that one sketch draws and another does not.
fn only_in<'a>(sketch: &'a FailureSketch, other: &FailureSketch) -> Vec<&'a SketchStep> {
    let id = |step: &SketchStep| step.statement.id;
    let mut seen: BTreeSet<StatementId> = other.steps.iter().map(id).collect();
    let steps = sketch.steps.iter();
    steps.filter(|step| seen.insert(id(step))).collect()
}

fn looks_the_same(a: &FailureSketch, b: &FailureSketch) -> bool {
    let words = |s: &FailureSketch| {
        let provenance = &s.provenance;
        let gaps: Vec<Gap> = s.gaps.iter().map(Gap::without_figures).collect();
        (
            s.title.clone(),
            without_figures(&s.summary),
            s.settled,
            gaps,
            provenance.control_flow.clone(),
            provenance.privacy.clone(),
        )
    };
    let asked = |s: &FailureSketch| {
        let provenance = &s.provenance;
        (
            provenance.iteration,
            provenance.sigma,
            provenance.slice_statements,
            provenance.capabilities.clone(),
        )
    };
    words(a) == words(b)
        && asked(a) == asked(b)
        && a.said == b.said
        && a.stack == b.stack
        && a.provenance.watched == b.provenance.watched
        && a.provenance.promoted == b.provenance.promoted
        && a.arrows == b.arrows
        && alike(&a.threads, &b.threads, same_thread)
        && alike(&a.steps, &b.steps, same_step)
        && alike(&a.predictors, &b.predictors, |a, b| {
            (a.class, a.best, &a.predictor) == (b.class, b.best, &b.predictor)
        })
}

fn alike<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// The kernel's number of a thread is another in each run.
fn same_thread(a: &SketchThread, b: &SketchThread) -> bool {
    (a.index, &a.role, &a.created_at) == (b.index, &b.role, &b.created_at)
}

fn same_step(a: &SketchStep, b: &SketchStep) -> bool {
    let marks = |s: &SketchStep| (s.emphasis, s.discovered, s.static_only);
    a.number == b.number
        && a.thread == b.thread
        && a.statement == b.statement
        && marks(a) == marks(b)
        && a.unordered_with == b.unordered_with
        && alike(&a.values, &b.values, same_value)
}

fn same_value(a: &SketchValue, b: &SketchValue) -> bool {
    let address = |v: &SketchValue| v.shown.starts_with("0x");
    (&a.of, a.exact, a.written) == (&b.of, b.exact, b.written)
        && (a.shown == b.shown || (address(a) && address(b)))
}

/// A sentence with each number as one `#`.
fn without_figures(sentence: &str) -> String {
    let mut words = String::new();
    let mut figure = false;
    for c in sentence.chars() {
        let digit = c.is_ascii_digit() || (figure && matches!(c, '.' | '%'));
        if !digit {
            words.push(c);
        } else if !figure {
            words.push('#');
        }
        figure = digit;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_a_sentence_count() {
        let (before, after) = (
            "held in 3 of 4 runs (75%).",
            "held in 12 of 13 runs (92.3%).",
        );
        assert_eq!(without_figures(before), without_figures(after));
        assert_ne!(without_figures("plan 0"), without_figures("no plan"));
    }
}
