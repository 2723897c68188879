//! One diagnosis as a state machine: values in, values out, no IO.
//!
//! ```text
//!  first failure ─► Preparing ─► Tracking ─┬─ enough runs, not settled ─► Preparing (σ doubled)
//!                       ▲                  ├─ enough runs, settled ─────► Settled
//!                       └──────────────────┘
//!  any of them: Stopped by a developer; Failed, with the problem in words
//! ```
//!
//! Why σ does not grow for ever: it is capped by the slice. At the cap a new
//! build is worth its cost only for statements that watchpoints discovered or
//! locations that need no watchpoint any more, and only [`LAST_REBUILDS`] times; after that the campaign keeps tracking with
//! the build it has until it settles or is stopped.
//!
//! Counts of one iteration start at zero: runs of different tracked builds are
//! never pooled, because probing changes how often a program fails.

use super::plans::PlanRuns;
use super::traced_runs::TracedRuns;
use crate::builds::locate::LocatedFailure;
use crate::storage::{BuildCounts, RunRole};
use diagnosis::IterationResult;
use serde::{Deserialize, Serialize};
use sketch_model::{
    BestPredictor, BuildId, CampaignId, CampaignState, CampaignSummary, FailureSignature,
    Promotion, Seen, StatementId, Tier, VariantRef,
};
use std::collections::BTreeSet;

/// σ of the first iteration. The published system begins with 2, because there
/// each tracked statement costs the program; here a governor bounds the cost,
/// recurrences are what is dear, and each iteration costs at least one.
pub const FIRST_SIGMA: u32 = 16;

/// How often discovered statements or promoted locations alone, with σ at the
/// slice's length, are reason enough for another tracked build.
pub const LAST_REBUILDS: u32 = 3;

/// Failing runs of tracked builds, nearly without successful ones, after which
/// watching is given up.
pub const OVERWHELMED: u64 = 6;

/// Everything about one diagnosis that outlives the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    pub id: CampaignId,
    pub build: BuildId,
    pub program: String,
    pub signature: FailureSignature,
    pub title: String,
    /// `None` if no statement could be found for the failure; such a campaign
    /// exists only to say so.
    pub failure: Option<LocatedFailure>,
    pub state: CampaignState,
    pub problem: Option<String>,
    pub sigma: u32,
    pub iteration: u32,
    /// Statements in the slice; `None` until there is one.
    pub slice_statements: Option<u32>,
    /// Statements that watchpoints found outside the plan, in order of discovery.
    pub discovered: Vec<StatementId>,
    /// Statements that explain the best predictors so far, whatever their
    /// distance: the next plan tracks them.
    #[serde(default)]
    pub explaining: Vec<StatementId>,
    /// Locations of which hooks can tell all that watchpoints found.
    #[serde(default)]
    pub promotions: Vec<Promotion>,
    /// Rebuilds made with σ already at the slice's length.
    pub last_rebuilds: u32,
    /// Watching made nearly every run fail: plans watch nothing from then on.
    #[serde(default)]
    pub quiet: bool,
    /// How often the stop rule has been asked.
    pub looks: u64,
    /// What the build's counters said before the first failure.
    pub runs_before: u64,
    pub failures_before: u64,
    /// Runs of P that failed with this signature.
    pub untracked_failures: u64,
    /// Runs of the current iteration.
    pub tracked_failing: u64,
    pub tracked_successful: u64,
    /// Those that failed in another way: neither failing nor successful.
    pub tracked_otherwise: u64,
    /// The same by plan: runs of different plans are never pooled.
    #[serde(default)]
    pub plans: Vec<PlanRuns>,
    /// What the agents that reported runs of the program can do.
    #[serde(default)]
    pub fleet: BTreeSet<Tier>,
    /// Failing runs at the last look: the next one waits for a new one.
    pub failing_at_last_look: u64,
    pub sketch_version: u32,
    pub best: Option<BestPredictor>,
    /// What the stop rule has seen, oldest first; only the last is needed.
    pub history: Vec<IterationResult>,
    /// A developer said that the last sketch is the answer.
    #[serde(default)]
    pub declared: bool,
    /// A developer wants σ to stay as it is.
    #[serde(default)]
    pub pinned: bool,
    /// When the failure was seen; `None` if that was before it was noted.
    #[serde(default)]
    pub seen: Option<Seen>,
    /// Runs of P whose Intel PT tells of branches; they belong to no iteration.
    #[serde(default)]
    pub traced: TracedRuns,
}

/// What the current iteration's population says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// This iteration has said what it can: the next one may begin.
    pub enough: bool,
    /// The stop rule holds.
    pub settled: bool,
    /// What it would add to the stop rule's history.
    pub result: IterationResult,
    pub best: Option<BestPredictor>,
    /// Statements outside the plan that watchpoints found so far.
    pub discovered: Vec<StatementId>,
    /// Statements that explain the best predictors.
    pub explaining: Vec<StatementId>,
    /// Locations that need no watchpoint in the next plan.
    pub promotions: Vec<Promotion>,
}

/// What to do after a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Keep tracking with this build.
    Keep,
    /// The campaign is in `Preparing` again: make the next tracked build.
    Rebuild,
    /// The campaign is over.
    Settle,
}

impl Campaign {
    /// A campaign for a failure seen for the first time. `before` are the
    /// build's counters without that failure.
    pub fn begin(
        id: CampaignId,
        build: BuildId,
        program: String,
        failure: LocatedFailure,
        before: BuildCounts,
    ) -> Campaign {
        let named = (failure.signature(&build), failure.title());
        Campaign {
            failure: Some(failure),
            ..Campaign::blank(id, build, program, named, before)
        }
    }

    /// A campaign that says why there is no diagnosis of a failure.
    pub fn impossible(
        id: CampaignId,
        build: BuildId,
        program: String,
        named: (FailureSignature, String),
        before: BuildCounts,
        problem: String,
    ) -> Campaign {
        Campaign {
            state: CampaignState::Failed,
            problem: Some(problem),
            sigma: 0,
            iteration: 0,
            ..Campaign::blank(id, build, program, named, before)
        }
    }

    fn blank(
        id: CampaignId,
        build: BuildId,
        program: String,
        (signature, title): (FailureSignature, String),
        before: BuildCounts,
    ) -> Campaign {
        Campaign {
            id,
            build,
            program,
            signature,
            title,
            failure: None,
            state: CampaignState::Preparing,
            problem: None,
            sigma: FIRST_SIGMA,
            iteration: 1,
            slice_statements: None,
            discovered: Vec::new(),
            explaining: Vec::new(),
            promotions: Vec::new(),
            last_rebuilds: 0,
            quiet: false,
            looks: 0,
            runs_before: before.runs,
            failures_before: before.failures,
            untracked_failures: 0,
            tracked_failing: 0,
            tracked_successful: 0,
            tracked_otherwise: 0,
            plans: Vec::new(),
            fleet: BTreeSet::new(),
            failing_at_last_look: 0,
            sketch_version: 0,
            best: None,
            history: Vec::new(),
            declared: false,
            pinned: false,
            seen: None,
            traced: TracedRuns::default(),
        }
    }

    pub fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// What plans track beside the nearest σ statements of the slice.
    pub fn beyond_sigma(&self) -> Vec<StatementId> {
        let explaining = self.explaining.iter();
        let further = explaining.filter(|id| !self.discovered.contains(id));
        self.discovered.iter().chain(further).copied().collect()
    }

    /// A tracked build that is being made or run, by its plan.
    pub fn variant(&self, plan: u32) -> VariantRef {
        VariantRef {
            campaign: self.id,
            iteration: self.iteration,
            plan,
        }
    }

    /// The numbers of the current iteration's plans.
    pub fn plan_numbers(&self) -> Vec<u32> {
        // Campaigns of earlier releases had one plan and did not list it.
        match self.plans.as_slice() {
            [] => vec![0],
            plans => plans.iter().map(|p| p.plan).collect(),
        }
    }

    /// What a run of one of this campaign's tracked builds counts as.
    /// `failure` is the signature it failed with, if it failed.
    pub fn role_of(&self, iteration: u32, failure: Option<&FailureSignature>) -> RunRole {
        if self.state != CampaignState::Tracking || iteration != self.iteration {
            return RunRole::Late;
        }
        match failure {
            None => RunRole::Successful,
            Some(signature) if *signature == self.signature => RunRole::Failing,
            Some(_) => RunRole::OtherFailure,
        }
    }

    /// Counts a run of one of the current iteration's plans.
    pub fn count_for(&mut self, plan: u32, role: RunRole) {
        self.count(role);
        let Some(runs) = self.plans.iter_mut().find(|p| p.plan == plan) else {
            return;
        };
        match role {
            RunRole::Failing => runs.failing += 1,
            RunRole::Successful => runs.successful += 1,
            RunRole::OtherFailure => runs.otherwise += 1,
            RunRole::Untracked | RunRole::Late | RunRole::Refused => {}
        }
    }

    pub fn count(&mut self, role: RunRole) {
        match role {
            RunRole::Failing => self.tracked_failing += 1,
            RunRole::Successful => self.tracked_successful += 1,
            RunRole::OtherFailure => self.tracked_otherwise += 1,
            RunRole::Untracked | RunRole::Late | RunRole::Refused => {}
        }
    }

    /// The slice is known.
    pub fn sliced(&mut self, statements: u32) {
        self.slice_statements = Some(statements);
        self.sigma = self.sigma.min(statements.max(1));
    }

    /// The tracked build of the current iteration is ready; a σ that could hook
    /// nothing may have been passed over.
    pub fn built(&mut self, sigma: u32) {
        self.sigma = sigma;
        self.state = CampaignState::Tracking;
    }

    /// The tracked builds of the current iteration are ready, one for each plan.
    pub fn built_for(&mut self, sigma: u32, plans: Vec<PlanRuns>) {
        self.plans = plans;
        self.built(sigma);
    }

    /// The next σ, or `None` if the slice is tracked whole.
    pub fn wider(&self) -> Option<u32> {
        let cap = self.slice_statements?;
        (self.sigma < cap).then(|| self.sigma.saturating_mul(2).min(cap))
    }

    /// Whether a verdict should be sought after this run: at each failing run,
    /// and at each successful one as long as a look is due.
    pub fn look_is_due(&self) -> bool {
        self.state == CampaignState::Tracking && self.tracked_failing > self.failing_at_last_look
    }

    /// Moves on as the verdict says.
    pub fn judge(&mut self, verdict: Verdict) -> Step {
        self.best = verdict.best;
        self.explaining = verdict.explaining;
        if self.state != CampaignState::Tracking {
            return Step::Keep;
        }
        if !verdict.enough {
            if self.quiet || !self.is_overwhelmed() {
                return Step::Keep;
            }
            self.quiet = true;
            self.learn(verdict.discovered);
            self.promotions = verdict.promotions;
            return self.next_iteration();
        }
        self.looks += 1;
        self.failing_at_last_look = self.tracked_failing;
        let known = self.discovered.len();
        self.learn(verdict.discovered);
        let promoted = |p: &Promotion| self.promotions.iter().any(|q| q.location == p.location);
        let cheaper = !verdict.promotions.iter().all(promoted);
        self.promotions = verdict.promotions;
        if verdict.settled {
            self.state = CampaignState::Settled;
            return Step::Settle;
        }
        if self.pinned {
            self.history = vec![verdict.result];
            return Step::Keep;
        }
        match self.wider() {
            Some(sigma) => self.sigma = sigma,
            None if (self.discovered.len() > known || cheaper)
                && self.last_rebuilds < LAST_REBUILDS =>
            {
                self.last_rebuilds += 1;
            }
            None => {
                // The slice is tracked whole: the next look is this rule's
                // next iteration, as there will be no other.
                self.history = vec![verdict.result];
                return Step::Keep;
            }
        }
        self.history = vec![verdict.result];
        self.next_iteration()
    }

    /// Whether traced runs of P may come.
    pub fn expects_traces(&self) -> bool {
        self.fleet.contains(&Tier::IntelPt)
    }

    /// Takes note of a verdict that a traced run of P brought. It may end the
    /// campaign; σ and the tracked builds go their own way.
    pub fn judge_traced(&mut self, verdict: Verdict) {
        self.best = verdict.best;
        if self.is_over() || !verdict.enough {
            return;
        }
        self.looks += 1;
        if verdict.settled {
            self.state = CampaignState::Settled;
        }
        self.history = vec![verdict.result];
    }

    /// Nearly every tracked run fails, so there is nothing to compare with. A
    /// watchpoint's hit takes microseconds and can hold a race open.
    fn is_overwhelmed(&self) -> bool {
        let watches = self.plans.iter().any(|plan| plan.tier > Tier::Inline);
        watches
            && self.tracked_failing >= OVERWHELMED
            && self.tracked_successful * 8 < self.tracked_failing
    }

    fn learn(&mut self, discovered: Vec<StatementId>) {
        for statement in discovered {
            if !self.discovered.contains(&statement) {
                self.discovered.push(statement);
            }
        }
    }

    /// Begins the next iteration: nothing that was counted or built in this one
    /// belongs to it.
    pub(crate) fn next_iteration(&mut self) -> Step {
        self.iteration += 1;
        self.tracked_failing = 0;
        self.tracked_successful = 0;
        self.tracked_otherwise = 0;
        self.plans.clear();
        self.failing_at_last_look = 0;
        self.state = CampaignState::Preparing;
        Step::Rebuild
    }

    /// A developer has seen enough. Nothing happens to a campaign that is over.
    pub fn stop(&mut self) {
        if !self.is_over() {
            self.state = CampaignState::Stopped;
        }
    }

    pub fn fail(&mut self, problem: String) {
        if !self.is_over() {
            self.state = CampaignState::Failed;
            self.problem = Some(problem);
        }
    }

    /// The number of the next sketch.
    pub fn next_sketch(&mut self) -> u32 {
        self.sketch_version += 1;
        self.sketch_version
    }

    pub fn summary(&self, counts: BuildCounts) -> CampaignSummary {
        CampaignSummary {
            id: self.id,
            build: self.build.clone(),
            program: self.program.clone(),
            signature: self.signature.clone(),
            title: self.title.clone(),
            state: self.state,
            problem: self.problem.clone(),
            sigma: self.sigma,
            iteration: self.iteration,
            runs: counts.runs.saturating_sub(self.runs_before),
            failures: counts.failures.saturating_sub(self.failures_before),
            tracked_failing: self.tracked_failing,
            tracked_successful: self.tracked_successful,
            sketch_version: (self.sketch_version > 0).then_some(self.sketch_version),
            best: self.best.clone(),
            declared: self.declared,
            pinned: self.pinned,
            seen: self.seen.clone(),
        }
    }
}
