//! What an agent asks about its programs, and the answer.
//!
//! The server says which tracked build a program should run. Which runs get it the agent
//! decides about each run by itself: by the share that stays with P, the share of a
//! probation, and the expiry. So one answer may stand for many runs, until it changes.

use crate::{AgentId, BuildId, Capabilities, FailureKind, Schema, VariantRef};
use serde::{Deserialize, Serialize};

/// What an agent says when it asks what to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssignmentsRequest {
    pub agent: AgentId,
    #[serde(rename = "tier")]
    pub capabilities: Capabilities,
    /// The builds that it runs.
    pub builds: Vec<BuildId>,
    /// The tag of the answer that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// How long the server may wait for an answer with another tag, in seconds; 0 from an
    /// agent that asks again before its next run.
    #[serde(default)]
    pub wait_s: u32,
}

/// What an agent should run, until it hears otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Assignments {
    #[serde(default)]
    pub schema: Schema,
    /// Names this answer; another answer has another.
    pub tag: String,
    /// One for each build that was asked about, in that order.
    pub programs: Vec<ProgramAssignment>,
}

/// What an agent should run of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProgramAssignment {
    pub build: BuildId,
    /// The tracked build to run; `None` means P.
    pub variant: Option<VariantRef>,
    /// All campaigns on this build have ended, and there is at least one.
    pub finished: bool,
    /// The failure under diagnosis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<FailureKind>,
    /// The share of runs that the tracked build gets; the others run P, so that
    /// P's own failure rate stays known.
    pub tracked_share: f64,
    /// The share it gets while it is on probation on a machine. An agent's own
    /// policy may ask for less.
    pub canary_share: f64,
    /// The patch that makes the tracked build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchFacts>,
    /// Why there is nothing to run but P, where that is not the usual reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ProgramAssignment {
    /// P alone, for no particular reason.
    pub fn original(build: &BuildId) -> ProgramAssignment {
        ProgramAssignment {
            build: build.clone(),
            variant: None,
            finished: false,
            expected: None,
            tracked_share: 0.0,
            canary_share: 0.0,
            patch: None,
            problem: None,
        }
    }
}

/// A patch before it is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PatchFacts {
    /// Grows with each patch that a server makes.
    pub version: u64,
    /// Seconds since 1970 after which no agent applies it.
    pub expires: u64,
    pub bytes: u64,
}
