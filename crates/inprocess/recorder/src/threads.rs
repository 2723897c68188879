//! Which slot is this thread's?
//!
//! Not through thread-local storage: a runtime that is appended to a finished
//! program cannot add to its TLS block. Instead the thread's id is read where
//! the C library keeps it, at a fixed distance from the thread pointer. That
//! distance is not assumed: the kernel tells which word it clears when a thread
//! ends (`PR_GET_TID_ADDRESS`), which for glibc is that word, and it must hold
//! what `gettid` says. A table indexed by thread id leads to the slot, and the
//! slot's own id confirms it.
//!
//! Claiming is lock-free, and what system calls it makes (an alternate stack for
//! the thread) are left out once the program has a seccomp filter. A slot stays its
//! thread's until the thread has ended: then the agent reads, clears and frees
//! it. If threads come faster than that, a thread that finds no free slot takes
//! one from a thread that has ended, and counts it as unread.
//!
//! Threads made by a raw `clone` that share a thread pointer share a slot.

use crate::recorder_state::{self, TABLE};
use core::{
    ptr::null_mut,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};
use inprocess_base::sys;
use inprocess_capture::{
    signal_stacks,
    state::{self, known_tid, word_at_thread_pointer},
};
use inprocess_layout::{
    EDGES, Edge, Event, HEAD_EVENTS, RING_EVENTS, Region, SLOT_BUSY, SLOT_FREE, SLOT_USED,
    THREAD_SLOTS, ThreadSlot,
};

/// The slot number of a thread that found none, with the number of slots that
/// had been freed by then: when that changes, it is worth another try.
const NO_SLOT: u64 = 1 << 63;
/// Where glibc has kept the id for many years, should the kernel not tell.
const USUAL_TID_OFFSET: usize = 0x2d0;
const LARGEST_TID_OFFSET: usize = 4096;

/// The calling thread's slot; null if it has none.
///
/// # Safety
/// `region` must be the active region.
#[inline(always)]
pub unsafe fn own_slot(region: *mut Region) -> *mut ThreadSlot {
    // SAFETY: state pages are always mapped; table index and slot are in bounds.
    unsafe {
        let tid = word_at_thread_pointer((*state::state()).tid_offset);
        let entry = (*table(tid)).load(Ordering::Relaxed);
        if entry as u32 == tid && entry & NO_SLOT == 0 {
            let slot = slot_at(region, (entry >> 32) as usize);
            if (*slot).tid == tid {
                return slot;
            }
        }
        find_or_claim(region, entry)
    }
}

/// The entry of the table that leads a thread to its slot.
#[inline(always)]
fn table(tid: u32) -> *const AtomicU64 {
    // SAFETY: the recorder's pages are always mapped; the remainder is in bounds.
    unsafe {
        (&raw const (*recorder_state::recorder()).table)
            .cast::<AtomicU64>()
            .add(tid as usize % TABLE)
    }
}

/// # Safety
/// `region` must be mapped.
#[inline(always)]
pub unsafe fn slot_at(region: *mut Region, number: usize) -> *mut ThreadSlot {
    // SAFETY: the remainder is in bounds.
    unsafe {
        (&raw mut (*region).threads)
            .cast::<ThreadSlot>()
            .add(number % THREAD_SLOTS)
    }
}

/// Makes a free slot the calling thread's, for hooks that are only measured.
///
/// # Safety
/// Only while no other thread records; undone by [`take_back`].
pub unsafe fn lend(slot: *mut ThreadSlot) {
    let tid = known_tid();
    // SAFETY: as the caller promises.
    unsafe {
        (*slot).tid = tid;
        let number = (THREAD_SLOTS - 1) as u64;
        (*table(tid)).store(number << 32 | u64::from(tid), Ordering::Relaxed);
    }
}

/// # Safety
/// As [`lend`].
pub unsafe fn take_back(slot: *mut ThreadSlot) {
    // SAFETY: as the caller promises.
    unsafe {
        (*table(known_tid())).store(0, Ordering::Relaxed);
        clear(slot);
    }
}

/// Finds out where thread ids are. False if that cannot be known.
///
/// # Safety
/// The thread pointer must be set up.
#[cold]
pub unsafe fn learn_tid_offset(region: *mut Region) -> bool {
    let tid = sys::gettid();
    let pointer = state::thread_pointer() as usize;
    let told = sys::tid_address().wrapping_sub(pointer);
    // SAFETY: an offset inside the control block; the header is shared.
    unsafe {
        let holds = |offset: usize| word_at_thread_pointer(offset) == tid;
        let offset = if told != 0 && told < LARGEST_TID_OFFSET && holds(told) {
            told
        } else if holds(USUAL_TID_OFFSET) {
            USUAL_TID_OFFSET
        } else {
            (*region).header.threads_unknown = 1;
            return false;
        };
        (*state::state()).tid_offset = offset;
        true
    }
}

/// # Safety
/// As [`own_slot`].
#[cold]
#[inline(never)]
unsafe fn find_or_claim(region: *mut Region, entry: u64) -> *mut ThreadSlot {
    // SAFETY: as the caller promises; shared words are atomic.
    unsafe {
        let state = state::state();
        let header = &raw mut (*region).header;
        if (*header).threads_unknown != 0 || ((*state).tid_offset == 0 && !learn_tid_offset(region))
        {
            return null_mut();
        }
        let tid = word_at_thread_pointer((*state).tid_offset);
        let freed = AtomicU32::from_ptr(&raw mut (*state::control()).freed).load(Ordering::Relaxed);
        let none = NO_SLOT | (freed as u64 & 0x7fff_ffff) << 32 | tid as u64;
        if entry == none {
            return null_mut();
        }
        let table = table(tid);
        let entry = (*table).load(Ordering::Relaxed);
        // Its entry may have been taken by a thread with a similar number.
        let mut number = 0;
        while number < THREAD_SLOTS {
            let slot = slot_at(region, number);
            if (*slot).tid == tid && slot_state(slot).load(Ordering::Acquire) == SLOT_USED {
                (*table).store((number as u64) << 32 | tid as u64, Ordering::Relaxed);
                return slot;
            }
            number += 1;
        }
        // Counted as a thread without a slot by an earlier try of its own.
        let late = entry as u32 == tid && entry & NO_SLOT != 0;
        let without = AtomicU32::from_ptr(&raw mut (*header).threads_without_slot);
        let mut number = take(region, |slot| {
            slot_state(slot)
                .compare_exchange(SLOT_FREE, SLOT_BUSY, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        });
        if number == THREAD_SLOTS {
            number = take(region, |slot| evict(slot));
            if number == THREAD_SLOTS {
                (*table).store(none, Ordering::Relaxed);
                if !late {
                    without.fetch_add(1, Ordering::Relaxed);
                }
                return null_mut();
            }
            AtomicU32::from_ptr(&raw mut (*header).threads_evicted).fetch_add(1, Ordering::Relaxed);
        }
        let slot = slot_at(region, number);
        // A signal handler on this thread may have claimed one meanwhile.
        let own = (number as u64) << 32 | tid as u64;
        if let Err(other) =
            (*table).compare_exchange(entry, own, Ordering::Relaxed, Ordering::Relaxed)
            && other as u32 == tid
            && other & NO_SLOT == 0
        {
            slot_state(slot).store(SLOT_FREE, Ordering::Release);
            return slot_at(region, (other >> 32) as usize);
        }
        if late {
            without.fetch_sub(1, Ordering::Relaxed);
        }
        (*slot).late = late as u64;
        (*slot).claimed_at = sys::tsc();
        (*slot).tid = tid;
        slot_state(slot).store(SLOT_USED, Ordering::Release);
        (*table).store(own, Ordering::Relaxed);
        AtomicU32::from_ptr(&raw mut (*header).threads_claimed).fetch_add(1, Ordering::Relaxed);
        signal_stacks::give_thread_its_alternate_stack(number);
        slot
    }
}

/// # Safety
/// `slot` must be mapped.
unsafe fn slot_state<'a>(slot: *mut ThreadSlot) -> &'a AtomicU32 {
    // SAFETY: the region is never unmapped while it is in use.
    unsafe { AtomicU32::from_ptr(&raw mut (*slot).state) }
}

/// The first slot that `is_mine` makes ours, or THREAD_SLOTS.
///
/// # Safety
/// `region` must be mapped.
unsafe fn take(region: *mut Region, is_mine: impl Fn(*mut ThreadSlot) -> bool) -> usize {
    let mut number = 0;
    // SAFETY: the number is in bounds.
    while number < THREAD_SLOTS && !is_mine(unsafe { slot_at(region, number) }) {
        number += 1;
    }
    number
}

/// Takes the slot of a thread that has ended, and clears it.
///
/// # Safety
/// `slot` must be mapped.
unsafe fn evict(slot: *mut ThreadSlot) -> bool {
    // SAFETY: the slot is ours from the exchange on.
    unsafe {
        // A filter might kill the program for asking.
        let tid = (*slot).tid;
        if state::sandboxed() || sys::thread_lives(tid) {
            return false;
        }
        let taken = slot_state(slot).compare_exchange(
            SLOT_USED,
            SLOT_BUSY,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            return false;
        }
        // Somebody else may have evicted it, and given it to a thread that lives.
        if (*slot).tid != tid {
            slot_state(slot).store(SLOT_USED, Ordering::Release);
            return false;
        }
        clear(slot);
        true
    }
}

/// Makes a busy slot as good as new. Of an event only the kind matters: zero is
/// none.
///
/// # Safety
/// The slot must be ours.
pub unsafe fn clear(slot: *mut ThreadSlot) {
    // SAFETY: all indices are in bounds.
    unsafe {
        (*slot).tid = 0;
        (*slot).count = 0;
        (*slot).due = 0;
        (*slot).saturated = 0;
        (*slot).edges_full = 0;
        (*slot).late = 0;
        (*slot).last_reading = 0;
        let marks = (&raw mut (*slot).tired).cast::<u64>();
        let mut at = 0;
        while at < size_of_val(&(*slot).tired) / 8 {
            marks.add(at).write_volatile(0);
            at += 1;
        }
        let edges = (&raw mut (*slot).edges).cast::<Edge>();
        let mut at = 0;
        while at < EDGES {
            (&raw mut (*edges.add(at)).site).write_volatile(0);
            (&raw mut (*edges.add(at)).count).write_volatile(0);
            (&raw mut (*edges.add(at)).missed).write_volatile(0);
            (&raw mut (*edges.add(at)).shapes).write_volatile(0);
            (&raw mut (*edges.add(at)).latest.kind).write_volatile(0);
            at += 1;
        }
        // Head and ring follow each other.
        let events = (&raw mut (*slot).head).cast::<Event>();
        let mut at = 0;
        while at < HEAD_EVENTS + RING_EVENTS {
            (&raw mut (*events.add(at)).kind).write_volatile(0);
            at += 1;
        }
    }
}
