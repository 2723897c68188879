//! The shared memory between an agent and the process it supervises.
//!
//! One file, compiled into both sides (the in-process part includes it by path),
//! so that they cannot disagree. Everything is `repr(C)` and made of integers:
//! any bytes are a value of these types, which lets the agent read what a
//! crashed process left without trusting it.
//!
//! The region is a memfd of exactly [`REGION_SIZE`] bytes, sealed against
//! resizing and with all pages allocated by the agent: a hole or a truncation
//! would be a SIGBUS in the program under diagnosis.
//!
//! Deliberately absent: behaviour. The writer is `inprocess/`, the reader is
//! `client-agent/src/shared_memory/`.

/// "FSKETCH" and a byte that no text has.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FSKETCH\x01");
/// Grows with every change of this file.
pub const VERSION: u32 = 13;

/// Stands right before the constructor of the runtime inside a tracked build, at a
/// multiple of its own length: so the agent finds it in a file without symbols.
pub const START_MARK: [u64; 2] = [
    u64::from_le_bytes(*b"failsket"),
    u64::from_le_bytes(*b"ch-start"),
];

/// The variable that activates the runtime: `<fd>:<nonce in 16 hex digits>`.
pub const ACTIVATION_VARIABLE: &str = "FAILSKETCH_FD";
/// What LD_PRELOAD was before the agent prepended the runtime; absent if it was unset.
pub const PRELOAD_WAS_VARIABLE: &str = "FAILSKETCH_PRELOAD_WAS";

/// Threads that record at the same time; further ones are counted. The agent
/// empties and frees the slots of threads that have ended.
pub const THREAD_SLOTS: usize = 64;
/// A thread's first events, never overwritten.
pub const HEAD_EVENTS: usize = 256;
/// A thread's last events. A power of two.
pub const RING_EVENTS: usize = 4096;
/// Edges a thread keeps an account of. A power of two.
pub const EDGES: usize = 512;
/// How often one thread writes the same edge or access down as an event; after
/// that it is only counted, and of accesses the latest is kept, so that a hot
/// loop does not push out what came before it.
pub const EDGE_SATURATION: u64 = 512;

/// The same for a slot that holds `count` events already: the fuller it is, the
/// sooner what is frequent gives way to what is rare, so that nothing is lost but
/// repetitions.
pub const fn edge_saturation(count: u64) -> u64 {
    const ALL: u64 = (HEAD_EVENTS + RING_EVENTS) as u64;
    if count < ALL / 2 {
        EDGE_SATURATION
    } else if count < ALL / 4 * 3 {
        EDGE_SATURATION / 8
    } else if count < ALL / 8 * 7 {
        EDGE_SATURATION / 64
    } else {
        EDGE_SATURATION / 256
    }
}
/// [`Edge::successor`] of a point that is merely reached, of an access, and of the
/// beginning and the end of a synchronisation call.
pub const REACHED: u32 = u32::MAX;
pub const ACCESSED: u32 = u32::MAX - 1;
pub const SYNC_BEGUN: u32 = u32::MAX - 2;
pub const SYNC_ENDED: u32 = u32::MAX - 3;
/// Bits of [`Edge::shapes`].
pub const SAW_ZERO: u64 = 1;
pub const SAW_NON_ZERO: u64 = 2;
pub const SAW_NEGATIVE: u64 = 4;
/// x86 has four debug registers.
pub const WATCH_SLOTS: usize = 4;
/// Processors beyond this number have no watchpoints; the agent says so.
pub const MAX_CPUS: usize = 64;
/// Arms kept one by one: the first ones.
pub const ARM_LOG: usize = 64;
/// Bytes of `/proc/self/maps` kept.
pub const MAPS_BYTES: usize = 128 * 1024;
/// Bytes of the crashing thread's stack kept.
pub const STACK_BYTES: usize = 64 * 1024;
/// Bytes kept of what an aborting program said: a message, an exception's text.
pub const WORDS_BYTES: usize = 1024;
/// Bytes kept of the name of an exception's type.
pub const TYPE_NAME_BYTES: usize = 256;
/// The part of the stack below `rsp` that leaf functions may use.
pub const RED_ZONE: u64 = 128;

/// Low byte of [`Event::kind`].
pub const KIND_READ: u16 = 1;
pub const KIND_WRITE: u16 = 2;
/// `value` is the successor's number.
pub const KIND_BRANCH: u16 = 3;
pub const KIND_CALL: u16 = 4;
pub const KIND_SYNC_BEGIN: u16 = 5;
pub const KIND_SYNC_END: u16 = 6;
/// An argument of the call that was just reached: `address` is its number, from 1.
pub const KIND_ARGUMENT: u16 = 7;
/// What the call returned.
pub const KIND_RESULT: u16 = 8;
/// The string that the value before it points to: its bytes are in `after`,
/// `address` and `value`, their number in `size`.
pub const KIND_TEXT: u16 = 9;
/// Bytes of a string that are kept.
pub const TEXT_BYTES: usize = 24;
/// In [`Event::size`]: of an argument or result, it is a pointer; of a text,
/// there is more of it.
pub const SIZE_FLAG: u16 = 1 << 15;

/// States of [`Header::watch_state`].
pub const WATCH_UNTRIED: u32 = 0;
pub const WATCH_READY: u32 = 1;
pub const WATCH_REFUSED: u32 = 2;

/// Values of [`Header::watch_refused_call`]: what was refused.
pub const CALL_PERF_EVENT_OPEN: u32 = 1;
pub const CALL_SENDMSG: u32 = 2;
/// The agent did not answer within the runtime's patience.
pub const CALL_REPLY: u32 = 3;
/// The agent answered that it could not use the events.
pub const CALL_AGENT: u32 = 4;
pub const CALL_MMAP: u32 = 5;

/// Messages over the socket: the processor whose descriptors come along, or this.
pub const LAST_MESSAGE: u32 = u32::MAX;
/// The agent's one-byte answers.
pub const REPLY_READY: u8 = 1;
pub const REPLY_REFUSED: u8 = 0;

/// What each watchpoint sample carries, in the kernel's order (`perf_event_open(2)`):
/// IP, TID, TIME, ADDR, CPU, REGS_USER, STACK_USER, IDENTIFIER.
pub const WATCH_SAMPLE_TYPE: u64 =
    1 | (1 << 1) | (1 << 2) | (1 << 3) | (1 << 7) | (1 << 12) | (1 << 13) | (1 << 16);
/// ax bx cx dx si di bp sp ip and r8 to r15 (`asm/perf_regs.h`).
pub const WATCH_REGISTERS: u64 = 0x1ff | 0xff_0000;
/// Bytes of stack in each sample.
pub const WATCH_STACK_BYTES: u32 = 256;
/// The reader is woken when a ring holds this much: waking it at each hit would
/// put its work between the accesses that are being observed.
pub const WATCH_WAKEUP_BYTES: u32 = 16 * 1024;

/// States of [`Crash::state`].
pub const CRASH_NONE: u32 = 0;
pub const CRASH_WRITING: u32 = 1;
pub const CRASH_COMPLETE: u32 = 2;

/// One record of a hook.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    pub site: u32,
    /// Low byte: one of the `KIND_` constants. High byte: the lap of the ring,
    /// modulo 256, so that a reader can tell an event that was still being
    /// written when the process died from the one it was about to replace.
    /// Written last.
    pub kind: u16,
    pub size: u16,
    pub before: u64,
    pub after: u64,
    pub address: u64,
    pub value: u64,
}

/// One way that a branch went, or one point or access that was reached, in one
/// thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Edge {
    /// The site's number plus one; zero where there is no edge.
    pub site: u32,
    pub successor: u32,
    pub count: u64,
    pub first: u64,
    /// Exact while all are events; then a lower bound.
    pub last: u64,
    /// Of an access: how many are no events.
    pub missed: u64,
    /// What the values of an access looked like, all of them.
    pub shapes: u64,
    /// The latest event of a saturated access; its `kind` is zero while it is
    /// being written.
    pub latest: Event,
}

/// States of [`ThreadSlot::state`]. A free slot is all zeros.
pub const SLOT_FREE: u32 = 0;
/// Somebody claims it or clears it.
pub const SLOT_BUSY: u32 = 1;
pub const SLOT_USED: u32 = 2;

/// What one thread recorded.
#[repr(C)]
pub struct ThreadSlot {
    pub state: u32,
    /// With `claimed_at` and the region's process, the thread's identity.
    pub tid: u32,
    /// The counter when the slot was claimed.
    pub claimed_at: u64,
    /// Events ever recorded: index `i` lives in `head[i]`, later ones in
    /// `ring[(i - HEAD_EVENTS) % RING_EVENTS]`.
    pub count: u64,
    /// Ticks that its hooks have cost and that are not in the account yet.
    pub due: u64,
    /// Events that were only counted, in `edges`, or replaced there.
    pub saturated: u64,
    /// Events of edges that found no room in `edges`.
    pub edges_full: u64,
    /// Not zero: the thread found no slot at first, and what it did until then is lost.
    pub late: u64,
    pub padding: [u64; 1],
    pub edges: [Edge; EDGES],
    pub head: [Event; HEAD_EVENTS],
    pub ring: [Event; RING_EVENTS],
}

/// One aiming of a watchpoint; of size zero, the end of one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Arm {
    pub slot: u32,
    pub size: u32,
    pub address: u64,
    pub tsc: u64,
}

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
    pub tracked_padding: u32,
    /// Where the program's own runtime starts, as its file counts addresses; zero if
    /// that is not known.
    pub start: u64,

    // Written by the preloaded object of a tracked build.
    /// Where its [`Interposed`] is in the process; zero if there is none.
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

/// What the preloaded object does for the runtime of a tracked build. Lies in
/// the process's own memory.
#[repr(C)]
pub struct Interposed {
    /// [`VERSION`].
    pub version: u32,
    /// Not zero: some slot is aimed.
    pub watching: u32,
    /// The address that each slot watches; zero for none.
    pub watched: [u64; WATCH_SLOTS],
    /// `extern "C" fn(slot: u32)`: the memory that a slot watches is about to be
    /// given back. Zero until there is a runtime.
    pub given_back: usize,
    /// `extern "C" fn(signal: i32)`: the program is about to look at or to set
    /// its handler; it has done so.
    pub step_aside: usize,
    pub step_in_front: usize,
}

/// Values of [`Control::off_reason`].
pub const OFF_NOT_STARTED: u32 = 0;
/// The hooks had used up their credit.
pub const OFF_HOOKS: u32 = 1;
/// Watchpoint hits had used up the credit; written by the agent.
pub const OFF_HITS: u32 = 2;
/// The agent had not been heard of for too long.
pub const OFF_ALONE: u32 = 3;

/// The one page that both sides write while the process runs. The runtime maps
/// it over the symbol `__failsketch_enabled`, so that the program tests the
/// switch by one comparison with memory, and the agent turns it from outside,
/// without a signal, a helper thread or a system call in the program.
#[repr(C, align(4096))]
pub struct Control {
    /// Not zero: hooks record, and entries of tracked functions lead into their
    /// clones. Zero until activation.
    pub enabled: u32,
    /// Why `enabled` became zero.
    pub off_reason: u32,
    /// The counter when it did.
    pub off_since: u64,
    /// Counter ticks that tracking may still cost. The agent adds, hooks and
    /// agent subtract; whoever takes it below zero turns the switch off.
    pub credit: i64,
    /// Zero: nobody keeps an account.
    pub governed: u32,
    /// How often hooks turned the switch off.
    pub brakes: u32,
    /// How many slots the agent has freed.
    pub freed: u32,
    /// Not zero: the program has a seccomp filter of its own, and system calls of
    /// ours might kill it.
    pub sandboxed: u32,
    /// Not zero: the program has forbidden itself to read the counter, so
    /// recording is off for good.
    pub counter_forbidden: u32,
    /// Bit n: watchpoint slot n has been aimed.
    pub aimed: u32,
    /// Not zero: the agent wants the watchpoints closed for good.
    pub release_watch: u32,
    pub control_padding: u32,
    /// The counter when `enabled` was first set.
    pub activated_at: u64,
    /// The counter when the agent last looked; zero before it first did.
    pub looked_at: u64,
    /// How long the agent may be silent, in ticks, before hooks take it for dead.
    pub patience: u64,
}

/// What the crash handler captured.
#[repr(C)]
pub struct Crash {
    pub state: u32,
    pub tid: u32,
    pub signal: i32,
    pub code: i32,
    pub fault_address: u64,
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 … r15
    pub registers: [u64; 16],
    pub rip: u64,
    pub rflags: u64,
    /// Address of `stack[0]`: `rsp` less the red zone or, when that is not
    /// readable, the first readable address above it.
    pub stack_start: u64,
    pub stack_length: u32,
    pub maps_length: u32,
    pub maps_truncated: u32,
    /// Not zero: the capture made no system calls.
    pub sandboxed: u32,
    /// Not zero: the program's own handler ran after the capture.
    pub taken_over: u32,
    pub crash_padding: u32,
    /// What an aborting program said; each length is zero if it said nothing.
    pub message_length: u32,
    pub exception_type_length: u32,
    pub exception_text_length: u32,
    pub padding: u32,
    /// The C library's message: a failed assertion, a broken heap.
    pub message: [u8; WORDS_BYTES],
    /// The type of the C++ exception in flight, as the ABI spells it.
    pub exception_type: [u8; TYPE_NAME_BYTES],
    /// The text it was made with.
    pub exception_text: [u8; WORDS_BYTES],
    pub stack: [u8; STACK_BYTES],
    pub maps: [u8; MAPS_BYTES],
}

/// The whole region.
#[repr(C, align(4096))]
pub struct Region {
    pub header: Header,
    pub control: Control,
    pub crash: Crash,
    /// `/proc/self/maps` at activation.
    pub maps: [u8; MAPS_BYTES],
    pub threads: [ThreadSlot; THREAD_SLOTS],
}

/// The exact size of the memfd of a tracked build.
pub const REGION_SIZE: usize = size_of::<Region>();
/// The exact size of the memfd of a program that only has its crash captured: the
/// region up to the threads' slots, which are most of it, and whose pages would
/// cost every start milliseconds.
pub const CAPTURE_SIZE: usize = core::mem::offset_of!(Region, threads);
