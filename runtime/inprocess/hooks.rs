//! The hooks that a tracked build calls, and the per-thread buffers they fill.
//!
//! A thread's slot number is one word of initial-exec thread-local storage,
//! defined in assembly because `#[thread_local]` is not stable. The word is
//! reached through the GOT, which works in a shared object and which linkers
//! relax to a constant in an executable.
//!
//! An event's index is reserved by one `xadd` without a lock prefix: only this
//! thread and signal handlers on it count here, and an instruction is atomic
//! against those. The event's kind, with the ring's lap in it, is written last,
//! so a reader can tell a finished event from one that the process died in.

use crate::{
    layout::{
        Event, HEAD_EVENTS, KIND_BRANCH, KIND_CALL, KIND_READ, KIND_SYNC_BEGIN, KIND_SYNC_END,
        KIND_WRITE, RING_EVENTS, Region, THREAD_SLOTS,
    },
    state, sys, watch,
};
use core::{
    arch::{asm, global_asm},
    sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence},
};

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".hidden __failsketch_tls",
    ".globl __failsketch_tls",
    ".type __failsketch_tls,@object",
    ".size __failsketch_tls, 8",
    "__failsketch_tls:",
    ".zero 8",
    ".popsection",
);

/// Whether functions with tracked clones go on in them: looked at when one is
/// entered. Zero until recording starts.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static __failsketch_enabled: AtomicU32 = AtomicU32::new(0);

/// The thread-local word: 0 before the first event, then the slot's number
/// plus one, or this.
const NO_SLOT: u64 = u64::MAX;

#[inline(always)]
fn thread_word() -> u64 {
    let word: u64;
    // SAFETY: reads this thread's own word; the thread pointer is set up before
    // any code of the program runs.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + __failsketch_tls@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) word,
            options(nostack, readonly, preserves_flags)
        );
    }
    word
}

fn thread_word_address() -> *mut u64 {
    let address: *mut u64;
    // SAFETY: computes the word's address; word 0 of the thread block is its own
    // address (System V ABI, thread-local storage).
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + __failsketch_tls@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(nostack, readonly)
        );
    }
    address
}

/// Gives this thread a slot. A signal handler may do the same in between: the
/// first one wins and the other's slot stays empty.
#[cold]
#[inline(never)]
fn claim_slot(region: *mut Region) -> u64 {
    // SAFETY: the region is mapped; the numbers are shared, hence atomic.
    unsafe {
        let header = &raw mut (*region).header;
        let claimed = AtomicU32::from_ptr(&raw mut (*header).threads_claimed);
        let mut number = claimed.load(Ordering::Relaxed);
        loop {
            if number as usize >= THREAD_SLOTS {
                break;
            }
            match claimed.compare_exchange_weak(
                number,
                number + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => number = now,
            }
        }
        let word = AtomicU64::from_ptr(thread_word_address());
        if number as usize >= THREAD_SLOTS {
            if word
                .compare_exchange(0, NO_SLOT, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
            {
                AtomicU32::from_ptr(&raw mut (*header).threads_without_slot)
                    .fetch_add(1, Ordering::Relaxed);
            }
            return word.load(Ordering::Relaxed);
        }
        match word.compare_exchange(0, number as u64 + 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let slots = (&raw mut (*region).threads).cast::<crate::layout::ThreadSlot>();
                (*slots.add(number as usize)).tid = sys::gettid();
                number as u64 + 1
            }
            Err(earlier) => earlier,
        }
    }
}

#[inline(always)]
fn record(kind: u16, site: u32, size: u16, before: u64, after: u64, address: u64, value: u64) {
    let region = state::region();
    if region.is_null() {
        return;
    }
    let mut word = thread_word();
    if word == 0 {
        word = claim_slot(region);
    }
    if word == NO_SLOT {
        return;
    }
    // SAFETY: the word names one of THREAD_SLOTS slots; the index is brought
    // into the head or the ring before use; only this thread writes the slot.
    unsafe {
        let slots = (&raw mut (*region).threads).cast::<crate::layout::ThreadSlot>();
        let slot = slots.add(word as usize - 1);
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
        (&raw mut (*event).site).write_volatile(site);
        (&raw mut (*event).size).write_volatile(size);
        (&raw mut (*event).before).write_volatile(before);
        (&raw mut (*event).after).write_volatile(after);
        (&raw mut (*event).address).write_volatile(address);
        (&raw mut (*event).value).write_volatile(value);
        compiler_fence(Ordering::Release);
        (&raw mut (*event).kind).write_volatile(kind | ((lap & 0xff) as u16) << 8);
    }
}

/// A load or store of `size` bytes was made between the two counter readings.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_access(
    site: u32,
    write_and_size: u32,
    address: u64,
    value: u64,
    tsc_before: u64,
    tsc_after: u64,
) {
    let kind = if write_and_size >> 31 != 0 {
        KIND_WRITE
    } else {
        KIND_READ
    };
    record(
        kind,
        site,
        write_and_size as u16,
        tsc_before,
        tsc_after,
        address,
        value,
    );
}

/// A branch is about to take its `successor`th way.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_branch(site: u32, successor: u32) {
    let now = sys::tsc();
    record(KIND_BRANCH, site, 0, now, now, 0, successor as u64);
}

/// A call is about to be made.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_call(site: u32) {
    let now = sys::tsc();
    record(KIND_CALL, site, 0, now, now, 0, 0);
}

/// A synchronisation call on `object` is about to be made.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_sync_begin(site: u32, object: u64) {
    let now = sys::tsc();
    record(KIND_SYNC_BEGIN, site, 0, now, now, object, 0);
}

/// A synchronisation call on `object`, begun at `tsc_before`, has returned.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_sync_end(site: u32, object: u64, result: u64, tsc_before: u64) {
    record(
        KIND_SYNC_END,
        site,
        0,
        tsc_before,
        sys::tsc(),
        object,
        result,
    );
}

/// Aims a watchpoint slot at `size` bytes at `address`.
#[unsafe(no_mangle)]
pub extern "C" fn __failsketch_arm(slot: u32, address: u64, size: u32) {
    watch::arm(slot, address, size);
}
