//! Memory that a run had given back and used all the same.

use crate::{RuntimeAddress, StackFrame, Tsc};
use serde::{Deserialize, Serialize};

/// A block of the heap that was freed, and that something in the record touches: an access
/// that hooks recorded, or the crash itself. Of other blocks nothing is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedBlock {
    /// The thread that freed it, by the kernel's number.
    pub tid: i32,
    /// Just before the free.
    pub at: Tsc,
    /// When its memory was handed out again; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Tsc>,
    pub start: RuntimeAddress,
    pub size: u64,
    /// Who freed it, innermost first; as deep as a short piece of its stack tells.
    pub frames: Vec<StackFrame>,
    /// The crash's own access was to it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub at_fault: bool,
    /// Registers that pointed into it when the program crashed, by their numbers in
    /// [`crate::WatchHit::registers`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registers: Vec<u8>,
    /// Words near the top of the stack that did, by their distance above the stack pointer
    /// in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<u64>,
}

impl FreedBlock {
    pub fn contains(&self, address: RuntimeAddress) -> bool {
        let within = address.0.checked_sub(self.start.0);
        within.is_some_and(|within| within < self.size)
    }

    /// Whether all of a stretch of time lies after the free and before its memory was
    /// handed out again.
    pub fn was_free(&self, from: Tsc, to: Tsc) -> bool {
        self.at < from && self.until.is_none_or(|until| to < until)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
