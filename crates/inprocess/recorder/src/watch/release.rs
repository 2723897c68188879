//! Gives the watchpoints up for the rest of the run, when the agent asks for it.
//!
//! A thread that has events costs more at every switch, also while they are turned
//! off: the kernel has a list to put away and to fetch. Only closing them ends that,
//! and the kernel closes an event when nobody holds its descriptor any more, in the
//! program as well as in the agent. So this side closes first and says so; then the
//! agent reads what the events counted and lets go, too.
//!
//! It is done by whichever thread next aims a slot or settles its bill while recording
//! is on, because no code of ours runs in between. Forked children hold copies of the
//! descriptors until they execute something else: as long as one lives, the events stay,
//! turned off.

use super::try_claim;
use crate::{recorder_state, served};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use inprocess_base::sys;
use inprocess_capture::state;
use inprocess_layout::{MAX_CPUS, WATCH_SLOTS};

const PERF_EVENT_IOC_ID: usize = 0x8008_2407;
const ALL_SLOTS: u32 = (1 << WATCH_SLOTS) - 1;

/// Whether the agent asks for it.
#[inline(always)]
pub fn is_wanted() -> bool {
    // SAFETY: the control page is always mapped; shared words are atomic.
    unsafe {
        AtomicU32::from_ptr(&raw mut (*state::control()).release_watch).load(Ordering::Relaxed) != 0
    }
}

/// Closes the events of every slot that nobody is aiming; the rest next time.
#[cold]
#[inline(never)]
pub fn release() {
    let region = state::region();
    if region.is_null() || state::sandboxed() {
        return;
    }
    // SAFETY: an active region implies a state page; slots and descriptors are in
    // bounds, and a slot's are ours from when it is claimed. It stays claimed, so
    // nobody aims it later.
    unsafe {
        let header = &raw mut (*region).header;
        let released = AtomicU32::from_ptr(&raw mut (*header).watch_released);
        // A child that borrows our memory has descriptors of its own.
        if released.load(Ordering::Acquire) != 0 || sys::getpid() != (*header).pid {
            return;
        }
        let watch = &raw mut (*recorder_state::recorder()).watch;
        (*watch).ready.store(0, Ordering::SeqCst);
        (*watch).asking.store(0, Ordering::SeqCst);
        let fds = (&raw mut (*watch).fds).cast::<i32>();
        let mut slot = 0;
        while slot < WATCH_SLOTS {
            let done = 1u32 << slot;
            if (*watch).released.load(Ordering::Acquire) & done == 0
                && try_claim(watch, slot).is_some()
            {
                served::watches(slot, 0);
                let mut cpu = 0;
                while cpu < MAX_CPUS {
                    // Whoever turns all off looks at them at any time.
                    let fd = AtomicI32::from_ptr(fds.add(cpu * WATCH_SLOTS + slot));
                    close_if_ours(fd.swap(-1, Ordering::AcqRel));
                    cpu += 1;
                }
                (*watch).released.fetch_or(done, Ordering::AcqRel);
            }
            slot += 1;
        }
        if (*watch).released.load(Ordering::Acquire) == ALL_SLOTS {
            AtomicU32::from_ptr(&raw mut (*state::control()).aimed).store(0, Ordering::Relaxed);
            released.store(1, Ordering::Release);
        }
    }
}

/// A program that closes what it does not know may have given the number to a file of
/// its own. Only an event has an id.
unsafe fn close_if_ours(fd: i32) {
    let mut id = 0u64;
    // SAFETY: the kernel writes a number there, or refuses.
    if fd >= 0 && unsafe { sys::ioctl(fd, PERF_EVENT_IOC_ID, &raw mut id as usize) } == 0 {
        sys::close(fd);
    }
}
