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

use core::{
    arch::{asm, global_asm},
    mem::offset_of,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering},
};
use inprocess_base::{own_address, sys};
use inprocess_layout::{Control, Region, SANDBOXED};

// Each page has a hidden name for ourselves and an exported one for clones.
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

const PAGE: usize = 4096;
const STATE_SIZE: usize = size_of::<State>().next_multiple_of(PAGE);

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
    pub alternate_stacks: usize,
    /// Where a thread's id is, from its thread pointer; zero until it is known.
    pub tid_offset: usize,
}

/// More pages of ours that a forked child is to find zeroed.
pub struct Pages {
    pub start: *mut u8,
    pub length: usize,
}

/// Pages of ours that the agent is to see: what the region holds at `offset`.
pub struct Shared {
    pub pages: Pages,
    pub offset: usize,
}

#[inline(always)]
pub fn state() -> *mut State {
    own_address!("__failsketch_state_pages") as *mut State
}

#[inline(always)]
pub fn control() -> *mut Control {
    own_address!("__failsketch_control_page") as *mut Control
}

/// Whether hooks are to record: the first thing that each of them asks.
#[inline(always)]
pub fn enabled() -> bool {
    // SAFETY: the page is always mapped; the agent writes the word, hence atomic.
    unsafe { AtomicU32::from_ptr(&raw mut (*control()).enabled).load(Ordering::Relaxed) != 0 }
}

/// Whether the program has a seccomp filter of its own, as far as the agent knows.
pub fn sandboxed() -> bool {
    // SAFETY: as in `enabled`.
    unsafe {
        AtomicU32::from_ptr(&raw mut (*control()).sandboxed).load(Ordering::Relaxed) == SANDBOXED
    }
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

/// A word of the calling thread's control block.
#[inline(always)]
pub fn word_at_thread_pointer(offset: usize) -> u32 {
    let word: u32;
    // SAFETY: the thread pointer is set up before any code of the program runs,
    // and the thread's control block is longer than any offset used.
    unsafe {
        asm!(
            "mov {0:e}, dword ptr fs:[{1}]",
            out(reg) word,
            in(reg) offset,
            options(nostack, readonly, preserves_flags)
        );
    }
    word
}

/// The calling thread's id if it can be known without a system call, else zero.
pub fn known_tid() -> u32 {
    // SAFETY: the state pages are always mapped.
    match unsafe { (*state()).tid_offset } {
        0 => 0,
        offset => word_at_thread_pointer(offset),
    }
}

/// The region to record into; null if this process does not record.
#[inline(always)]
pub fn region() -> *mut Region {
    // SAFETY: the pages are always mapped.
    unsafe { (*state()).region.load(Ordering::Relaxed) }
}

/// Puts the mappings in place and starts recording into `region`, whose file
/// is `fd`. False if the kernel refuses one of them (before 4.14 it cannot wipe
/// on fork, and a child could write into its parent's records).
///
/// # Safety
/// Called once, before any other thread exists, with a mapped region; `more` and `shared`
/// must be whole pages that belong to us alone and hold zeros.
pub unsafe fn start_recording(
    region: *mut Region,
    fd: i32,
    more: Option<Pages>,
    shared: Option<Shared>,
) -> bool {
    let state = state();
    let share = |at, length, offset| {
        // SAFETY: the caller's promise.
        unsafe { sys::map_over(at, length, sys::MAP_SHARED, fd, offset) }
    };
    // SAFETY: replaces pages that belong to us alone and hold zeros; if a later
    // step fails, private pages of zeros stay, which is what was there.
    unsafe {
        if !wipe_on_fork(state.cast(), STATE_SIZE)
            || !more.is_none_or(|pages| wipe_on_fork(pages.start, pages.length))
            || !shared.is_none_or(|s| share(s.pages.start, s.pages.length, s.offset))
            || !share(control().cast(), PAGE, offset_of!(Region, control))
        {
            return false;
        }
        (*state).region.store(region, Ordering::Relaxed);
        (*state).active.store(1, Ordering::Release);
        true
    }
}

/// # Safety
/// The pages must be ours and hold zeros.
unsafe fn wipe_on_fork(start: *mut u8, length: usize) -> bool {
    // SAFETY: zeros replace zeros.
    unsafe {
        sys::map_over(start, length, sys::MAP_PRIVATE_ANONYMOUS, -1, 0)
            && sys::advise(start, length, sys::MADV_WIPEONFORK) >= 0
    }
}
