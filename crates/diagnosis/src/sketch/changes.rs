//! Whether two sketches of one campaign show a reader the same thing.
//!
//! Every failing run moves the counts beside a sketch. A version for each of them
//! would bury the few in which the answer changed, so a sketch whose picture is
//! the same replaces its predecessor under the same number. Figures do not make a
//! picture: counts, rates, intervals, how often a statement ran, addresses that
//! differ in every run. What is compared is which statements, in which threads,
//! in which order, with which marks, which predictors in which order, and the
//! words around them.

use sketch_model::{FailureSketch, Gap, SketchStep, SketchThread, SketchValue};

/// Whether `b` shows what `a` shows, figures aside.
pub fn same_picture(a: &FailureSketch, b: &FailureSketch) -> bool {
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
            provenance.tier,
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
