//! A backward slice: the statements that can have led to the failure, nearest first.

use crate::{BuildId, Gap, LocationName, Schema, Statement, StatementId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of dependence that brought a statement into the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DependenceKind {
    /// A value computed here is used there.
    Data,
    /// A store to a location that is loaded there.
    Memory,
    /// A call that frees what is loaded there.
    Free,
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
    /// A signal or post that a wait there waits for.
    Wake,
    /// Another call that takes the lock that is waited for there.
    Lock,
}

impl fmt::Display for DependenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DependenceKind::Data => "computes a value used by",
            DependenceKind::Memory => "stores what is loaded by",
            DependenceKind::Free => "frees what is loaded by",
            DependenceKind::Control => "decides whether to run",
            DependenceKind::Argument => "passes an argument to",
            DependenceKind::ThreadStart => "starts the thread of",
            DependenceKind::Return => "returns a value to",
            DependenceKind::Stack => "is on the failing stack above",
            DependenceKind::Wait => "waits before",
            DependenceKind::Wake => "wakes who waits at",
            DependenceKind::Lock => "takes the lock that is waited for at",
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
    /// How far it is from the failing statement, in tenths of a step.
    pub distance: u32,
    /// `None` for the failing statement itself.
    pub why: Option<Why>,
    /// Start routines of the threads that can run it ("main", "consumer"), by name.
    pub roles: Vec<String>,
    pub points: Vec<TrackPoint>,
}

/// The slice, ordered by distance: its prefixes are what σ selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Slice {
    pub schema: Schema,
    pub build: BuildId,
    pub entries: Vec<SliceEntry>,
    /// What the analysis knows that it did not follow.
    pub gaps: Vec<Gap>,
}

/// A slice as it was written, in any version.
#[derive(Deserialize)]
struct Written {
    #[serde(default = "whole_steps")]
    schema: Schema,
    build: BuildId,
    entries: Vec<SliceEntry>,
    gaps: Vec<Gap>,
}

fn whole_steps() -> Schema {
    Schema(1)
}

impl From<Written> for Slice {
    fn from(written: Written) -> Slice {
        let mut entries = written.entries;
        if written.schema.0 < Slice::SCHEMA.0 {
            for entry in &mut entries {
                entry.distance = entry.distance.saturating_mul(SliceEntry::STEP);
            }
        }
        Slice {
            schema: Slice::SCHEMA,
            build: written.build,
            entries,
            gaps: written.gaps,
        }
    }
}

impl SliceEntry {
    /// What one step is in tenths.
    pub const STEP: u32 = 10;

    /// The distance as people read it: "2", "3.5".
    pub fn steps(&self) -> String {
        match (
            self.distance / SliceEntry::STEP,
            self.distance % SliceEntry::STEP,
        ) {
            (whole, 0) => whole.to_string(),
            (whole, tenths) => format!("{whole}.{tenths}"),
        }
    }
}

impl Slice {
    /// The version of slices: 1 had distances in whole steps, and is still read.
    pub const SCHEMA: Schema = Schema(2);

    /// The failing statement. A slice always contains it, first.
    pub fn failing(&self) -> Option<&SliceEntry> {
        self.entries.first()
    }

    pub fn entry(&self, id: StatementId) -> Option<&SliceEntry> {
        self.entries.iter().find(|e| e.statement.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(schema: &str) -> String {
        let location = r#"{"file":"a.c","line":3}"#;
        let statement = format!(r#"{{"id":1,"function":"f","location":{location},"text":""}}"#);
        format!(
            r#"{{{schema}"build":"ab","entries":[{{"statement":{statement},"distance":35,
               "why":null,"roles":[],"points":[]}}],"gaps":[]}}"#
        )
    }

    #[test]
    fn slices_with_distances_in_whole_steps_are_still_read() {
        for old in ["", "\"schema\":1,"] {
            let slice: Slice = serde_json::from_str(&json(old)).unwrap();
            assert_eq!(slice.entries[0].distance, 350);
            assert_eq!(slice.schema, Slice::SCHEMA);
        }
        let slice: Slice = serde_json::from_str(&json("\"schema\":2,")).unwrap();
        assert_eq!(slice.entries[0].steps(), "3.5");
        let again: Slice = serde_json::from_str(&serde_json::to_string(&slice).unwrap()).unwrap();
        assert_eq!(again, slice);
    }
}
