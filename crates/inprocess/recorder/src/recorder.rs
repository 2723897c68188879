//! Puts events into the calling thread's slot.
//!
//! The first events of a thread stay; later ones go round a ring. Beside them
//! the thread keeps an account of its edges (which way a branch went, which
//! point was reached): how often, first and last when. What is in the account is
//! known whatever the ring forgets. After [`edge_saturation`] events an edge
//! goes into the account alone. So does an access: the account then holds the
//! latest one, and what all its values looked like. After [`TIRED_AFTER`] of those the
//! thread tires of it (`tiring.rs`), and its hook is passed by.
//!
//! An event's index is reserved by one `xadd` without a lock prefix: only this
//! thread and signal handlers on it count here, and an instruction is atomic
//! against those. The event's kind, with the ring's lap in it, is written last,
//! so a reader can tell a finished event from one that the process died in.

use crate::{governor, recorder_state, threads, tiring};
use core::{
    arch::asm,
    ptr::null_mut,
    sync::atomic::{Ordering, compiler_fence},
};
use inprocess_base::sys;
use inprocess_capture::state;
use inprocess_layout::{
    EDGES, Edge, Event, HEAD_EVENTS, REACHED, RING_EVENTS, SAW_NEGATIVE, SAW_NON_ZERO, SAW_ZERO,
    TIRED_AFTER, ThreadSlot, edge_saturation,
};

/// How far an edge may lie from its place by number.
const EDGE_PROBES: usize = 16;
/// Spreads the many outcomes of a switch (Knuth, The Art of Computer Programming,
/// vol. 3, 6.4).
const SPREAD: u32 = 2_654_435_769;
/// What a hook has to say.
pub struct Said {
    pub kind: u16,
    pub site: u32,
    pub size: u16,
    pub before: u64,
    pub after: u64,
    pub address: u64,
    pub value: u64,
}

/// The calling thread's slot, or null if there is none or this process does not
/// record.
#[inline(always)]
pub fn recording_slot() -> *mut ThreadSlot {
    let region = state::region();
    if region.is_null() {
        return null_mut();
    }
    // SAFETY: a region that is not null is active.
    unsafe { threads::own_slot(region) }
}

/// # Safety
/// `slot` must be the calling thread's own.
#[inline(always)]
pub unsafe fn write(slot: *mut ThreadSlot, said: Said, cost: u64) {
    // SAFETY: the index is brought into the head or the ring before use; only
    // this thread writes the slot.
    unsafe {
        let mut index: u64 = 1;
        asm!(
            "xadd qword ptr [{0}], {1}",
            in(reg) &raw mut (*slot).count,
            inout(reg) index,
            options(nostack)
        );
        let (event, lap): (*mut Event, u64) = if index < HEAD_EVENTS as u64 {
            (
                (&raw mut (*slot).head).cast::<Event>().add(index as usize),
                0,
            )
        } else {
            let index = index - HEAD_EVENTS as u64;
            (
                (&raw mut (*slot).ring)
                    .cast::<Event>()
                    .add(index as usize % RING_EVENTS),
                index / RING_EVENTS as u64,
            )
        };
        fill(event, &said);
        compiler_fence(Ordering::Release);
        (&raw mut (*event).kind).write_volatile(said.kind | ((lap & 0xff) as u16) << 8);
        (*slot).last_reading = said.after;
        governor::charge(slot, cost);
    }
}

/// An access was made, or a synchronisation call begins or ends; `way` tells
/// which of these the account keeps apart. One that finds no room there is an
/// event every time. The thread may tire of one whose hook can be passed by.
///
/// # Safety
/// `slot` must be the calling thread's own.
#[inline(always)]
pub unsafe fn access(slot: *mut ThreadSlot, said: Said, way: u32, cost: u64, can_tire: bool) {
    // SAFETY: the edge is in the thread's own account.
    unsafe {
        let edge = edge_of(slot, said.site, way);
        if !edge.is_null() {
            let count = (*edge).count + 1;
            (*edge).count = count;
            let shapes = shapes_of(said.value, said.size);
            (*edge).shapes |= shapes;
            if count > edge_saturation((*slot).count) {
                (*slot).saturated += 1;
                let missed = (*edge).missed + 1;
                (*edge).missed = missed;
                let latest = &raw mut (*edge).latest;
                (&raw mut (*latest).kind).write_volatile(0);
                compiler_fence(Ordering::Release);
                fill(latest, &said);
                compiler_fence(Ordering::Release);
                (&raw mut (*latest).kind).write_volatile(said.kind);
                (*slot).last_reading = said.after;
                if can_tire && missed.is_multiple_of(TIRED_AFTER) {
                    tiring::of_access(slot, edge, &said, way, shapes);
                }
                governor::charge(slot, cost);
                return;
            }
        }
        write(slot, said, cost);
    }
}

/// Zero, or not, and then whether the value is negative by its size.
#[inline(always)]
fn shapes_of(value: u64, size: u16) -> u64 {
    let unused = match size {
        1 => 56,
        2 => 48,
        4 => 32,
        _ => 0,
    };
    let value = value << unused;
    if value == 0 {
        SAW_ZERO
    } else {
        SAW_NON_ZERO | ((value >> 63) * SAW_NEGATIVE)
    }
}

/// All of an event but its kind.
///
/// # Safety
/// `event` must be writable.
#[inline(always)]
unsafe fn fill(event: *mut Event, said: &Said) {
    // SAFETY: the caller's promise.
    unsafe {
        (&raw mut (*event).site).write_volatile(said.site);
        (&raw mut (*event).size).write_volatile(said.size);
        (&raw mut (*event).before).write_volatile(said.before);
        (&raw mut (*event).after).write_volatile(said.after);
        (&raw mut (*event).address).write_volatile(said.address);
        (&raw mut (*event).value).write_volatile(said.value);
    }
}

/// A branch goes to `successor`, or a point is reached.
///
/// # Safety
/// `slot` must be the calling thread's own.
#[inline(always)]
pub unsafe fn pass(slot: *mut ThreadSlot, kind: u16, site: u32, successor: u32, value: u64) {
    // SAFETY: the edge is in the thread's own account.
    unsafe {
        let costs = &raw const (*recorder_state::recorder()).costs;
        let edge = edge_of(slot, site, successor);
        if edge.is_null() {
            (*slot).edges_full += 1;
        } else {
            let count = (*edge).count + 1;
            (*edge).count = count;
            if count > edge_saturation((*slot).count) {
                (*slot).saturated += 1;
                if count.is_multiple_of(TIRED_AFTER) {
                    tiring::of_passage(slot, edge, site, successor);
                    (*edge).last = sys::tsc();
                }
                governor::charge(slot, (*costs).counted);
                return;
            }
        }
        let now = sys::tsc();
        if now == 0 {
            return;
        }
        if !edge.is_null() {
            if (*edge).first == 0 {
                (*edge).first = now;
            }
            (*edge).last = now;
        }
        let said = Said {
            kind,
            site,
            size: 0,
            before: now,
            after: now,
            address: 0,
            value,
        };
        write(slot, said, (*costs).point);
    }
}

/// Whether a point that is merely reached is only counted by now.
///
/// # Safety
/// `slot` must be the calling thread's own.
pub unsafe fn is_saturated(slot: *mut ThreadSlot, site: u32) -> bool {
    // SAFETY: the edge is in the thread's own account.
    unsafe {
        let edge = edge_of(slot, site, REACHED);
        !edge.is_null() && (*edge).count > edge_saturation((*slot).count)
    }
}

/// The edge's place in the account; null if there is no room.
///
/// # Safety
/// `slot` must be the calling thread's own.
#[inline(always)]
unsafe fn edge_of(slot: *mut ThreadSlot, site: u32, successor: u32) -> *mut Edge {
    // SAFETY: the index is in bounds.
    unsafe {
        let edges = (&raw mut (*slot).edges).cast::<Edge>();
        let place = place_of(site, successor);
        let edge = edges.add(place % EDGES);
        if (*edge).site == site + 1 && (*edge).successor == successor {
            return edge;
        }
        search(edges, place, site, successor)
    }
}

/// The two outcomes of most branches have a place each; the values of a switch
/// and points that are merely reached are spread over all.
#[inline(always)]
fn place_of(site: u32, successor: u32) -> usize {
    let two = site.wrapping_mul(2).wrapping_add(successor);
    if successor < 2 {
        return two as usize;
    }
    (two.wrapping_mul(SPREAD) >> 16) as usize
}

/// # Safety
/// As [`edge_of`].
#[cold]
#[inline(never)]
unsafe fn search(edges: *mut Edge, place: usize, site: u32, successor: u32) -> *mut Edge {
    let mut probe = 0;
    while probe < EDGE_PROBES {
        // SAFETY: the index is in bounds; a signal handler that takes the same
        // place in between costs one edge its first count.
        unsafe {
            let edge = edges.add((place + probe) % EDGES);
            if (*edge).site == 0 {
                (*edge).successor = successor;
                (*edge).first = 0;
                compiler_fence(Ordering::Release);
                (*edge).site = site + 1;
                return edge;
            }
            if (*edge).site == site + 1 && (*edge).successor == successor {
                return edge;
            }
        }
        probe += 1;
    }
    null_mut()
}
