//! How hits come from a program to the agent: what the two ways have in common.

use super::collector::Collected;
use std::os::fd::BorrowedFd;

/// The agent's end of a program's watchpoints.
pub trait Receiver: Send {
    /// The events, each with its slot: to be turned, and counted.
    fn events(&self) -> Vec<(usize, BorrowedFd<'_>)>;

    /// What to wait for.
    fn sources(&self) -> Vec<libc::pollfd> {
        Vec::new()
    }

    /// What came of it, in the same order.
    fn noticed(&mut self, _answers: &[libc::pollfd]) {}

    /// How long to wait at most, if nothing wakes us in time.
    fn patience_ms(&self) -> Option<i32> {
        None
    }

    /// Takes what would otherwise be overwritten.
    fn drain(&mut self) {}

    /// Hits since the last time.
    fn new_hits(&mut self) -> u64;

    /// Whether the program, or whoever debugs it, could notice a hit.
    fn can_be_seen(&self) -> bool;

    /// The hits of process `pid` in any order, and what was lost of them.
    fn collect(self: Box<Self>, pid: Option<i32>, into: &mut Collected);
}
