//! Whether this process records, and where to.
//!
//! The answer lives in a private page that the kernel wipes in a forked child
//! (`MADV_WIPEONFORK`): a child therefore finds a null region and records
//! nothing, without a check of the process id on the hot path. A `vfork` child
//! shares its parent's memory, and with it the parent's thread slot, until it
//! executes something else.

use crate::layout::Region;
#[cfg(not(failsketch_preload))]
use crate::layout::{MAX_CPUS, WATCH_SLOTS};
#[cfg(not(failsketch_preload))]
use crate::perf_attr::PerfEventAttr;
use crate::sys;
#[cfg(not(failsketch_preload))]
use core::sync::atomic::{AtomicU32, AtomicU64};
use core::{
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

/// What the watchpoints need at run time.
#[cfg(not(failsketch_preload))]
#[repr(C)]
pub struct Watch {
    pub ready: AtomicU32,
    pub padding: u32,
    /// What each slot is aimed at: size's logarithm in the top bits, address below.
    pub aim: [AtomicU64; WATCH_SLOTS],
    /// One while a thread is aiming the slot: it alone may touch `attr`.
    pub aiming: [AtomicU32; WATCH_SLOTS],
    pub attr: [PerfEventAttr; WATCH_SLOTS],
    /// By processor, then slot; -1 where there is none.
    pub fds: [[i32; WATCH_SLOTS]; MAX_CPUS],
}

/// The page that a forked child finds zeroed.
#[repr(C)]
pub struct State {
    pub region: AtomicPtr<Region>,
    #[cfg(not(failsketch_preload))]
    pub watch: Watch,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());

/// The state page; null if the process was never activated.
#[inline(always)]
pub fn state() -> *mut State {
    STATE.load(Ordering::Relaxed)
}

/// The region to record into; null if this process does not record.
#[inline(always)]
pub fn region() -> *mut Region {
    let state = state();
    if state.is_null() {
        return null_mut();
    }
    // SAFETY: a non-null state points to a mapping that is never removed.
    unsafe { (*state).region.load(Ordering::Relaxed) }
}

/// Makes the page and starts recording into `region`. False if the kernel
/// cannot wipe pages on fork (before 4.14): then a child could write into its
/// parent's records, so nothing is recorded.
pub fn start_recording(region: *mut Region) -> bool {
    let size = size_of::<State>().next_multiple_of(4096);
    let page = sys::map(size, sys::PROT_READ_WRITE, sys::MAP_PRIVATE_ANONYMOUS, -1);
    if page.is_null() {
        return false;
    }
    if sys::advise(page, size, sys::MADV_WIPEONFORK) < 0 {
        // SAFETY: nobody has seen the page.
        unsafe { sys::unmap(page, size) };
        return false;
    }
    let page = page.cast::<State>();
    // SAFETY: a fresh, zeroed, page-aligned mapping of sufficient size; zero
    // bytes are a valid State.
    unsafe { (*page).region.store(region, Ordering::Relaxed) };
    STATE.store(page, Ordering::Release);
    true
}
