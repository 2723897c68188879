//! Runs of the double's program, as an agent would report them.
//!
//! In a failing run main's store of NULL precedes the consumer's load of `mut`;
//! in a successful one it follows it. Everything else is the same in both.

use super::double::build;
use sketch_model::{
    FailureReport, Outcome, ProbeKind, RunRecord, RuntimeAddress, ThreadRecord, VariantRef,
};
pub use test_support::records::variant;
use test_support::records::{self, RunBuilder, stack, thread};

pub const MUT: RuntimeAddress = RuntimeAddress(0x7f00_0000_1000);

/// A crash in `lines`, innermost first.
pub fn crash(lines: &[u32]) -> Outcome {
    let frame = |line: &u32| (0x1000 + u64::from(*line), "/opt/pbzip2");
    let frames: Vec<_> = lines.iter().map(frame).collect();
    Outcome::Failure(FailureReport {
        mappings: vec![records::mapping("/opt/pbzip2", 0x5555_0000_0000, 0x1_0000)],
        ..records::crash(stack(101, &frames))
    })
}

/// A run of P.
pub fn untracked(id: &str, outcome: Outcome) -> RunRecord {
    records::ended(id, outcome).of(&build().0)
}

/// A run of a tracked build.
pub fn tracked(id: &str, variant: VariantRef, outcome: Outcome) -> RunRecord {
    let failed = matches!(outcome, Outcome::Failure(_));
    // Sites are numbered by statement: 0 loads `mut`, 1 stores NULL to it.
    let access = |site, kind, at, value| records::access(site, kind, (at, at + 10), MUT, value);
    let loads = |last| {
        let load = |at, value| access(0, ProbeKind::Read, at, value);
        vec![load(1_000, 0x5000), load(3_000, last)]
    };
    let store = |at| vec![access(1, ProbeKind::Write, at, 0)];
    let (main, consumer) = match failed {
        true => (store(2_000), loads(0)),
        false => (store(4_000), loads(0x5000)),
    };
    let threads: Vec<ThreadRecord> = vec![thread(0, main), thread(1, consumer)];
    untracked(id, outcome)
        .tracked(variant)
        .with_threads(threads)
}
