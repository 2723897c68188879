//! A campaign as a document: the form that databases of all releases hold.
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
use super::promotion::Promotion;
use super::traced_runs::TracedRuns;
use super::{Campaign, Identity, Learned, LocatedFailure, SettledBy, Stage, State, Tracking};
use crate::ranking::stop_rule::IterationResult;
use serde::{Deserialize, Serialize};
use sketch_model::{
    BestPredictor, BuildId, CampaignId, CampaignState, FailureSignature, Seen, StatementId, Tier,
};
use std::collections::BTreeSet;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredCampaign {
    id: CampaignId,
    build: BuildId,
    program: String,
    signature: FailureSignature,
    title: String,
    failure: Option<LocatedFailure>,
    state: CampaignState,
    problem: Option<String>,
    sigma: u32,
    iteration: u32,
    slice_statements: Option<u32>,
    discovered: Vec<StatementId>,
    #[serde(default)]
    explaining: Vec<StatementId>,
    #[serde(default)]
    promotions: Vec<Promotion>,
    last_rebuilds: u32,
    #[serde(default, rename = "quiet")]
    watching_given_up: bool,
    looks: u64,
    runs_before: u64,
    failures_before: u64,
    untracked_failures: u64,
    tracked_failing: u64,
    tracked_successful: u64,
    tracked_otherwise: u64,
    #[serde(default)]
    plans: Vec<PlanRuns>,
    #[serde(default)]
    fleet: BTreeSet<Tier>,
    failing_at_last_look: u64,
    sketch_version: u32,
    best: Option<BestPredictor>,
    history: Vec<IterationResult>,
    #[serde(default)]
    declared: bool,
    #[serde(default)]
    pinned: bool,
    #[serde(default)]
    seen: Option<Seen>,
    #[serde(default)]
    traced: TracedRuns,
}

impl StoredCampaign {
    /// The iteration that it is in, or was in when it ended.
    fn stage(&mut self) -> Stage {
        let (sigma, iteration) = (self.sigma, self.iteration);
        let tracking = Tracking {
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
        match has_run {
            false => Stage::Preparing { sigma, iteration },
            true if unlisted => Stage::Tracking(Tracking {
                plans: vec![PlanRuns {
                    failing: counted.failing,
                    successful: counted.successful,
                    otherwise: counted.otherwise,
                    ..PlanRuns::new(0, Tier::Inline)
                }],
                ..tracking
            }),
            true => Stage::Tracking(tracking),
        }
    }
}

impl From<StoredCampaign> for Campaign {
    fn from(mut stored: StoredCampaign) -> Campaign {
        let last = stored.stage();
        let by = match stored.declared {
            true => SettledBy::Developer,
            false => SettledBy::StopRule,
        };
        let problem = stored.problem;
        let problem = problem.unwrap_or_else(|| "the reason was not noted".to_owned());
        Campaign {
            state: match stored.state {
                CampaignState::Preparing | CampaignState::Tracking => State::Active(last),
                CampaignState::Settled => State::Settled { by, last },
                CampaignState::Stopped => State::Stopped { last },
                CampaignState::Failed => State::Failed { problem, last },
            },
            pinned: stored.pinned,
            identity: Identity {
                id: stored.id,
                build: stored.build,
                program: stored.program,
                signature: stored.signature,
                title: stored.title,
                failure: stored.failure,
                runs_before: stored.runs_before,
                failures_before: stored.failures_before,
            },
            learned: Learned {
                slice_statements: stored.slice_statements,
                discovered: stored.discovered,
                explaining: stored.explaining,
                promotions: stored.promotions,
                last_rebuilds: stored.last_rebuilds,
                watching_given_up: stored.watching_given_up,
                looks: stored.looks,
                untracked_failures: stored.untracked_failures,
                fleet: stored.fleet,
                sketch_version: stored.sketch_version,
                best: stored.best,
                history: stored.history,
                seen: stored.seen,
                traced: stored.traced,
            },
        }
    }
}

impl From<Campaign> for StoredCampaign {
    fn from(campaign: Campaign) -> StoredCampaign {
        let Campaign {
            identity,
            learned,
            pinned,
            state,
        } = campaign;
        let by_developer = SettledBy::Developer;
        let counts = state.stage().counts();
        let tracking = state.stage().tracking();
        StoredCampaign {
            id: identity.id,
            build: identity.build,
            program: identity.program,
            signature: identity.signature,
            title: identity.title,
            failure: identity.failure,
            state: state.name(),
            problem: state.problem().map(str::to_owned),
            sigma: state.stage().sigma(),
            iteration: state.stage().iteration(),
            slice_statements: learned.slice_statements,
            discovered: learned.discovered,
            explaining: learned.explaining,
            promotions: learned.promotions,
            last_rebuilds: learned.last_rebuilds,
            watching_given_up: learned.watching_given_up,
            looks: learned.looks,
            runs_before: identity.runs_before,
            failures_before: identity.failures_before,
            untracked_failures: learned.untracked_failures,
            tracked_failing: counts.failing,
            tracked_successful: counts.successful,
            tracked_otherwise: counts.otherwise,
            plans: tracking.map_or_else(Vec::new, |it| it.plans.clone()),
            fleet: learned.fleet,
            failing_at_last_look: tracking.map_or(0, |it| it.failing_at_last_look),
            sketch_version: learned.sketch_version,
            best: learned.best,
            history: learned.history,
            declared: matches!(state, State::Settled { by, .. } if by == by_developer),
            pinned,
            seen: learned.seen,
            traced: learned.traced,
        }
    }
}
