//! From a failure's addresses to statements.
//!
//! The agent knows addresses only. Each frame in the program's own module is
//! expanded into the functions inlined there, and each of those is looked up
//! among the statements of the build. Frames elsewhere (libc's `abort`, the
//! runtime's hooks) are passed over: the failing statement is the innermost one
//! that the program's authors wrote.

use crate::BuildError;
use diagnosis::campaign::{LocatedFailure, is_abort};
use formats::address_map::{AddressMap, CodeFrame};
use sketch_model::{FailureKind, FailureReport, StackFrame, Statement, StatementId};
use std::collections::{BTreeSet, HashSet};

/// A failure that lies in no statement of the program, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Unlocated {
    #[error(
        "the report holds no stack of the failing thread ({why}); see that the agent's runtime \
         is loaded into the program"
    )]
    NoStack { why: String },
    #[error(
        "no frame of the failing thread lies in the program itself, only in {modules}; build \
         those with `failsketch cc` and register them if the fault is theirs"
    )]
    OnlyElsewhere { modules: String },
    #[error(
        "{file}:{line} in {module} is no statement of this build: its module has no bitcode in \
         the binary; compile that file with `failsketch cc` and register the build again"
    )]
    NoBitcode {
        file: String,
        line: u32,
        module: String,
    },
    #[error(
        "the instruction at {at:#x} of {module} has lost its line: the optimiser moved it to \
         where function {function} begins ({file}:{line}), away from its statement; compile that \
         file with less optimisation (-O0) and register the build again"
    )]
    LineLost {
        at: u64,
        function: String,
        file: String,
        line: u32,
        module: String,
    },
    #[error(
        "function {function} of {module} has no line for address {at:#x}: its module was built \
         without debug info, or optimisation left no line there; compile it with `failsketch \
         cc`, which adds -g, and register the build again"
    )]
    NoLine {
        at: u64,
        function: String,
        module: String,
    },
    #[error(
        "address {at:#x} of {module} lies in no function: the program jumped to where there is \
         no code of its own, and no caller on the stack is known; compare the registered binary \
         with the one that ran"
    )]
    NoFunction { at: u64, module: String },
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Finds the statements of a failure; `code` is what ran.
///
/// `failing_frame` says which of the statements is to blame: frames of libraries at the
/// inner end are stepped out of, and for an abort (which it is told) functions that exist
/// to end the program.
pub fn locate(
    report: &FailureReport,
    code: &AddressMap,
    described: impl Fn(StatementId) -> Option<Statement>,
    failing_frame: impl Fn(bool, &[StatementId]) -> usize,
) -> Result<LocatedFailure, Unlocated> {
    let own = own_modules(report, code);
    let stacks = report.threads.iter().map(|thread| -> Vec<Statement> {
        let frames = thread.frames.iter();
        frames
            .filter(|frame: &&StackFrame| own.contains(frame.module.as_str()))
            .flat_map(|frame| code.frames(frame.lookup))
            .filter_map(|frame| described(frame.statement?))
            .collect()
    });
    let aborts = is_abort(&report.kind);
    let mut stacks = stacks.map(|mut stack: Vec<Statement>| {
        let ids: Vec<StatementId> = stack.iter().map(|s| s.id).collect();
        stack.drain(..failing_frame(aborts, &ids).min(ids.len()));
        stack
    });
    let (statements, others) = match report.kind {
        FailureKind::Hang => one_of_the_waiting(report, stacks.collect()),
        _ => (stacks.next().unwrap_or_default(), Vec::new()),
    };
    let mut statements = statements.into_iter();
    let Some(failing) = statements.next() else {
        return Err(why_unlocated(report, code));
    };
    Ok(LocatedFailure {
        kind: report.kind.clone(),
        failing,
        callers: statements.collect(),
        others,
        said: report.said.clone(),
    })
}

/// The stack that a hang is known by, and the others. Threads that wait for
/// something that another thread holds come first; among them the order of the
/// statements decides, because that of the threads changes from run to run.
fn one_of_the_waiting(
    report: &FailureReport,
    stacks: Vec<Vec<Statement>>,
) -> (Vec<Statement>, Vec<Vec<Statement>>) {
    let held = |at: usize| {
        let thread = report.threads.get(at);
        let waits = thread.and_then(|thread| thread.waits_for.as_deref());
        waits.is_some_and(|waits| waits.ends_with("holds"))
    };
    let mut known: Vec<(bool, Vec<Statement>)> = stacks
        .into_iter()
        .enumerate()
        .filter(|(_, stack)| !stack.is_empty())
        .map(|(at, stack)| (!held(at), stack))
        .collect();
    known.sort_by_cached_key(|(free, stack)| {
        let ids: Vec<StatementId> = stack.iter().map(|s| s.id).collect();
        (*free, ids)
    });
    let mut stacks = known.into_iter().map(|(_, stack)| stack);
    (stacks.next().unwrap_or_default(), stacks.collect())
}

/// Why [`locate`] found nothing.
fn why_unlocated(report: &FailureReport, code: &AddressMap) -> Unlocated {
    let stack = report.threads.first();
    let frames = stack.map_or(&[][..], |stack| &stack.frames);
    if frames.is_empty() {
        let why = stack.and_then(|stack| stack.truncated.as_deref());
        return Unlocated::NoStack {
            why: why.unwrap_or("none was captured").to_owned(),
        };
    }
    let own = own_modules(report, code);
    let inside: Vec<&StackFrame> = frames
        .iter()
        .filter(|frame| own.contains(frame.module.as_str()))
        .collect();
    let Some(first) = inside.first() else {
        let elsewhere: BTreeSet<&str> = frames.iter().map(|f| f.module.as_str()).collect();
        let elsewhere: Vec<&str> = elsewhere.into_iter().collect();
        return Unlocated::OnlyElsewhere {
            modules: elsewhere.join(", "),
        };
    };
    let (module, at) = (first.module.clone(), first.lookup.0);
    let lines = inside.iter().flat_map(|frame| code.frames(frame.lookup));
    let mut lines = lines
        .filter(|frame| frame.statement.is_none())
        .filter_map(|frame| {
            let CodeFrame {
                function,
                file,
                line,
            } = frame.code;
            Some((function.clone(), file.clone()?, (*line)?))
        });
    match (lines.next(), code.function_at(first.lookup)) {
        // A loop's loads are hoisted without their lines, and then look like a part of
        // the function's entry.
        (Some((Some(function), file, line)), _) if code.has_statements_of(&function) => {
            Unlocated::LineLost {
                at,
                function,
                file,
                line,
                module,
            }
        }
        (Some((_, file, line)), _) => Unlocated::NoBitcode { file, line, module },
        (_, Some(function)) => Unlocated::NoLine {
            at,
            function: function.name.clone(),
            module,
        },
        (_, None) => Unlocated::NoFunction { at, module },
    }
}

/// The paths under which the program itself was mapped: by build-id, P's or
/// that of the binary that ran. Where no mapping carries one, the first: the
/// kernel maps the executable before anything else.
fn own_modules<'a>(report: &'a FailureReport, code: &AddressMap) -> HashSet<&'a str> {
    let by_id: HashSet<&str> = report
        .mappings
        .iter()
        .filter(|m| m.build_id.as_ref().is_some_and(|id| code.is_of(id)))
        .map(|m| m.path.as_str())
        .collect();
    if by_id.is_empty() {
        let first = report.mappings.iter().min_by_key(|m| m.start);
        return first.map(|m| m.path.as_str()).into_iter().collect();
    }
    by_id
}
