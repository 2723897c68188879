//! Which executions of the drawn run a sketch shows, and in which order.
//!
//! A statement leaves several events each time it runs (its loads, its call, its
//! branch); those that follow each other in a thread without repeating one are
//! one *execution*. For each thread and statement the last execution is shown,
//! because the last is what led to the failure, with how often there was one.
//! Statements of the best order predictor show the executions that realise it
//! instead; where one execution holds two of its accesses (`n++` with another
//! thread's access in between), it is shown as two steps.
//!
//! A sketch is short: of the statements, those are drawn that the caller calls
//! relevant; of the threads, the one that failed and those of the pattern, and
//! another only if it ran a relevant statement that none of them ran, and only for
//! that. A thread of the pattern that did not fail has its own part in the story:
//! what led it to its access, up to that access. What else it did, before or since,
//! it did like any other thread.
//!
//! Steps are sorted by evidence (each step stands at its most telling event);
//! where there is none, by the middle of the intervals, and the pair is marked
//! as unordered. The failing step is last: it did not complete, so whatever else
//! was recorded happened before its end. If the failing statement left no event,
//! the step is added without one; so is the call that led into its function,
//! which the stack proves.

use crate::evidence::order::Evidence;
use sketch_model::{EventKind, Source, StatementId, ThreadIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};

/// One step of the sketch, still in terms of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub thread: ThreadIndex,
    pub statement: StatementId,
    /// Events of the trace, in program order.
    pub events: Vec<usize>,
    /// The event that places the step in time.
    pub anchor: Option<usize>,
    pub times: u64,
    /// The execution that failed.
    pub failing: bool,
}

/// Events of one statement that belong to the same execution.
struct Execution {
    thread: ThreadIndex,
    statement: StatementId,
    events: Vec<usize>,
}

/// More columns than this nobody reads.
const THREADS_DRAWN: usize = 8;

type EventSort = (Source, Discriminant<EventKind>);

/// What a sketch is about.
pub struct Subject<'a> {
    pub failing: StatementId,
    /// The events that realise the best order predictor, in its order.
    pub pattern: &'a [usize],
    /// Writes of the values that the predictors are about.
    pub origins: &'a [usize],
    /// Statements of the best value and branch predictors.
    pub causes: &'a BTreeSet<StatementId>,
    /// Statements that are drawn if they ran.
    pub relevant: &'a BTreeSet<StatementId>,
    /// What a thread has to do with the failure that made an access of the pattern.
    pub part: &'a dyn Fn(StatementId) -> BTreeSet<StatementId>,
    /// The call that led into the failing function.
    pub caller: Option<StatementId>,
    /// The function of a statement.
    pub functions: &'a dyn Fn(StatementId) -> Option<&'a str>,
}

/// Chooses and sorts the steps.
pub fn choose(evidence: &Evidence<'_>, subject: &Subject<'_>) -> Vec<Step> {
    let Subject {
        failing, pattern, ..
    } = *subject;
    let (executions, times) = executions(evidence);
    let failing_thread = evidence.run.failing_thread.or_else(|| {
        let of_failing = executions.iter().filter(|e| e.statement == failing);
        let last = of_failing.max_by_key(|e| e.events.last().map(|e| evidence.midpoint(*e)));
        last.map(|e| e.thread)
    });
    let parts = parts(evidence, failing_thread, subject);
    let mut last: BTreeMap<(ThreadIndex, StatementId), usize> = BTreeMap::new();
    for (number, execution) in executions.iter().enumerate() {
        let first = execution
            .events
            .first()
            .map(|e| evidence.event(*e).position);
        let part = parts.get(&execution.thread);
        if part.is_none_or(|part| first <= Some(part.until)) {
            last.insert((execution.thread, execution.statement), number);
        }
    }
    let telltale = |event: &usize| pattern.contains(event) || subject.origins.contains(event);
    let realises = |e: &Execution| e.events.iter().any(telltale);
    let drawn = threads_drawn(evidence, failing_thread, subject);
    let telling = |statement: &StatementId| {
        subject.relevant.contains(statement)
            || subject.causes.contains(statement)
            || *statement == failing
    };
    let leads =
        |thread: &ThreadIndex| failing_thread == Some(*thread) || parts.contains_key(thread);
    let plays = |(thread, statement): &(ThreadIndex, StatementId)| match parts.get(thread) {
        Some(part) => part.leading.contains(statement),
        None => telling(statement),
    };
    last.retain(|key, _| drawn.contains(&key.0) && plays(key));
    let told: BTreeSet<StatementId> = last.keys().filter(|k| leads(&k.0)).map(|k| k.1).collect();
    last.retain(|(thread, statement), _| leads(thread) || !told.contains(statement));
    let mut shown: BTreeSet<usize> = BTreeSet::new();
    let mut realised: BTreeSet<(ThreadIndex, StatementId)> = BTreeSet::new();
    for (number, execution) in executions.iter().enumerate() {
        if realises(execution) {
            shown.insert(number);
            realised.insert((execution.thread, execution.statement));
        }
    }
    let fatal = failing_thread.and_then(|t| last.get(&(t, failing)).copied());
    let unrealised = last.iter().filter(|(key, _)| !realised.contains(key));
    shown.extend(unrealised.map(|(_, number)| *number));
    shown.extend(fatal);

    let mut steps = Vec::new();
    for number in shown {
        let execution = &executions[number];
        let key = (execution.thread, execution.statement);
        let count = times.get(&key).copied().unwrap_or(1);
        steps.extend(split(evidence, execution, pattern, count));
        if fatal == Some(number)
            && let Some(step) = steps.last_mut()
        {
            step.failing = true;
        }
    }
    if fatal.is_none() {
        let first = evidence.run.threads.first().map(|t| t.index);
        steps.push(Step {
            thread: failing_thread.or(first).unwrap_or(ThreadIndex(0)),
            statement: failing,
            events: Vec::new(),
            anchor: None,
            times: 1,
            failing: true,
        });
    }
    let mut steps = sorted(evidence, steps);
    add_caller(&mut steps, subject);
    steps
}

/// What a thread that did not fail has to do with the failure.
struct Part {
    /// The place of its last access of the pattern.
    until: u32,
    /// That access's statement, and what led to it.
    leading: BTreeSet<StatementId>,
}

fn parts(
    evidence: &Evidence<'_>,
    failing: Option<ThreadIndex>,
    subject: &Subject<'_>,
) -> BTreeMap<ThreadIndex, Part> {
    let mut parts: BTreeMap<ThreadIndex, Part> = BTreeMap::new();
    for number in subject.pattern.iter().chain(subject.origins) {
        let event = evidence.event(*number);
        if Some(event.thread) == failing {
            continue;
        }
        let part = parts.entry(event.thread).or_insert_with(|| Part {
            until: 0,
            leading: BTreeSet::new(),
        });
        part.until = part.until.max(event.position);
        for statement in &event.candidates {
            part.leading.insert(*statement);
            part.leading.extend((subject.part)(*statement));
        }
    }
    parts
}

/// Puts the call that led into the failing function before what ran there.
fn add_caller(steps: &mut Vec<Step>, subject: &Subject<'_>) {
    let Some((caller, fatal)) = subject.caller.zip(steps.last().cloned()) else {
        return;
    };
    let own = |step: &Step| step.thread == fatal.thread;
    if steps.iter().any(|s| own(s) && s.statement == caller) {
        return;
    }
    let inside = (subject.functions)(fatal.statement);
    let first = steps
        .iter()
        .position(|s| own(s) && (subject.functions)(s.statement) == inside);
    let call = Step {
        thread: fatal.thread,
        statement: caller,
        events: Vec::new(),
        anchor: None,
        times: 1,
        failing: false,
    };
    steps.insert(first.unwrap_or(steps.len() - 1), call);
}

fn threads_drawn(
    evidence: &Evidence<'_>,
    failing: Option<ThreadIndex>,
    subject: &Subject<'_>,
) -> BTreeSet<ThreadIndex> {
    let telltale = subject.pattern.iter().chain(subject.origins);
    let of_pattern = telltale.map(|e| evidence.event(*e).thread);
    let mut drawn: BTreeSet<ThreadIndex> = failing.into_iter().chain(of_pattern).collect();
    let mut ran: BTreeMap<ThreadIndex, BTreeSet<StatementId>> = BTreeMap::new();
    for event in &evidence.run.trace.events {
        let statement = event.statement().filter(|s| subject.relevant.contains(s));
        ran.entry(event.thread).or_default().extend(statement);
    }
    let mut told: BTreeSet<StatementId> = drawn
        .iter()
        .filter_map(|t| ran.get(t))
        .flatten()
        .copied()
        .collect();
    for (thread, statements) in &ran {
        if drawn.len() < THREADS_DRAWN && !statements.is_subset(&told) {
            drawn.insert(*thread);
            told.extend(statements);
        }
    }
    drawn
}

/// For each step, the numbers (from 1) of the steps of other threads that no
/// evidence orders against it.
pub fn unordered(evidence: &Evidence<'_>, steps: &[Step]) -> Vec<Vec<u32>> {
    let apart = |a: &Step, b: &Step| {
        a.thread != b.thread
            && a.anchor
                .zip(b.anchor)
                .is_some_and(|(x, y)| !evidence.ordered(x, y))
    };
    let with = |step: &Step| {
        let numbered = (1..).zip(steps);
        let unordered = numbered.filter(|(_, other)| apart(step, other));
        unordered.map(|(number, _)| number).collect()
    };
    steps.iter().map(with).collect()
}

type Times = BTreeMap<(ThreadIndex, StatementId), u64>;

fn executions(evidence: &Evidence<'_>) -> (Vec<Execution>, Times) {
    let events = &evidence.run.trace.events;
    let mut in_order: Vec<usize> = (0..events.len()).collect();
    in_order.sort_by_key(|e| (events[*e].thread, events[*e].position));
    let sort_of = |number: usize| -> EventSort {
        (events[number].source, discriminant(&events[number].kind))
    };
    let mut executions: Vec<Execution> = Vec::new();
    let mut counts: Vec<((ThreadIndex, StatementId), EventSort, u64)> = Vec::new();
    let mut count_at: std::collections::HashMap<_, usize> = std::collections::HashMap::new();
    for number in in_order {
        let event = &events[number];
        let Some(statement) = event.statement() else {
            continue;
        };
        let key = (event.thread, statement);
        let sort = sort_of(number);
        let slot = *count_at.entry((key, sort)).or_insert_with(|| {
            counts.push((key, sort, 0));
            counts.len() - 1
        });
        counts[slot].2 += 1;
        match executions.last_mut() {
            Some(last)
                if (last.thread, last.statement) == key
                    && !last.events.iter().any(|e| sort_of(*e) == sort) =>
            {
                last.events.push(number);
            }
            _ => executions.push(Execution {
                thread: event.thread,
                statement,
                events: vec![number],
            }),
        }
    }
    let mut times = Times::new();
    for (key, _, count) in counts {
        let most = times.entry(key).or_default();
        *most = (*most).max(count);
    }
    for (thread, statement, count) in &evidence.run.counted {
        let most = times.entry((*thread, *statement)).or_default();
        *most = (*most).max(*count);
    }
    (executions, times)
}

/// One step, or one for each access of the pattern that the execution holds.
fn split(
    evidence: &Evidence<'_>,
    execution: &Execution,
    pattern: &[usize],
    times: u64,
) -> Vec<Step> {
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    for event in &execution.events {
        let new_part = pattern.contains(event)
            && parts
                .last()
                .is_some_and(|part| part.iter().any(|e| pattern.contains(e)));
        if new_part {
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(*event);
        }
    }
    let anchor = |part: &[usize]| {
        let access = |e: &&usize| {
            let kind = evidence.event(**e).kind;
            matches!(kind, EventKind::Read | EventKind::Write)
        };
        let of_pattern = part.iter().find(|e| pattern.contains(e));
        let last_access = || part.iter().rev().find(access);
        of_pattern
            .or_else(last_access)
            .or_else(|| part.last())
            .copied()
    };
    parts
        .into_iter()
        .map(|part| Step {
            thread: execution.thread,
            statement: execution.statement,
            anchor: anchor(&part),
            events: part,
            times,
            failing: false,
        })
        .collect()
}

/// A topological order by evidence, failing step last. Evidence that contradicts
/// itself (forged records) falls back to the intervals' middles.
fn sorted(evidence: &Evidence<'_>, steps: Vec<Step>) -> Vec<Step> {
    let before = |a: &Step, b: &Step| {
        a.anchor
            .zip(b.anchor)
            .is_some_and(|(x, y)| evidence.before(x, y))
    };
    let time = |step: &Step| {
        let middle = step.anchor.map_or(u64::MAX, |e| evidence.midpoint(e));
        (middle, step.thread, step.anchor)
    };
    let (fatal, mut left): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(|s| s.failing);
    left.sort_by_key(time);
    let mut result = Vec::with_capacity(left.len() + fatal.len());
    while !left.is_empty() {
        let free = |step: &Step| !left.iter().any(|other| before(other, step));
        let next = left.iter().position(free).unwrap_or(0);
        result.push(left.remove(next));
    }
    result.extend(fatal);
    result
}
