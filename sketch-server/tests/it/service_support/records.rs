//! Runs of the double's program, as an agent would report them.
//!
//! In a failing run main's store of NULL precedes the consumer's load of `mut`;
//! in a successful one it follows it. Everything else is the same in both.

use super::double::build;
use sketch_model::{
    AgentId, ClockTie, FailureKind, FailureReport, Outcome, ProbeEvent, ProbeKind, RunId,
    RunRecord, RuntimeAddress, Schema, SiteId, StackFrame, StaticAddress, ThreadIndex,
    ThreadRecord, ThreadStack, Tier, Tsc, VariantRef, WatchRecord,
};

const MUT: RuntimeAddress = RuntimeAddress(0x7f00_0000_1000);

/// A crash in `lines`, innermost first.
pub fn crash(lines: &[u32]) -> Outcome {
    let frame = |line: &u32| StackFrame {
        lookup: StaticAddress(0x1000 + u64::from(*line)),
        module: "/opt/pbzip2".into(),
    };
    Outcome::Failure(FailureReport {
        schema: Schema::default(),
        kind: FailureKind::Signal {
            number: 11,
            name: "SIGSEGV".into(),
        },
        fault_address: Some(RuntimeAddress(0)),
        said: None,
        threads: vec![ThreadStack {
            tid: 101,
            frames: lines.iter().map(frame).collect(),
            truncated: None,
            waits_for: None,
        }],
        mappings: Vec::new(),
        gaps: Vec::new(),
    })
}

/// A run of P.
pub fn untracked(id: &str, outcome: Outcome) -> RunRecord {
    RunRecord {
        schema: Schema::default(),
        id: RunId(id.into()),
        agent: AgentId("agent-1".into()),
        build: build(),
        tier: Tier::Inline,
        variant: None,
        sampling_probability: 1.0,
        outcome,
        wall_us: 1_000,
        cpu_us: 900,
        unrecorded_threads: 0,
        threads: Vec::new(),
        watch: WatchRecord::default(),
        tracking: Default::default(),
        clock: ClockTie {
            start_tsc: Tsc(0),
            start_ns: 0,
            end_tsc: Tsc(10_000),
            end_ns: 10_000,
            error_ns: 0,
        },
        mappings: Vec::new(),
        pt: None,
        gaps: Vec::new(),
        privacy: sketch_model::Privacy::Full,
        privacy_key: None,
    }
}

/// A run of a tracked build.
pub fn tracked(id: &str, variant: VariantRef, outcome: Outcome) -> RunRecord {
    let failed = matches!(outcome, Outcome::Failure(_));
    // Sites are numbered by statement: 0 loads `mut`, 1 stores NULL to it.
    let load = |at, value| access(0, ProbeKind::Read, at, value);
    let store = |at| access(1, ProbeKind::Write, at, 0);
    let (main, consumer) = if failed {
        (
            vec![store(2_000)],
            vec![load(1_000, 0x5000), load(3_000, 0)],
        )
    } else {
        (
            vec![store(4_000)],
            vec![load(1_000, 0x5000), load(3_000, 0x5000)],
        )
    };
    let thread = |index, tid, head| ThreadRecord {
        index: ThreadIndex(index),
        tid,
        head,
        dropped: 0,
        tail: Vec::new(),
        edges: Vec::new(),
        uncounted: 0,
        thinned: Vec::new(),
    };
    RunRecord {
        variant: Some(variant),
        unrecorded_threads: 0,
        threads: vec![thread(0, 100, main), thread(1, 101, consumer)],
        ..untracked(id, outcome)
    }
}

fn access(site: u32, kind: ProbeKind, at: u64, value: u64) -> ProbeEvent {
    ProbeEvent {
        site: SiteId(site),
        kind,
        size: 8,
        before: Tsc(at),
        after: Tsc(at + 10),
        address: MUT,
        value,
    }
}
