//! Runs written as one line of text, for tests of the pure core.
//!
//! `"A:W1@10 B:R2@20=5"` is a run in which thread A writes at statement 1 at
//! time 10, and thread B reads at statement 2 at time 20 and gets 5. A time may
//! be an interval (`@10-30`); without `=` the value is unknown. `b3=1` is a
//! branch at statement 3 that takes successor 1, `l4` the return of a lock, `u5`
//! the beginning of an unlock, `s6` that of a wait for a condition. `A:-@10-20` is a hole: events of
//! A that were lost there. A trailing `!` marks a watchpoint hit instead of a
//! probe. All accesses are to the field `queue.mut`, 8 bytes at 0x1000, unless
//! the statement is 100 or more: those touch the global `other`.
#![allow(dead_code)] // each test crate uses its own part of it

pub mod planted;
pub mod records;

use diagnosis::evidence::decoded_run::{Hole, WatchCoverage};
use diagnosis::{DecodedRun, RunThread};
use sketch_model::*;
use std::collections::{BTreeMap, BTreeSet};
use test_support::records::{site, variant};

pub const VARIANT: VariantRef = variant(1, 1, 0);

pub fn queue_mut() -> LocationName {
    LocationName::Field {
        record: "queue".to_owned(),
        field: "mut".to_owned(),
    }
}

pub fn location(statement: u32) -> LocationName {
    if statement >= 100 {
        LocationName::Global("other".to_owned())
    } else {
        queue_mut()
    }
}

pub fn statement(id: u32, text: &str) -> Statement {
    Statement {
        text: text.to_owned(),
        ..test_support::records::statement(id, "consumer", "/src/pbzip2.c", id)
    }
}

/// Sites are numbered 3 × statement: load, store, branch.
pub fn plan(statements: &[u32]) -> TrackingPlan {
    let mut sites = Vec::new();
    for id in statements {
        for (offset, kind) in [
            (0, PointKind::Load),
            (1, PointKind::Store),
            (2, PointKind::Branch),
        ] {
            let location = (offset < 2).then(|| location(*id));
            sites.push(Site {
                size: 8,
                arm_slot: (offset == 0).then_some(0),
                ..site(3 * id + offset, *id, kind, 7, location)
            });
        }
    }
    TrackingPlan {
        sigma: statements.len() as u32,
        statements: statements.iter().map(|s| statement(*s, "")).collect(),
        sites,
        watched: vec![queue_mut()],
        ..test_support::records::plan(Capabilities::watchpoints())
    }
}

pub fn everything_placed() -> Placement {
    Placement {
        places: vec![1; 1000],
        ..Placement::default()
    }
}

pub fn run(id: &str, failed: bool, script: &str) -> DecodedRun {
    let mut threads: BTreeMap<char, Vec<TraceEvent>> = BTreeMap::new();
    let mut holes = Vec::new();
    let mut saw_hit = false;
    for word in script.split_whitespace() {
        let (thread, rest) = word.split_once(':').expect("thread:what");
        let thread = thread.chars().next().expect("thread letter");
        let index = ThreadIndex(thread as u32 - 'A' as u32);
        let list = threads.entry(thread).or_default();
        let hit = rest.ends_with('!');
        saw_hit |= hit;
        let rest = rest.trim_end_matches('!');
        let (rest, value) = match rest.split_once('=') {
            Some((rest, value)) => (rest, Some(value.parse::<i64>().expect("value") as u64)),
            None => (rest, None),
        };
        let (what, time) = rest.split_once('@').expect("what@time");
        let (earliest, latest) = time.split_once('-').unwrap_or((time, time));
        let when = Interval {
            earliest: Tsc(earliest.parse().expect("time")),
            latest: Tsc(latest.parse().expect("time")),
        };
        if what == "-" {
            holes.push(Hole {
                thread: index,
                before: list.len() as u32,
            });
            continue;
        }
        let ids: Vec<u32> = what[1..]
            .split('|')
            .map(|id| id.parse().expect("statement"))
            .collect();
        let (kind, offset) = match &what[..1] {
            "R" => (EventKind::Read, 0),
            "W" => (EventKind::Write, 1),
            "C" => (EventKind::Call, 1),
            "b" => (
                EventKind::Branch {
                    successor: value.expect("successor") as u32,
                },
                2,
            ),
            "l" => (EventKind::SyncEnd(SyncOp::MutexLock), 3),
            "u" => (EventKind::SyncBegin(SyncOp::MutexUnlock), 3),
            "s" => (EventKind::SyncBegin(SyncOp::CondWait), 3),
            other => panic!("unknown kind {other}"),
        };
        let access = offset < 2;
        list.push(TraceEvent {
            thread: index,
            position: list.len() as u32,
            candidates: ids.iter().map(|id| StatementId(*id)).collect(),
            kind,
            address: access.then_some(RuntimeAddress(if ids[0] >= 100 { 0x2000 } else { 0x1000 })),
            location: access.then(|| location(ids[0])),
            value: value.filter(|_| access).map(|value| ObservedValue {
                value,
                size: 8,
                exact: true,
            }),
            passed: Vec::new(),
            when,
            source: if hit {
                Source::Watchpoint
            } else {
                Source::Probe(SiteId(3 * ids[0] + offset))
            },
        });
    }
    let incomplete: BTreeSet<ThreadIndex> = holes.iter().map(|h: &Hole| h.thread).collect();
    let index = |c: &char| ThreadIndex(*c as u32 - 'A' as u32);
    let named = threads.keys().map(|c| RunThread {
        index: index(c),
        tid: 100 + (*c as i32 - 'A' as i32),
    });
    let mut complete = BTreeSet::new();
    if saw_hit {
        complete.insert(queue_mut());
    }
    DecodedRun {
        threads: named.collect(),
        trace: ExecutionTrace {
            run: RunId(id.to_owned()),
            execution: Execution::Tracked(VARIANT),
            failed,
            events: threads.into_values().flatten().collect(),
            incomplete: incomplete.into_iter().collect(),
            gaps: Vec::new(),
        },
        agent: AgentId("agent-1".to_owned()),
        weight: 1.0,
        failing_thread: failed.then_some(ThreadIndex(1)),
        holes,
        missing: false,
        passed: Default::default(),
        thinned: Vec::new(),
        unseen_calls: Default::default(),
        freed: None,
        watch: WatchCoverage { complete },
        by_trace: false,
        counted: Vec::new(),
    }
}

pub fn order(pattern: OrderPattern, statements: &[u32]) -> Predictor {
    Predictor::Order {
        pattern,
        location: queue_mut(),
        statements: statements.iter().map(|s| StatementId(*s)).collect(),
    }
}

pub fn value(statement: u32, shape: ValueShape) -> Predictor {
    Predictor::Value {
        statement: StatementId(statement),
        column: 7,
        location: location(statement),
        shape,
        caller: None,
    }
}

pub fn branch(statement: u32, successor: u32) -> Predictor {
    Predictor::Branch {
        statement: StatementId(statement),
        column: 7,
        successor,
    }
}
