//! From a run record to a trace: hook records become events, watchpoint hits are
//! merged into the thread that made them.
//!
//! Each event gets the interval in which it must have happened. A hook record has
//! its own (the counter before and after the access). A point in the program
//! (branch, call, start of a synchronisation call) is one reading, so both ends
//! are equal. Hits are placed by [`super::hits`].
//!
//! Loss is data. A thread that dropped events is listed as incomplete, and its
//! [`Hole`]s say between which events something is missing. Hits that were
//! counted and not delivered, hits that no clock places, records of a hook that
//! the plan does not know: each becomes a value in `gaps`.
//!
//! Deliberately absent: order across threads. That is [`super::order`]'s.

use super::attribution::Attributor;
use super::call_values;
use super::decoded_run::{
    DecodedRun, Hole, Passed, RunThread, ThinnedAccess, WatchCoverage, weight_of,
};
use super::executed::add_implied;
use super::freed;
use super::hits::{self, PlacedHits};
use super::hot_accesses;
use super::redaction;
use formats::address_map::AddressMap;
use sketch_model::{
    EventKind, ExecutionTrace, Gap, Interval, LocationName, ObservedValue, Outcome, Pause,
    PointKind, ProbeEvent, ProbeKind, RunRecord, SiteId, Source, SyncOp, ThreadIndex, ThreadRecord,
    TraceEvent, TrackingPlan,
};
use std::collections::{BTreeMap, BTreeSet};

/// One thread on its way to being a part of the trace.
pub struct Timeline {
    pub thread: RunThread,
    pub events: Vec<TraceEvent>,
    /// Events were lost before the probe events with these numbers.
    pub holes: BTreeSet<usize>,
}

/// Decodes a run of a tracked build. `None` for a run of P itself, which
/// records nothing.
pub fn decode(record: &RunRecord, plan: &TrackingPlan, code: &AddressMap) -> Option<DecodedRun> {
    let execution = record.execution;
    if execution.is_original() {
        return None;
    }
    let mut gaps = record.gaps.clone();
    let Recorded {
        mut timelines,
        thinned,
        missing,
    } = probe_timelines(record, plan, &mut gaps);
    let failing_tid = match &record.outcome {
        Outcome::Failure(report) => report.threads.first().map(|t| t.tid),
        Outcome::Success => None,
    };
    let hit_tids = record.watch.hits.iter().map(|h| h.tid);
    let blocks = record.freed.iter().flatten();
    let known_tids = hit_tids.chain(failing_tid).chain(blocks.map(|b| b.tid));
    add_unrecorded_threads(&mut timelines, known_tids);

    let mut attributor = Attributor::new(&record.mappings, code);
    let placed = hits::place(record, plan, &mut attributor, &mut timelines);
    let watch = watch_coverage(record, plan, &placed, &mut gaps);
    let freed = freed::of_record(record, code, &mut timelines);
    redaction::drop_values(&mut timelines, record.privacy);

    let failing_thread = failing_tid.and_then(|tid| {
        timelines
            .iter()
            .map(|t| t.thread)
            .find(|t| t.tid == tid)
            .map(|t| t.index)
    });
    let threads = timelines.iter().map(|t| t.thread).collect();
    let paused = !record.tracking.pauses.is_empty();
    let (events, incomplete, holes) = joined(timelines);
    Some(DecodedRun {
        trace: ExecutionTrace {
            run: record.id.clone(),
            execution,
            failed: record.failed(),
            events,
            incomplete,
            gaps,
        },
        agent: record.agent.clone(),
        weight: weight_of(record),
        threads,
        failing_thread,
        holes,
        missing: missing || record.unrecorded_threads > 0 || paused,
        passed: passed(record, plan),
        thinned,
        unseen_calls: call_values::unseen(record),
        watch,
        freed,
        by_trace: false,
        counted: Vec::new(),
    })
}

/// What hooks recorded.
struct Recorded {
    timelines: Vec<Timeline>,
    thinned: Vec<ThinnedAccess>,
    /// Some of it could not be used.
    missing: bool,
}

fn probe_timelines(record: &RunRecord, plan: &TrackingPlan, gaps: &mut Vec<Gap>) -> Recorded {
    let mut timelines: BTreeMap<ThreadIndex, Timeline> = BTreeMap::new();
    let mut lost = Vec::new();
    let mut unknown = 0u64;
    for thread in &record.threads {
        if timelines.contains_key(&thread.index) {
            let thread = thread.index;
            gaps.push(Gap::ThreadRecordedTwice { thread });
            continue;
        }
        let mut timeline = probe_timeline(thread, plan, &record.tracking.pauses, &mut unknown);
        lost.extend(hot_accesses::take_in(&mut timeline, thread, plan));
        add_implied(&mut timeline, plan);
        if thread.dropped > 0 {
            gaps.push(Gap::EventsLost {
                tid: thread.tid,
                count: thread.dropped,
            });
        }
        timelines.insert(thread.index, timeline);
    }
    if !lost.is_empty() {
        gaps.push(Gap::AccessesThinned);
    }
    if unknown > 0 {
        gaps.push(Gap::EventsWithoutHook { count: unknown });
    }
    Recorded {
        timelines: timelines.into_values().collect(),
        thinned: lost,
        missing: unknown > 0,
    }
}

fn probe_timeline(
    thread: &ThreadRecord,
    plan: &TrackingPlan,
    pauses: &[Pause],
    unknown: &mut u64,
) -> Timeline {
    let index = thread.index;
    let mut events: Vec<TraceEvent> = Vec::new();
    let mut decode = |probes: &[ProbeEvent], events: &mut Vec<TraceEvent>| {
        for probe in probes {
            if call_values::attach(events, probe) {
                continue;
            }
            match probe_event(index, probe, plan) {
                Some(event) => events.push(event),
                None => *unknown += 1,
            }
        }
    };
    decode(&thread.head, &mut events);
    let hole = (thread.dropped > 0).then_some(events.len());
    decode(&thread.tail, &mut events);
    let mut holes: BTreeSet<usize> = hole.into_iter().collect();
    for pause in pauses {
        // Some events may still have come just after recording was turned off.
        holes.insert(events.partition_point(|e| e.when.latest < pause.from));
        holes.insert(events.partition_point(|e| e.when.earliest < pause.to));
    }
    Timeline {
        thread: RunThread {
            index,
            tid: thread.tid,
        },
        events,
        holes,
    }
}

/// The ways that branches went, by the threads' own accounts. They forget
/// nothing, but they know nothing of threads without a record and of pauses.
fn passed(record: &RunRecord, plan: &TrackingPlan) -> Passed {
    let edges = record.threads.iter().flat_map(|thread| &thread.edges);
    let ways = edges.filter_map(|edge| Some((edge.site, edge.successor?)));
    let of_the_plan = |(site, _): &(SiteId, u32)| {
        let site = plan.site(*site);
        site.is_some_and(|site| site.kind == PointKind::Branch)
    };
    // An older agent keeps no accounts: then events are all there is.
    let kept = |thread: &ThreadRecord| thread.dropped == 0 || !thread.edges.is_empty();
    Passed {
        ways: ways.filter(of_the_plan).collect(),
        complete: record.tracking.pauses.is_empty()
            && record.unrecorded_threads == 0
            && record.threads.iter().all(|t| t.uncounted == 0 && kept(t)),
    }
}

/// `None` if the plan has no such site or the record contradicts it.
pub fn probe_event(
    thread: ThreadIndex,
    probe: &ProbeEvent,
    plan: &TrackingPlan,
) -> Option<TraceEvent> {
    let site = plan.site(probe.site)?;
    let kind = match (probe.kind, site.kind) {
        (ProbeKind::Read, PointKind::Load) => EventKind::Read,
        (ProbeKind::Write, PointKind::Store) => EventKind::Write,
        (ProbeKind::Branch, PointKind::Branch) => EventKind::Branch {
            successor: u32::try_from(probe.value).ok()?,
        },
        (ProbeKind::Call, PointKind::Call) => EventKind::Call,
        (ProbeKind::SyncBegin, PointKind::Sync(op)) => EventKind::SyncBegin(op),
        (ProbeKind::SyncEnd, PointKind::Sync(op)) if !done(op, probe.value) => {
            EventKind::SyncFailed(op)
        }
        (ProbeKind::SyncEnd, PointKind::Sync(op)) => EventKind::SyncEnd(op),
        _ => return None,
    };
    let access = matches!(kind, EventKind::Read | EventKind::Write);
    let synchronises = matches!(
        kind,
        EventKind::SyncBegin(_) | EventKind::SyncEnd(_) | EventKind::SyncFailed(_)
    );
    Some(TraceEvent {
        thread,
        position: 0,
        candidates: vec![site.statement],
        kind,
        address: (access || synchronises).then_some(probe.address),
        location: site.location.clone().filter(|_| access || synchronises),
        // Hooks do not carry what is wider than a register.
        value: (access && (1..=8).contains(&probe.size)).then_some(ObservedValue {
            value: probe.value,
            size: probe.size,
            exact: true,
        }),
        passed: Vec::new(),
        when: interval(kind, probe),
        source: Source::Probe(probe.site),
    })
}

/// Whether a call that returned this did what it is for. Calls that take something
/// return 0 then (`crates/sync-functions/`), and EOWNERDEAD where they take a robust
/// mutex from a thread that is gone.
fn done(op: SyncOp, returned: u64) -> bool {
    const EOWNERDEAD: u32 = 130;
    !op.takes() || matches!(returned as u32, 0 | EOWNERDEAD)
}

/// A hook at a point in the program may fill one reading only.
fn interval(kind: EventKind, probe: &ProbeEvent) -> Interval {
    let (before, after) = (probe.before, probe.after);
    let point = matches!(
        kind,
        EventKind::Branch { .. } | EventKind::Call | EventKind::SyncBegin(_)
    );
    if point && (before.0 == 0 || after.0 == 0) {
        let reading = before.max(after);
        return Interval {
            earliest: reading,
            latest: reading,
        };
    }
    Interval {
        earliest: before.min(after),
        latest: before.max(after),
    }
}

/// Threads of which only a hit or the crash is known get numbers after the others.
fn add_unrecorded_threads(timelines: &mut Vec<Timeline>, tids: impl Iterator<Item = i32>) {
    let known: BTreeSet<i32> = timelines.iter().map(|t| t.thread.tid).collect();
    let missing: BTreeSet<i32> = tids.filter(|t| !known.contains(t)).collect();
    let highest = timelines.iter().map(|t| t.thread.index.0).max();
    let mut next = highest.map_or(0, |n| n.saturating_add(1));
    for tid in missing {
        timelines.push(Timeline {
            thread: RunThread {
                index: ThreadIndex(next),
                tid,
            },
            events: Vec::new(),
            holes: BTreeSet::new(),
        });
        next = next.saturating_add(1);
    }
}

fn watch_coverage(
    record: &RunRecord,
    plan: &TrackingPlan,
    placed: &PlacedHits,
    gaps: &mut Vec<Gap>,
) -> WatchCoverage {
    let watch = &record.watch;
    // The agent may have reported the same loss.
    let mut say = |gap: Gap| {
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    };
    if let Some(because) = watch.refused.clone() {
        say(Gap::NoWatchpoints { because });
        return WatchCoverage::default();
    }
    let lost = watch.counted.saturating_sub(watch.hits.len() as u64);
    if lost > 0 {
        let counted = watch.counted;
        say(Gap::HitsLost { lost, counted });
    }
    if placed.without_time > 0 {
        let count = placed.without_time;
        say(Gap::HitsWithoutTime { count });
    }
    let unattributed: u64 = placed.unattributed.values().sum();
    if unattributed > 0 {
        say(Gap::HitsUnattributed {
            count: unattributed,
        });
    }
    // A slot that was aimed twice no longer saw its first address, and one that
    // was not aimed when it should have been never saw the second.
    let re_aimed = watch.armed > plan.watched.len() as u64 || watch.skipped_aims > 0;
    let paused = !record.tracking.pauses.is_empty();
    if lost > 0 || placed.without_time > 0 || watch.armed == 0 || re_aimed || paused {
        return WatchCoverage::default();
    }
    let complete = |location: &&LocationName| !placed.unattributed.contains_key(*location);
    WatchCoverage {
        complete: plan.watched.iter().filter(complete).cloned().collect(),
    }
}

/// Numbers the events of each thread and lists where some are missing. Hits
/// between the two ends of a hole split it: what is lost may be on either side.
fn joined(timelines: Vec<Timeline>) -> (Vec<TraceEvent>, Vec<ThreadIndex>, Vec<Hole>) {
    let (mut events, mut incomplete, mut holes) = (Vec::new(), Vec::new(), Vec::new());
    for timeline in timelines {
        let thread = timeline.thread.index;
        let mut probes_seen = 0usize;
        let mut hole_open = |probes: usize, before: usize| {
            if timeline.holes.contains(&probes) {
                holes.push(Hole {
                    thread,
                    before: before.min(u32::MAX as usize) as u32,
                });
            }
        };
        let count = timeline.events.len();
        for (position, mut event) in timeline.events.into_iter().enumerate() {
            hole_open(probes_seen, position);
            probes_seen += usize::from(matches!(event.source, Source::Probe(_)));
            event.position = position.min(u32::MAX as usize) as u32;
            events.push(event);
        }
        hole_open(probes_seen, count);
        if !timeline.holes.is_empty() {
            incomplete.push(thread);
        }
    }
    (events, incomplete, holes)
}
