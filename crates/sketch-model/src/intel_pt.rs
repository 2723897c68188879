//! Intel PT of a run, exactly as the processor and the kernel wrote it: trace
//! bytes, and the sideband without which they are nobody's.
//!
//! The decoder is elsewhere (`pt-decoder/`), because whoever records must not
//! link it. What only the recording machine knows travels with the bytes: the
//! processor's model (traces of Broadwell decode to nothing without its
//! errata), its clock rates, and how perf's clock relates to the counter.
//!
//! Deliberately absent: code. A record names the files that were mapped; the
//! reader finds them by build-id.

use crate::{BuildId, Gap, RuntimeAddress, StatementId, Tsc};
use serde::{Deserialize, Serialize};

/// The processor that recorded: `GenuineIntel` by definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CpuModel {
    pub family: u16,
    pub model: u8,
    pub stepping: u8,
}

/// The rates that the timing packets count in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PtFrequency {
    /// `IA32_RTIT_CTL.MTCFreq`.
    pub mtc: u8,
    /// The processor's ratio without turbo.
    pub nominal: u8,
    /// CPUID.15H: EAX and EBX.
    pub crystal: u32,
    pub counter: u32,
}

/// How the kernel turns the time-stamp counter into the time of perf records
/// (`perf_event_mmap_page`: `time_shift`, `time_mult`, `time_zero`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerfClock {
    pub shift: u16,
    pub mult: u32,
    pub zero: u64,
}

impl PerfClock {
    /// Nanoseconds of perf's clock at a counter reading; `None` if the clock is
    /// not one that a kernel can have stated.
    pub fn ns_at(&self, tsc: Tsc) -> Option<u64> {
        if self.shift >= 64 {
            return None;
        }
        let scaled = (u128::from(tsc.0) * u128::from(self.mult)) >> self.shift;
        // `zero` is a difference modulo 2^64, often "negative".
        Some(self.zero.wrapping_add(scaled as u64))
    }

    /// The first counter reading at which [`Self::ns_at`] gives `ns` or more.
    pub fn tsc_at(&self, ns: u64) -> Option<Tsc> {
        if self.shift >= 64 || self.mult == 0 {
            return None;
        }
        let scaled = u128::from(ns.wrapping_sub(self.zero)) << self.shift;
        let tsc = scaled.div_ceil(u128::from(self.mult));
        u64::try_from(tsc).ok().map(Tsc)
    }
}

/// What one AUX buffer held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtBuffer {
    /// The processor that wrote it; `None` if it follows one thread.
    pub cpu: Option<u32>,
    /// The thread it follows; `None` if it follows a processor.
    pub tid: Option<i32>,
    #[serde(with = "text")]
    pub bytes: Vec<u8>,
}

/// Code that was mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedCode {
    pub start: RuntimeAddress,
    pub length: u64,
    pub file_offset: u64,
    pub path: String,
    pub build_id: Option<BuildId>,
}

/// What happened beside the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SidebandKind {
    Mapped(MappedCode),
    Comm {
        name: String,
        /// A new program: earlier mappings are gone.
        exec: bool,
    },
    Fork {
        parent_pid: i32,
        parent_tid: i32,
    },
    Exit,
    /// Tracing began while this thread was running.
    ItraceStart,
    SwitchIn,
    SwitchOut,
    /// So many sideband records were lost.
    Lost(u64),
    /// A stretch of the AUX buffer was handed over.
    Aux {
        offset: u64,
        size: u64,
        /// The buffer was full: trace is missing behind this stretch.
        truncated: bool,
        /// Older trace was overwritten.
        overwritten: bool,
        /// The trace has gaps of which the kernel knows.
        partial: bool,
    },
}

/// One perf record beside the trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidebandEvent {
    /// perf's clock; `None` for what held before recording began.
    pub time_ns: Option<u64>,
    pub cpu: Option<u32>,
    pub pid: i32,
    pub tid: i32,
    pub kind: SidebandKind,
}

/// Intel PT of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtRecord {
    pub cpu: Option<CpuModel>,
    pub frequency: Option<PtFrequency>,
    pub clock: Option<PerfClock>,
    pub buffers: Vec<PtBuffer>,
    /// In the order of time.
    pub sideband: Vec<SidebandEvent>,
    /// What it says, if the sender had the code at hand and decoded it; whoever
    /// reads the record need not do it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded: Option<TracedRun>,
}

/// A statement that a thread executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutedStatement {
    pub statement: StatementId,
    /// How often it was entered.
    pub times: u64,
    /// The counter by the timing packets before its first and last execution.
    pub first: Option<Tsc>,
    pub last: Option<Tsc>,
    /// The counter by a timing packet after its last execution.
    #[serde(default)]
    pub until: Option<Tsc>,
    /// Its last execution's place among all statements that the thread entered.
    #[serde(default)]
    pub entry: u64,
}

/// A way that a thread went at a branch of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchWay {
    pub statement: StatementId,
    pub column: u32,
    /// 0 if the condition held, 1 if not.
    pub successor: u32,
    pub times: u64,
}

/// What one thread executed of a build, by its trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStatements {
    pub pid: i32,
    pub tid: i32,
    /// In the order of first execution.
    pub executed: Vec<ExecutedStatement>,
    /// The last statements it entered, oldest first.
    pub ending: Vec<StatementId>,
    /// The ways it went, of branches that stand in the machine code as jumps.
    #[serde(default)]
    pub ways: Vec<BranchWay>,
    /// The last instruction that the trace confirms, anywhere.
    pub last_instruction: Option<RuntimeAddress>,
    /// The last one of the build's own code: what was next when a fault or a
    /// signal struck it, or else the last that was executed.
    pub last_own: Option<RuntimeAddress>,
    /// When the thread's last stretch began.
    pub last_seen: Option<Tsc>,
    pub blocks: u64,
    pub instructions: u64,
    /// Nothing is missing: a statement that is not listed was not executed.
    pub complete: bool,
    /// What is missing, with how often.
    pub gaps: Vec<Gap>,
}

/// What a run's Intel PT says in terms of statements: what a diagnosis reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedRun {
    /// Those of the program's own process.
    pub threads: Vec<ThreadStatements>,
    /// Every thread is there, without gaps: what is not listed did not happen.
    pub complete: bool,
    /// What is missing.
    pub gaps: Vec<Gap>,
}

/// Bytes as base64: JSON has no better form for them.
mod text {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of the recordings in `pt-decoder/tests/data`.
    const CLOCK: PerfClock = PerfClock {
        shift: 31,
        mult: 1_076_264_588,
        zero: 18_433_473_881_008_870_804,
    };

    #[test]
    fn a_clock_with_a_negative_zero_goes_both_ways() {
        for tsc in [40_450_075_477_621_505, 40_450_075_479_261_866] {
            let ns = CLOCK.ns_at(Tsc(tsc)).unwrap();
            let back = CLOCK.tsc_at(ns).unwrap();
            assert!(back.0 <= tsc && tsc - back.0 <= 2, "{tsc} {back:?}");
            assert_eq!(CLOCK.ns_at(back), Some(ns));
        }
    }

    #[test]
    fn a_clock_that_no_kernel_states_tells_nothing() {
        let odd = PerfClock { shift: 64, ..CLOCK };
        assert_eq!(odd.ns_at(Tsc(1)), None);
        assert_eq!(PerfClock { mult: 0, ..CLOCK }.tsc_at(1), None);
    }
}
