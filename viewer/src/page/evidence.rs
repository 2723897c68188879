//! What stands around the drawing on the page: how well the difference holds,
//! the predictors, where the figures come from, and what is not known.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::numbers::{self, counted, interval, probability, share};
use crate::prose;
use crate::shell::sentence;
use crate::table::{Name, figure, short, table, words};
use maud::{Markup, html};
use sketch_model::{FailureSketch, Score, SketchPredictor};

/// In how many runs it held: the difference at a glance.
pub fn at_a_glance(score: &Score) -> Markup {
    let s = score.support;
    html! {
        dl.glance {
            div.in-failing {
                dt { "It held in" }
                dd { b { (numbers::failing_support(score)) } " failing runs" (bar(s.failing_true, s.failing_observed())) }
            }
            div.in-successful {
                dt { "and in" }
                dd { b { (numbers::successful_support(score)) } " successful runs" (bar(s.successful_true, s.successful_observed())) }
            }
        }
    }
}

/// A share as a bar. Attributes of SVG are not styles, so the policy allows them.
fn bar(part: u64, whole: u64) -> Markup {
    let percent = if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    };
    html! {
        svg.bar aria-hidden="true" {
            rect.whole width="100%" height="100%" rx="4" {}
            rect.part width=(format!("{percent:.1}%")) height="100%" rx="4" {}
        }
    }
}

/// All predictors, with their figures.
pub fn predictors(sketch: &FailureSketch) -> Markup {
    let numbered = sketch.predictors.iter().enumerate();
    let (best, others): (Vec<_>, Vec<_>) = numbered.partition(|(_, p)| p.best);
    html! {
        section.panel aria-labelledby="predictors" {
            h2 #predictors { "What separates failing from successful runs" }
            @if sketch.predictors.is_empty() {
                p.empty { "No predictor yet: failing and successful runs of the tracked build are needed." }
            } @else {
                (figures(&best))
                @if !others.is_empty() {
                    details.others {
                        summary { (counted(others.len() as u64, "more predictor")) span.fine { "not the best of their class" } }
                        (figures(&others))
                    }
                }
                p.fine { (prose::FIGURES) }
            }
        }
    }
}

fn figures(predictors: &[(usize, &SketchPredictor)]) -> Markup {
    html! {
        (table(Name::Is("Predictors"), None, html! {
            (words("Difference")) (words("Failing runs")) (words("Successful runs")) (figure("Precision"))
            (figure("Recall")) (short("F", "F-measure with β = 0.5")) (short("p", "corrected p-value"))
        }, html! { @for (i, p) in predictors { (row(*i, p)) } }))
    }
}

fn row(i: usize, p: &SketchPredictor) -> Markup {
    let s = &p.score;
    html! {
        tr id={ "predictor-" (i + 1) } class=[p.best.then_some("best")] {
            th scope="row" {
                span class={ "class " (p.class) } { @if p.best { "★ best " } (p.class) }
                span.says { (sentence(&p.sentence)) }
                @for note in prose::predictor_notes(p) { span.fine { (note) } }
            }
            td.in-failing data-label="Failing runs" { (numbers::failing_support(s)) (bar(s.support.failing_true, s.support.failing_observed())) }
            td.in-successful data-label="Successful runs" { (numbers::successful_support(s)) (bar(s.support.successful_true, s.support.successful_observed())) }
            td.figure data-label="Precision" { b { (share(s.precision)) } span.interval { (interval(s.precision_interval)) } }
            td.figure data-label="Recall" { b { (share(s.recall)) } span.interval { (interval(s.recall_interval)) } }
            td.figure data-label="F" { b { (share(s.f_measure)) } }
            td.figure data-label="p" { (probability(s.corrected_p)) }
        }
    }
}

/// Where the figures come from, and what is not known.
pub fn provenance(sketch: &FailureSketch) -> Markup {
    html! {
        div.pair {
            section.panel aria-labelledby="provenance" {
                h2 #provenance { "Where this comes from" }
                dl.facts {
                    @for (label, fact) in prose::provenance(sketch) {
                        dt { (label) }
                        dd { (escape::visible(&fact, SENTENCE_LIMIT)) }
                    }
                }
            }
            section.panel aria-labelledby="gaps" {
                h2 #gaps { "What is not known" }
                ul.gaps { @for gap in prose::gaps(sketch) { li { (sentence(&gap)) } } }
            }
        }
    }
}

/// The failing stack, folded: most readers do not need it any more.
pub fn stack(sketch: &FailureSketch) -> Markup {
    html! {
        @if !sketch.stack.is_empty() {
            details.panel {
                summary { "Stack of the failure" span.fine { (counted(sketch.stack.len() as u64, "frame")) } }
                ol.stack start="0" {
                    @for frame in &sketch.stack { li { code { (escape::visible(frame, NAME_LIMIT)) } } }
                }
            }
        }
    }
}
