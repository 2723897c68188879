//! The states of a campaign, each with what belongs to it.
//!
//! A campaign that is over keeps the stage it was in, so that a developer can resume
//! it there; nothing else is kept beside the states, so nothing has to be reset.

use super::counts::{CountedAs, PlanRuns, RunCounts};
use super::stored::StoredState;
use super::{FIRST_SIGMA, OVERWHELMED};
use serde::{Deserialize, Serialize};
use sketch_model::{CampaignState, Capability};

/// Where a diagnosis stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredState", into = "StoredState")]
pub enum State {
    /// Under way.
    Active(Stage),
    /// The last sketch is the answer.
    Settled { by: SettledBy, last: Stage },
    /// A developer stopped it.
    Stopped { last: Stage },
    /// It cannot go on.
    Failed { problem: String, last: Stage },
}

/// Who said that the last sketch is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettledBy {
    StopRule,
    Developer,
}

/// One iteration.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Slice, plans and tracked builds are being made.
    Preparing { sigma: u32, iteration: u32 },
    /// Agents run its tracked builds.
    Tracking(Tracking),
}

/// An iteration whose tracked builds are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracking {
    pub sigma: u32,
    pub iteration: u32,
    /// Its plans with their runs: runs of different plans are never pooled.
    pub plans: Vec<PlanRuns>,
    /// Failing runs at the last look: the next one waits for a new one.
    pub failing_at_last_look: u64,
}

impl State {
    pub fn stage(&self) -> &Stage {
        match self {
            State::Active(stage) => stage,
            State::Settled { last, .. } | State::Stopped { last } | State::Failed { last, .. } => {
                last
            }
        }
    }

    pub fn into_stage(self) -> Stage {
        match self {
            State::Active(stage) => stage,
            State::Settled { last, .. } | State::Stopped { last } | State::Failed { last, .. } => {
                last
            }
        }
    }

    /// The word that others know it by.
    pub fn name(&self) -> CampaignState {
        match self {
            State::Active(Stage::Preparing { .. }) => CampaignState::Preparing,
            State::Active(Stage::Tracking(_)) => CampaignState::Tracking,
            State::Settled { .. } => CampaignState::Settled,
            State::Stopped { .. } => CampaignState::Stopped,
            State::Failed { .. } => CampaignState::Failed,
        }
    }

    /// Whether a developer, not the stop rule, said that it is answered.
    pub fn is_declared(&self) -> bool {
        matches!(self, State::Settled { by, .. } if *by == SettledBy::Developer)
    }

    /// Why it cannot go on.
    pub fn problem(&self) -> Option<&str> {
        match self {
            State::Failed { problem, .. } => Some(problem),
            _ => None,
        }
    }
}

impl Stage {
    pub fn sigma(&self) -> u32 {
        match self {
            Stage::Preparing { sigma, .. } => *sigma,
            Stage::Tracking(tracking) => tracking.sigma,
        }
    }

    pub fn iteration(&self) -> u32 {
        match self {
            Stage::Preparing { iteration, .. } => *iteration,
            Stage::Tracking(tracking) => tracking.iteration,
        }
    }

    pub fn tracking(&self) -> Option<&Tracking> {
        match self {
            Stage::Preparing { .. } => None,
            Stage::Tracking(tracking) => Some(tracking),
        }
    }

    pub fn counts(&self) -> RunCounts {
        self.tracking().map(Tracking::counts).unwrap_or_default()
    }

    /// The iteration after this one, to be prepared.
    pub fn next(&self, sigma: u32) -> Stage {
        Stage::Preparing {
            sigma,
            iteration: self.iteration() + 1,
        }
    }
}

/// Whether an iteration is the first one, and tracks enough for hooks to be alone in it:
/// runs of several plans are counted apart, and watching costs more than all hooks.
pub(super) fn is_first(iteration: u32, sigma: u32, slice: Option<u32>) -> bool {
    let enough = slice.map_or(FIRST_SIGMA, |whole| whole.min(FIRST_SIGMA));
    iteration == 1 && sigma >= enough
}

impl Tracking {
    pub fn plan(&self, number: u32) -> Option<&PlanRuns> {
        self.plans.iter().find(|plan| plan.plan == number)
    }

    /// The runs of all its plans, for counting only.
    pub fn counts(&self) -> RunCounts {
        let mut all = RunCounts::default();
        for plan in &self.plans {
            all.failing += plan.failing;
            all.successful += plan.successful;
            all.otherwise += plan.otherwise;
        }
        all
    }

    pub(super) fn count(&mut self, number: u32, counted_as: CountedAs) {
        let Some(runs) = self.plans.iter_mut().find(|plan| plan.plan == number) else {
            return;
        };
        match counted_as {
            CountedAs::Failing => runs.failing += 1,
            CountedAs::Successful => runs.successful += 1,
            CountedAs::OtherFailure => runs.otherwise += 1,
            CountedAs::Untracked | CountedAs::TooLate | CountedAs::Refused => {}
        }
    }

    /// The iteration after this one, to be prepared.
    pub(super) fn next(&self, sigma: u32) -> Stage {
        Stage::Preparing {
            sigma,
            iteration: self.iteration + 1,
        }
    }

    /// Whether these are the plans that hooks are alone in.
    pub(super) fn watches_nothing_yet(&self, slice: Option<u32>) -> bool {
        is_first(self.iteration, self.sigma, slice)
    }

    /// Nearly every tracked run fails, so there is nothing to compare with. A
    /// watchpoint's hit takes microseconds and can hold a race open.
    pub(super) fn is_overwhelmed(&self) -> bool {
        let watches = self.plans.iter();
        let watches = watches
            .map(|plan| &plan.wants)
            .any(|wants| wants.has(Capability::Watchpoints));
        let RunCounts {
            failing,
            successful,
            ..
        } = self.counts();
        watches && failing >= OVERWHELMED && successful * 8 < failing
    }
}
