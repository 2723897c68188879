//! A backward slice: the statements that can have led to the failure, nearest first.

use crate::{BuildId, Gap, LocationName, Schema, Statement, StatementId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of dependence that brought a statement into the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependenceKind {
    /// A value computed here is used there.
    Data,
    /// A store to a location that is loaded there.
    Memory,
    /// A branch decides whether it runs.
    Control,
    /// A call site passes the argument that is used there.
    Argument,
    /// A thread-creation site passes the argument or starts the routine.
    ThreadStart,
    /// A call whose result is used returns this.
    Return,
    /// A frame of the failure's stack.
    Stack,
    /// A wait that surely came before it.
    Wait,
}

impl fmt::Display for DependenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DependenceKind::Data => "computes a value used by",
            DependenceKind::Memory => "stores what is loaded by",
            DependenceKind::Control => "decides whether to run",
            DependenceKind::Argument => "passes an argument to",
            DependenceKind::ThreadStart => "starts the thread of",
            DependenceKind::Return => "returns a value to",
            DependenceKind::Stack => "is on the failing stack above",
            DependenceKind::Wait => "waits before",
        })
    }
}

/// Why a statement is in the slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    pub kind: DependenceKind,
    /// The statement, nearer to the failure, that depends on this one.
    pub parent: StatementId,
}

/// A synchronisation operation, whatever library spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncOp {
    MutexLock,
    MutexUnlock,
    ThreadCreate,
    ThreadJoin,
    CondWait,
    CondSignal,
    /// A read-write lock, taken for reading.
    ReadLock,
    /// Taken for writing.
    WriteLock,
    ReadWriteUnlock,
    SemaphoreWait,
    SemaphorePost,
    BarrierWait,
}

impl SyncOp {
    /// Whether it takes something that others then have to wait for.
    pub fn takes(self) -> bool {
        matches!(
            self,
            SyncOp::MutexLock | SyncOp::ReadLock | SyncOp::WriteLock | SyncOp::SemaphoreWait
        )
    }
}

/// Something in a statement that a hook can record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointKind {
    Load,
    Store,
    /// A conditional branch or switch; the record says which successor was taken.
    Branch,
    Sync(SyncOp),
    /// Any other call: the record says that it was reached.
    Call,
}

/// One place within a statement where something can be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TrackPoint {
    pub kind: PointKind,
    /// The column that debug info gives the instruction; with the statement's
    /// line it finds the instruction again after optimisation.
    pub column: u32,
    /// For loads and stores: what they touch. Stack slots have no track point.
    pub location: Option<LocationName>,
    /// For loads and stores: bytes accessed.
    pub size: u32,
}

/// A statement of the slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceEntry {
    pub statement: Statement,
    /// Edges from the failing statement.
    pub distance: u32,
    /// `None` for the failing statement itself.
    pub why: Option<Why>,
    /// Start routines of the threads that can run it ("main", "consumer"), by name.
    pub roles: Vec<String>,
    pub points: Vec<TrackPoint>,
}

/// The slice, ordered by distance: its prefixes are what σ selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    #[serde(default)]
    pub schema: Schema,
    pub build: BuildId,
    pub entries: Vec<SliceEntry>,
    /// What the analysis knows that it did not follow.
    pub gaps: Vec<Gap>,
}

impl Slice {
    /// The failing statement. A slice always contains it, first.
    pub fn failing(&self) -> Option<&SliceEntry> {
        self.entries.first()
    }

    pub fn entry(&self, id: StatementId) -> Option<&SliceEntry> {
        self.entries.iter().find(|e| e.statement.id == id)
    }
}
