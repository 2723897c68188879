//! The state of a campaign in a document: the form that databases of all releases hold.
//!
//! The states of [`super::state`] are written as one word beside flat fields, as
//! earlier releases did, so that a server of the last release can read what this one
//! writes. Reading decides which state it is:
//!
//! * A campaign that is being prepared has no plans, whatever is written: the last
//!   release left the old ones there when a developer widened σ.
//! * One that is over was tracking if it has plans with as many runs as it counted;
//!   plans with other counts are left over, too.
//! * Before there were several plans, none was listed: the runs are those of plan 0.

use super::counts::{PlanRuns, RunCounts};
use super::{SettledBy, Stage, State, Tracking};
use serde::{Deserialize, Serialize};
use sketch_model::{CampaignState, Capabilities};

#[derive(Serialize, Deserialize)]
pub(super) struct StoredState {
    state: CampaignState,
    problem: Option<String>,
    sigma: u32,
    iteration: u32,
    tracked_failing: u64,
    tracked_successful: u64,
    tracked_otherwise: u64,
    #[serde(default)]
    plans: Vec<PlanRuns>,
    failing_at_last_look: u64,
    #[serde(default)]
    declared: bool,
}

impl StoredState {
    /// The iteration that it is in, or was in when it ended.
    fn stage(&mut self) -> Stage {
        let (sigma, iteration) = (self.sigma, self.iteration);
        let mut tracking = Tracking {
            sigma,
            iteration,
            plans: std::mem::take(&mut self.plans),
            failing_at_last_look: self.failing_at_last_look,
        };
        let counted = RunCounts {
            failing: self.tracked_failing,
            successful: self.tracked_successful,
            otherwise: self.tracked_otherwise,
        };
        let unlisted = tracking.plans.is_empty();
        let has_run = match self.state {
            CampaignState::Preparing => false,
            CampaignState::Tracking => true,
            _ if unlisted => counted != RunCounts::default(),
            _ => tracking.counts() == counted,
        };
        if !has_run {
            return Stage::Preparing { sigma, iteration };
        }
        if unlisted {
            tracking.plans.push(PlanRuns {
                failing: counted.failing,
                successful: counted.successful,
                otherwise: counted.otherwise,
                ..PlanRuns::new(0, Capabilities::hooks())
            });
        }
        Stage::Tracking(tracking)
    }
}

impl From<StoredState> for State {
    fn from(mut stored: StoredState) -> State {
        let last = stored.stage();
        let by = match stored.declared {
            true => SettledBy::Developer,
            false => SettledBy::StopRule,
        };
        let problem = stored.problem;
        let problem = problem.unwrap_or_else(|| "unknown reason".to_owned());
        match stored.state {
            CampaignState::Preparing | CampaignState::Tracking => State::Active(last),
            CampaignState::Settled => State::Settled { by, last },
            CampaignState::Stopped => State::Stopped { last },
            CampaignState::Failed => State::Failed { problem, last },
        }
    }
}

impl From<State> for StoredState {
    fn from(state: State) -> StoredState {
        let (counts, tracking) = (state.stage().counts(), state.stage().tracking());
        StoredState {
            state: state.name(),
            problem: state.problem().map(str::to_owned),
            sigma: state.stage().sigma(),
            iteration: state.stage().iteration(),
            tracked_failing: counts.failing,
            tracked_successful: counts.successful,
            tracked_otherwise: counts.otherwise,
            plans: tracking.map_or_else(Vec::new, |it| it.plans.clone()),
            failing_at_last_look: tracking.map_or(0, |it| it.failing_at_last_look),
            declared: state.is_declared(),
        }
    }
}
