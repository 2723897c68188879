//! Where the runtime meets the functions that stand in front of the C library's.
//!
//! In the preloaded form they are in the same object. A tracked build finds the
//! preloaded object's table by an address in the shared memory, and believes it
//! only if the table says so itself: a stale address must not be written to.
//! Without a table (a static program) watches outlive their memory, and handlers
//! that the program installs replace ours.

use crate::{
    crash,
    layout::{Interposed, Region},
};
#[cfg(not(failsketch_preload))]
use crate::{
    layout::{VERSION, WATCH_SLOTS},
    state, sys, watch,
};
#[cfg(not(failsketch_preload))]
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Not in the state pages: a forked child's handlers need it, too.
#[cfg(not(failsketch_preload))]
static TABLE: AtomicPtr<Interposed> = AtomicPtr::new(core::ptr::null_mut());

/// Finds the table and fills it.
///
/// # Safety
/// Called once, by the constructor, with the active region.
pub unsafe fn join(region: *mut Region) {
    // SAFETY: the caller's promise; the table is the preloaded object's.
    unsafe {
        let table = table(region);
        if table.is_null() {
            return;
        }
        let put = |word: *mut usize, function: usize| {
            AtomicUsize::from_ptr(word).store(function, Ordering::Release);
        };
        put(
            &raw mut (*table).step_aside,
            crash::step_aside as *const () as usize,
        );
        put(
            &raw mut (*table).step_in_front,
            crash::step_in_front as *const () as usize,
        );
        #[cfg(not(failsketch_preload))]
        {
            put(
                &raw mut (*table).given_back,
                watch::given_back as *const () as usize,
            );
            TABLE.store(table, Ordering::Release);
        }
    }
}

#[cfg(failsketch_preload)]
unsafe fn table(_: *mut Region) -> *mut Interposed {
    &raw mut crate::interpose::TABLE
}

/// # Safety
/// As [`join`].
#[cfg(not(failsketch_preload))]
unsafe fn table(region: *mut Region) -> *mut Interposed {
    // SAFETY: the caller's promise; four bytes of ours are written.
    unsafe {
        let at = (*region).header.interposed;
        let mut version = 0u32;
        let got = sys::copy_without_faulting((&raw mut version).cast(), at, 4);
        if at == 0 || at % 8 != 0 || got != 4 || version != VERSION {
            return core::ptr::null_mut();
        }
        at as *mut Interposed
    }
}

/// A slot watches `address` now; zero for nothing.
#[cfg(not(failsketch_preload))]
pub fn watches(slot: usize, address: u64) {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() || slot >= WATCH_SLOTS || state::region().is_null() {
        return;
    }
    // SAFETY: the table is never unloaded; its words are atomic; the slot is in bounds.
    unsafe {
        let words = (&raw mut (*table).watched).cast::<u64>();
        AtomicU64::from_ptr(words.add(slot)).store(address, Ordering::Relaxed);
        let mut any = 0;
        let mut other = 0;
        while other < WATCH_SLOTS {
            any |= AtomicU64::from_ptr(words.add(other)).load(Ordering::Relaxed);
            other += 1;
        }
        AtomicU32::from_ptr(&raw mut (*table).watching).store((any != 0) as u32, Ordering::Release);
    }
}
