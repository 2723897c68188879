//! Why something is missing, where there are several reasons for one kind of [`crate::Gap`].

use crate::RuntimeAddress;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Why a watchpoint was not aimed where it should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AimObstacle {
    RefusedByKernel,
    /// Another thread was aiming it.
    Contended,
    OverLimit,
    Sandboxed,
    /// The memory is on the accessing thread's own stack.
    OwnStack,
}

/// Why a run has no watchpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", remote = "Self")]
pub enum WatchRefusal {
    /// `watch_way = none`.
    Policy,
    /// This machine offers none.
    NotOffered,
    /// perf.data has none.
    ImportedFromPerf,
    RuntimeNotStarted,
    /// A call in the program.
    InProgram {
        call: WatchCall,
        errno: i32,
    },
    /// The runtime's step of this number, which this release does not know.
    AtStep {
        step: u32,
        errno: i32,
    },
    AgentTooSlow,
    AgentRefused,
    PageNotMapped,
    NoneSent,
    /// `errno` is none if the kernel gave no reason.
    RingNotMapped {
        errno: Option<i32>,
    },
    RingNotShared {
        errno: i32,
    },
    SocketRefused {
        errno: i32,
    },
    ReaderFailed,
    /// The sentence of an earlier release.
    #[serde(skip)]
    Words(String),
}

/// A call by which the program's runtime sets watchpoints up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchCall {
    PerfEventOpen,
    Sendmsg,
}

/// Why threads left no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadLoss {
    /// There is room for so many at a time.
    NoRoom { slots: u32 },
    /// They ended before they could be read.
    TooFast,
    /// Of ended threads the first and the last are kept.
    EndedNotKept,
}

/// Why it is not known which memory was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LifetimeObstacle {
    /// Another allocator than the C library's serves the program.
    OwnAllocator,
    /// Nothing is preloaded that could stand in front of the allocator.
    NotPreloaded,
    /// The machine's privacy level keeps it.
    Withheld,
}

/// When a list of mappings was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MappingsOf {
    Start,
    Crash,
}

/// Why a failure has no stack. Signals are named ("SIGSEGV").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackObstacle {
    Exit,
    RuntimeNotActive,
    NotHandled { signal: String },
    TakenByProgram { signal: String },
}

/// Why the operator's checker gave no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckerFailure {
    NotStarted {
        errno: i32,
    },
    /// The shell's own status for "not found" and "not executable".
    ShellStatus {
        status: i32,
    },
    Killed,
}

/// Why crashes of the untouched program cannot be captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreloadObstacle {
    StaticallyLinked,
    Sanitizer { library: String },
    NoFile { because: String },
}

/// Why a tracked build no longer runs on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", remote = "Self")]
pub enum Withdrawal {
    FailsOtherwise {
        failures: u64,
        runs: u64,
        original_failures: u64,
        original_runs: u64,
    },
    FailsTooOften {
        failures: u64,
        runs: u64,
    },
    TooSlow {
        /// Its processor time against the original's, in hundredths.
        percent: u64,
        runs: u64,
    },
    /// The sentence of an earlier release.
    #[serde(skip)]
    Words(String),
}

/// A part of a record that makes it too long to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordPart {
    IntelPt,
    WatchpointHits,
    Threads,
}

/// Why a stretch of Intel PT yielded nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceGapReason {
    /// The bytes precede the first synchronisation point.
    NoSync,
    /// The processor dropped packets.
    Overflow,
    BadPacket,
    /// The trace ends within a packet.
    Truncated,
    EndsWhileTracing,
    NoCode {
        at: RuntimeAddress,
    },
    /// Trace and code disagree; libipt says how.
    Contradiction(Cow<'static, str>),
    /// No branch that the trace could confirm.
    Endless {
        from: RuntimeAddress,
    },
    /// An error of libipt.
    Decoder(Cow<'static, str>),
}

/// A function that is handed over and of which it is not known which one it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownRoutine {
    /// What a `std::thread` runs.
    StdThread,
    ThreadStart,
    /// A callback of this library function.
    Callback {
        library_function: String,
    },
}

/// How the runs of one plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCounts {
    pub plan: u32,
    pub failed: u64,
    pub runs: u64,
}
