//! Hardware watchpoints: opened once, before the program's threads, and re-aimed.
//!
//! One event per slot and processor, inherited by all later threads; the
//! descriptors go to the agent, which maps the rings, so that hits outlive the
//! process. Until a slot is aimed it is disabled, and costs nothing.
//! `PERF_EVENT_IOC_MODIFY_ATTRIBUTES` re-aims an event for all threads at once.
//!
//! A watch ends when its memory is given back (`interpose.rs` tells): the next
//! object there is another one. The next access that is to be watched aims the
//! slot again.
//!
//! Whatever is refused is written down and the program goes on without: a
//! seccomp filter, or a program that closes all descriptors, only costs us the
//! watchpoints.

use crate::{
    governor,
    layout::{
        ARM_LOG, Arm, CALL_AGENT, CALL_MMAP, CALL_PERF_EVENT_OPEN, CALL_REPLY, CALL_SENDMSG,
        LAST_MESSAGE, MAX_CPUS, REPLY_READY, Region, WATCH_READY, WATCH_REFUSED, WATCH_SLOTS,
    },
    served,
    state::{self, State, Watch},
    sys,
};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const PERF_EVENT_IOC_DISABLE: usize = 0x2401;
const PERF_EVENT_IOC_MODIFY_ATTRIBUTES: usize = 0x4008_240b;
/// Our descriptors are moved up here, so that the program's own get the numbers
/// they would have without us.
const LOWEST_DESCRIPTOR: usize = 512;
const MOST_PATIENCE_MS: usize = 5000;
const LOWEST_AIM: u64 = 4096;
const USER_ADDRESSES_END: u64 = 1 << 47;
const SIZE_SHIFT: u32 = 60;

struct Refusal {
    call: u32,
    result: isize,
}

/// Opens the events that the agent asked for.
///
/// # Safety
/// Called once, by the constructor, with the active region.
pub unsafe fn open(region: *mut Region) {
    let state = state::state();
    // SAFETY: no other thread uses region header or state yet.
    unsafe {
        let header = &raw mut (*region).header;
        if (*header).want_watch == 0 || (*header).socket < 0 {
            return;
        }
        let watch = &raw mut (*state).watch;
        let fds = (&raw mut (*watch).fds).cast::<i32>();
        let mut entry = 0;
        while entry < MAX_CPUS * WATCH_SLOTS {
            fds.add(entry).write(-1);
            entry += 1;
        }
        match open_and_hand_over(region, watch, fds) {
            Ok(cpus) => {
                (*header).watch_cpus = cpus;
                (*header).watch_state = WATCH_READY;
                (*watch).ready.store(1, Ordering::Release);
            }
            Err(refusal) => {
                (*header).watch_refused_call = refusal.call;
                (*header).watch_refused_errno = -refusal.result as i32;
                (*header).watch_state = WATCH_REFUSED;
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
        }
    }
}

/// # Safety
/// As [`open`]; `fds` has MAX_CPUS × WATCH_SLOTS entries.
unsafe fn open_and_hand_over(
    region: *mut Region,
    watch: *mut Watch,
    fds: *mut i32,
) -> Result<u32, Refusal> {
    let dormant = sys::map(4096, sys::PROT_NONE, sys::MAP_PRIVATE_ANONYMOUS, -1);
    if dormant.is_null() {
        return Err(Refusal {
            call: CALL_MMAP,
            result: 0,
        });
    }
    // SAFETY: as the caller promises; slots and processors are bounded below.
    unsafe {
        let header = &raw mut (*region).header;
        let socket = (*header).socket;
        let slots = at_most((*header).want_watch as usize, WATCH_SLOTS);
        let cpus = at_most((*header).cpus as usize, MAX_CPUS);
        let attrs = (&raw mut (*watch).attr).cast::<crate::perf_attr::PerfEventAttr>();
        let mut slot = 0;
        while slot < slots {
            (*attrs.add(slot)).sleep_at(dormant as u64 + 8 * slot as u64);
            slot += 1;
        }
        let mut opened = 0;
        let mut cpu = 0;
        while cpu < cpus {
            let mut slot = 0;
            while slot < slots {
                let attr = attrs.add(slot);
                let mut fd = sys::perf_event_open(attr.cast(), cpu);
                if fd == sys::EINVAL {
                    (*attr).without_new_flags();
                    fd = sys::perf_event_open(attr.cast(), cpu);
                }
                if fd == sys::ENODEV && slot == 0 {
                    // The processor is not online.
                    break;
                }
                if fd < 0 {
                    return Err(Refusal {
                        call: CALL_PERF_EVENT_OPEN,
                        result: fd,
                    });
                }
                let moved = sys::fcntl(fd as i32, sys::F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
                let kept = if moved >= 0 {
                    sys::close(fd as i32);
                    moved as i32
                } else {
                    fd as i32
                };
                fds.add(cpu * WATCH_SLOTS + slot).write(kept);
                slot += 1;
            }
            if slot == slots {
                send(socket, cpu as u32, fds.add(cpu * WATCH_SLOTS), slots)?;
                opened += 1;
            }
            cpu += 1;
        }
        send(socket, LAST_MESSAGE, fds, 0)?;
        let patience = at_most((*header).reply_patience_ms as usize, MOST_PATIENCE_MS);
        let ready = sys::poll_readable(socket, patience);
        let mut reply = 0u8;
        if ready <= 0 || sys::read(socket, &raw mut reply, 1) != 1 {
            return Err(Refusal {
                call: CALL_REPLY,
                result: ready,
            });
        }
        if reply != REPLY_READY {
            return Err(Refusal {
                call: CALL_AGENT,
                result: 0,
            });
        }
        Ok(opened)
    }
}

fn at_most(value: usize, limit: usize) -> usize {
    if value < limit { value } else { limit }
}

/// Sends a processor's number and its descriptors (`unix(7)`, SCM_RIGHTS).
///
/// # Safety
/// `fds` must hold `count` descriptors, at most WATCH_SLOTS.
unsafe fn send(socket: i32, cpu: u32, fds: *const i32, count: usize) -> Result<(), Refusal> {
    #[repr(C)]
    struct Control {
        length: usize,
        level: i32,
        kind: i32,
        fds: [i32; WATCH_SLOTS],
    }
    #[repr(C)]
    struct Message {
        name: usize,
        name_length: u64,
        vectors: usize,
        vector_count: usize,
        control: usize,
        control_length: usize,
        flags: u64,
    }
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    const CONTROL_HEADER: usize = 16;

    let payload = cpu;
    let vector = [&raw const payload as usize, 4];
    let mut control = Control {
        length: CONTROL_HEADER + 4 * count,
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        fds: [-1; WATCH_SLOTS],
    };
    // SAFETY: the caller promises `count` descriptors and the bound.
    let result = unsafe {
        let into = (&raw mut control.fds).cast::<i32>();
        let mut at = 0;
        while at < count {
            into.add(at).write(fds.add(at).read());
            at += 1;
        }
        let message = Message {
            name: 0,
            name_length: 0,
            vectors: &raw const vector as usize,
            vector_count: 1,
            control: if count > 0 {
                &raw const control as usize
            } else {
                0
            },
            control_length: if count > 0 {
                (CONTROL_HEADER + 4 * count).next_multiple_of(8)
            } else {
                0
            },
            flags: 0,
        };
        sys::sendmsg(socket, (&raw const message).cast())
    };
    if result < 0 {
        return Err(Refusal {
            call: CALL_SENDMSG,
            result,
        });
    }
    Ok(())
}

/// Aims a slot. Never waits: while another thread aims the same slot, this aim
/// is skipped and counted.
#[inline(always)]
pub fn arm(slot: u32, address: u64, size: u32) {
    if !state::enabled() {
        return;
    }
    let region = state::region();
    let state = state::state();
    if region.is_null() || slot as usize >= WATCH_SLOTS {
        return;
    }
    // Sizes that hardware lacks (a long double, a struct) watch their beginning.
    let shift = match size {
        0 => return,
        1 => 0,
        2 | 3 => 1,
        4..=7 => 2,
        _ => 3,
    };
    let address = address & !((1u64 << shift) - 1);
    // A null pointer's field is not worth losing the present aim for.
    if !(LOWEST_AIM..USER_ADDRESSES_END).contains(&address) {
        return;
    }
    let aim = (shift as u64) << SIZE_SHIFT | address;
    // SAFETY: an active region implies a state page; the slot is in bounds.
    unsafe {
        let watch = &raw mut (*state).watch;
        if (*watch).ready.load(Ordering::Acquire) == 0 {
            return;
        }
        let current = (&raw const (*watch).aim)
            .cast::<AtomicU64>()
            .add(slot as usize);
        if (*current).load(Ordering::Relaxed) == aim {
            return;
        }
        aim_slot(region, state, slot as usize, aim);
    }
}

/// Turns all watchpoints off. The agent turns them on again.
#[cold]
#[inline(never)]
pub fn turn_off() {
    // SAFETY: the state pages are always mapped; descriptors are in bounds.
    unsafe {
        let watch = &raw mut (*state::state()).watch;
        if (*watch).ready.load(Ordering::Acquire) == 0 || state::sandboxed() {
            return;
        }
        let fds = (&raw const (*watch).fds).cast::<i32>();
        let mut at = 0;
        while at < MAX_CPUS * WATCH_SLOTS {
            let fd = fds.add(at).read();
            if fd >= 0 {
                sys::ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
            }
            at += 1;
        }
    }
}

/// # Safety
/// `slot` is in bounds, region and state are active.
#[cold]
#[inline(never)]
unsafe fn aim_slot(region: *mut Region, state: *mut State, slot: usize, aim: u64) {
    // SAFETY: the caller's promise; the slot's `aiming` word makes its attribute
    // ours while we hold it; counters are shared, hence atomic.
    unsafe {
        let header = &raw mut (*region).header;
        let watch = &raw mut (*state).watch;
        let count =
            |counter: *mut u64| AtomicU64::from_ptr(counter).fetch_add(1, Ordering::Relaxed);
        let aiming = (&raw const (*watch).aiming).cast::<AtomicU32>().add(slot);
        if (*aiming)
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            count(&raw mut (*header).arms_contended);
            return;
        }
        if state::sandboxed() {
            count(&raw mut (*header).arms_sandboxed);
            (*aiming).store(0, Ordering::Release);
            return;
        }
        if AtomicU64::from_ptr(&raw mut (*header).arms).load(Ordering::Relaxed)
            >= (*header).arm_limit
        {
            count(&raw mut (*header).arms_over_limit);
            (*aiming).store(0, Ordering::Release);
            return;
        }
        let began = sys::tsc();
        let address = aim & ((1 << SIZE_SHIFT) - 1);
        let size = 1u64 << (aim >> SIZE_SHIFT);
        let attr = (&raw mut (*watch).attr)
            .cast::<crate::perf_attr::PerfEventAttr>()
            .add(slot);
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
        (*aiming).store(0, Ordering::Release);
        governor::spend(sys::tsc().wrapping_sub(began));
    }
}

/// The memory that a slot watches is about to be given back: the slot sleeps
/// until an access aims it again.
pub extern "C" fn given_back(slot: u32) {
    let (region, state, slot) = (state::region(), state::state(), slot as usize);
    if region.is_null() || slot >= WATCH_SLOTS || state::sandboxed() {
        return;
    }
    // SAFETY: an active region implies a state page; the slot is in bounds and ours
    // while its `aiming` word is.
    unsafe {
        let header = &raw mut (*region).header;
        let watch = &raw mut (*state).watch;
        if (*watch).ready.load(Ordering::Acquire) == 0 {
            return;
        }
        let count =
            |counter: *mut u64| AtomicU64::from_ptr(counter).fetch_add(1, Ordering::Relaxed);
        let aiming = (&raw const (*watch).aiming).cast::<AtomicU32>().add(slot);
        if (*aiming)
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            count(&raw mut (*header).arms_contended);
            return;
        }
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
        let was = (*current).swap(0, Ordering::Relaxed) & ((1 << SIZE_SHIFT) - 1);
        served::watches(slot, 0);
        count(&raw mut (*header).disarms);
        write_arm(&raw mut (*header).last_arm, slot, 0, was);
        (*aiming).store(0, Ordering::Release);
        governor::spend(sys::tsc().wrapping_sub(began));
    }
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
