//! A hit that came by SIGTRAP → the memory that the agent reads, in the handler.
//!
//! The kernel interrupts the thread right after the access, so the registers of the
//! signal's context are those of a ring's sample. No lock and no allocation: a place
//! is taken by one addition, filled, and marked as whole. A place is never used
//! twice; when all are taken watching is over.
//!
//! The stack is copied through the kernel: it may end within what we want, and
//! reading it ourselves could be a hit, too.
//!
//! A hit comes late if SIGTRAP was blocked when it happened. That is also how a watch
//! on dead stack shows that this very handler runs over: each return would bring the
//! next signal, for ever. So after a few late ones watching ends.

use super::sigtrap::{SIGNAL_DATA, TAKING, TRYING, back_off};
use crate::{
    governor,
    layout::{ENDED_LATE, HIT_ROOM, Hit, Hits, WATCH_SLOTS, WATCH_STACK_BYTES},
    perf_attr::PERF_TYPE_BREAKPOINT,
    state::{self, Watch},
    sys,
};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const TRAP_PERF: i32 = 6;
/// In `si_perf_flags`: the signal was blocked.
const TRAP_PERF_FLAG_ASYNC: u32 = 1;
const MOST_LATE: u64 = 16;

/// Takes a hit. False if the signal is none of ours: it is the program's.
///
/// # Safety
/// The arguments are those of a handler of SIGTRAP.
pub unsafe fn take(code: i32, info: *const u8, context: *const u8) -> bool {
    // siginfo_t: si_addr at 16, si_perf_data, _type and _flags at 24, 32 and 36.
    // SAFETY: the kernel passes a whole siginfo_t; the state pages are always mapped.
    unsafe {
        if code != TRAP_PERF
            || info.add(32).cast::<u32>().read() != PERF_TYPE_BREAKPOINT
            || info.add(24).cast::<u64>().read() & !(WATCH_SLOTS as u64 - 1) != SIGNAL_DATA
        {
            return false;
        }
        let slot = info.add(24).cast::<u64>().read() & (WATCH_SLOTS as u64 - 1);
        let address = info.add(16).cast::<u64>().read();
        let late = info.add(36).cast::<u32>().read() & TRAP_PERF_FLAG_ASYNC != 0;
        let watch = &raw mut (*state::state()).watch;
        match (*watch).taking.load(Ordering::Acquire) {
            TRYING => {
                if address == (&raw const (*watch).tried_word) as u64 && !late {
                    (*watch).tried.fetch_add(1, Ordering::SeqCst);
                }
            }
            TAKING => keep(watch, slot as u32, address, late, context),
            _ => {}
        }
    }
    true
}

/// # Safety
/// As [`take`].
unsafe fn keep(watch: *mut Watch, slot: u32, address: u64, late: bool, context: *const u8) {
    // SAFETY: the memory for hits stays mapped while hits are taken; shared words are
    // atomic; a place is ours once we have taken it.
    unsafe {
        let hits: *mut Hits = (*watch).hits.load(Ordering::Acquire);
        if hits.is_null() {
            return;
        }
        let count = |word: *mut u64| AtomicU64::from_ptr(word).fetch_add(1, Ordering::AcqRel);
        if late {
            if count(&raw mut (*hits).late) + 1 >= MOST_LATE {
                back_off(ENDED_LATE);
            }
            return;
        }
        if state::sandboxed() {
            count(&raw mut (*hits).sandboxed);
            return;
        }
        let began = sys::tsc();
        let number = count(&raw mut (*hits).taken);
        if number < HIT_ROOM as u64 {
            let hit = (&raw mut (*hits).hits).cast::<Hit>().add(number as usize);
            write(hit, slot, address, context);
        }
        if number + 1 >= HIT_ROOM as u64 {
            super::turn_off();
        }
        governor::spend(sys::tsc().wrapping_sub(began));
    }
}

/// # Safety
/// `hit` must be ours to write, `context` the kernel's ucontext.
unsafe fn write(hit: *mut Hit, slot: u32, address: u64, context: *const u8) {
    // struct ucontext: 40 bytes, then r8 … r15, di, si, bp, bx, dx, ax, cx, sp, ip.
    const IP: usize = 16;
    const SP: usize = 15;
    // SAFETY: all words lie within the structure; writes are in bounds.
    unsafe {
        let word = |index: usize| context.add(40).cast::<u64>().add(index).read();
        (*hit).slot = slot;
        let known = state::known_tid();
        (*hit).tid = if known != 0 { known } else { sys::gettid() };
        (*hit).time = sys::monotonic_ns();
        (*hit).address = address;
        (*hit).ip = word(IP);
        crate::crash::write_registers((&raw mut (*hit).registers).cast(), context);
        let into = (&raw mut (*hit).stack).cast::<u8>();
        let got = sys::copy_without_faulting(into, word(SP), WATCH_STACK_BYTES as usize);
        (*hit).stack_length = if got > 0 { got as u32 } else { 0 };
        AtomicU32::from_ptr(&raw mut (*hit).whole).store(1, Ordering::Release);
    }
}
