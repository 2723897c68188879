//! What runs count as, and how many of each kind there are.

use serde::{Deserialize, Serialize};
use sketch_model::{Capabilities, RunRecord, TrackingPlan};

/// What a run counted as, once it had been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedAs {
    /// P itself ran.
    Untracked,
    /// A tracked run that failed as its campaign's failure does.
    Failing,
    /// A tracked run that succeeded.
    Successful,
    /// A tracked run that failed in another way: neither failing nor successful.
    OtherFailure,
    /// A tracked run of an iteration that was already over when it arrived.
    TooLate,
    /// Nothing: the record is malformed, or names no plan of a campaign of its build.
    Refused,
}

/// Runs of one build, whatever campaigns it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildCounts {
    pub runs: u64,
    pub failures: u64,
    pub untracked_runs: u64,
    pub untracked_failures: u64,
}

impl BuildCounts {
    /// The counts with one more run.
    pub fn and(self, record: &RunRecord) -> BuildCounts {
        self.with(record.failed(), record.execution.is_original())
    }

    /// The same, by what matters of the run.
    pub fn with(mut self, failed: bool, untracked: bool) -> BuildCounts {
        let (failed, untracked) = (u64::from(failed), u64::from(untracked));
        self.runs += 1;
        self.failures += failed;
        self.untracked_runs += untracked;
        self.untracked_failures += untracked * failed;
        self
    }
}

/// The runs of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    pub failing: u64,
    pub successful: u64,
    /// Those that failed in another way: neither failing nor successful.
    pub otherwise: u64,
}

/// A plan of the current iteration, with the runs that used it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRuns {
    /// The plan's number, [`TrackingPlan::variant`].
    pub plan: u32,
    /// What it asks of a machine.
    #[serde(rename = "tier")]
    pub wants: Capabilities,
    pub failing: u64,
    pub successful: u64,
    /// Runs that failed in another way.
    pub otherwise: u64,
    /// It audits promoted locations.
    #[serde(default)]
    pub audit: bool,
}

impl PlanRuns {
    pub fn new(plan: u32, wants: Capabilities) -> PlanRuns {
        PlanRuns {
            plan,
            wants,
            failing: 0,
            successful: 0,
            otherwise: 0,
            audit: false,
        }
    }

    /// A plan that nobody has run yet.
    pub fn of(plan: &TrackingPlan) -> PlanRuns {
        PlanRuns {
            audit: plan.audit,
            ..PlanRuns::new(plan.variant, plan.wants.clone())
        }
    }

    pub fn runs(&self) -> u64 {
        self.failing + self.successful + self.otherwise
    }
}
