//! Source locations and statements: what people read, and what σ counts.

use crate::StatementId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place in a source file, as debug info states it (absolute where it can be made so).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLocation {
    pub file: String,
    pub line: u32,
}

impl SourceLocation {
    /// The last component of the path: what fits beside a statement.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file_name(), self.line)
    }
}

/// A statement: the instructions of one function that debug info puts on one line.
///
/// A line is the finest unit that survives optimisation reliably; columns tell
/// the accesses *within* a statement apart (see [`crate::TrackPoint`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Statement {
    pub id: StatementId,
    /// The linkage name of the function.
    pub function: String,
    pub location: SourceLocation,
    /// The line's text without surrounding space; empty if the source was not at hand.
    pub text: String,
}

/// The name of a memory location that several statements can share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocationName {
    /// A global or static variable, by its linkage name.
    Global(String),
    /// A field of a struct type, whichever object it belongs to. `field` is the
    /// member's name from debug info or, without one, its index.
    Field { record: String, field: String },
    /// Memory reached through a pointer of which nothing is known statically.
    Unnamed,
    /// What a call is given, counted from 1. No memory: only values have it.
    Argument(u16),
    /// What a call gives back. No memory either.
    Result,
}

impl LocationName {
    /// Whether it is what a call was given or gave back, and no memory.
    pub fn is_of_call(&self) -> bool {
        matches!(self, LocationName::Argument(_) | LocationName::Result)
    }
}

impl fmt::Display for LocationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocationName::Global(name) => f.write_str(name),
            LocationName::Field { record, field } => write!(f, "{record}.{field}"),
            LocationName::Unnamed => f.write_str("memory"),
            LocationName::Argument(number) => write!(f, "argument {number}"),
            LocationName::Result => f.write_str("the result"),
        }
    }
}
