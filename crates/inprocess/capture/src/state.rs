//! Whether this process records, and where to.
//!
//! Two pages of our own `.bss` answer that, and activation maps other memory
//! over them, so that hooks and clones reach everything at a link-time address:
//!
//! * `__failsketch_enabled`: the control page that is shared with the agent,
//!   which turns recording off and on from outside. Zero until activation.
//! * `__failsketch_active`: private memory that the kernel wipes in a forked
//!   child (`MADV_WIPEONFORK`). A child therefore finds a null region and
//!   records nothing, without a check of the process id on the hot path.
//!
//! An entry of a tracked function leads into the clone if both are non-zero.
//! `enabled` is to be tested first: it alone decides in a process that does not
//! record just now. An entry that tests `enabled` only is right too, but then
//! forked children run the clones, whose hooks do nothing.
//!
//! A `vfork` child shares its parent's memory, and with it the parent's thread
//! slot, until it executes something else.

use crate::layout::{Control, Region};
#[cfg(not(failsketch_preload))]
use crate::layout::{MAX_CPUS, WATCH_SLOTS};
#[cfg(not(failsketch_preload))]
use crate::perf_attr::PerfEventAttr;
use crate::sys;
use core::{
    arch::{asm, global_asm},
    mem::offset_of,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};
#[cfg(not(failsketch_preload))]
use core::sync::atomic::AtomicU64;

// Each page has a hidden name for ourselves, which needs no GOT in a shared
// object, and an exported one for clones.
global_asm!(
    ".pushsection .bss.__failsketch_pages,\"aw\",@nobits",
    ".p2align 12",
    ".hidden __failsketch_control_page",
    ".globl __failsketch_control_page",
    ".globl __failsketch_enabled",
    ".type __failsketch_enabled,@object",
    ".size __failsketch_enabled, 4",
    "__failsketch_control_page:",
    "__failsketch_enabled:",
    ".zero 4096",
    ".hidden __failsketch_state_pages",
    ".globl __failsketch_state_pages",
    ".globl __failsketch_active",
    ".type __failsketch_active,@object",
    ".size __failsketch_active, 4",
    "__failsketch_state_pages:",
    "__failsketch_active:",
    ".zero {size}",
    ".popsection",
    size = const STATE_SIZE,
);

unsafe extern "C" {
    static mut __failsketch_control_page: Control;
    static mut __failsketch_state_pages: State;
}

const PAGE: usize = 4096;
const STATE_SIZE: usize = size_of::<State>().next_multiple_of(PAGE);

/// What the watchpoints need at run time.
#[cfg(not(failsketch_preload))]
#[repr(C)]
pub struct Watch {
    pub ready: AtomicU32,
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

/// What a forked child finds zeroed.
#[repr(C)]
pub struct State {
    /// `__failsketch_active`: this process records.
    pub active: AtomicU32,
    pub padding: u32,
    pub region: AtomicPtr<Region>,
    /// Near the end of the main thread's stack.
    pub main_stack_end: u64,
    /// One for each thread slot; null if there are none.
    #[cfg(not(failsketch_preload))]
    pub alternate_stacks: usize,
    /// Where a thread's id is, from its thread pointer; zero until it is known.
    #[cfg(not(failsketch_preload))]
    pub tid_offset: usize,
    #[cfg(not(failsketch_preload))]
    pub costs: Costs,
    #[cfg(not(failsketch_preload))]
    pub watch: Watch,
    /// By thread id: the id below, the slot's number above.
    #[cfg(not(failsketch_preload))]
    pub table: [AtomicU64; TABLE],
}

/// Entries of the table that leads threads to their slots.
#[cfg(not(failsketch_preload))]
pub const TABLE: usize = 1024;

/// Counter ticks that hooks cost, as measured at activation.
#[cfg(not(failsketch_preload))]
#[repr(C)]
pub struct Costs {
    pub read: u64,
    pub write: u64,
    /// A branch, a call, one end of a synchronisation call.
    pub point: u64,
    /// A point that is only counted.
    pub counted: u64,
}

#[inline(always)]
pub fn state() -> *mut State {
    &raw mut __failsketch_state_pages
}

#[inline(always)]
pub fn control() -> *mut Control {
    &raw mut __failsketch_control_page
}

/// Whether hooks are to record: the first thing that each of them asks.
#[cfg(not(failsketch_preload))]
#[inline(always)]
pub fn enabled() -> bool {
    // SAFETY: the page is always mapped; the agent writes the word, hence atomic.
    unsafe { AtomicU32::from_ptr(&raw mut (*control()).enabled).load(Ordering::Relaxed) != 0 }
}

/// Whether the program has a seccomp filter of its own, as far as the agent knows.
pub fn sandboxed() -> bool {
    // SAFETY: as in `enabled`.
    unsafe { AtomicU32::from_ptr(&raw mut (*control()).sandboxed).load(Ordering::Relaxed) != 0 }
}

/// The thread pointer: word 0 of the control block is its own address (System V
/// ABI, thread-local storage).
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the thread pointer is set up before any code of the program runs.
    unsafe {
        asm!(
            "mov {0}, qword ptr fs:[0]",
            out(reg) pointer,
            options(nostack, readonly, preserves_flags)
        );
    }
    pointer
}

/// The thread's id if that can be known without a system call, else zero.
pub fn known_tid() -> u32 {
    #[cfg(failsketch_preload)]
    return 0;
    #[cfg(not(failsketch_preload))]
    crate::threads::known_tid()
}

/// The region to record into; null if this process does not record.
#[inline(always)]
pub fn region() -> *mut Region {
    // SAFETY: the pages are always mapped.
    unsafe { (*state()).region.load(Ordering::Relaxed) }
}

/// Puts the two mappings in place and starts recording into `region`, whose file
/// is `fd`. False if the kernel refuses one of them (before 4.14 it cannot wipe
/// on fork, and a child could write into its parent's records).
///
/// # Safety
/// Called once, before any other thread exists, with a mapped region.
pub unsafe fn start_recording(region: *mut Region, fd: i32) -> bool {
    let state = state();
    // SAFETY: replaces pages that belong to us alone and hold zeros; if the
    // second step fails, a private page of zeros stays, which is what was there.
    unsafe {
        let private = sys::MAP_PRIVATE_ANONYMOUS;
        if !sys::map_over(state.cast(), STATE_SIZE, private, -1, 0)
            || sys::advise(state.cast(), STATE_SIZE, sys::MADV_WIPEONFORK) < 0
            || !sys::map_over(
                control().cast(),
                PAGE,
                sys::MAP_SHARED,
                fd,
                offset_of!(Region, control),
            )
        {
            return false;
        }
        (*state).region.store(region, Ordering::Relaxed);
        (*state).active.store(1, Ordering::Release);
        true
    }
}
