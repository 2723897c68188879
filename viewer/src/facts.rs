//! What a sketch says of each of its steps, worked out once for every surface.
//!
//! The model keeps steps, arrows and predictors apart; a reader wants them
//! together: this statement is named by the best predictor, it ran before step
//! 8, and *this* value is the one that only failing runs saw.

use crate::routing::Arrow;
use sketch_model::{
    Emphasis, FailureSketch, Predictor, SketchPredictor, SketchStep, SketchThread, SketchValue,
    ThreadIndex,
};

/// The threads that have a step, in the order of the sketch, and with them any
/// that a step names and the sketch does not list.
pub fn columns(sketch: &FailureSketch) -> Vec<SketchThread> {
    let mut columns: Vec<SketchThread> = sketch
        .threads
        .iter()
        .filter(|t| sketch.steps.iter().any(|s| s.thread == t.index))
        .cloned()
        .collect();
    for step in &sketch.steps {
        if !columns.iter().any(|t| t.index == step.thread) {
            columns.push(SketchThread {
                index: step.thread,
                role: "unknown thread".to_owned(),
                tid: 0,
                created_at: Vec::new(),
            });
        }
    }
    columns
}

/// The column of a thread.
pub fn column_of(columns: &[SketchThread], thread: ThreadIndex) -> usize {
    columns.iter().position(|t| t.index == thread).unwrap_or(0)
}

/// The threads of the sketch without a step: they have no column, and the page lists them.
pub fn idle_threads(sketch: &FailureSketch) -> Vec<&SketchThread> {
    sketch
        .threads
        .iter()
        .filter(|t| !sketch.steps.iter().any(|s| s.thread == t.index))
        .collect()
}

/// Whether the best predictor of a class names this step.
pub fn is_root_cause(sketch: &FailureSketch, step: &SketchStep) -> bool {
    match step.emphasis {
        Emphasis::RootCause => true,
        Emphasis::Context => false,
        // The failing statement can be named as well; its emphasis cannot say both.
        Emphasis::Failing => !named_by(sketch, step).is_empty(),
    }
}

/// The best predictors that this step is part of, by their position in the sketch.
pub fn named_by(sketch: &FailureSketch, step: &SketchStep) -> Vec<usize> {
    if step.emphasis == Emphasis::Context {
        return Vec::new();
    }
    let by_arrow = |i: usize| {
        sketch.arrows.iter().any(|a| {
            a.predictor as usize == i && (a.from_step == step.number || a.to_step == step.number)
        })
    };
    let drawn = |i: usize| sketch.arrows.iter().any(|a| a.predictor as usize == i);
    let numbered = sketch.predictors.iter().enumerate();
    numbered
        .filter(|(i, p)| {
            let named = p.predictor.statements().contains(&step.statement.id);
            // An order that is drawn names the steps at its arrows and no others.
            by_arrow(*i) || (p.best && named && !drawn(*i) && separates(p))
        })
        .map(|(i, _)| i)
        .collect()
}

/// Whether it does better than saying of every run that it fails.
pub fn separates(p: &SketchPredictor) -> bool {
    let s = p.score.support;
    let held = s.failing_true + s.successful_true;
    let all = s.failing_observed() + s.successful_observed();
    u128::from(s.failing_true) * u128::from(all)
        > u128::from(s.failing_observed()) * u128::from(held)
}

/// The best value predictor that speaks of this value at this step.
pub fn telling(sketch: &FailureSketch, step: &SketchStep, value: &SketchValue) -> Option<usize> {
    sketch.predictors.iter().position(|p| {
        p.best
            && separates(p)
            && matches!(&p.predictor, Predictor::Value { statement, location, .. }
                if *statement == step.statement.id && location.to_string() == value.of)
    })
}

/// The same, yes or no.
pub fn is_telling(sketch: &FailureSketch, step: &SketchStep, value: &SketchValue) -> bool {
    telling(sketch, step, value).is_some()
}

/// The predictor that the answer rests on: the arrow's, else the best of all.
pub fn leading(sketch: &FailureSketch) -> Option<&SketchPredictor> {
    let of_arrow = sketch
        .arrows
        .first()
        .and_then(|a| sketch.predictors.get(a.predictor as usize));
    of_arrow.or_else(|| {
        sketch
            .predictors
            .iter()
            .filter(|p| p.best)
            .max_by(|a, b| a.score.f_measure.total_cmp(&b.score.f_measure))
    })
}

/// The step that fails.
pub fn failing_step(sketch: &FailureSketch) -> Option<&SketchStep> {
    let mut backward = sketch.steps.iter().rev();
    backward.find(|s| s.emphasis == Emphasis::Failing)
}

/// "queue.mut ← NULL" for a write, "queue.mut = NULL" for a read.
pub fn value_sign(value: &SketchValue) -> &'static str {
    if value.written { "←" } else { "=" }
}

/// The arrows by row and column. One that names a step the sketch does not have is left out.
pub fn arrows(sketch: &FailureSketch, column: impl Fn(&SketchStep) -> usize) -> Vec<Arrow> {
    let end = |number: u32| {
        let row = sketch.steps.iter().position(|s| s.number == number)?;
        Some((row, column(&sketch.steps[row])))
    };
    sketch
        .arrows
        .iter()
        .filter(|a| a.from_step != a.to_step)
        .filter_map(|a| {
            Some(Arrow {
                from: end(a.from_step)?,
                to: end(a.to_step)?,
            })
        })
        .collect()
}

/// The steps before which this one ran, by an arrow.
pub fn ran_before(sketch: &FailureSketch, step: &SketchStep) -> Vec<u32> {
    let mut later: Vec<u32> = sketch
        .arrows
        .iter()
        .filter(|a| a.from_step == step.number)
        .map(|a| a.to_step)
        .collect();
    later.sort_unstable();
    later.dedup();
    later
}

/// "step 4" or "steps 4, 6".
pub fn step_list(steps: &[u32]) -> String {
    let numbers: Vec<String> = steps.iter().map(u32::to_string).collect();
    let plural = if steps.len() == 1 { "" } else { "s" };
    format!("step{plural} {}", numbers.join(", "))
}

/// What else a reader must know of a step, in words, most important first.
pub fn notes(sketch: &FailureSketch, step: &SketchStep) -> Vec<String> {
    let mut notes = Vec::new();
    if !step.unordered_with.is_empty() {
        notes.push(format!(
            "∥ order with {} is not proven",
            step_list(&step.unordered_with)
        ));
    }
    if step.times > 1 {
        notes.push(format!("ran {} times, the last is shown", step.times));
    }
    if step.discovered {
        notes.push("found by a watchpoint, not by the slice".to_owned());
    }
    if step.static_only {
        let run = if sketch.provenance.drawn_run.is_some() {
            "in this run"
        } else {
            "yet"
        };
        notes.push(format!("in the slice, not recorded {run}"));
    }
    notes
}

/// Whether the step's function differs from that of the step before it in the
/// same thread. The first step of a thread begins its function.
pub fn begins_function(steps: &[SketchStep], row: usize) -> bool {
    let step = &steps[row];
    steps[..row]
        .iter()
        .rev()
        .find(|s| s.thread == step.thread)
        .is_none_or(|previous| previous.statement.function != step.statement.function)
}

/// The build-id's beginning: enough to tell builds apart.
pub fn short_build(sketch: &FailureSketch) -> String {
    sketch.build.0.chars().take(12).collect()
}

/// Whether the diagnosis is over, in one word or two.
pub fn state(sketch: &FailureSketch) -> &'static str {
    if sketch.settled {
        "settled"
    } else {
        "still tracking"
    }
}
