//! What an agent sends of one run: raw records, exactly as the process left them.

use crate::{
    AgentId, BuildId, Capabilities, EdgeCount, Execution, FailureReport, FreedBlock, Gap, Mapping,
    PtRecord, RunId, RuntimeAddress, Schema, SiteId, Thinned, ThreadIndex, TrackingRecord,
    WatchRefusal,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much of what a run saw may leave its machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Privacy {
    /// Which statements ran, and when; no values and no addresses of data.
    ControlFlowOnly,
    /// Of each value only whether it is zero, its sign, and which others it equals.
    Shapes,
    /// Values as they were.
    #[default]
    Full,
}

impl fmt::Display for Privacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Privacy::ControlFlowOnly => "control flow only",
            Privacy::Shapes => "shapes of values",
            Privacy::Full => "full values",
        })
    }
}

/// A reading of the time-stamp counter.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tsc(pub u64);

/// Two readings that tie the time-stamp counter to the clock of watchpoint hits
/// (`CLOCK_MONOTONIC`, nanoseconds), one before and one after the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockTie {
    pub start_tsc: Tsc,
    pub start_ns: u64,
    pub end_tsc: Tsc,
    pub end_ns: u64,
    /// How far apart the two clocks may have been read, in nanoseconds.
    pub error_ns: u64,
}

impl ClockTie {
    /// The counter's earliest and latest possible value at a clock reading, or
    /// `None` if the tie is degenerate.
    pub fn tsc_at(&self, ns: u64) -> Option<(Tsc, Tsc)> {
        let span_ns = self.end_ns.checked_sub(self.start_ns).filter(|n| *n > 0)?;
        let span_tsc = self.end_tsc.0.checked_sub(self.start_tsc.0)?;
        let at = |ns: i128| -> u64 {
            let offset = (ns - self.start_ns as i128) * span_tsc as i128 / span_ns as i128;
            (self.start_tsc.0 as i128 + offset).clamp(0, u64::MAX as i128) as u64
        };
        let error = self.error_ns as i128;
        Some((Tsc(at(ns as i128 - error)), Tsc(at(ns as i128 + error))))
    }
}

/// What an inline hook recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    Read,
    Write,
    /// `value` is the successor's number.
    Branch,
    /// A call was reached.
    Call,
    /// A synchronisation call is about to be made on `address`.
    SyncBegin,
    /// It has returned `value`.
    SyncEnd,
    /// The call that was just reached has this argument: `address` is its number,
    /// from 1. The top bit of `size` says that it is a pointer.
    Argument,
    /// A call has returned `value`.
    Result,
    /// The string that the argument or result before it points to: its bytes are
    /// in `after`, `address` and `value`, their number in `size`, whose top bit
    /// says that there is more of it, and the bit below that they are not the
    /// bytes but a number for strings that are equal.
    Text,
}

/// In [`ProbeEvent::size`] of arguments, results and texts.
pub const SIZE_FLAG: u16 = 1 << 15;
/// In [`ProbeEvent::size`] of a text that was replaced by a number.
pub const TEXT_DISGUISED: u16 = 1 << 14;

/// One record of an inline hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeEvent {
    pub site: SiteId,
    pub kind: ProbeKind,
    /// Bytes accessed, for reads and writes.
    pub size: u16,
    /// The access happened between these two readings.
    pub before: Tsc,
    pub after: Tsc,
    pub address: RuntimeAddress,
    pub value: u64,
}

/// What one thread recorded: its first events, and its last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRecord {
    pub index: ThreadIndex,
    pub tid: i32,
    /// In program order, from the thread's first.
    pub head: Vec<ProbeEvent>,
    /// How many events, at least, are missing between `head` and `tail`.
    pub dropped: u64,
    pub tail: Vec<ProbeEvent>,
    /// What it passed how often. Passages beyond a limit are here alone.
    #[serde(default)]
    pub edges: Vec<EdgeCount>,
    /// Passages of which `edges` had no room to keep an account.
    #[serde(default)]
    pub uncounted: u64,
    /// Accesses and synchronisation calls that it made too often for all of them to be
    /// among the events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thinned: Vec<Thinned>,
}

impl ThreadRecord {
    pub fn events(&self) -> impl Iterator<Item = &ProbeEvent> {
        self.head.iter().chain(&self.tail)
    }
}

/// One hit of a hardware watchpoint, as the kernel sampled it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchHit {
    pub slot: u8,
    pub tid: i32,
    /// The clock when the hit was *handled*; the access came before it.
    pub handled_ns: u64,
    /// The instruction after the access.
    pub after_pc: RuntimeAddress,
    /// The watched address.
    pub address: RuntimeAddress,
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 … r15, after the access.
    pub registers: [u64; 16],
    /// The top of the stack, from rsp upward.
    pub stack: Vec<u64>,
}

/// What the watchpoints of one run saw and missed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRecord {
    pub hits: Vec<WatchHit>,
    /// Hits by the event's own counter: more than `hits` means that some were lost.
    pub counted: u64,
    /// How often a slot was aimed.
    pub armed: u64,
    /// How often a slot should have been aimed and was not, watching that ended before
    /// the run did included.
    #[serde(default)]
    pub skipped_aims: u64,
    /// How often a watch ended because its memory was given back.
    #[serde(default)]
    pub disarmed: u64,
    /// Why there are no watchpoints, if there are none.
    pub refused: Option<WatchRefusal>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Success,
    Failure(FailureReport),
}

/// One run of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    #[serde(default)]
    pub schema: Schema,
    pub id: RunId,
    pub agent: AgentId,
    /// The build of P, also when P′ ran.
    pub build: BuildId,
    /// What the agent's machine offers.
    #[serde(rename = "tier")]
    pub capabilities: Capabilities,
    /// Which form of the program ran.
    #[serde(default, rename = "variant")]
    pub execution: Execution,
    /// With which probability a run like this one is reported.
    pub sampling_probability: f64,
    pub outcome: Outcome,
    pub wall_us: u64,
    pub cpu_us: u64,
    pub threads: Vec<ThreadRecord>,
    /// Threads that ran hooks and left nothing; at least 1 if it is not known
    /// whether there were any. What such a run did not show may have happened.
    #[serde(default)]
    pub unrecorded_threads: u32,
    pub watch: WatchRecord,
    /// Freed blocks that something recorded touches; `None` if it was not observed what
    /// became of the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<Vec<FreedBlock>>,
    /// When recording was off, and why.
    #[serde(default)]
    pub tracking: TrackingRecord,
    pub clock: ClockTie,
    /// The executable mappings, for attributing watchpoint hits.
    pub mappings: Vec<Mapping>,
    /// Intel PT of the run, where the machine has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pt: Option<PtRecord>,
    /// What was lost or refused: it reaches the reader of the sketch.
    pub gaps: Vec<Gap>,
    /// What was taken out before the record left its machine.
    #[serde(default)]
    pub privacy: Privacy,
    /// At [`Privacy::Shapes`]: which secret disguised the values, by a short fingerprint.
    /// Values of records with different ones cannot be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy_key: Option<String>,
}

impl RunRecord {
    /// The fingerprint of the secret, no longer than one is: records come from outside.
    pub fn secret_fingerprint(&self) -> Option<String> {
        let key = self.privacy_key.as_ref()?;
        Some(key.chars().take(16).collect())
    }

    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failure(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIE: ClockTie = ClockTie {
        start_tsc: Tsc(1_000_000),
        start_ns: 500,
        end_tsc: Tsc(1_003_000),
        end_ns: 1_500,
        error_ns: 10,
    };

    #[test]
    fn a_clock_reading_becomes_an_interval_of_the_counter() {
        assert_eq!(TIE.tsc_at(1_000), Some((Tsc(1_001_470), Tsc(1_001_530))));
    }

    #[test]
    fn a_tie_without_duration_ties_nothing() {
        let degenerate = ClockTie {
            end_ns: TIE.start_ns,
            ..TIE
        };
        assert_eq!(degenerate.tsc_at(1_000), None);
    }
}
