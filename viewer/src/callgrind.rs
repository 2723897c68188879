//! The sketch in Callgrind's profile format, for KCachegrind and `callgrind_annotate`.
//!
//! What those tools call costs are, here, facts of the drawn run: how often a
//! statement ran, how many steps it is drawn as, and whether it is marked as root
//! cause or as failing. Calls are the creations of threads.
//! A function that several threads ran appears once for each, so that they stay
//! apart. The format: valgrind's manual, "Callgrind Format Specification", with
//! name compression, because a bare name that begins with a bracket would be
//! taken for a compressed one.
//!
//! Deliberately absent: values, order arrows and figures, for which the format
//! has no place.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::facts;
use sketch_model::{Emphasis, FailureSketch, SketchStep, SketchThread, SourceLocation};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Ran, drawn steps, root cause, failing.
type Costs = [u64; 4];

#[derive(Default)]
struct Function {
    costs: BTreeMap<u32, Costs>,
    /// By line of the call: the function called and the line it begins at.
    calls: Vec<(u32, Name, u32, u64)>,
}

/// File and function.
type Name = (String, String);

/// The sketch as a Callgrind profile.
pub fn callgrind(sketch: &FailureSketch) -> String {
    let threads = facts::columns(sketch);
    let mut functions: BTreeMap<Name, Function> = BTreeMap::new();
    for step in &sketch.steps {
        let function = functions.entry(name(sketch, &threads, step)).or_default();
        let line = step.statement.location.line;
        let costs = function.costs.entry(line).or_default();
        for (sum, cost) in costs.iter_mut().zip(costs_of(sketch, step)) {
            *sum += cost;
        }
    }
    thread_creations(sketch, &threads, &mut functions);

    let mut out = header(sketch);
    let mut files = Numbers::default();
    let mut names = Numbers::default();
    let mut totals: Costs = [0; 4];
    for ((file, function), body) in &functions {
        let _ = write!(out, "\nfl={}\nfn={}\n", files.of(file), names.of(function));
        for (line, costs) in &body.costs {
            let _ = writeln!(out, "{line} {}", words(costs));
            for (total, cost) in totals.iter_mut().zip(costs) {
                *total += cost;
            }
        }
        for (line, (file, callee), begins, count) in &body.calls {
            let inclusive = functions
                .get(&(file.clone(), callee.clone()))
                .map_or([0; 4], |f| sum(&f.costs));
            let _ = write!(
                out,
                "cfi={}\ncfn={}\ncalls={count} {begins}\n{line} {}\n",
                files.of(file),
                names.of(callee),
                words(&inclusive)
            );
        }
    }
    let _ = writeln!(out, "\ntotals: {}", words(&totals));
    out
}

fn header(sketch: &FailureSketch) -> String {
    let line = |text: &str| escape::visible(text, SENTENCE_LIMIT);
    format!(
        "# callgrind format\nversion: 1\ncreator: failsketch {}\ncmd: {}\npart: 1\n\
         desc: Failure: {}\ndesc: Difference: {}\ndesc: Sketch: campaign {}, version {}\n\
         positions: line\n\
         event: Ran : Times the statement ran in the drawn run\n\
         event: Steps : Steps of the sketch\n\
         event: Cause : Marked as root cause\n\
         event: Fails : Fails here\n\
         events: Ran Steps Cause Fails\n",
        env!("CARGO_PKG_VERSION"),
        line(&sketch.program),
        line(&sketch.title),
        line(&sketch.summary),
        sketch.campaign,
        sketch.version,
    )
}

fn costs_of(sketch: &FailureSketch, step: &SketchStep) -> Costs {
    [
        if step.static_only { 0 } else { step.times },
        1,
        u64::from(facts::is_root_cause(sketch, step)),
        u64::from(step.emphasis == Emphasis::Failing),
    ]
}

/// The step's file and function; with its thread where several threads ran it.
fn name(sketch: &FailureSketch, threads: &[SketchThread], step: &SketchStep) -> Name {
    let function = &step.statement.function;
    let mut others = sketch.steps.iter();
    let shared = others.any(|s| s.statement.function == *function && s.thread != step.thread);
    let shown = escape::visible(function, NAME_LIMIT);
    let function = if shared {
        let i = facts::column_of(threads, step.thread);
        let role = escape::visible(&threads[i].role, NAME_LIMIT);
        format!("{shown} [T{} {role}]", i + 1)
    } else {
        shown
    };
    (
        escape::visible(&step.statement.location.file, NAME_LIMIT),
        function,
    )
}

/// A thread's first drawn function is called by the function that created it.
fn thread_creations(
    sketch: &FailureSketch,
    threads: &[SketchThread],
    functions: &mut BTreeMap<Name, Function>,
) {
    for thread in threads {
        let mut steps = sketch.steps.iter();
        let Some(first) = steps.find(|s| s.thread == thread.index) else {
            continue;
        };
        let callee = name(sketch, threads, first);
        let begins = first.statement.location.line;
        for place in &thread.created_at {
            let caller = function_at(sketch, threads, place);
            let calls = &mut functions.entry(caller).or_default().calls;
            calls.push((place.line, callee.clone(), begins, 1));
        }
    }
}

/// The drawn function that holds a line, else one named after its place.
fn function_at(sketch: &FailureSketch, threads: &[SketchThread], place: &SourceLocation) -> Name {
    let mut steps = sketch.steps.iter();
    match steps.find(|s| s.statement.location == *place) {
        Some(step) => name(sketch, threads, step),
        None => (
            escape::visible(&place.file, NAME_LIMIT),
            escape::visible(&format!("creates threads at {place}"), NAME_LIMIT),
        ),
    }
}

fn sum(costs: &BTreeMap<u32, Costs>) -> Costs {
    let mut all = [0; 4];
    for costs in costs.values() {
        for (sum, cost) in all.iter_mut().zip(costs) {
            *sum += cost;
        }
    }
    all
}

fn words(costs: &Costs) -> String {
    costs.map(|c| c.to_string()).join(" ")
}

/// Name compression: the number and, the first time, the name.
#[derive(Default)]
struct Numbers {
    known: BTreeMap<String, usize>,
}

impl Numbers {
    fn of(&mut self, name: &str) -> String {
        match self.known.get(name) {
            Some(number) => format!("({number})"),
            None => {
                let number = self.known.len() + 1;
                self.known.insert(name.to_owned(), number);
                format!("({number}) {name}")
            }
        }
    }
}
