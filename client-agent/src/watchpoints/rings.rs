//! Hits through the kernel's rings: one serves all slots of a processor, and samples
//! carry the event's id, which tells the slot.

use super::{collector::Collected, sys};
use crate::process::{descriptors, sys::errno};
use formats::perf_samples;
use sketch_model::{Gap, RuntimeAddress, WatchHit, WatchRefusal};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// Unprivileged users may map about this much a processor; fewer pages are
/// tried when that is refused.
const RING_PAGES: [usize; 5] = [128, 64, 32, 16, 8];
/// More than this is not kept: a program that hammers a watched location must
/// not fill the agent's memory. The counters still tell how much there was.
const KEPT_BYTES: usize = 32 << 20;
/// What each hit takes.
const SAMPLE_BYTES: usize = perf_samples::sample_bytes(runtime::layout::WATCH_STACK_BYTES as usize);
/// How often rings are looked at once the kernel has stopped waking us.
const ROUND_MS: i32 = 20;

struct Processor {
    ring: sys::Ring,
    /// By slot.
    events: Vec<OwnedFd>,
    /// The kernel will not wake us for this one any more.
    hung_up: bool,
}

#[derive(Default)]
pub struct Rings {
    processors: Vec<Processor>,
    bytes: Vec<u8>,
    /// Bytes that came since they were last counted as hits.
    new_bytes: usize,
    full: bool,
}

impl Rings {
    /// Maps the ring of a processor with these events.
    pub fn add(&mut self, events: Vec<OwnedFd>) -> Result<(), WatchRefusal> {
        self.processors.push(map_processor(events)?);
        Ok(())
    }

    /// The events, each with its slot: to be turned, and counted.
    pub fn events(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        let of_each = |processor: &Processor| processor.events.len();
        let mut events = Vec::with_capacity(self.processors.iter().map(of_each).sum());
        for processor in &self.processors {
            events.extend(processor.events.iter().map(AsFd::as_fd).enumerate());
        }
        events
    }

    /// What to wait for.
    pub fn sources(&self) -> Vec<libc::pollfd> {
        let source = |p: &Processor| {
            let event = p.events.first().filter(|_| !p.hung_up);
            descriptors::readable(event.map_or(-1, |e| e.as_raw_fd()))
        };
        self.processors.iter().map(source).collect()
    }

    /// What came of it, in the same order.
    pub fn noticed(&mut self, answers: &[libc::pollfd]) {
        for (processor, answer) in self.processors.iter_mut().zip(answers) {
            processor.hung_up |= answer.revents & (libc::POLLHUP | libc::POLLERR) != 0;
        }
    }

    /// How long to wait at most, if nothing wakes us in time.
    pub fn patience_ms(&self) -> Option<i32> {
        let hung_up = self.processors.iter().any(|p| p.hung_up);
        hung_up.then_some(ROUND_MS)
    }

    /// Takes what would otherwise be overwritten.
    pub fn drain(&mut self) {
        for processor in &self.processors {
            let before = self.bytes.len();
            processor.ring.drain(&mut self.bytes);
            self.new_bytes += self.bytes.len() - before;
            if self.bytes.len() > KEPT_BYTES {
                self.bytes.truncate(before);
                self.full = true;
            }
        }
    }

    /// Hits since the last time, by the bytes they take: every sample has the same size.
    pub fn new_hits(&mut self) -> u64 {
        let hits = self.new_bytes / SAMPLE_BYTES;
        self.new_bytes %= SAMPLE_BYTES;
        hits as u64
    }

    /// The hits of process `pid` in any order, and what was lost of them. Hits of other
    /// processes (children on kernels that cannot exclude them) are dropped.
    pub fn collect(self, pid: Option<i32>, into: &mut Collected) {
        let mut slots = BTreeMap::new();
        for (slot, event) in self.events() {
            match sys::event_id(event) {
                Ok(id) => {
                    slots.insert(id, slot as u8);
                }
                Err(error) => {
                    let errno = errno(&error);
                    Gap::WatchpointIdUnread { count: 1, errno }.add_to(&mut into.gaps);
                }
            }
        }
        let contents = perf_samples::parse(&self.bytes);
        let (mut strangers, mut without_slot) = (0u64, 0u64);
        for sample in contents.samples {
            if pid.is_some_and(|pid| pid != sample.pid) {
                strangers += 1;
                continue;
            }
            match (slots.get(&sample.id), sample.registers) {
                (Some(slot), Some(registers)) => into.hits.push(WatchHit {
                    slot: *slot,
                    tid: sample.tid,
                    handled_ns: sample.time,
                    after_pc: RuntimeAddress(sample.ip),
                    address: RuntimeAddress(sample.address),
                    registers,
                    stack: sample.stack,
                }),
                _ => without_slot += 1,
            }
        }
        for gap in [
            Gap::HitsWithoutSlot {
                count: without_slot,
            },
            Gap::HitsLostInRing {
                count: contents.lost,
            },
            Gap::WatchpointPaused {
                count: contents.throttled,
            },
            Gap::HitsUnreadable {
                count: contents.unreadable,
            },
            Gap::HitsOfChildren { count: strangers },
        ] {
            gap.add_to(&mut into.gaps);
        }
        if self.full {
            let kept_bytes = KEPT_BYTES as u64;
            Gap::HitsBeyondMemory { kept_bytes }.add_to(&mut into.gaps);
        }
    }
}

fn map_processor(events: Vec<OwnedFd>) -> Result<Processor, WatchRefusal> {
    let Some(first) = events.first() else {
        return Err(WatchRefusal::NoneSent);
    };
    let mut refusal = None;
    let ring = RING_PAGES.iter().find_map(|pages| {
        sys::Ring::map(first.as_fd(), *pages)
            .map_err(|e| refusal = Some(e))
            .ok()
    });
    let Some(ring) = ring else {
        let errno = refusal.as_ref().map(errno);
        return Err(WatchRefusal::RingNotMapped { errno });
    };
    for other in &events[1..] {
        sys::redirect(other.as_fd(), first.as_fd()).map_err(|error| {
            WatchRefusal::RingNotShared {
                errno: errno(&error),
            }
        })?;
    }
    Ok(Processor {
        ring,
        events,
        hung_up: false,
    })
}
