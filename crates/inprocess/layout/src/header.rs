//! The header: what agent and runtime tell each other once, before and at activation.

use crate::{ARM_LOG, Arm};

/// What agent and runtime tell each other.
#[repr(C)]
pub struct Header {
    // Written by the agent before the process starts.
    pub magic: u64,
    pub version: u32,
    /// Processors to open watchpoints on, counted from 0.
    pub cpus: u32,
    pub nonce: u64,
    pub region_size: u64,
    /// How many watchpoint slots to open on each processor; 0 for none.
    pub want_watch: u32,
    /// The inherited socket on which descriptors go to the agent; -1 for none.
    pub socket: i32,
    /// After this many arms the runtime stops re-aiming: each costs the program
    /// tens of microseconds per thread.
    pub arm_limit: u64,
    /// How long the program may wait for the agent to take its watchpoints, once,
    /// before `main`. An agent that is gone is noticed at once.
    pub reply_patience_ms: u64,
    /// Not zero: the program has a runtime of its own, and the preloaded object
    /// only serves it.
    pub tracked: u32,
    /// Not zero: threads tire of nothing, so that all is counted.
    pub tireless: u32,
    /// Where the program's own runtime starts, as its file counts addresses; zero if
    /// that is not known.
    pub start: u64,

    // Written by the preloaded object of a tracked build.
    /// Where its [`crate::Interposed`] is in the process; zero if there is none.
    pub interposed: u64,

    // Written by the runtime.
    /// The process that claimed the region; zero if none did.
    pub pid: u32,
    /// Bit n: a handler for signal n was installed.
    pub handled_signals: u32,
    /// Slots ever claimed.
    pub threads_claimed: u32,
    pub threads_without_slot: u32,
    /// Ended threads whose slots the process itself took before the agent could
    /// read them.
    pub threads_evicted: u32,
    /// Not zero: the C library does not tell where it keeps thread ids, so
    /// nothing is recorded.
    pub threads_unknown: u32,
    /// Ticks that a hook costs, as measured at activation.
    pub read_ticks: u32,
    pub write_ticks: u32,
    pub point_ticks: u32,
    pub counted_ticks: u32,
    pub watch_state: u32,
    pub watch_refused_call: u32,
    pub watch_refused_errno: i32,
    /// Processors on which events were opened.
    pub watch_cpus: u32,
    /// Not zero: the process has closed its watchpoints, as the agent asked.
    pub watch_released: u32,
    pub header_padding: u32,
    /// Arms that re-aimed a slot.
    pub arms: u64,
    /// Re-aims of one processor's event that the kernel refused.
    pub arm_errors: u64,
    /// Arms skipped because another thread was just aiming the same slot.
    pub arms_contended: u64,
    pub arms_over_limit: u64,
    /// Arms skipped because the program has a seccomp filter.
    pub arms_sandboxed: u64,
    /// Arms skipped because the memory is on the stack of the thread that aims.
    pub arms_own_stack: u64,
    /// Watches that ended because their memory was given back.
    pub disarms: u64,
    /// Processor time that the runtime's start took, in nanoseconds.
    pub activation_ns: u64,
    pub maps_length: u32,
    pub maps_truncated: u32,
    pub last_arm: Arm,
    pub arm_log: [Arm; ARM_LOG],
}
