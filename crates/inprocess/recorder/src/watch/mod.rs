//! Hardware watchpoints: opened once, before the program's threads, and re-aimed.
//!
//! Inherited by all later threads; the descriptors go to the agent, which reads
//! the counters, so that what was hit is known when the process is gone. Until a
//! slot is aimed it is disabled, and costs nothing.
//! `PERF_EVENT_IOC_MODIFY_ATTRIBUTES` re-aims an event for all threads at once.
//!
//! Hits come through rings of the kernel (`ring.rs`), and in no other way: a signal to
//! the thread that made the access would need no rings, but a program can see it.
//!
//! A watch ends when its memory is given back (`served.rs`): the next
//! object there is another one. The next access that is to be watched aims the
//! slot again.
//!
//! Watching may end before the run does; then the events are closed (`release.rs`).
//!
//! Whatever is refused is written down and the program goes on without: a
//! seccomp filter, or a program that closes all descriptors, only costs us the
//! watchpoints.

mod hand_over;
pub mod release;
mod ring;

use crate::{
    governor,
    perf_attr::PerfEventAttr,
    recorder_state::{self, Watch},
    served,
};
use core::{
    arch::asm,
    sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering},
};
use hand_over::Refusal;
use inprocess_base::sys;
use inprocess_capture::state;
use inprocess_layout::{
    ARM_LOG, Arm, CALL_MMAP, Header, MAX_CPUS, Region, WATCH_READY, WATCH_REFUSED, WATCH_SLOTS,
};

const PERF_EVENT_IOC_DISABLE: usize = 0x2401;
const PERF_EVENT_IOC_MODIFY_ATTRIBUTES: usize = 0x4008_240b;
const LOWEST_AIM: u64 = 4096;
const USER_ADDRESSES_END: u64 = 1 << 47;
const SIZE_SHIFT: u32 = 60;
/// Accesses between two that settle: a fraction of a millisecond.
const COUNTDOWN: i32 = 1 << 16;

/// Opens the events that the agent asked for.
///
/// # Safety
/// Called once, by the constructor, with the active region.
pub unsafe fn open(region: *mut Region) {
    // SAFETY: no other thread uses the region's header or the recorder's pages yet.
    unsafe {
        let header = &raw mut (*region).header;
        if (*header).want_watch == 0 || (*header).socket < 0 {
            return;
        }
        let watch = &raw mut (*recorder_state::recorder()).watch;
        if let Err(refusal) = open_events(region, watch) {
            (*header).watch_refused_call = refusal.call;
            (*header).watch_refused_errno = -refusal.result as i32;
            (*header).watch_state = WATCH_REFUSED;
            return;
        }
        (*header).watch_state = WATCH_READY;
        (*watch).ready.store(1, Ordering::Release);
        (*watch).asking.store(1, Ordering::Release);
    }
}

/// Opens the rings' events, aimed at a page that nobody touches, or leaves none open.
///
/// # Safety
/// As [`open`].
unsafe fn open_events(region: *mut Region, watch: *mut Watch) -> Result<(), Refusal> {
    let dormant = sys::map(4096, sys::PROT_NONE, sys::MAP_PRIVATE_ANONYMOUS, -1);
    if dormant.is_null() {
        return Err(Refusal::of(CALL_MMAP));
    }
    // SAFETY: as the caller promises; descriptors are in bounds.
    unsafe {
        let fds = (&raw mut (*watch).fds).cast::<i32>();
        let mut entry = 0;
        while entry < MAX_CPUS * WATCH_SLOTS {
            fds.add(entry).write(-1);
            entry += 1;
        }
        let opened = ring::open(region, watch, dormant as u64);
        if opened.is_err() {
            let mut entry = 0;
            while entry < MAX_CPUS * WATCH_SLOTS {
                let fd = fds.add(entry).read();
                if fd >= 0 {
                    sys::close(fd);
                    fds.add(entry).write(-1);
                }
                entry += 1;
            }
        }
        opened
    }
}

/// Aims a slot. Never waits: while another thread aims the same slot, this aim
/// is skipped and counted.
#[inline(always)]
pub fn arm(slot: u32, address: u64, size: u32) {
    if !state::enabled() {
        return;
    }
    let region = state::region();
    if region.is_null() || slot as usize >= WATCH_SLOTS {
        return;
    }
    // SAFETY: the recorder's pages are always mapped.
    let countdown = unsafe { &(*recorder_state::recorder()).watch.countdown };
    if countdown.load(Ordering::Relaxed) < 0 {
        countdown.store(COUNTDOWN, Ordering::Relaxed);
        governor::spend(0);
    }
    // Sizes that hardware lacks (a long double, a struct) watch their beginning.
    let shift = match size {
        0 => return,
        1 => 0,
        2 | 3 => 1,
        4..=7 => 2,
        _ => 3,
    };
    let asked = recorder_state::asked(address, shift);
    let address = address & !((1u64 << shift) - 1);
    // A null pointer's field is not worth losing the present aim for.
    if !(LOWEST_AIM..USER_ADDRESSES_END).contains(&address) {
        return;
    }
    if release::is_wanted() {
        release::release();
        return;
    }
    if is_on_own_stack(address) {
        // SAFETY: the region is active; the counter is one of its header.
        unsafe {
            count(&raw mut (*region).header.arms_own_stack);
            asked_of(slot).store(asked, Ordering::Relaxed);
        }
        return;
    }
    let aim = u64::from(shift) << SIZE_SHIFT | address;
    // SAFETY: the recorder's pages are always mapped; the slot is in bounds.
    unsafe {
        let watch = &raw mut (*recorder_state::recorder()).watch;
        if (*watch).ready.load(Ordering::Acquire) == 0 {
            return;
        }
        let current = (&raw const (*watch).aim)
            .cast::<AtomicU64>()
            .add(slot as usize);
        if (*current).load(Ordering::Relaxed) == aim {
            asked_of(slot).store(asked, Ordering::SeqCst);
            // Its memory may have been given back meanwhile.
            if (*current).load(Ordering::SeqCst) != aim {
                asked_of(slot).store(0, Ordering::SeqCst);
            }
            return;
        }
        aim_slot(region, slot as usize, aim);
    }
}

/// With what the slot needs no aiming.
///
/// # Safety
/// `slot` must be in bounds.
unsafe fn asked_of<'a>(slot: u32) -> &'a AtomicU64 {
    // SAFETY: the recorder's pages are always mapped; the caller's promise.
    unsafe {
        let watch = &raw const (*recorder_state::recorder()).watch;
        &*(&raw const (*watch).asked)
            .cast::<AtomicU64>()
            .add(slot as usize)
    }
}

/// Whether it lies in the frames of this thread's latest calls. Nobody else reaches such
/// memory unless it is told where it is, and then its own accesses aim at it. A hit
/// there costs a hundred microseconds instead of twenty: the kernel copies the stack
/// into the sample, and the copying hits again.
#[inline(always)]
fn is_on_own_stack(address: u64) -> bool {
    const RED_ZONE: u64 = 128;
    const FRAMES: u64 = 16 << 10;
    let stack: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(nomem, nostack, preserves_flags)) };
    address.wrapping_sub(stack - RED_ZONE) < FRAMES
}

/// Turns all watchpoints off. The agent turns them on again.
#[cold]
#[inline(never)]
pub fn turn_off() {
    // SAFETY: the state pages are always mapped; descriptors are in bounds.
    unsafe {
        let watch = &raw mut (*recorder_state::recorder()).watch;
        if (*watch).ready.load(Ordering::Acquire) == 0 || state::sandboxed() {
            return;
        }
        let fds = (&raw mut (*watch).fds).cast::<i32>();
        let mut at = 0;
        while at < MAX_CPUS * WATCH_SLOTS {
            let fd = AtomicI32::from_ptr(fds.add(at)).load(Ordering::Acquire);
            if fd >= 0 {
                sys::ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
            }
            at += 1;
        }
    }
}

/// # Safety
/// `slot` is in bounds, the region is active.
#[cold]
#[inline(never)]
unsafe fn aim_slot(region: *mut Region, slot: usize, aim: u64) {
    // SAFETY: the caller's promise; the slot's `aiming` word makes its attribute
    // ours while we hold it; counters are shared, hence atomic.
    unsafe {
        let header = &raw mut (*region).header;
        let watch = &raw mut (*recorder_state::recorder()).watch;
        let Some(aiming) = claimed(header, watch, slot) else {
            return;
        };
        // Watching may have ended meanwhile.
        if (*watch).ready.load(Ordering::Acquire) == 0 {
            aiming.store(0, Ordering::Release);
            return;
        }
        if state::sandboxed() {
            count(&raw mut (*header).arms_sandboxed);
            (*watch).asking.store(0, Ordering::Relaxed);
            aiming.store(0, Ordering::Release);
            return;
        }
        if AtomicU64::from_ptr(&raw mut (*header).arms).load(Ordering::Relaxed)
            >= (*header).arm_limit
        {
            count(&raw mut (*header).arms_over_limit);
            (*watch).asking.store(0, Ordering::Relaxed);
            aiming.store(0, Ordering::Release);
            return;
        }
        let began = sys::tsc();
        let address = aim & ((1 << SIZE_SHIFT) - 1);
        let size = 1u64 << (aim >> SIZE_SHIFT);
        let attr = (&raw mut (*watch).attr).cast::<PerfEventAttr>().add(slot);
        (*attr).aim(address, size);
        AtomicU32::from_ptr(&raw mut (*state::control()).aimed)
            .fetch_or(1 << slot, Ordering::Relaxed);
        let fds = (&raw const (*watch).fds).cast::<i32>();
        let mut cpu = 0;
        while cpu < MAX_CPUS {
            let fd = fds.add(cpu * WATCH_SLOTS + slot).read();
            if fd >= 0 && sys::ioctl(fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, attr as usize) < 0 {
                count(&raw mut (*header).arm_errors);
            }
            cpu += 1;
        }
        (*((&raw const (*watch).aim).cast::<AtomicU64>().add(slot))).store(aim, Ordering::Relaxed);
        served::watches(slot, address);
        let number = count(&raw mut (*header).arms) as usize;
        let last = &raw mut (*header).last_arm;
        write_arm(last, slot, size, address);
        if number < ARM_LOG {
            let log = (&raw mut (*header).arm_log).cast::<Arm>();
            write_arm(log.add(number), slot, size, address);
        }
        aiming.store(0, Ordering::Release);
        governor::spend(sys::tsc().wrapping_sub(began));
    }
}

/// The memory that a slot watches is about to be given back: the slot sleeps
/// until an access aims it again.
pub extern "C" fn given_back(slot: u32) {
    let (region, slot) = (state::region(), slot as usize);
    if region.is_null() || slot >= WATCH_SLOTS || state::sandboxed() {
        return;
    }
    // SAFETY: the recorder's pages are always mapped; the slot is in bounds and ours
    // while its `aiming` word is.
    unsafe {
        let header = &raw mut (*region).header;
        let watch = &raw mut (*recorder_state::recorder()).watch;
        if (*watch).ready.load(Ordering::Acquire) == 0 {
            return;
        }
        let Some(aiming) = claimed(header, watch, slot) else {
            return;
        };
        let began = sys::tsc();
        // First: the agent must not turn it on again.
        AtomicU32::from_ptr(&raw mut (*state::control()).aimed)
            .fetch_and(!(1 << slot), Ordering::Relaxed);
        let fds = (&raw const (*watch).fds).cast::<i32>();
        let mut cpu = 0;
        while cpu < MAX_CPUS {
            let fd = fds.add(cpu * WATCH_SLOTS + slot).read();
            if fd >= 0 && sys::ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) < 0 {
                count(&raw mut (*header).arm_errors);
            }
            cpu += 1;
        }
        let current = (&raw const (*watch).aim).cast::<AtomicU64>().add(slot);
        let was = (*current).swap(0, Ordering::SeqCst) & ((1 << SIZE_SHIFT) - 1);
        asked_of(slot as u32).store(0, Ordering::SeqCst);
        served::watches(slot, 0);
        count(&raw mut (*header).disarms);
        write_arm(&raw mut (*header).last_arm, slot, 0, was);
        aiming.store(0, Ordering::Release);
        governor::spend(sys::tsc().wrapping_sub(began));
    }
}

/// The word that makes a slot ours until it is zero again; `None`, and counted, if it is
/// another thread's.
///
/// # Safety
/// `slot` is in bounds; header and state stay mapped.
unsafe fn claimed(
    header: *mut Header,
    watch: *mut Watch,
    slot: usize,
) -> Option<&'static AtomicU32> {
    // SAFETY: the caller's promise.
    unsafe {
        let aiming = try_claim(watch, slot);
        if aiming.is_none() {
            count(&raw mut (*header).arms_contended);
        }
        aiming
    }
}

/// As [`claimed`], without counting.
///
/// # Safety
/// `slot` is in bounds; the state stays mapped.
unsafe fn try_claim(watch: *mut Watch, slot: usize) -> Option<&'static AtomicU32> {
    // SAFETY: the caller's promise; the word is shared, hence atomic.
    let aiming = unsafe { &*(&raw const (*watch).aiming).cast::<AtomicU32>().add(slot) };
    let taken = aiming.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
    taken.is_ok().then_some(aiming)
}

/// # Safety
/// `counter` must be a word of the header.
unsafe fn count(counter: *mut u64) -> u64 {
    // SAFETY: the caller's promise; counters are shared, hence atomic.
    unsafe { AtomicU64::from_ptr(counter).fetch_add(1, Ordering::Relaxed) }
}

/// # Safety
/// `into` must be writable. Two threads may write the last arm at once, each
/// another slot's: the log is diagnostic and may then mix them.
unsafe fn write_arm(into: *mut Arm, slot: usize, size: u64, address: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        (&raw mut (*into).slot).write_volatile(slot as u32);
        (&raw mut (*into).size).write_volatile(size as u32);
        (&raw mut (*into).address).write_volatile(address);
        (&raw mut (*into).tsc).write_volatile(sys::tsc());
    }
}
