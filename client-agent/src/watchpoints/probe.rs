//! Do watchpoints work here? The only honest answer is to arm one and see it
//! fire: on some clouds opening succeeds and nothing ever happens.

use super::sys;
use crate::process::sys::thread_cpu_ns;
use sketch_model::{Capabilities, Capability};
use std::{
    io,
    os::fd::AsFd,
    sync::atomic::{AtomicU64, Ordering},
};

/// What came of an attempt to watch a word.
#[derive(Debug)]
pub enum WatchpointProbe {
    Works,
    /// Everything was accepted, but accesses were not noticed.
    Silent {
        counted: u64,
        expected: u64,
    },
    Refused {
        call: &'static str,
        reason: io::Error,
    },
}

/// Opens a watchpoint on one word, re-aims it at another and touches both.
pub fn try_watchpoint() -> WatchpointProbe {
    #[repr(align(8))]
    struct Word(AtomicU64);
    let dormant = Word(AtomicU64::new(0));
    let watched = Word(AtomicU64::new(0));
    let refused = |call, reason| WatchpointProbe::Refused { call, reason };
    let event = match sys::open_own_watchpoint(&raw const dormant as u64) {
        Ok(event) => event,
        Err(reason) => return refused("perf_event_open", reason),
    };
    if let Err(reason) = sys::re_aim(event.as_fd(), &raw const watched as u64) {
        return refused("ioctl(PERF_EVENT_IOC_MODIFY_ATTRIBUTES)", reason);
    }
    let expected = 3;
    for value in 0..expected {
        watched.0.store(value, Ordering::SeqCst);
        dormant.0.store(value, Ordering::SeqCst);
    }
    match sys::read_count(event.as_fd()) {
        Ok(counted) if counted == expected => WatchpointProbe::Works,
        Ok(counted) => WatchpointProbe::Silent { counted, expected },
        Err(reason) => refused("read of the event's counter", reason),
    }
}

/// What a hit costs in a program to what it costs in a loop, where the kernel's
/// code and the ring are in the nearest cache (`docs/overhead.md`, "What the
/// governor charges").
const IN_A_PROGRAM: (u64, u64) = (5, 4);
/// Where none can be measured.
const USUAL_NS: u64 = 25_000;

/// Nanoseconds that one hit costs here, as the governor charges it: measured on
/// a watchpoint of our own that samples as a program's do.
pub fn hit_cost_ns() -> u64 {
    const HITS: u64 = 16;
    const BATCHES: u32 = 5;
    const RING_PAGES: usize = 16;
    #[repr(align(8))]
    struct Word(AtomicU64);
    // Not on the stack: samples copy the stack, and the copy would be a hit, too.
    let watched = Box::new(Word(AtomicU64::new(0)));
    let Ok(event) = sys::open_own_sampling_watchpoint(&raw const *watched as u64) else {
        return USUAL_NS;
    };
    let ring = sys::Ring::map(event.as_fd(), RING_PAGES);
    let batches = (0..BATCHES).map(|_| {
        // Our own processor time: neighbours must not raise the price.
        let began = thread_cpu_ns();
        for value in 0..HITS {
            watched.0.store(value, Ordering::Relaxed);
        }
        let each = thread_cpu_ns().saturating_sub(began) / HITS;
        if let Ok(ring) = &ring {
            ring.drain(&mut Vec::new());
        }
        each
    });
    price(batches.collect())
}

/// From what a hit cost in each batch. The middle one: on a virtual machine a hit
/// costs 14 µs at one moment and 22 µs at the next, and the least is what a program
/// hardly ever pays.
fn price(mut batches: Vec<u64>) -> u64 {
    batches.sort_unstable();
    let middle = batches.get(batches.len() / 2);
    middle.map_or(USUAL_NS, |each| {
        (each * IN_A_PROGRAM.0 / IN_A_PROGRAM.1).max(500)
    })
}

/// What this machine lets us do; `traced` says whether Intel PT can be used.
pub fn capabilities(traced: bool) -> Capabilities {
    let mut found = match try_watchpoint() {
        WatchpointProbe::Works => Capabilities::watchpoints(),
        WatchpointProbe::Silent { .. } | WatchpointProbe::Refused { .. } => Capabilities::hooks(),
    };
    if traced {
        found = found.and(Capability::IntelPt);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_charged_at_what_programs_pay_not_at_the_least_ever_seen() {
        assert_eq!(price(vec![20_000, 14_000, 90_000, 21_000, 14_000]), 25_000);
        assert_eq!(price(vec![1; 5]), 500);
        assert_eq!(price(Vec::new()), USUAL_NS);
    }
}
