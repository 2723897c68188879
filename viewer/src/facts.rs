//! What a sketch says of each of its steps, worked out once for every surface.
//!
//! The model keeps steps, arrows and predictors apart; a reader wants them
//! together: this statement is named by the best predictor, it ran before step
//! 8, and *this* value is the one that only failing runs saw.

use crate::routing::Arrow;
use sketch_model::{
    Emphasis, FailureSketch, Predictor, SketchStep, SketchThread, SketchValue, ThreadIndex,
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
            });
        }
    }
    columns
}

/// The column of a thread.
pub fn column_of(columns: &[SketchThread], thread: ThreadIndex) -> usize {
    columns.iter().position(|t| t.index == thread).unwrap_or(0)
}

/// The threads of the sketch without a step: they have no column, and that is said.
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
        Emphasis::Failing => {
            let ends_arrow = sketch
                .arrows
                .iter()
                .any(|a| a.from_step == step.number || a.to_step == step.number);
            let named = sketch
                .predictors
                .iter()
                .any(|p| p.best && p.predictor.statements().contains(&step.statement.id));
            ends_arrow || named
        }
    }
}

/// Whether the best value predictor speaks of this value at this step.
pub fn is_telling(sketch: &FailureSketch, step: &SketchStep, value: &SketchValue) -> bool {
    sketch.predictors.iter().filter(|p| p.best).any(|p| {
        matches!(&p.predictor, Predictor::Value { statement, location, .. }
            if *statement == step.statement.id && location.to_string() == value.of)
    })
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
            "∥ no evidence of order against {}",
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
