//! The thread that receives a program's watchpoints, empties their rings, and
//! lets the steward look after the process in between.
//!
//! The runtime sends the descriptors of each processor over a socket and waits,
//! for a fraction of a second, until the rings are mapped. One ring serves all
//! slots of a processor; samples carry the event's id, which tells the slot.
//! The rings and counters stay readable after the program is dead, so whatever
//! it did up to its last instruction is found in the final round.

use super::{ring, sys};
use crate::{
    governor::steward::{Report, Steward},
    process::{descriptors, sys::thread_cpu_ns},
};
use runtime::layout::{LAST_MESSAGE, REPLY_READY, REPLY_REFUSED};
use sketch_model::{RuntimeAddress, WatchHit};
use std::{
    collections::BTreeMap,
    io::{self, PipeReader, PipeWriter, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    thread::{self, JoinHandle},
};

/// Unprivileged users may map about this much a processor; fewer pages are
/// tried when that is refused.
const RING_PAGES: [usize; 5] = [128, 64, 32, 16, 8];
/// More than this is not kept: a program that hammers a watched location must
/// not fill the agent's memory. The counters still tell how much there was.
const KEPT_BYTES: usize = 32 << 20;
/// Hits after which a run is not watched any further. The first hundreds show who
/// touches a location; a hit costs the program more than ten microseconds, and
/// hooks go on recording.
const MOST_HITS: u64 = 2048;
/// How often rings are looked at once the kernel has stopped waking us.
const ROUND_MS: i32 = 20;

struct Processor {
    ring: sys::Ring,
    /// By slot.
    events: Vec<OwnedFd>,
    /// The kernel will not wake us for this one any more.
    hung_up: bool,
}

/// What the watchpoints of one run delivered.
#[derive(Debug, Default)]
pub struct Collected {
    pub report: Report,
    pub hits: Vec<WatchHit>,
    pub counted: u64,
    pub refused: Option<String>,
    /// There were so many hits that watching ended before the run did.
    pub ended_early: bool,
    pub gaps: Vec<String>,
}

/// A running collection.
#[derive(Debug)]
pub struct Collector {
    thread: JoinHandle<Rings>,
    stop: PipeWriter,
}

impl Collector {
    /// Starts looking after a process, and listening on the agent's end of the
    /// socket if there are to be watchpoints.
    pub fn start(socket: Option<UnixStream>, steward: Steward) -> io::Result<Collector> {
        let (stopped, stop) = io::pipe()?;
        let thread = thread::Builder::new()
            .name("watchpoints".into())
            .spawn(move || {
                let mut rings = Rings::new(steward);
                rings.serve(socket, &stopped);
                rings
            })?;
        Ok(Collector { thread, stop })
    }

    /// Call when the program is dead. Hits of other processes (children on
    /// kernels that cannot exclude them) are dropped.
    pub fn finish(self) -> Collected {
        drop(self.stop);
        match self.thread.join() {
            Ok(rings) => rings.collect(),
            Err(_) => Collected {
                refused: Some("the agent's watchpoint reader failed".into()),
                ..Collected::default()
            },
        }
    }
}

struct Rings {
    steward: Steward,
    processors: Vec<Processor>,
    bytes: Vec<u8>,
    /// Bytes that came since the steward last looked.
    new_bytes: usize,
    hits: u64,
    ended_early: bool,
    refused: Option<String>,
    full: bool,
}

impl Rings {
    fn new(steward: Steward) -> Rings {
        Rings {
            steward,
            processors: Vec::new(),
            bytes: Vec::new(),
            new_bytes: 0,
            hits: 0,
            ended_early: false,
            refused: None,
            full: false,
        }
    }

    fn serve(&mut self, mut socket: Option<UnixStream>, stopped: &PipeReader) {
        loop {
            let mut waiting = vec![
                descriptors::readable(stopped.as_raw_fd()),
                descriptors::readable(socket.as_ref().map_or(-1, |s| s.as_raw_fd())),
            ];
            waiting.extend(self.processors.iter().map(|p| {
                let event = p.events.first().filter(|_| !p.hung_up);
                descriptors::readable(event.map_or(-1, |e| e.as_raw_fd()))
            }));
            let mut patience = self.steward.patience_ms();
            if self.processors.iter().any(|p| p.hung_up) {
                patience = patience.min(ROUND_MS);
            }
            if descriptors::poll(&mut waiting, patience).is_err() {
                return;
            }
            for (processor, answer) in self.processors.iter_mut().zip(&waiting[2..]) {
                processor.hung_up |= answer.revents & (libc::POLLHUP | libc::POLLERR) != 0;
            }
            self.drain();
            if waiting[1].revents != 0
                && let Some(open) = &socket
                && !self.receive(open)
            {
                socket = None;
            }
            if waiting[0].revents != 0 {
                self.drain();
                return;
            }
            let hits = self.new_hits();
            self.hits += hits;
            if self.hits >= MOST_HITS && !self.ended_early {
                self.ended_early = true;
                self.steward.stop_aiming();
                self.turn(false);
            }
            if let Some(on) = self.steward.look(hits) {
                self.turn(on && !self.ended_early);
            }
        }
    }

    /// Hits by the bytes they take: every sample has the same size.
    fn new_hits(&mut self) -> u64 {
        let hits = self.new_bytes / ring::SAMPLE_BYTES;
        self.new_bytes %= ring::SAMPLE_BYTES;
        hits as u64
    }

    /// An event that cannot be turned goes on or stays off; what it costs is on
    /// the account all the same. So is the turning: the kernel interrupts the
    /// program's threads for it, and we wait until they have done their part.
    fn turn(&mut self, on: bool) {
        let began = thread_cpu_ns();
        for processor in &self.processors {
            for (slot, event) in processor.events.iter().enumerate() {
                // One that was never aimed sleeps anyway.
                if self.steward.is_aimed(slot) {
                    let _ = sys::turn(event.as_fd(), on);
                }
            }
        }
        let took = thread_cpu_ns().saturating_sub(began);
        self.steward.charge(took);
    }

    /// Takes one message; false when the conversation is over.
    fn receive(&mut self, socket: &UnixStream) -> bool {
        let Ok((message, fds)) = descriptors::receive(socket) else {
            return false;
        };
        let Some(cpu) = message else {
            return false;
        };
        if cpu == LAST_MESSAGE {
            let reply = match self.refused {
                None => REPLY_READY,
                Some(_) => REPLY_REFUSED,
            };
            let mut socket = socket;
            // The runtime gives up by itself if this does not arrive.
            let _ = socket.write_all(&[reply]);
            return false;
        }
        if self.refused.is_none() {
            match map_processor(fds) {
                Ok(processor) => self.processors.push(processor),
                Err(reason) => {
                    self.processors.clear();
                    self.refused = Some(reason);
                }
            }
        }
        true
    }

    fn drain(&mut self) {
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

    fn collect(mut self) -> Collected {
        let pid = self.steward.pid();
        let last_hits = self.new_hits();
        let mut collected = Collected {
            refused: self.refused,
            ended_early: self.ended_early,
            report: self.steward.finish(last_hits),
            ..Collected::default()
        };
        let mut slots = BTreeMap::new();
        for processor in &self.processors {
            for (slot, event) in processor.events.iter().enumerate() {
                match (sys::event_id(event.as_fd()), sys::read_count(event.as_fd())) {
                    (Ok(id), Ok(count)) => {
                        slots.insert(id, slot as u8);
                        collected.counted += count;
                    }
                    (Err(e), _) | (_, Err(e)) => collected
                        .gaps
                        .push(format!("a watchpoint's counter could not be read: {e}")),
                }
            }
        }
        let contents = ring::parse(&self.bytes);
        let mut strangers = 0u64;
        for sample in contents.samples {
            if pid.is_some_and(|pid| pid != sample.pid) {
                strangers += 1;
                continue;
            }
            match (slots.get(&sample.id), sample.registers) {
                (Some(slot), Some(registers)) => collected.hits.push(WatchHit {
                    slot: *slot,
                    tid: sample.tid,
                    handled_ns: sample.time,
                    after_pc: RuntimeAddress(sample.ip),
                    address: RuntimeAddress(sample.address),
                    registers,
                    stack: sample.stack,
                }),
                _ => collected
                    .gaps
                    .push("a watchpoint hit came without slot or registers".into()),
            }
        }
        collected.hits.sort_by_key(|hit| hit.handled_ns);
        if self.ended_early {
            collected.gaps.push(format!(
                "watching ended before the run did, after {} hits: each costs the program microseconds",
                self.hits
            ));
        }
        let full = u64::from(self.full);
        for (count, what) in [
            (contents.lost, "watchpoint hits were lost in a full ring"),
            (
                contents.throttled,
                "times the kernel paused a watchpoint that was hit too often",
            ),
            (contents.unreadable, "watchpoint records could not be read"),
            (strangers, "watchpoint hits of child processes were dropped"),
            (
                full,
                "stretch of watchpoint hits exceeded what the agent keeps",
            ),
        ] {
            if count > 0 {
                collected.gaps.push(format!("{count} {what}"));
            }
        }
        collected
    }
}

fn map_processor(events: Vec<OwnedFd>) -> Result<Processor, String> {
    let Some(first) = events.first() else {
        return Err("the program sent no watchpoints".into());
    };
    let mut refusal = None;
    let ring = RING_PAGES.iter().find_map(|pages| {
        sys::Ring::map(first.as_fd(), *pages)
            .map_err(|e| refusal = Some(e))
            .ok()
    });
    let Some(ring) = ring else {
        let reason = refusal.map_or_else(String::new, |e| e.to_string());
        return Err(format!(
            "mmap of a watchpoint ring was refused: {reason}; \
             raise /proc/sys/kernel/perf_event_mlock_kb"
        ));
    };
    for other in &events[1..] {
        sys::redirect(other.as_fd(), first.as_fd())
            .map_err(|e| format!("ioctl(PERF_EVENT_IOC_SET_OUTPUT) was refused: {e}"))?;
    }
    Ok(Processor {
        ring,
        events,
        hung_up: false,
    })
}
