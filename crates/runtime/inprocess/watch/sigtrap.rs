//! Hits by SIGTRAP to the thread that made the access (`perf_event_attr.sigtrap`):
//! four descriptors whatever the number of processors, and no locked memory. Used
//! only where rings are refused, because a signal can be seen by the program.
//!
//! * While a thread blocks SIGTRAP, its hits vanish but for the first, which comes
//!   late or goes to the program's own `sigwait`. So watching ends for good,
//!   [`back_off`], before the program blocks it or installs a handler of its own:
//!   functions of the C library tell (`interpose.rs`), and without those this way is
//!   refused. What they cannot see (a raw system call, a handler that blocks
//!   everything) is noticed by hits that come late (`hits.rs`).
//! * Kernels from 5.13 to 5.18 kill a process that is hit meanwhile: refused.
//! * Under a debugger, signals go to it: refused. The agent looks for one later.
//! * With the default action in place a hit would kill, and one may be on its way
//!   when watching ends. So from the first event on our handler stays in the kernel
//!   (`trap.rs`), whatever the program sets.
//!
//! Some machines accept watchpoints that never fire, so one is tried here first.

use super::{
    PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_MODIFY_ATTRIBUTES,
    hand_over::{MOST_SENT, at_most, conclude, moved_up, send},
    try_claim,
    way::{Refusal, Way},
};
use crate::{
    crash,
    layout::{
        CALL_BLOCKED, CALL_HANDLER, CALL_INTERPOSED, CALL_KERNEL, CALL_MEMORY,
        CALL_PERF_EVENT_OPEN, CALL_PROBE, CALL_TRACED, ENDED_BLOCKED, ENDED_NOT, HITS_SIZE, Hits,
        Region, SIGTRAP_MESSAGE, WATCH_SLOTS,
    },
    perf_attr::PerfEventAttr,
    served,
    state::{self, Watch},
    sys,
};
use core::{
    mem::MaybeUninit,
    ptr::null_mut,
    sync::atomic::{AtomicU32, Ordering},
};

/// Values of [`Watch::taking`].
pub const NOT_TAKING: u32 = 0;
pub const TRYING: u32 = 1;
pub const TAKING: u32 = 2;

/// What our signals carry, with the slot in the lowest bits: "FSKETCH" again.
pub const SIGNAL_DATA: u64 = 0x4653_4b45_5443_4800;
pub const SIGTRAP: i32 = 5;
const PERF_EVENT_IOC_RESET: usize = 0x2403;
const FIRST_KERNEL: (u32, u32) = (5, 19);

pub const SIGNALS: Way = Way { open };

/// # Safety
/// As [`Way::open`] says.
unsafe fn open(
    region: *mut Region,
    watch: *mut Watch,
    dormant: u64,
) -> Result<(), Refusal> {
    may_be_used()?;
    let memory = sys::memory_file(b"failsketch-hits\0", HITS_SIZE);
    if memory < 0 {
        return Err(Refusal {
            call: CALL_MEMORY,
            result: memory,
        });
    }
    let hits = sys::map(HITS_SIZE, sys::PROT_READ_WRITE, sys::MAP_SHARED, memory as i32);
    // SAFETY: as the caller promises; the mapping is as large as what goes there.
    unsafe {
        let opened = if hits.is_null() {
            Err(Refusal::of(CALL_MEMORY))
        } else {
            (*watch).hits.store(hits.cast::<Hits>(), Ordering::Release);
            open_events(region, watch, dormant, memory as i32)
        };
        sys::close(memory as i32);
        if opened.is_err() {
            (*watch).taking.store(NOT_TAKING, Ordering::Release);
            (*watch).hits.store(null_mut(), Ordering::Release);
            if !hits.is_null() {
                sys::unmap(hits, HITS_SIZE);
            }
        }
        opened
    }
}

/// Whether nothing that is known speaks against it.
fn may_be_used() -> Result<(), Refusal> {
    let refusal = if sys::kernel_release() < FIRST_KERNEL {
        CALL_KERNEL
    } else if !served::is_joined() {
        CALL_INTERPOSED
    } else if is_traced() {
        CALL_TRACED
    } else if !crash::stands_before_the_default(SIGTRAP) {
        CALL_HANDLER
    } else if sys::blocked_signals() & 1 << (SIGTRAP - 1) != 0 {
        CALL_BLOCKED
    } else {
        return Ok(());
    };
    Err(Refusal::of(refusal))
}

/// Whether somebody debugs us, or that cannot be known.
fn is_traced() -> bool {
    const LENGTH: usize = 1024;
    const FIELD: &[u8] = b"\nTracerPid:\t";
    let mut text = MaybeUninit::<[u8; LENGTH]>::uninit();
    let at = text.as_mut_ptr().cast::<u8>();
    let file = sys::open(b"/proc/self/status\0");
    if file < 0 {
        return true;
    }
    let got = sys::read(file, at, LENGTH);
    sys::close(file);
    let mut from = 0;
    while from + (FIELD.len() as isize) < got {
        // SAFETY: all bytes are below `got`.
        unsafe {
            let mut same = 0;
            while same < FIELD.len()
                && at.add(from as usize + same).read() == FIELD.as_ptr().add(same).read()
            {
                same += 1;
            }
            if same == FIELD.len() {
                return at.add(from as usize + same).read() != b'0';
            }
        }
        from += 1;
    }
    true
}

/// # Safety
/// As [`Way::open`]; the memory for hits is in place.
unsafe fn open_events(
    region: *mut Region,
    watch: *mut Watch,
    dormant: u64,
    memory: i32,
) -> Result<(), Refusal> {
    // SAFETY: as the caller promises; slots are bounded.
    unsafe {
        let header = &raw mut (*region).header;
        let slots = at_most((*header).want_watch as usize, WATCH_SLOTS);
        let attrs = (&raw mut (*watch).attr).cast::<PerfEventAttr>();
        let sleeping = (&raw mut (*watch).sleeping).cast::<PerfEventAttr>();
        // All slots of all processors: the first row of the table is enough.
        let fds = (&raw mut (*watch).fds).cast::<i32>();
        let mut sent = [-1; MOST_SENT];
        let sent = (&raw mut sent).cast::<i32>();
        let mut slot = 0;
        while slot < slots {
            let (asleep, data) = (dormant + 8 * slot as u64, SIGNAL_DATA | slot as u64);
            (*attrs.add(slot)).sleep_signalling_at(asleep, data);
            (*sleeping.add(slot)).sleep_signalling_at(asleep, data);
            let fd = sys::perf_event_open(attrs.add(slot).cast(), sys::ANY_CPU);
            if fd < 0 {
                return Err(Refusal {
                    call: CALL_PERF_EVENT_OPEN,
                    result: fd,
                });
            }
            let fd = moved_up(fd as i32);
            fds.add(slot).write(fd);
            sent.add(slot).write(fd);
            slot += 1;
        }
        if !fires(watch) {
            return Err(Refusal::of(CALL_PROBE));
        }
        sent.add(slots).write(memory);
        send((*header).socket, SIGTRAP_MESSAGE, sent, slots + 1)?;
        conclude(header)
    }
}

/// Whether a watchpoint on a word of ours fires at each access.
///
/// # Safety
/// The events must be open, and asleep.
unsafe fn fires(watch: *mut Watch) -> bool {
    const ACCESSES: u32 = 3;
    // SAFETY: the caller's promise; the word is ours.
    unsafe {
        let fd = (&raw const (*watch).fds).cast::<i32>().read();
        let attr = (&raw mut (*watch).attr).cast::<PerfEventAttr>();
        let word = (&raw mut (*watch).tried_word).cast::<u64>();
        (*watch).taking.store(TRYING, Ordering::SeqCst);
        (*attr).aim(word as u64, 8);
        if sys::ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, attr as usize) < 0 {
            return false;
        }
        let mut access = 0;
        while access < ACCESSES {
            word.write_volatile(u64::from(access));
            access += 1;
        }
        put_to_sleep(watch, 0);
        word.write_volatile(0);
        // What was tried is not to be counted.
        sys::ioctl(fd, PERF_EVENT_IOC_RESET, 0);
        (*watch).taking.store(TAKING, Ordering::SeqCst);
        (*watch).tried.load(Ordering::SeqCst) == ACCESSES
    }
}

/// Whether SIGTRAP is ours: hits come by it, or may still come.
pub fn is_taking() -> bool {
    // SAFETY: the state pages are always mapped.
    unsafe { (*state::state()).watch.taking.load(Ordering::Acquire) != NOT_TAKING }
}

/// Aims a slot at what nobody touches, and disables it: should the agent turn it on
/// again in this very moment, nothing happens. Rings have no need of it.
///
/// # Safety
/// `watch` must be the state's, the slot in bounds.
#[cold]
#[inline(never)]
pub unsafe fn put_to_sleep(watch: *mut Watch, slot: usize) {
    // SAFETY: the caller's promise; the attribute is never changed.
    unsafe {
        let fd = (&raw const (*watch).fds).cast::<i32>().add(slot).read();
        let attr = (&raw const (*watch).sleeping).cast::<PerfEventAttr>().add(slot);
        if fd >= 0 && (*watch).taking.load(Ordering::Relaxed) != NOT_TAKING {
            sys::ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, attr as usize);
            sys::ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        }
    }
}

/// The program is about to block SIGTRAP.
pub extern "C" fn program_blocks() {
    back_off(ENDED_BLOCKED);
}

/// Ends the watching, if hits come by SIGTRAP, before the program does what `reason`
/// says. When it returns, no access makes a signal any more. The descriptors stay:
/// another thread may be about to use their numbers.
#[cold]
#[inline(never)]
pub fn back_off(reason: u32) {
    let region = state::region();
    if region.is_null() || !is_taking() {
        return;
    }
    // SAFETY: an active region implies a state page; slots are in bounds.
    unsafe {
        let watch = &raw mut (*state::state()).watch;
        if (*watch).asleep.load(Ordering::Acquire) != 0 {
            return;
        }
        let ended = AtomicU32::from_ptr(&raw mut (*region).header.watch_ended);
        let _ = ended.compare_exchange(ENDED_NOT, reason, Ordering::AcqRel, Ordering::Relaxed);
        (*watch).ready.store(0, Ordering::SeqCst);
        if state::sandboxed() {
            // The agent does it: no system call.
            return;
        }
        let mut slot = 0;
        while slot < WATCH_SLOTS {
            let aiming = waited_for(watch, slot);
            put_to_sleep(watch, slot);
            served::watches(slot, 0);
            if let Some(aiming) = aiming {
                aiming.store(0, Ordering::Release);
            }
            slot += 1;
        }
        // Nor need the agent turn them on again.
        AtomicU32::from_ptr(&raw mut (*state::control()).aimed).store(0, Ordering::Relaxed);
        (*watch).asleep.store(1, Ordering::Release);
    }
}

/// Waits until nobody aims the slot, and claims it; but not for long: the thread that
/// aims may be this one, interrupted, or one that does not get to run.
///
/// # Safety
/// `watch` must be the state's, the slot in bounds.
#[inline(never)]
unsafe fn waited_for(watch: *mut Watch, slot: usize) -> Option<&'static AtomicU32> {
    const NAPS: u32 = 4;
    const SPINS: u32 = 1000;
    let mut naps = 0;
    loop {
        let mut spins = 0;
        while spins < SPINS {
            // SAFETY: the caller's promise.
            let claimed = unsafe { try_claim(watch, slot) };
            if claimed.is_some() {
                return claimed;
            }
            core::hint::spin_loop();
            spins += 1;
        }
        if naps == NAPS {
            return None;
        }
        sys::sleep_a_millisecond();
        naps += 1;
    }
}
