//! What a token is for.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// What the holder of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Display, EnumString)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", parse_err_ty = NoSuchRole, parse_err_fn = no_such_role)]
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

#[derive(Debug, thiserror::Error)]
#[error("there is no role `{0}`; roles are agent, developer and admin")]
pub struct NoSuchRole(String);

fn no_such_role(text: &str) -> NoSuchRole {
    NoSuchRole(text.to_owned())
}
