//! Where a tracked build meets the functions that stand in front of the C library's.
//!
//! It finds the preloaded object's table by an address in the shared memory, and
//! believes it only if the table says so itself: a stale address must not be written
//! to. Without a table (a static program) watches outlive their memory, and handlers
//! that the program installs replace ours, and nobody knows what became of its memory.

use crate::{lifetimes, watch};
use core::{
    ptr::null_mut,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
use inprocess_base::text;
use inprocess_capture::{signal_chain, state};
use inprocess_layout::{Interposed, LIFETIMES_OBSERVED, Region, VERSION, WATCH_SLOTS};

/// Not in the state pages: a forked child's handlers need it, too.
static TABLE: AtomicPtr<Interposed> = AtomicPtr::new(null_mut());

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
        signal_chain::join(table);
        AtomicUsize::from_ptr(&raw mut (*table).given_back)
            .store(watch::given_back as *const () as usize, Ordering::Release);
        (*region).lifetimes.observed = (*table).lifetimes;
        if (*table).lifetimes == LIFETIMES_OBSERVED {
            AtomicUsize::from_ptr(&raw mut (*table).freed)
                .store(lifetimes::freed as *const () as usize, Ordering::Release);
            AtomicUsize::from_ptr(&raw mut (*table).allocated).store(
                lifetimes::allocated as *const () as usize,
                Ordering::Release,
            );
        }
        TABLE.store(table, Ordering::Release);
    }
}

/// # Safety
/// As [`join`].
unsafe fn table(region: *mut Region) -> *mut Interposed {
    // SAFETY: the caller's promise.
    let at = unsafe { (*region).header.interposed };
    if at == 0 || !at.is_multiple_of(8) || text::half_word(at) != Some(VERSION) {
        return null_mut();
    }
    at as *mut Interposed
}

/// A slot watches `address` now; zero for nothing.
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
