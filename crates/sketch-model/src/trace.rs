//! A run in terms of statements: hook records and watchpoint hits on one time scale.
//!
//! The order in which events were *handled* proves nothing about the order in
//! which accesses happened. Each event therefore carries the interval in which
//! it must have happened, and only [`TraceEvent::before`] orders two events.

use crate::{
    Execution, Gap, LocationName, RunId, RuntimeAddress, SiteId, StatementId, SyncOp, ThreadIndex,
    Tsc,
};
use serde::{Deserialize, Serialize};

/// When an event must have happened: not before `earliest`, not after `latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    pub earliest: Tsc,
    pub latest: Tsc,
}

/// Where knowledge of an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Probe(SiteId),
    Watchpoint,
    /// What stands in front of the allocator.
    Allocator,
    /// The processor's own trace.
    Trace,
    /// The record of this site tells of it (see [`crate::Witness::JustBefore`]).
    Implied(SiteId),
}

/// A value that an access read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedValue {
    pub value: u64,
    pub size: u16,
    /// False if memory was read again after the access: another thread may have
    /// written in between.
    pub exact: bool,
}

/// An argument of a call, or what it returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallValue {
    /// From 1; `None` for what was returned.
    pub argument: Option<u16>,
    pub value: u64,
    pub size: u16,
    pub pointer: bool,
    /// The string that it points to, as far as it was recorded, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    Read,
    Write,
    Branch {
        successor: u32,
    },
    Call,
    SyncBegin(SyncOp),
    SyncEnd(SyncOp),
    /// It came back without having done it: a try that found the lock taken.
    SyncFailed(SyncOp),
    /// It freed the block of memory at the address.
    Free,
}

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    pub thread: ThreadIndex,
    /// Counts the thread's events: program order.
    pub position: u32,
    /// The statement; several if the code at that address belongs to several.
    pub candidates: Vec<StatementId>,
    pub kind: EventKind,
    pub address: Option<RuntimeAddress>,
    pub location: Option<LocationName>,
    pub value: Option<ObservedValue>,
    /// What a call was given and returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<CallValue>,
    pub when: Interval,
    pub source: Source,
}

impl TraceEvent {
    pub fn statement(&self) -> Option<StatementId> {
        match self.candidates.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Whether there is evidence that `self` happened before `other`: program
    /// order within a thread, disjoint intervals across threads.
    pub fn before(&self, other: &TraceEvent) -> bool {
        if self.thread == other.thread {
            self.position < other.position
        } else {
            self.when.latest < other.when.earliest
        }
    }
}

/// A run in terms of statements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionTrace {
    pub run: RunId,
    #[serde(default, rename = "variant")]
    pub execution: Execution,
    pub failed: bool,
    /// By thread, then program order.
    pub events: Vec<TraceEvent>,
    /// Threads whose record has a hole: what they did not do is not known.
    pub incomplete: Vec<ThreadIndex>,
    pub gaps: Vec<Gap>,
}
