//! What server, agents and people say to each other about a diagnosis.

use crate::{
    AgentId, BuildId, CampaignId, FailureKind, FailureSignature, PredictorClass, Schema, Tier,
    VariantRef,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a diagnosis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CampaignState {
    /// A failure is known; slice and tracked build are being made.
    Preparing,
    /// Agents run the tracked build of the current iteration.
    Tracking,
    /// The stop rule holds: the last sketch is the answer.
    Settled,
    /// A developer stopped it.
    Stopped,
    /// It cannot go on; the summary's `problem` says why.
    Failed,
}

impl fmt::Display for CampaignState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CampaignState::Preparing => "preparing",
            CampaignState::Tracking => "tracking",
            CampaignState::Settled => "settled",
            CampaignState::Stopped => "stopped",
            CampaignState::Failed => "failed",
        })
    }
}

/// The best predictor so far, for a progress line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestPredictor {
    pub class: PredictorClass,
    pub sentence: String,
    pub precision: f64,
    pub recall: f64,
    pub f_measure: f64,
}

/// A campaign at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignSummary {
    pub id: CampaignId,
    pub build: BuildId,
    pub program: String,
    pub signature: FailureSignature,
    /// "SIGSEGV in consumer (pbzip2.c:120)"
    pub title: String,
    pub state: CampaignState,
    pub problem: Option<String>,
    pub sigma: u32,
    pub iteration: u32,
    /// All runs of the program, tracked or not, since the campaign began.
    pub runs: u64,
    pub failures: u64,
    /// Runs of the current iteration's tracked build.
    pub tracked_failing: u64,
    pub tracked_successful: u64,
    pub sketch_version: Option<u32>,
    pub best: Option<BestPredictor>,
}

/// What an agent says when it asks what to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentRequest {
    pub agent: AgentId,
    pub build: BuildId,
    pub tier: Tier,
}

/// What an agent should run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    #[serde(default)]
    pub schema: Schema,
    /// The tracked build to run; `None` means P.
    pub variant: Option<VariantRef>,
    /// All campaigns on this build have ended, and there is at least one.
    pub finished: bool,
    /// The failure under diagnosis: a tracked build that shows it is not worse
    /// than the original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<FailureKind>,
}
