//! A thread tires of a door of a site: what the code in front of hooks and the thunks look
//! at (`inprocess_layout::Fatigue`).
//!
//! The thread's own mark decides. The words only save those who have one the way to it:
//! they are written without a lock, a thread that loses a race for one goes by its mark, and
//! of one that has ended the word stays until the agent wakes everybody.

use crate::{recorder::Said, recorder_state, watch};
use core::sync::atomic::{AtomicU32, Ordering};
use inprocess_capture::state;
use inprocess_layout::{
    ACCESSED, DOOR_CLOCK, DOOR_NEGATIVE, DOOR_OUTCOME, DOOR_POSITIVE, DOOR_ZERO, DOORS, Edge,
    OWNERS, REACHED, SAW_NEGATIVE, SAW_NON_ZERO, TIRED, TIRING_SITES, ThreadSlot, mark_of,
    next_waking,
};

/// Nobody is tired of anything.
///
/// # Safety
/// Called once, at activation, on the only thread there is.
pub unsafe fn begin() {
    // SAFETY: the pages are mapped, and nobody else uses them yet.
    unsafe {
        let control = state::control();
        (*control).wakings = next_waking(0);
        // What measuring the hooks has left.
        let words = (&raw mut (*recorder_state::fatigue()).tired).cast::<u32>();
        let mut at = 0;
        while at < DOORS * OWNERS {
            words.add(at).write_volatile(0);
            at += 1;
        }
    }
}

/// The thread has said enough of an access.
///
/// # Safety
/// `slot` must be the calling thread's own, and `edge` in its account.
#[cold]
#[inline(never)]
pub unsafe fn of_access(slot: *mut ThreadSlot, edge: *mut Edge, said: &Said, way: u32, shape: u64) {
    let door = if shape & SAW_NEGATIVE != 0 {
        DOOR_NEGATIVE
    } else if shape & SAW_NON_ZERO != 0 {
        DOOR_POSITIVE
    } else {
        DOOR_ZERO
    };
    // SAFETY: the caller's promise.
    unsafe {
        tire(slot, edge, said.site, door);
        if way == ACCESSED {
            tire(slot, edge, said.site, DOOR_CLOCK);
        }
    }
}

/// The thread has said enough of an outcome, or of a point that it reaches.
///
/// # Safety
/// As [`of_access`].
#[cold]
#[inline(never)]
pub unsafe fn of_passage(slot: *mut ThreadSlot, edge: *mut Edge, site: u32, successor: u32) {
    let door = match successor {
        REACHED => DOOR_CLOCK,
        0 | 1 => DOOR_OUTCOME + successor as usize,
        // Hooks of such branches do not look.
        _ => return,
    };
    // SAFETY: the caller's promise.
    unsafe { tire(slot, edge, site, door) };
}

/// # Safety
/// As [`of_access`].
unsafe fn tire(slot: *mut ThreadSlot, edge: *mut Edge, site: u32, door: usize) {
    // Threads that are tired of all settle no bills.
    if watch::release::is_wanted() {
        watch::release::release();
    }
    let site = site as usize;
    let region = state::region();
    // SAFETY: a region that is not null is active.
    if site >= TIRING_SITES || region.is_null() || unsafe { (*region).header.tireless } != 0 {
        return;
    }
    // SAFETY: site and door are in bounds; only this thread writes its slot; the words are
    // atomic.
    unsafe {
        (*edge).shapes |= TIRED;
        let wakings = AtomicU32::from_ptr(&raw mut (*state::control()).wakings);
        let mark = mark_of(wakings.load(Ordering::Relaxed));
        let marks = (&raw mut (*slot).tired).cast::<u8>();
        marks.add(site * DOORS + door).write_volatile(mark);
        let words = (&raw mut (*recorder_state::fatigue()).tired).cast::<u32>();
        let words = words.add((site * DOORS + door) * OWNERS);
        let mut owner = 0;
        while owner < OWNERS {
            let word = AtomicU32::from_ptr(words.add(owner));
            match word.load(Ordering::Relaxed) {
                0 => {
                    word.store((*slot).tid, Ordering::Relaxed);
                    return;
                }
                tid if tid == (*slot).tid => return,
                _ => owner += 1,
            }
        }
    }
}
