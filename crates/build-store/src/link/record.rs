//! The link line as the wrapper writes it into a linked file (`.failsketch.link`).
//!
//! One JSON object per linked file. The wrapper appends the section after the
//! link instead of passing one more object to the linker: an extra input could
//! be dropped by `--gc-sections`, would need a stack note and would clear the
//! `.note.gnu.property` features that all inputs must share.

use serde::{Deserialize, Serialize};

/// The section that holds the record.
pub const LINK_SECTION: &str = ".failsketch.link";

/// Which driver linked the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    C,
    Cxx,
}

/// A link call, as far as it is needed to link again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRecord {
    pub driver: Driver,
    /// The directory of the call: relative paths in `arguments` start there.
    pub directory: String,
    /// All arguments of the user, response files expanded.
    pub arguments: Vec<String>,
}

impl LinkRecord {
    pub fn to_bytes(&self) -> Vec<u8> {
        // A struct of strings always serialises.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// `None` for bytes that are not a record: the build then has no link line.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
