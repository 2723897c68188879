//! Watchpoints: how the runtime opens them, hands them over, and says where it aimed.

/// x86 has four debug registers.
pub const WATCH_SLOTS: usize = 4;
/// Processors beyond this number have no watchpoints; the agent says so.
pub const MAX_CPUS: usize = 64;
/// Arms kept one by one: the first ones.
pub const ARM_LOG: usize = 64;

/// States of [`crate::Header::watch_state`].
pub const WATCH_UNTRIED: u32 = 0;
pub const WATCH_READY: u32 = 1;
pub const WATCH_REFUSED: u32 = 2;

/// Values of [`crate::Header::watch_refused_call`]: what was refused.
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

/// One aiming of a watchpoint; of size zero, the end of one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Arm {
    pub slot: u32,
    pub size: u32,
    pub address: u64,
    pub tsc: u64,
}
