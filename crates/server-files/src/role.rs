//! What a token is for.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the holder of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reports runs, asks what to run, fetches patches. Reads no sketch.
    Agent,
    /// Reads everything about failures and steers diagnoses. Reports no runs.
    Developer,
    /// Everything, tokens included.
    Admin,
}

impl Role {
    /// Whether a token of this role is enough where `needed` is.
    pub fn suffices(self, needed: Role) -> bool {
        self == Role::Admin || self == needed
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Agent => "agent",
            Role::Developer => "developer",
            Role::Admin => "admin",
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no role `{0}`; roles are agent, developer and admin")]
pub struct NoSuchRole(String);

impl FromStr for Role {
    type Err = NoSuchRole;

    fn from_str(text: &str) -> Result<Role, NoSuchRole> {
        match text {
            "agent" => Ok(Role::Agent),
            "developer" => Ok(Role::Developer),
            "admin" => Ok(Role::Admin),
            other => Err(NoSuchRole(other.to_owned())),
        }
    }
}
