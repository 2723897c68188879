//! Run records as agents send them, of a program at [`BIAS`].

use super::VARIANT;
use sketch_model::*;

pub const BIAS: u64 = 0x5555_0000_0000;
pub const ADDRESS: RuntimeAddress = RuntimeAddress(0x1000);

pub fn mapping(path: &str, start: u64) -> Mapping {
    Mapping {
        start: RuntimeAddress(start),
        end: RuntimeAddress(start + 0x1000),
        file_offset: 0,
        path: path.to_owned(),
        build_id: None,
    }
}

/// One tick a nanosecond, exact to 5.
pub fn record(threads: Vec<ThreadRecord>, hits: Vec<WatchHit>) -> RunRecord {
    RunRecord {
        schema: Schema::default(),
        id: RunId("r1".to_owned()),
        agent: AgentId("a1".to_owned()),
        build: BuildId("b1".to_owned()),
        tier: Tier::Watchpoints,
        variant: Some(VARIANT),
        sampling_probability: 0.5,
        outcome: Outcome::Success,
        wall_us: 1,
        cpu_us: 1,
        unrecorded_threads: 0,
        threads,
        watch: WatchRecord {
            counted: hits.len() as u64,
            hits,
            armed: 1,
            skipped_aims: 0,
            disarmed: 0,
            refused: None,
        },
        tracking: Default::default(),
        clock: ClockTie {
            start_tsc: Tsc(0),
            start_ns: 0,
            end_tsc: Tsc(10_000_000),
            end_ns: 10_000_000,
            error_ns: 5,
        },
        mappings: vec![
            mapping("/program", BIAS),
            mapping("/libc", 0x7fff_0000_0000),
        ],
        pt: None,
        gaps: Vec::new(),
        privacy: Privacy::Full,
        privacy_key: None,
    }
}

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

pub fn probe(statement: u32, kind: ProbeKind, before: u64, after: u64, value: u64) -> ProbeEvent {
    let offset = match kind {
        ProbeKind::Read => 0,
        ProbeKind::Write => 1,
        _ => 2,
    };
    ProbeEvent {
        site: SiteId(3 * statement + offset),
        kind,
        size: 8,
        before: Tsc(before),
        after: Tsc(after),
        address: ADDRESS,
        value,
    }
}
