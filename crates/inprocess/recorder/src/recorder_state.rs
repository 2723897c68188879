//! What the recorder knows at run time: on pages of our own `.bss`, which activation maps
//! other memory over, so that hooks reach everything at a link-time address and a forked
//! child finds it zeroed (`state.rs` of the crate `capture` tells why).

use crate::perf_attr::PerfEventAttr;
use core::{
    arch::global_asm,
    mem::offset_of,
    sync::atomic::{AtomicI32, AtomicU32, AtomicU64},
};
use inprocess_base::own_address;
use inprocess_capture::state::{Pages, Shared};
use inprocess_layout::{Fatigue, MAX_CPUS, Region, WATCH_SLOTS};

// In the section of the other pages: each section on pages of its own costs the file one.
global_asm!(
    ".pushsection .bss.__failsketch_pages,\"aw\",@nobits",
    ".p2align 12",
    ".hidden __failsketch_recorder_pages",
    ".globl __failsketch_recorder_pages",
    "__failsketch_recorder_pages:",
    ".zero {size}",
    // Clones look at it, too.
    ".globl __failsketch_tired",
    ".type __failsketch_tired,@object",
    ".size __failsketch_tired, {fatigue}",
    ".hidden __failsketch_fatigue_pages",
    ".globl __failsketch_fatigue_pages",
    "__failsketch_fatigue_pages:",
    "__failsketch_tired:",
    ".zero {fatigue}",
    ".popsection",
    size = const SIZE,
    fatigue = const size_of::<Fatigue>(),
);

const PAGE: usize = 4096;
const SIZE: usize = size_of::<RecorderState>().next_multiple_of(PAGE);

/// What a forked child finds zeroed, like the state of crash capture.
#[repr(C)]
pub struct RecorderState {
    pub costs: Costs,
    pub watch: Watch,
    /// By thread id: the id below, the slot's number above.
    pub table: [AtomicU64; TABLE],
}

/// Entries of the table that leads threads to their slots.
pub const TABLE: usize = 1024;

/// Counter ticks that hooks cost, as measured at activation.
#[repr(C)]
pub struct Costs {
    pub read: u64,
    pub write: u64,
    /// A branch, a call, one end of a synchronisation call.
    pub point: u64,
    /// A point that is only counted.
    pub counted: u64,
}

/// An address and the logarithm of a size in one word. The instrumenter does the same
/// (`crates/instrumenter/src/hooks/kept.rs`).
pub fn asked(address: u64, shift: u32) -> u64 {
    address ^ u64::from(shift) << 60
}

/// What the watchpoints need at run time.
#[repr(C)]
pub struct Watch {
    pub ready: AtomicU32,
    /// Zero: aiming changes nothing, for good. Clones look at this and the next one.
    pub asking: AtomicU32,
    /// Accesses that need no aiming until one of them settles a bill all the same: threads
    /// that are tired of every hook would not notice that the agent is gone, and hits go on.
    pub countdown: AtomicI32,
    /// With which address and size, as [`asked`] joins them, each slot needs no aiming.
    pub asked: [AtomicU64; WATCH_SLOTS],
    /// Bit n: the events of slot n have been closed for good.
    pub released: AtomicU32,
    /// What each slot is aimed at: size's logarithm in the top bits, address below.
    pub aim: [AtomicU64; WATCH_SLOTS],
    /// One while a thread is aiming the slot: it alone may touch `attr`.
    pub aiming: [AtomicU32; WATCH_SLOTS],
    pub attr: [PerfEventAttr; WATCH_SLOTS],
    /// By processor, then slot; -1 where there is none.
    pub fds: [[i32; WATCH_SLOTS]; MAX_CPUS],
}

#[inline(always)]
pub fn recorder() -> *mut RecorderState {
    own_address!("__failsketch_recorder_pages") as *mut RecorderState
}

#[inline(always)]
pub fn fatigue() -> *mut Fatigue {
    own_address!("__failsketch_fatigue_pages") as *mut Fatigue
}

/// What agent and hooks share of who is tired.
pub fn shared() -> Shared {
    Shared {
        pages: Pages {
            start: fatigue().cast(),
            length: size_of::<Fatigue>(),
        },
        offset: offset_of!(Region, fatigue),
    }
}

pub fn pages() -> Pages {
    Pages {
        start: recorder().cast(),
        length: SIZE,
    }
}
