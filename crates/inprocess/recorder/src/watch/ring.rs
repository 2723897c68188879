//! Hits through rings of the kernel, one for each processor, which the agent maps.
//!
//! Complete whatever signals the program blocks, invisible to it, and the hits outlive
//! it. That takes a descriptor for each slot and processor, and locked memory for each
//! processor.

use super::hand_over::{Refusal, at_most, conclude, moved_up, send};
use crate::{perf_attr::PerfEventAttr, recorder_state::Watch};
use inprocess_base::sys;
use inprocess_layout::{CALL_PERF_EVENT_OPEN, MAX_CPUS, Region, WATCH_SLOTS};

/// Opens an event for each slot that the header asks for on each processor, aimed at a
/// page that nobody touches (`dormant`) and asleep, fills `fds` and `attr`, and hands the
/// descriptors to the agent.
///
/// # Safety
/// To be called by the constructor, with the active region, and with all of `fds` -1.
pub unsafe fn open(region: *mut Region, watch: *mut Watch, dormant: u64) -> Result<(), Refusal> {
    // SAFETY: as the caller promises; slots and processors are bounded.
    unsafe {
        let header = &raw mut (*region).header;
        let slots = at_most((*header).want_watch as usize, WATCH_SLOTS);
        let cpus = at_most((*header).cpus as usize, MAX_CPUS);
        let attrs = (&raw mut (*watch).attr).cast::<PerfEventAttr>();
        let mut slot = 0;
        while slot < slots {
            (*attrs.add(slot)).sleep_at(dormant + 8 * slot as u64);
            slot += 1;
        }
        let fds = (&raw mut (*watch).fds).cast::<i32>();
        let mut opened = 0;
        let mut cpu = 0;
        while cpu < cpus {
            let of_cpu = fds.add(cpu * WATCH_SLOTS);
            if open_on(cpu, attrs, slots, of_cpu)? {
                send((*header).socket, cpu as u32, of_cpu, slots)?;
                opened += 1;
            }
            cpu += 1;
        }
        conclude(header)?;
        (*header).watch_cpus = opened;
        Ok(())
    }
}

/// Opens a processor's events. False if it is not online.
///
/// # Safety
/// There must be `slots` attributes, and as much room for descriptors.
unsafe fn open_on(
    cpu: usize,
    attrs: *mut PerfEventAttr,
    slots: usize,
    fds: *mut i32,
) -> Result<bool, Refusal> {
    let mut slot = 0;
    while slot < slots {
        // SAFETY: the caller's promise.
        unsafe {
            let attr = attrs.add(slot);
            let mut fd = sys::perf_event_open(attr.cast(), cpu);
            if fd == sys::EINVAL {
                (*attr).without_new_flags();
                fd = sys::perf_event_open(attr.cast(), cpu);
            }
            if fd == sys::ENODEV && slot == 0 {
                return Ok(false);
            }
            if fd < 0 {
                return Err(Refusal {
                    call: CALL_PERF_EVENT_OPEN,
                    result: fd,
                });
            }
            fds.add(slot).write(moved_up(fd as i32));
        }
        slot += 1;
    }
    Ok(true)
}
