//! Versions of the values that leave a process.
//!
//! Each document carries `schema`. A reader accepts exactly the versions it
//! knows and refuses others with the two numbers, so that an old server facing
//! a new agent says so instead of misreading it.

use serde::{Deserialize, Serialize};

/// The version of every wire format of this release.
pub const SCHEMA: u32 = 1;

/// The version a document says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schema(pub u32);

impl Default for Schema {
    fn default() -> Self {
        Schema(SCHEMA)
    }
}

/// A document of a version this release does not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this {what} has format version {found}, and this release reads version {SCHEMA}; use the same release of agent, server and command"
)]
pub struct UnknownSchema {
    pub what: &'static str,
    pub found: u32,
}

impl Schema {
    pub fn check(self, what: &'static str) -> Result<(), UnknownSchema> {
        if self.0 == SCHEMA {
            Ok(())
        } else {
            Err(UnknownSchema {
                what,
                found: self.0,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_with_both_numbers() {
        let refusal = Schema(7).check("run record").unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "this run record has format version 7, and this release reads version 1; \
             use the same release of agent, server and command"
        );
        assert_eq!(Schema::default().check("run record"), Ok(()));
    }
}
