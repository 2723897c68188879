//! Do watchpoints work here? The only honest answer is to arm one and see it
//! fire: on some clouds opening succeeds and nothing ever happens.

use super::sys;
use crate::process::sys::thread_cpu_ns;
use sketch_model::Tier;
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

/// Nanoseconds that one hit costs here, as the governor charges it: measured on
/// a watchpoint of our own that samples as a program's do.
pub fn hit_cost_ns() -> u64 {
    const USUAL_NS: u64 = 15_000;
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
    let mut least = None;
    for _ in 0..BATCHES {
        // Our own processor time: neighbours must not raise the price.
        let began = thread_cpu_ns();
        for value in 0..HITS {
            watched.0.store(value, Ordering::Relaxed);
        }
        let each = thread_cpu_ns().saturating_sub(began) / HITS;
        least = Some(least.unwrap_or(each).min(each));
        if let Ok(ring) = &ring {
            ring.drain(&mut Vec::new());
        }
    }
    least.unwrap_or(USUAL_NS).max(500)
}

/// What this machine lets us do; `traced` says whether Intel PT can be used. The
/// tier of Intel PT has watchpoints, too: without those a run may carry a trace
/// and is of the lowest tier all the same.
pub fn tier(traced: bool) -> Tier {
    match try_watchpoint() {
        WatchpointProbe::Works if traced => Tier::IntelPt,
        WatchpointProbe::Works => Tier::Watchpoints,
        WatchpointProbe::Silent { .. } | WatchpointProbe::Refused { .. } => Tier::Inline,
    }
}
