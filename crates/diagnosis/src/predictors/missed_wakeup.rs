//! Threads that went to sleep on something that had already changed.
//!
//! A thread reads a condition, finds that it has to wait, and waits; another thread
//! has written the condition in between, and its signal found nobody waiting. In a
//! run that hangs, such a thread's last record is the beginning of its wait, and
//! a location that it read before was written since by another. If everything were
//! well, that write's signal would have woken it, and it would have read again.
//! It is stated as RWS: the read, the write, the sleep.
//!
//! Asked of all runs: in one that ended well nobody sleeps at the end, so none of
//! these held in it, provided that its hooks stand and nothing was lost.

use super::deadlock::last_events;
use super::{Coverage, Detector, Found, RecordedRun, order};
use crate::evidence::hot_accesses::may_be_same;
use crate::evidence::order::Evidence;
use crate::sketch::sentences::Names;
use sketch_model::{
    EventKind, LocationName, OrderPattern, Predictor, RuntimeAddress, SyncOp, ThreadIndex,
};
use std::collections::BTreeMap;

/// Read, write, sleep, by event number.
type Missed = [usize; 3];

pub struct MissedWakeup;

impl Detector for MissedWakeup {
    fn name(&self) -> &'static str {
        "missed wakeup"
    }

    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found) {
        let evidence = recorded.evidence;
        let missed = missed(evidence);
        let predictors = missed.iter().filter_map(|it| predictor(evidence, it));
        found.held.extend(predictors);
    }

    fn asks(&self, predictor: &Predictor) -> bool {
        let pattern = OrderPattern::Rws;
        matches!(predictor, Predictor::Order { pattern: p, .. } if *p == pattern)
    }

    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool {
        order::can_deny(coverage, predictor)
    }

    fn occurrence(&self, evidence: &Evidence<'_>, sought: &Predictor) -> Option<Vec<usize>> {
        let mut missed = missed(evidence).into_iter();
        let missed = missed.find(|it| predictor(evidence, it).as_ref() == Some(sought))?;
        Some(missed.to_vec())
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
        let [read, wrote, slept] = statements.as_slice() else {
            return None;
        };
        let [read, wrote, slept] = [read, wrote, slept].map(|s| names.phrase(*s));
        Some(format!(
            "{wrote} wrote {location} after {read} read it, and the reader's {slept} then \
             waited and was never woken (missed wakeup)"
        ))
    }
}

/// What sleeping threads of a failed run have missed, the last write of each location.
fn missed(evidence: &Evidence<'_>) -> Vec<Missed> {
    if !evidence.run.trace.failed {
        return Vec::new();
    }
    let asleep = asleep(evidence);
    if asleep.is_empty() {
        return Vec::new();
    }
    let writes = writes(evidence);
    let mut missed = Vec::new();
    for (thread, sleep) in asleep {
        for (address, read) in last_reads(evidence, thread) {
            if may_have_read_later(evidence, thread, read) {
                continue;
            }
            let of_address = writes.get(&address).into_iter().flatten().copied();
            let later = of_address.filter(|number| {
                evidence.event(*number).thread != thread && evidence.before(read, *number)
            });
            let last = later.max_by_key(|number| evidence.midpoint(*number));
            missed.extend(last.map(|write| [read, write, sleep]));
        }
    }
    missed
}

/// The threads whose last record is the beginning of a wait for a condition.
fn asleep(evidence: &Evidence<'_>) -> BTreeMap<ThreadIndex, usize> {
    let mut last = last_events(&evidence.run.trace.events);
    last.retain(|_, number| evidence.event(*number).kind == EventKind::SyncBegin(SyncOp::CondWait));
    last
}

/// All writes, by what they write.
fn writes(evidence: &Evidence<'_>) -> BTreeMap<RuntimeAddress, Vec<usize>> {
    let mut writes: BTreeMap<RuntimeAddress, Vec<usize>> = BTreeMap::new();
    for (number, event) in evidence.run.trace.events.iter().enumerate() {
        if let (EventKind::Write, Some(address)) = (event.kind, event.address) {
            writes.entry(address).or_default().push(number);
        }
    }
    writes
}

/// Whether the thread tired of reads that may be of what this one read: it may have read
/// it again before it slept.
fn may_have_read_later(evidence: &Evidence<'_>, thread: ThreadIndex, read: usize) -> bool {
    let location = evidence.event(read).location.as_ref();
    let tired = evidence.run.thinned.iter().filter(|lost| lost.goes_on());
    { tired }.any(|lost| lost.thread == thread && may_be_same(location, &lost.location))
}

/// A thread's last read of each address.
fn last_reads(evidence: &Evidence<'_>, thread: ThreadIndex) -> BTreeMap<RuntimeAddress, usize> {
    let mut reads: BTreeMap<RuntimeAddress, usize> = BTreeMap::new();
    for (number, event) in evidence.run.trace.events.iter().enumerate() {
        let read = event.thread == thread && event.kind == EventKind::Read;
        let Some(address) = event.address.filter(|_| read) else {
            continue;
        };
        let latest = reads.entry(address).or_insert(number);
        if evidence.event(*latest).position < event.position {
            *latest = number;
        }
    }
    reads
}

fn predictor(evidence: &Evidence<'_>, found: &Missed) -> Option<Predictor> {
    let [read, write, _] = found.map(|number| evidence.event(number));
    // Without a name nobody could tell whether other runs could have shown it.
    let names = [read.location.as_ref(), write.location.as_ref()];
    let named = names.into_iter().flatten();
    let location = named.filter(|name| **name != LocationName::Unnamed).min()?;
    let statements = found.map(|number| evidence.event(number).statement());
    Some(Predictor::Order {
        pattern: OrderPattern::Rws,
        location: location.clone(),
        statements: statements.into_iter().collect::<Option<Vec<_>>>()?,
    })
}
