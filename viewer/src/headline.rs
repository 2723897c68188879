//! What failed, in plain words: for someone who has never seen the tool.
//!
//! The model's title names the signal and the place; here the signal is said in
//! words, the statement is quoted, and the value that it saw stands with it.

use crate::facts;
use sketch_model::{FailureSketch, OrderPattern, Predictor, PredictorClass, SketchStep};

/// "`unlock(q->mut);` in consumer read queue.mut = NULL and accessed invalid memory."
/// Backticks mark code. `None` if the sketch has no failing step.
pub fn what_failed(sketch: &FailureSketch) -> Option<String> {
    let step = facts::failing_step(sketch)?;
    let statement = &step.statement;
    let subject = match statement.text.as_str() {
        "" => format!("The code at {}", statement.location),
        text => format!("`{}`", text.replace('`', "'")),
    };
    let thread = sketch.threads.iter().find(|t| t.index == step.thread);
    let thread = match thread {
        Some(thread) if thread.role != statement.function => {
            format!(", run by thread {},", thread.role)
        }
        _ => String::new(),
    };
    let saw = match value_seen(sketch, step) {
        Some((of, value)) => format!("read {of} = {value} and "),
        None => String::new(),
    };
    Some(format!(
        "{subject} in {}(){thread} {saw}{}.",
        statement.function,
        in_words(kind(sketch))
    ))
}

/// The value that tells failing from successful runs, else a NULL that was read.
fn value_seen<'a>(sketch: &FailureSketch, step: &'a SketchStep) -> Option<(&'a str, &'a str)> {
    let read = |telling: bool| {
        step.values.iter().find(|v| {
            !v.written
                && if telling {
                    facts::is_telling(sketch, step, v)
                } else {
                    v.shown == "NULL"
                }
        })
    };
    let value = read(true).or_else(|| read(false))?;
    Some((&value.of, &value.shown))
}

/// "SIGSEGV" of "SIGSEGV in consumer (pbzip2.c:120)".
fn kind(sketch: &FailureSketch) -> &str {
    let title = sketch.title.as_str();
    title.split_once(" in ").map_or(title, |(kind, _)| kind)
}

fn in_words(kind: &str) -> String {
    match kind {
        "SIGSEGV" => "accessed invalid memory (SIGSEGV)".to_owned(),
        "SIGBUS" => "accessed memory that has no backing (SIGBUS)".to_owned(),
        "SIGABRT" => "aborted: a check of the program or of its heap failed (SIGABRT)".to_owned(),
        "SIGFPE" => "divided by zero or overflowed (SIGFPE)".to_owned(),
        "SIGILL" => "executed an illegal instruction (SIGILL)".to_owned(),
        "SIGTRAP" => "executed a trap instruction (SIGTRAP)".to_owned(),
        kind if kind.starts_with("exit code") => format!("ended the program with {kind}"),
        "hang" => "waits forever (hang)".to_owned(),
        kind => format!("failed with {kind}"),
    }
}

/// What sort of bug the leading predictor speaks of; `None` while nothing does.
pub fn sort_of_bug(sketch: &FailureSketch) -> Option<String> {
    let leading = facts::leading(sketch).filter(|p| facts::separates(p))?;
    Some(match &leading.predictor {
        Predictor::Order { pattern, .. } => {
            let sort = match pattern {
                OrderPattern::Rwr | OrderPattern::Wwr | OrderPattern::Rww | OrderPattern::Wrw => {
                    "atomicity violation"
                }
                OrderPattern::Ww | OrderPattern::Wr | OrderPattern::Rw => "order violation",
                OrderPattern::Rws => "missed wakeup",
            };
            format!("concurrency bug: {sort} ({pattern})")
        }
        // Of other classes the page says no more than what they compete with.
        _ => match leading.class {
            PredictorClass::Lifetime => "use after free".to_owned(),
            PredictorClass::Order => "concurrency bug".to_owned(),
            PredictorClass::Value => "depends on a value".to_owned(),
            PredictorClass::Branch => "depends on the path taken".to_owned(),
        },
    })
}
