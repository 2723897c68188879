//! Hits by SIGTRAP: the runtime's handler writes them into memory that it has sent
//! us, where they outlive the program.
//!
//! Read as a file, not mapped: whatever the program does to it, reading cannot kill
//! the agent. Nothing there is ever overwritten, so it is read once, at the end; in
//! between only the number of hits is looked at, when the steward looks anyway.

use super::{collector::Collected, receiver::Receiver};
use crate::process::region::SignalledHits;
use runtime::layout::{HITS_SIZE, Hits};
use std::{
    fs::File,
    mem::offset_of,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
};

pub struct Signals {
    /// By slot.
    events: Vec<OwnedFd>,
    memory: File,
    /// Hits that have been told.
    told: u64,
}

impl Signals {
    /// The descriptors that came with one message: events, then memory.
    pub fn of(mut descriptors: Vec<OwnedFd>) -> Result<Signals, String> {
        let memory = descriptors.pop().map(File::from);
        let Some(memory) = memory.filter(|_| !descriptors.is_empty()) else {
            return Err("the program sent no watchpoints for SIGTRAP".into());
        };
        Ok(Signals {
            events: descriptors,
            memory,
            told: 0,
        })
    }

    fn taken(&self) -> u64 {
        let mut taken = [0; 8];
        let read = self
            .memory
            .read_exact_at(&mut taken, offset_of!(Hits, taken) as u64);
        read.map_or(self.told, |()| u64::from_le_bytes(taken))
    }
}

impl Receiver for Signals {
    fn events(&self) -> Vec<(usize, BorrowedFd<'_>)> {
        self.events.iter().map(AsFd::as_fd).enumerate().collect()
    }

    fn new_hits(&mut self) -> u64 {
        let taken = self.taken();
        let new = taken.saturating_sub(self.told);
        self.told = self.told.max(taken);
        new
    }

    fn can_be_seen(&self) -> bool {
        true
    }

    /// All of them: other processes have none of these events.
    fn collect(self: Box<Self>, _pid: Option<i32>, into: &mut Collected) {
        let mut bytes = vec![0; HITS_SIZE];
        if let Err(error) = self.memory.read_exact_at(&mut bytes, 0) {
            into.gaps
                .push(format!("the watchpoint hits could not be read: {error}"));
            return;
        }
        let SignalledHits { hits, mut gaps } = SignalledHits::read(&bytes);
        into.hits.extend(hits);
        into.gaps.append(&mut gaps);
    }
}
