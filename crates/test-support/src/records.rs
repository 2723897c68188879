//! Run records, failure reports and plans for tests, written in one place.
//!
//! Tests say what matters to them and get the rest from here:
//! `records::failing("r1").tracked(variant(1, 1, 0)).hit(0)`. A field that these
//! types gain or lose is a change of this file, not of every test that needs a run.
//!
//! The usual run is of build "ab", by "agent-1" without watchpoints, reported with
//! certainty; its clock ticks once a nanosecond.

use sketch_model::{
    AgentId, BuildId, CampaignId, Capabilities, ClockTie, Execution, FailureKind, FailureReport,
    LocationName, Mapping, Outcome, PointKind, Privacy, ProbeEvent, ProbeKind, Purpose, RunId,
    RunRecord, RuntimeAddress, Schema, Site, SiteId, SourceLocation, StackFrame, Statement,
    StatementId, StaticAddress, ThreadIndex, ThreadRecord, ThreadStack, TrackingPlan,
    TrackingRecord, Tsc, VariantRef, WatchHit, WatchRecord,
};

/// The build of the usual run and of the usual plan.
pub const BUILD: &str = "ab";

/// A run of P that ended well.
pub fn successful(id: &str) -> RunRecord {
    ended(id, Outcome::Success)
}

/// A run of P that ended with exit code 3.
pub fn failing(id: &str) -> RunRecord {
    ended(id, Outcome::Failure(report(FailureKind::ExitCode(3))))
}

/// A run of P.
pub fn ended(id: &str, outcome: Outcome) -> RunRecord {
    RunRecord {
        schema: Schema::default(),
        id: RunId(id.into()),
        agent: AgentId("agent-1".into()),
        build: BuildId(BUILD.into()),
        capabilities: Capabilities::hooks(),
        execution: Execution::Original,
        sampling_probability: 1.0,
        outcome,
        wall_us: 1_000,
        cpu_us: 900,
        threads: Vec::new(),
        unrecorded_threads: 0,
        freed: None,
        watch: WatchRecord::default(),
        tracking: TrackingRecord::default(),
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
        privacy_key: None,
        privacy: Privacy::Full,
    }
}

/// What makes another run of the usual one.
pub trait RunBuilder {
    /// P′ ran instead of P.
    fn tracked(self, variant: VariantRef) -> Self;
    fn on(self, capabilities: Capabilities) -> Self;
    fn of(self, build: &str) -> Self;
    fn with_threads(self, threads: Vec<ThreadRecord>) -> Self;
    /// Watchpoints saw these, and lost none.
    fn watched(self, hits: Vec<WatchHit>) -> Self;
    /// One more hit of a watchpoint slot, by a thread 1.
    fn hit(self, slot: u8) -> Self;
}

impl RunBuilder for RunRecord {
    fn tracked(mut self, variant: VariantRef) -> RunRecord {
        self.execution = Execution::Tracked(variant);
        self
    }

    fn on(mut self, capabilities: Capabilities) -> RunRecord {
        self.capabilities = capabilities;
        self
    }

    fn of(mut self, build: &str) -> RunRecord {
        self.build = BuildId(build.into());
        self
    }

    fn with_threads(mut self, threads: Vec<ThreadRecord>) -> RunRecord {
        self.threads = threads;
        self
    }

    fn watched(mut self, hits: Vec<WatchHit>) -> RunRecord {
        self.watch = WatchRecord {
            counted: hits.len() as u64,
            hits,
            armed: 1,
            ..WatchRecord::default()
        };
        self
    }

    fn hit(mut self, slot: u8) -> RunRecord {
        let mut hits = std::mem::take(&mut self.watch.hits);
        hits.push(WatchHit {
            slot,
            ..hit(1, 1, 0x5000, RuntimeAddress(0x1000))
        });
        self.watched(hits)
    }
}

/// The tracked build of a plan.
pub const fn variant(campaign: u64, iteration: u32, plan: u32) -> VariantRef {
    VariantRef {
        campaign: CampaignId(campaign),
        iteration,
        plan,
    }
}

/// What a thread recorded, complete. Thread 0 has the kernel's number 100.
pub fn thread(index: u32, head: Vec<ProbeEvent>) -> ThreadRecord {
    ThreadRecord {
        index: ThreadIndex(index),
        tid: 100 + index as i32,
        head,
        dropped: 0,
        tail: Vec::new(),
        edges: Vec::new(),
        uncounted: 0,
        thinned: Vec::new(),
    }
}

/// An access of 8 bytes that a hook recorded.
pub fn access(
    site: u32,
    kind: ProbeKind,
    (before, after): (u64, u64),
    address: RuntimeAddress,
    value: u64,
) -> ProbeEvent {
    ProbeEvent {
        site: SiteId(site),
        kind,
        size: 8,
        before: Tsc(before),
        after: Tsc(after),
        address,
        value,
    }
}

/// A hit of slot 0 with empty registers.
pub fn hit(tid: i32, handled_ns: u64, after_pc: u64, address: RuntimeAddress) -> WatchHit {
    WatchHit {
        slot: 0,
        tid,
        handled_ns,
        after_pc: RuntimeAddress(after_pc),
        address,
        registers: [0; 16],
        stack: Vec::new(),
    }
}

/// A file of `size` bytes, mapped from its beginning.
pub fn mapping(path: &str, start: u64, size: u64) -> Mapping {
    Mapping {
        start: RuntimeAddress(start),
        end: RuntimeAddress(start + size),
        file_offset: 0,
        path: path.into(),
        build_id: None,
    }
}

/// A failure without any stack.
pub fn report(kind: FailureKind) -> FailureReport {
    FailureReport {
        schema: Schema::default(),
        kind,
        fault_address: None,
        said: None,
        threads: Vec::new(),
        mappings: Vec::new(),
        gaps: Vec::new(),
    }
}

/// A thread of this stack died of SIGSEGV at address 0.
pub fn crash(stack: ThreadStack) -> FailureReport {
    FailureReport {
        fault_address: Some(RuntimeAddress(0)),
        threads: vec![stack],
        ..report(segmentation_fault())
    }
}

pub fn segmentation_fault() -> FailureKind {
    FailureKind::Signal {
        number: 11,
        name: "SIGSEGV".into(),
    }
}

/// A whole stack, innermost first: addresses and the files that hold them.
pub fn stack(tid: i32, frames: &[(u64, &str)]) -> ThreadStack {
    let frame = |(lookup, module): &(u64, &str)| StackFrame {
        lookup: StaticAddress(*lookup),
        module: (*module).into(),
    };
    ThreadStack {
        tid,
        frames: frames.iter().map(frame).collect(),
        truncated: None,
        waits_for: None,
    }
}

/// A statement without text.
pub fn statement(id: u32, function: &str, file: &str, line: u32) -> Statement {
    Statement {
        id: StatementId(id),
        function: function.into(),
        location: SourceLocation {
            file: file.into(),
            line,
        },
        text: String::new(),
    }
}

/// A hook of a tracked statement that aims no watchpoint.
pub fn site(
    id: u32,
    statement: u32,
    kind: PointKind,
    column: u32,
    location: Option<LocationName>,
) -> Site {
    Site {
        id: SiteId(id),
        statement: StatementId(statement),
        kind,
        column,
        size: if location.is_some() { 8 } else { 0 },
        location,
        arm_slot: None,
        purpose: Purpose::Statement,
        caller: None,
    }
}

/// The first plan for a σ of 2, which watches nothing and has no hooks.
pub fn plan(wants: Capabilities) -> TrackingPlan {
    TrackingPlan {
        schema: Schema::default(),
        build: BuildId(BUILD.into()),
        sigma: 2,
        variant: 0,
        wants,
        statements: Vec::new(),
        beside: Vec::new(),
        sites: Vec::new(),
        implied: Vec::new(),
        watched: Vec::new(),
        unwatched: Vec::new(),
        promoted: Vec::new(),
        audit: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_says_is_in_the_record_and_survives_the_wire() {
        let made = failing("r1").tracked(variant(7, 2, 1)).hit(0).hit(3);
        assert!(made.failed() && made.execution == Execution::Tracked(variant(7, 2, 1)));
        let slots: Vec<u8> = made.watch.hits.iter().map(|hit| hit.slot).collect();
        assert_eq!((slots, made.watch.counted), (vec![0, 3], 2));
        let text = serde_json::to_string(&made).unwrap();
        assert_eq!(serde_json::from_str::<RunRecord>(&text).unwrap(), made);
        assert!(!successful("r2").failed());
    }
}
