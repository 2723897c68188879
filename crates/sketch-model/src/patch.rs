//! What a patch says of itself. The signature covers these words and the code.

use crate::{BuildId, Execution, Schema};
use serde::{Deserialize, Serialize};

/// The manifest of a patch from P to a tracked build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchManifest {
    #[serde(default)]
    pub schema: Schema,
    pub build: BuildId,
    /// What runs where it is applied: a tracked build of a campaign, or one made by hand.
    #[serde(rename = "variant")]
    pub execution: Execution,
    /// Grows with each patch that a server makes: an agent takes none that is older
    /// than what it has run of the campaign.
    pub version: u64,
    /// Seconds since 1970 after which no agent applies it.
    pub expires: u64,
    /// The tracked build aims no watchpoint, so none need be opened for it.
    #[serde(default)]
    pub watches_nothing: bool,
    /// SHA-256 of the file it applies to and of the file it makes, in hex.
    pub base_sha256: String,
    pub result_sha256: String,
    pub result_size: u64,
}
