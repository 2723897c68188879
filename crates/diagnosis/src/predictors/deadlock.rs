//! Deadlocks: locks that a thread holds and another one never gets.
//!
//! In a run that hangs, a thread whose last record is the beginning of a lock
//! call waits for that lock; the thread that took the lock last holds it. If the
//! holder waits as well, nobody is left to give anything back. That is an order
//! like any other: the one's taking (a write of the lock) came before the other's
//! attempt (a read of it). It is stated as WR, with both statements; two threads
//! that wait for each other give two such pairs.
//!
//! Everything is asked of all runs: in one that ended well nobody waits, so
//! none of these held in it, provided that its hooks stand and nothing was lost.
//! Deliberately absent: takings of locks as accesses of other patterns. Who takes a
//! lock first is chance in every healthy program, and would only add to the
//! number of questions asked.

use super::{Coverage, Detector, Found, RecordedRun, order};
use crate::evidence::decoded_run::DecodedRun;
use crate::evidence::order::Evidence;
use crate::sketch::sentences::Names;
use sketch_model::{EventKind, OrderPattern, Predictor, RuntimeAddress, ThreadIndex, TraceEvent};
use std::collections::BTreeMap;

/// The taking of a lock and the attempt that waits for it, by event number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub taken: usize,
    pub waiting: usize,
}

pub struct Deadlock;

impl Detector for Deadlock {
    fn name(&self) -> &'static str {
        "deadlock"
    }

    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found) {
        let run = recorded.run();
        let waits = waits(run).into_iter();
        found
            .held
            .extend(waits.filter_map(|wait| predictor(run, wait)));
    }

    /// WR, as [`order`] does of memory: only the plan tells a lock from other memory.
    fn asks(&self, predictor: &Predictor) -> bool {
        let pattern = OrderPattern::Wr;
        matches!(predictor, Predictor::Order { pattern: p, .. } if *p == pattern)
    }

    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool {
        order::can_deny(coverage, predictor)
    }

    fn occurrence(&self, evidence: &Evidence<'_>, sought: &Predictor) -> Option<Vec<usize>> {
        let run = evidence.run;
        let mut waits = waits(run).into_iter();
        let wait = waits.find(|wait| predictor(run, *wait).as_ref() == Some(sought))?;
        Some(vec![wait.taken, wait.waiting])
    }

    fn sentence(&self, predictor: &Predictor, names: &Names) -> Option<String> {
        let Predictor::Order {
            location,
            statements,
            ..
        } = predictor
        else {
            return None;
        };
        let [taken, waiting] = statements.as_slice() else {
            return None;
        };
        let locks = names.locks.contains(taken) && names.locks.contains(waiting);
        locks.then(|| {
            let (taken, waiting) = (names.phrase(*taken), names.phrase(*waiting));
            format!("{taken} held {location} and {waiting} never got it (deadlock)")
        })
    }
}

/// The pairs of a run that failed; one that did not has none.
pub fn waits(run: &DecodedRun) -> Vec<Wait> {
    if !run.trace.failed {
        return Vec::new();
    }
    let events = &run.trace.events;
    let waiting: BTreeMap<ThreadIndex, (usize, RuntimeAddress)> = last_events(events)
        .into_iter()
        .filter_map(|(thread, number)| {
            let event = &events[number];
            let locks = matches!(event.kind, EventKind::SyncBegin(op) if op.takes());
            Some((thread, (number, event.address.filter(|_| locks)?)))
        })
        .collect();
    waiting
        .iter()
        .filter_map(|(thread, (number, lock))| {
            let taken = holder(events, *thread, *lock)?;
            // A holder that goes on will give it back.
            waiting.contains_key(&events[taken].thread).then_some(Wait {
                taken,
                waiting: *number,
            })
        })
        .collect()
}

/// Each thread's last event.
pub(super) fn last_events(events: &[TraceEvent]) -> BTreeMap<ThreadIndex, usize> {
    let mut last: BTreeMap<ThreadIndex, usize> = BTreeMap::new();
    for (number, event) in events.iter().enumerate() {
        let latest = last.entry(event.thread).or_insert(number);
        if events[*latest].position < event.position {
            *latest = number;
        }
    }
    last
}

/// The last taking of the lock by another thread.
fn holder(events: &[TraceEvent], waiting: ThreadIndex, lock: RuntimeAddress) -> Option<usize> {
    let taken = (0..events.len()).filter(|number| {
        let event = &events[*number];
        event.thread != waiting
            && event.address == Some(lock)
            && matches!(event.kind, EventKind::SyncEnd(op) if op.takes())
    });
    taken.max_by_key(|number| events[*number].when.latest)
}

fn predictor(run: &DecodedRun, wait: Wait) -> Option<Predictor> {
    let (taken, waiting) = (
        &run.trace.events[wait.taken],
        &run.trace.events[wait.waiting],
    );
    let names = [taken.location.as_ref(), waiting.location.as_ref()];
    // Without a name nobody could tell whether other runs could have shown it.
    let location = names.into_iter().flatten().min().cloned()?;
    Some(Predictor::Order {
        pattern: OrderPattern::Wr,
        location,
        statements: vec![taken.statement()?, waiting.statement()?],
    })
}
