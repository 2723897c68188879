//! The thread that receives a program's watchpoints and their hits, and lets the
//! steward look after the process in between.
//!
//! The runtime sends the descriptors over a socket and waits, for a fraction of a
//! second, until they are taken. Hits and counters stay readable after the program is
//! dead, so whatever it did up to its last instruction is found in the final round.

use super::{rings::Rings, sys};
use crate::governor::run_governor::{Report, Steward};
use crate::process::descriptors;
use crate::process::sys::{errno, thread_cpu_ns};
use runtime::layout::{LAST_MESSAGE, REPLY_READY, REPLY_REFUSED};
use sketch_model::{Gap, WatchHit, WatchRefusal};
use std::{
    io::{self, PipeReader, PipeWriter, Write},
    mem,
    os::{fd::AsRawFd, unix::net::UnixStream},
    thread::{self, JoinHandle},
};

/// Hits after which a run is not watched any further. The first hundreds show who
/// touches a location; a hit costs the program more than ten microseconds, and
/// hooks go on recording.
const ENOUGH_HITS: u64 = 2048;

/// What the watchpoints of one run delivered.
#[derive(Debug, Default)]
pub struct Collected {
    pub report: Report,
    pub hits: Vec<WatchHit>,
    pub counted: u64,
    /// Why the rings were refused.
    pub refused: Option<WatchRefusal>,
    /// Watching ended before the run did.
    pub ended_early: bool,
    pub gaps: Vec<Gap>,
}

/// A running collection.
#[derive(Debug)]
pub struct Collector {
    thread: JoinHandle<Watching>,
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
                let mut watching = Watching::new(steward);
                watching.serve(socket, &stopped);
                watching
            })?;
        Ok(Collector { thread, stop })
    }

    /// Call when the program is dead. Hits of other processes (children on
    /// kernels that cannot exclude them) are dropped.
    pub fn finish(self) -> Collected {
        drop(self.stop);
        match self.thread.join() {
            Ok(watching) => watching.collect(),
            Err(_) => Collected {
                refused: Some(WatchRefusal::ReaderFailed),
                ..Collected::default()
            },
        }
    }
}

struct Watching {
    steward: Steward,
    /// What has been offered so far.
    offered: Rings,
    /// What was taken.
    rings: Option<Rings>,
    hits: u64,
    ended_early: Option<Gap>,
    refused: Option<WatchRefusal>,
    /// What rings that are no more have delivered.
    collected: Collected,
}

impl Watching {
    fn new(steward: Steward) -> Watching {
        Watching {
            steward,
            offered: Rings::default(),
            rings: None,
            hits: 0,
            ended_early: None,
            refused: None,
            collected: Collected::default(),
        }
    }

    fn serve(&mut self, mut socket: Option<UnixStream>, stopped: &PipeReader) {
        loop {
            let mut waiting = vec![
                descriptors::readable(stopped.as_raw_fd()),
                descriptors::readable(socket.as_ref().map_or(-1, |s| s.as_raw_fd())),
            ];
            let mut patience = self.steward.patience_ms();
            if let Some(rings) = &self.rings {
                waiting.extend(rings.sources());
                patience = rings.patience_ms().map_or(patience, |p| p.min(patience));
            }
            if descriptors::poll(&mut waiting, patience).is_err() {
                return;
            }
            if let Some(rings) = &mut self.rings {
                rings.noticed(&waiting[2..]);
                rings.drain();
            }
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
            self.look();
        }
    }

    fn look(&mut self) {
        let hits = self.new_hits();
        self.hits = self.hits.saturating_add(hits);
        if self.hits >= ENOUGH_HITS {
            self.end_early(Gap::WatchingEndedByHits { hits: self.hits });
        }
        let turn = self.steward.look(hits);
        if self.ended_early.is_none()
            && let Some(switches) = self.steward.too_many_switches()
        {
            self.end_early(Gap::WatchingEndedBySwitches { switches });
        }
        if self.steward.watch_is_released() {
            self.let_go();
        }
        if let Some(on) = turn {
            self.turn(on && self.ended_early.is_none());
        }
    }

    fn end_early(&mut self, why: Gap) {
        if self.ended_early.is_none() {
            self.ended_early = Some(why);
            self.steward.release_watch();
            self.turn(false);
        }
    }

    /// Takes what the rings have, and closes their events. No more hits can come: the
    /// process has closed its own descriptors, or is dead. Of one that lives it takes some
    /// forty microseconds, once, which are not charged.
    fn let_go(&mut self) {
        let Some(mut rings) = self.rings.take() else {
            return;
        };
        for (_, event) in rings.events() {
            // A thread that was just aiming it may have switched it on again.
            let _ = sys::turn(event, false);
        }
        rings.drain();
        self.steward.note_hits(rings.new_hits());
        let collected = &mut self.collected;
        for (_, event) in rings.events() {
            match sys::read_count(event) {
                // The descriptors come from the program: this may be any number.
                Ok(count) => collected.counted = collected.counted.saturating_add(count),
                Err(error) => {
                    let errno = errno(&error);
                    Gap::WatchpointCounterUnread { count: 1, errno }.add_to(&mut collected.gaps);
                }
            }
        }
        rings.collect(self.steward.pid(), collected);
    }

    fn drain(&mut self) {
        if let Some(rings) = &mut self.rings {
            rings.drain();
        }
    }

    fn new_hits(&mut self) -> u64 {
        self.rings.as_mut().map_or(0, Rings::new_hits)
    }

    /// An event that cannot be turned goes on or stays off; what it costs is on
    /// the account all the same. So is the turning: the kernel interrupts the
    /// program's threads for it, and we wait until they have done their part.
    fn turn(&mut self, on: bool) {
        let began = thread_cpu_ns();
        for (slot, event) in self.rings.iter().flat_map(Rings::events) {
            // One that was never aimed sleeps anyway.
            if self.steward.is_aimed(slot) {
                let _ = sys::turn(event, on);
            }
        }
        let took = thread_cpu_ns().saturating_sub(began);
        self.steward.charge(took);
    }

    /// Takes one message; false when the conversation is over.
    fn receive(&mut self, socket: &UnixStream) -> bool {
        let Ok((Some(message), fds)) = descriptors::receive(socket) else {
            return false;
        };
        if message == LAST_MESSAGE {
            let reply = match self.refused {
                None => {
                    self.rings = Some(mem::take(&mut self.offered));
                    REPLY_READY
                }
                Some(_) => REPLY_REFUSED,
            };
            let mut socket = socket;
            // The runtime gives up by itself if this does not arrive.
            let _ = socket.write_all(&[reply]);
            return false;
        }
        if self.refused.is_none()
            && let Err(reason) = self.offered.add(fds)
        {
            self.offered = Rings::default();
            self.refused = Some(reason);
        }
        true
    }

    fn collect(mut self) -> Collected {
        self.let_go();
        let mut collected = Collected {
            refused: self.refused,
            ended_early: self.ended_early.is_some(),
            report: self.steward.finish(),
            ..self.collected
        };
        collected.hits.sort_by_key(|hit| hit.handled_ns);
        collected.gaps.extend(self.ended_early);
        collected
    }
}
