//! The brake inside the process: each hook charges its cost to an account, and the
//! thread that finds the account empty turns recording off.
//!
//! The account ([`Control::credit`]) is in ticks of the time-stamp counter. The
//! agent pays in a share of the processor time that the program uses, and
//! charges watchpoint hits, which only the kernel sees. Hooks add what they cost
//! to their thread's bill and settle it every [`QUANTUM`] ticks, so the account
//! is touched rarely, and no clock is read for it.
//!
//! What a hook costs is measured at activation, on this machine, in this
//! process, with the fences that the instrumenter puts around an access; for what
//! a loop does not show, a measured factor is added ([`IN_A_PROGRAM`]).
//!
//! Recording is turned *on* again by the agent alone (`client-agent/src/governor`):
//! with the switch off no code of ours runs here that could, and a timer or a
//! thread of our own would be visible to the program. If the agent dies, hooks
//! notice when they settle, and turn themselves and the watchpoints off.

use crate::{hooks, kept, recorder_state, threads, watch};
use core::{
    arch::asm,
    sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering},
};
use inprocess_base::sys;
use inprocess_capture::state;
use inprocess_layout::{
    Control, EDGE_SATURATION, KIND_SYNC_BEGIN, OFF_ALONE, OFF_HOOKS, Region, THREAD_SLOTS,
    ThreadSlot,
};

/// About ten microseconds: hundreds of hooks.
const QUANTUM: u64 = 25_000;
const BATCHES: usize = 3;
const BATCH: u64 = 32;
/// No machine is faster, and an interrupted measurement is no measurement.
const LEAST_TICKS: u64 = 4;
const MOST_TICKS: u64 = 5_000;
/// What a hook costs in a program to what it costs in a loop (`docs/overhead.md`,
/// "What the governor charges").
const IN_A_PROGRAM: (u64, u64) = (3, 2);
/// Of the hooks that measure.
const SITE: u32 = 0;

/// # Safety
/// `slot` must be the calling thread's own.
#[inline(always)]
pub unsafe fn charge(slot: *mut ThreadSlot, ticks: u64) {
    // SAFETY: only this thread writes its bill.
    unsafe {
        let due = (*slot).due + ticks;
        (*slot).due = due;
        if due >= QUANTUM {
            settle(slot, due);
        }
    }
}

/// # Safety
/// As [`charge`].
#[cold]
#[inline(never)]
unsafe fn settle(slot: *mut ThreadSlot, due: u64) {
    // SAFETY: as the caller promises.
    unsafe { (*slot).due = 0 };
    spend(due);
}

/// Takes ticks out of the account.
pub fn spend(ticks: u64) {
    let control = state::control();
    // SAFETY: the control page is always mapped; shared words are atomic.
    unsafe {
        if AtomicU32::from_ptr(&raw mut (*control).governed).load(Ordering::Relaxed) == 0 {
            return;
        }
        let credit = AtomicI64::from_ptr(&raw mut (*control).credit);
        if credit.fetch_sub(ticks as i64, Ordering::Relaxed) < ticks as i64 {
            turn_off(control, OFF_HOOKS);
        }
        let looked_at = AtomicU64::from_ptr(&raw mut (*control).looked_at).load(Ordering::Relaxed);
        let now = sys::tsc();
        if looked_at != 0 && now > looked_at && now - looked_at > (*control).patience {
            turn_off(control, OFF_ALONE);
        }
        if watch::release::is_wanted() {
            watch::release::release();
        }
    }
}

/// # Safety
/// `control` must be the control page.
unsafe fn turn_off(control: *mut Control, reason: u32) {
    // SAFETY: shared words are atomic.
    unsafe {
        let enabled = AtomicU32::from_ptr(&raw mut (*control).enabled);
        if enabled
            .compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            AtomicU32::from_ptr(&raw mut (*control).off_reason).store(reason, Ordering::Relaxed);
            AtomicU64::from_ptr(&raw mut (*control).off_since).store(sys::tsc(), Ordering::Release);
            AtomicU32::from_ptr(&raw mut (*control).brakes).fetch_add(1, Ordering::Relaxed);
            // With the switch off no hook runs that could do it later, and the agent
            // that would do it may be gone.
            let began = sys::tsc();
            watch::turn_off();
            let took = sys::tsc().wrapping_sub(began);
            AtomicI64::from_ptr(&raw mut (*control).credit)
                .fetch_sub(took as i64, Ordering::Relaxed);
        }
    }
}

/// Measures what hooks cost here: the hooks themselves, on the last slot, which is
/// this thread's for the time being.
///
/// # Safety
/// Called once, at activation, with the region to be, once thread ids are known.
pub unsafe fn calibrate(region: *mut Region) {
    // SAFETY: no other thread records yet; the slot is given back cleared.
    unsafe {
        let slot = threads::slot_at(region, THREAD_SLOTS - 1);
        threads::lend(slot);
        let address = slot as u64;
        let direct = ticks(|| {
            let before = fenced();
            hooks::access(SITE, 8, address, 0, before, fenced());
        });
        let read = ticks(|| kept::read_at(SITE, address, fenced()));
        let write = ticks(|| kept::written_at(SITE, address, fenced()));
        // Most hooks come through a thunk.
        let kept = read.saturating_sub(direct);
        let synchronisation = ticks(|| {
            hooks::synchronisation(KIND_SYNC_BEGIN, SITE, address, 0, 0);
        });
        let mut passed = 0;
        while passed <= EDGE_SATURATION {
            hooks::branch(SITE, 0);
            passed += 1;
        }
        let counted = ticks(|| hooks::branch(SITE, 0));
        threads::take_back(slot);
        let costs = &raw mut (*recorder_state::recorder()).costs;
        (*costs).read = in_a_program(read);
        (*costs).write = in_a_program(write);
        (*costs).point = in_a_program(synchronisation + kept);
        (*costs).counted = in_a_program(counted + kept);
        let header = &raw mut (*region).header;
        (*header).read_ticks = (*costs).read as u32;
        (*header).write_ticks = (*costs).write as u32;
        (*header).point_ticks = (*costs).point as u32;
        (*header).counted_ticks = (*costs).counted as u32;
    }
}

/// A loop shows the least that a hook costs: everything is in the nearest cache,
/// and the fences have nothing to wait for.
fn in_a_program(ticks: u64) -> u64 {
    ticks * IN_A_PROGRAM.0 / IN_A_PROGRAM.1
}

/// The least average over a few batches: a higher one was interrupted.
fn ticks(hook: impl Fn()) -> u64 {
    let mut least = MOST_TICKS;
    let mut batch = 0;
    while batch < BATCHES {
        let begin = fenced();
        let mut at = 0;
        while at < BATCH {
            hook();
            at += 1;
        }
        let each = (fenced().wrapping_sub(begin)) / BATCH;
        if each < least {
            least = each;
        }
        batch += 1;
    }
    if least < LEAST_TICKS {
        LEAST_TICKS
    } else {
        least
    }
}

/// The counter, not read early: as the instrumenter reads it.
#[inline(always)]
fn fenced() -> u64 {
    // SAFETY: a fence has no operands.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
    sys::tsc()
}
