//! Run records as agents send them, of a program at [`BIAS`].

use super::VARIANT;
use sketch_model::*;
pub use test_support::records::thread;
use test_support::records::{RunBuilder, access, mapping, successful};

pub const BIAS: u64 = 0x5555_0000_0000;
/// Its build-id.
pub const PROGRAM: &str = "b1";
pub const ADDRESS: RuntimeAddress = RuntimeAddress(0x1000);

/// One tick a nanosecond, exact to 5.
pub fn record(threads: Vec<ThreadRecord>, hits: Vec<WatchHit>) -> RunRecord {
    let run = successful("r1")
        .on(Capabilities::watchpoints())
        .tracked(VARIANT);
    RunRecord {
        sampling_probability: 0.5,
        clock: ClockTie {
            start_tsc: Tsc(0),
            start_ns: 0,
            end_tsc: Tsc(10_000_000),
            end_ns: 10_000_000,
            error_ns: 5,
        },
        mappings: vec![
            Mapping {
                build_id: Some(BuildId(PROGRAM.into())),
                ..mapping("/program", BIAS, 0x1000)
            },
            mapping("/libc", 0x7fff_0000_0000, 0x1000),
        ],
        ..run.with_threads(threads).watched(hits)
    }
}

pub fn probe(statement: u32, kind: ProbeKind, before: u64, after: u64, value: u64) -> ProbeEvent {
    let offset = match kind {
        ProbeKind::Read => 0,
        ProbeKind::Write => 1,
        _ => 2,
    };
    access(
        3 * statement + offset,
        kind,
        (before, after),
        ADDRESS,
        value,
    )
}
