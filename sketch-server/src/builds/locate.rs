//! From a failure's addresses to statements.
//!
//! The agent knows addresses only. Each frame in the program's own module is
//! expanded into the functions inlined there, and each of those is looked up
//! among the statements of the build. Frames elsewhere (libc's `abort`, the
//! runtime's hooks) are passed over: the failing statement is the innermost one
//! that the program's authors wrote.

use super::symbols::{CodeFrame, Symbols};
use diagnosis::campaign::{LocatedFailure, is_abort};
use sketch_model::{BuildId, FailureKind, FailureReport, StackFrame, Statement, StatementId};
use std::collections::{BTreeSet, HashSet};

/// Finds the statements of a failure, or `None` if no frame of the failing
/// thread lies in code of the program that has statements.
///
/// `failing_frame` says which of the statements is to blame: frames of libraries at the
/// inner end are stepped out of, and for an abort (which it is told) functions that exist
/// to end the program.
pub fn locate(
    report: &FailureReport,
    build: &BuildId,
    symbols: &Symbols,
    statement_of: impl Fn(&CodeFrame) -> Option<Statement>,
    failing_frame: impl Fn(bool, &[StatementId]) -> usize,
) -> Option<LocatedFailure> {
    let own = own_modules(report, build, symbols);
    let stacks = report.threads.iter().map(|thread| -> Vec<Statement> {
        let frames = thread.frames.iter();
        frames
            .filter(|frame: &&StackFrame| own.contains(frame.module.as_str()))
            .flat_map(|frame| symbols.frames(frame.lookup))
            .filter_map(|frame| statement_of(&frame))
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
        _ => (stacks.next()?, Vec::new()),
    };
    let mut statements = statements.into_iter();
    Some(LocatedFailure {
        kind: report.kind.clone(),
        failing: statements.next()?,
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

/// Why [`locate`] found nothing, and what to do about it.
pub fn why_unlocated(
    report: &FailureReport,
    build: &BuildId,
    symbols: &Symbols,
    statement_of: impl Fn(&CodeFrame) -> Option<Statement>,
) -> String {
    let stack = report.threads.first();
    let frames = stack.map_or(&[][..], |stack| &stack.frames);
    if frames.is_empty() {
        let why = stack.and_then(|stack| stack.truncated.as_deref());
        return format!(
            "the report holds no stack of the failing thread ({}); see that the agent's \
             runtime is loaded into the program",
            why.unwrap_or("none was captured")
        );
    }
    let own = own_modules(report, build, symbols);
    let inside: Vec<&StackFrame> = frames
        .iter()
        .filter(|frame| own.contains(frame.module.as_str()))
        .collect();
    let Some(first) = inside.first() else {
        let elsewhere: BTreeSet<&str> = frames.iter().map(|f| f.module.as_str()).collect();
        let elsewhere: Vec<&str> = elsewhere.into_iter().collect();
        return format!(
            "no frame of the failing thread lies in the program itself, only in {}; build \
             those with `failsketch cc` and register them if the fault is theirs",
            elsewhere.join(", ")
        );
    };
    let (module, at) = (&first.module, first.lookup.0);
    let lines = inside.iter().flat_map(|frame| symbols.frames(frame.lookup));
    let mut lines = lines.filter(|line| line.file.is_some() && line.line.is_some_and(|l| l > 0));
    match (lines.next(), symbols.function_at(first.lookup)) {
        (Some(line), _) if statement_of(&line).is_none() => format!(
            "{}:{} in {module} is no statement of this build: its module has no bitcode in the \
             binary; compile that file with `failsketch cc` and register the build again",
            line.file.unwrap_or_default(),
            line.line.unwrap_or(0)
        ),
        (_, Some(function)) => format!(
            "function {} of {module} has no line for address {at:#x}: its module was built \
             without debug info, or optimisation left no line there; compile it with \
             `failsketch cc`, which adds -g, and register the build again",
            function.name
        ),
        (_, None) => format!(
            "address {at:#x} of {module} lies in no function: the program jumped to where there \
             is no code of its own, and no caller on the stack is known; compare the registered \
             binary with the one that ran"
        ),
    }
}

/// The paths under which the program itself was mapped: by build-id, P's or
/// that of the binary the symbols come from. Where no mapping carries one, the
/// first: the kernel maps the executable before anything else.
fn own_modules<'a>(
    report: &'a FailureReport,
    build: &BuildId,
    symbols: &Symbols,
) -> HashSet<&'a str> {
    let ours = |id: &BuildId| id == build || Some(id.0.as_str()) == symbols.build_id();
    let by_id: HashSet<&str> = report
        .mappings
        .iter()
        .filter(|m| m.build_id.as_ref().is_some_and(ours))
        .map(|m| m.path.as_str())
        .collect();
    if by_id.is_empty() {
        let first = report.mappings.iter().min_by_key(|m| m.start);
        return first.map(|m| m.path.as_str()).into_iter().collect();
    }
    by_id
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::ThreadStack;
    use test_support::records;

    fn statement(function: &str, line: u32) -> Statement {
        records::statement(line, function, "/src/pbzip2.c", line)
    }

    #[test]
    fn a_hang_is_known_by_its_threads_whatever_their_order() {
        let build = BuildId("ab12".into());
        let thread = |tid, waits_for: &str| ThreadStack {
            waits_for: Some(waits_for.into()),
            ..records::stack(tid, &[])
        };
        let held = "the mutex at 0x10, which thread 2 holds";
        let (first, second, third) = (
            vec![statement("take_left", 8)],
            vec![statement("take_right", 5)],
            vec![statement("main", 1)],
        );
        let report = |threads| FailureReport {
            threads,
            ..records::report(FailureKind::Hang)
        };
        let waiting = "another thread to wake it at 0x20";
        let one = report(vec![thread(1, waiting), thread(2, held), thread(3, held)]);
        let other = report(vec![thread(1, held), thread(2, held), thread(3, waiting)]);
        let picked = [
            one_of_the_waiting(&one, vec![third.clone(), first.clone(), second.clone()]),
            one_of_the_waiting(&other, vec![second.clone(), first.clone(), third.clone()]),
        ];
        assert_eq!(picked[0], picked[1]);
        let (stack, others) = picked[0].clone();
        let located = LocatedFailure {
            kind: FailureKind::Hang,
            failing: stack[0].clone(),
            callers: Vec::new(),
            others,
            said: None,
        };
        assert_eq!(
            located.signature(&build).0,
            "ab12 hang take_right (pbzip2.c:5) & main (pbzip2.c:1) & take_left (pbzip2.c:8)"
        );
    }
}
