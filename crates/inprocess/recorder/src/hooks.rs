//! The hooks that a tracked build calls.
//!
//! Each asks first whether recording is on: in a process that does not record,
//! or not now, a hook is one comparison with memory and a return.

use crate::{
    governor,
    recorder::{self, Said, recording_slot},
    recorder_state, string_values, watch,
};
use inprocess_base::sys;
use inprocess_capture::state;
use inprocess_layout::{
    ACCESSED, ACCESSED_UNTIMED, KIND_ARGUMENT, KIND_BRANCH, KIND_CALL, KIND_READ, KIND_RESULT,
    KIND_SYNC_BEGIN, KIND_SYNC_END, KIND_WRITE, REACHED, SYNC_BEGUN, SYNC_ENDED,
};

/// In the second argument of an access.
pub const WRITES: u32 = 1 << 31;
pub const DID_NOT_HAPPEN: u32 = 1 << 30;
/// The hook is one that its thread can pass by.
pub const CAN_TIRE: u32 = 1 << 29;

/// A load or store was made between the two counter readings: its size in the low
/// half of `write_and_size`, the top bit set for a store. The bit below it tells
/// that the store of a compare-and-exchange did not happen.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_access(
    site: u32,
    write_and_size: u32,
    address: u64,
    value: u64,
    tsc_before: u64,
    tsc_after: u64,
) {
    // A reading is zero if recording was off when it was due.
    if state::enabled() && tsc_after != 0 && write_and_size & DID_NOT_HAPPEN == 0 {
        access(site, write_and_size, address, value, tsc_before, tsc_after);
    }
}

/// Without the first reading the access is only known to have happened after what its
/// thread recorded last.
#[inline(never)]
pub extern "C" fn access(
    site: u32,
    write_and_size: u32,
    address: u64,
    value: u64,
    tsc_before: u64,
    tsc_after: u64,
) {
    let slot = recording_slot();
    if slot.is_null() {
        return;
    }
    let writes = write_and_size & WRITES != 0;
    // SAFETY: the slot is this thread's own; state pages are always mapped.
    unsafe {
        let costs = &raw const (*recorder_state::recorder()).costs;
        let said = Said {
            kind: if writes { KIND_WRITE } else { KIND_READ },
            site,
            size: write_and_size as u16,
            before: if tsc_before == 0 {
                (*slot).last_reading
            } else {
                tsc_before
            },
            after: tsc_after,
            address,
            value,
        };
        let way = if tsc_before == 0 {
            ACCESSED_UNTIMED
        } else {
            ACCESSED
        };
        let cost = if writes {
            (*costs).write
        } else {
            (*costs).read
        };
        recorder::access(slot, said, way, cost, write_and_size & CAN_TIRE != 0);
    }
}

/// A branch is about to take its `successor`th way.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_branch(site: u32, successor: u32) {
    if state::enabled() {
        branch(site, successor);
    }
}

#[inline(never)]
pub extern "C" fn branch(site: u32, successor: u32) {
    let slot = recording_slot();
    if !slot.is_null() {
        // SAFETY: the slot is this thread's own.
        unsafe { recorder::pass(slot, KIND_BRANCH, site, successor, successor as u64) };
    }
}

/// A call is about to be made.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_call(site: u32) {
    if state::enabled() {
        call(site);
    }
}

#[inline(never)]
pub extern "C" fn call(site: u32) {
    let slot = recording_slot();
    if !slot.is_null() {
        // SAFETY: the slot is this thread's own.
        unsafe { recorder::pass(slot, KIND_CALL, site, REACHED, 0) };
    }
}

/// The call at `site` has this argument or result. `what` has the event's size in
/// its low half, the argument's number above it (zero for the result), and the
/// top bit set if the value points to a string.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_value(site: u32, what: u32, value: u64) {
    if state::enabled() {
        seen(site, what, value);
    }
}

#[inline(never)]
pub extern "C" fn seen(site: u32, what: u32, value: u64) {
    let slot = recording_slot();
    if slot.is_null() {
        return;
    }
    let number = (what >> 16) & 0x7fff;
    // SAFETY: the slot is this thread's own; state pages are always mapped.
    unsafe {
        let costs = &raw const (*recorder_state::recorder()).costs;
        // A call that is only counted any more has no values either.
        if recorder::is_saturated(slot, site) {
            governor::charge(slot, (*costs).counted);
            return;
        }
        let now = sys::tsc();
        if now == 0 {
            return;
        }
        let said = Said {
            kind: if number == 0 {
                KIND_RESULT
            } else {
                KIND_ARGUMENT
            },
            site,
            size: what as u16,
            before: now,
            after: now,
            address: number.into(),
            value,
        };
        recorder::write(slot, said, (*costs).point);
        if what >> 31 != 0 {
            string_values::record(slot, site, value, now);
        }
    }
}

#[inline(never)]
pub extern "C" fn synchronisation(kind: u16, site: u32, object: u64, result: u64, before: u64) {
    let slot = recording_slot();
    if slot.is_null() {
        return;
    }
    let now = sys::tsc();
    if now == 0 {
        return;
    }
    let said = Said {
        kind,
        site,
        size: 0,
        before: if kind == KIND_SYNC_BEGIN { now } else { before },
        after: now,
        address: object,
        value: result,
    };
    let way = if kind == KIND_SYNC_BEGIN {
        SYNC_BEGUN
    } else {
        SYNC_ENDED
    };
    // SAFETY: the slot is this thread's own; state pages are always mapped.
    unsafe {
        let cost = (*recorder_state::recorder()).costs.point;
        recorder::access(slot, said, way, cost, false);
    }
}

/// A synchronisation call on `object` is about to be made.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_sync_begin(site: u32, object: u64) {
    if state::enabled() {
        synchronisation(KIND_SYNC_BEGIN, site, object, 0, 0);
    }
}

/// A synchronisation call on `object`, begun at `tsc_before`, has returned.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_sync_end(site: u32, object: u64, result: u64, tsc_before: u64) {
    if state::enabled() {
        synchronisation(KIND_SYNC_END, site, object, result, tsc_before);
    }
}

/// Aims a watchpoint slot at `size` bytes at `address`.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_arm(slot: u32, address: u64, size: u32) {
    watch::arm(slot, address, size);
}
