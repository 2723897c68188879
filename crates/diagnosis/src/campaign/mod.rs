//! One diagnosis as a state machine: values in, values out, no IO.
//!
//! ```text
//!  first failure ─► Preparing ─► Tracking ─┬─ enough runs, not settled ─► Preparing (σ doubled)
//!                       ▲                  ├─ enough runs, settled ─────► Settled
//!                       └──────────────────┘
//!  any of them: Stopped by a developer; Failed, with the problem in words
//! ```
//!
//! What belongs to a state is inside it ([`state`]): a new iteration is a new value,
//! and its counts start at zero because there are no others. Runs of different tracked
//! builds are never pooled, since probing changes how often a program fails.
//!
//! Why σ does not grow for ever: it is capped by the slice. At the cap a new
//! build is worth its cost only for statements that watchpoints discovered or
//! locations that need no watchpoint any more, and only [`LAST_REBUILDS`] times;
//! after that the campaign keeps tracking with the build it has until it settles or
//! is stopped.
//!
//! What a developer can do is in [`steering`]; how a state is kept in a document, in
//! `stored`.

pub mod counts;
pub mod failure;
pub mod family;
pub mod iteration;
pub mod promotion;
pub mod state;
pub mod steering;
mod stored;
pub mod traced_runs;

pub use counts::{BuildCounts, CountedAs, PlanRuns, RunCounts};
pub use failure::{LocatedFailure, is_abort};
pub use family::{Face, Family};
pub use state::{SettledBy, Stage, State, Tracking};
pub use steering::{CannotSteer, Steering};

use crate::ranking::stop_rule::{IterationResult, is_answer};
use serde::{Deserialize, Serialize};
use sketch_model::Promotion;
use sketch_model::{
    BestPredictor, BuildId, CampaignId, CampaignSummary, Capabilities, Capability,
    FailureSignature, PredictorClass, Seen, StatementId, VariantRef,
};
use std::collections::BTreeSet;
use traced_runs::TracedRuns;

/// σ of the first iteration. The published system begins with 2, because there
/// each tracked statement costs the program; here a governor bounds the cost,
/// recurrences are what is dear, and each iteration costs at least one.
pub const FIRST_SIGMA: u32 = 32;

/// A slice of so many statements of the program's own is tracked whole at once. Slices of
/// ordinary programs of a hundred lines have some 40.
pub const SMALL_SLICE: u32 = 64;

/// How often discovered statements or promoted locations alone, with σ at the
/// slice's length, are reason enough for another tracked build.
pub const LAST_REBUILDS: u32 = 3;

/// Failing runs of tracked builds, nearly without successful ones, after which
/// watching is given up.
pub const OVERWHELMED: u64 = 6;

/// Everything about one diagnosis that outlives the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    #[serde(flatten)]
    pub identity: Identity,
    #[serde(flatten)]
    pub learned: Learned,
    /// A developer wants σ to stay as it is.
    #[serde(default)]
    pub pinned: bool,
    #[serde(flatten)]
    pub state: State,
}

/// Which failure it is about. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    pub id: CampaignId,
    pub build: BuildId,
    pub program: String,
    pub signature: FailureSignature,
    pub title: String,
    /// `None` if no statement could be found for the failure; such a campaign
    /// exists only to say so.
    pub failure: Option<LocatedFailure>,
    /// What the build's counters said before the first failure.
    pub runs_before: u64,
    pub failures_before: u64,
}

/// What is kept from one iteration to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
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
    #[serde(default, rename = "quiet")]
    pub watching_given_up: bool,
    /// How often the stop rule has been asked.
    pub looks: u64,
    /// Runs of P that failed so.
    pub untracked_failures: u64,
    /// The places where it strikes, in the order in which they were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faces: Vec<Face>,
    /// What the agents that reported runs of the program can do.
    #[serde(default)]
    pub fleet: BTreeSet<Capabilities>,
    pub sketch_version: u32,
    pub best: Option<BestPredictor>,
    /// What the stop rule has seen, oldest first; only the last is needed.
    pub history: Vec<IterationResult>,
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
    /// The campaign is being prepared again: make the next tracked build.
    Rebuild,
    /// The campaign is over.
    Settle,
}

impl Learned {
    /// The σ after this one, or `None` if the slice is tracked whole.
    pub fn wider(&self, sigma: u32) -> Option<u32> {
        let cap = self.slice_statements?;
        (sigma < cap).then(|| sigma.saturating_mul(2).min(cap))
    }

    /// What plans track beside the nearest σ statements of the slice.
    pub fn beyond_sigma(&self) -> Vec<StatementId> {
        let explaining = self.explaining.iter();
        let further = explaining.filter(|id| !self.discovered.contains(id));
        self.discovered.iter().chain(further).copied().collect()
    }

    /// The σ of the next iteration, if one is worth its build.
    fn next_sigma(&mut self, sigma: u32, news: bool) -> Option<u32> {
        let wider = self.wider(sigma);
        if wider.is_none() && news && self.last_rebuilds < LAST_REBUILDS {
            self.last_rebuilds += 1;
            return Some(sigma);
        }
        wider
    }

    /// Takes over what watchpoints found; whether any of it is news.
    fn find(&mut self, discovered: Vec<StatementId>, promotions: Vec<Promotion>) -> bool {
        let known = self.discovered.len();
        for statement in discovered {
            if !self.discovered.contains(&statement) {
                self.discovered.push(statement);
            }
        }
        let promoted = |p: &Promotion| self.promotions.iter().any(|q| q.location == p.location);
        let cheaper = !promotions.iter().all(promoted);
        self.promotions = promotions;
        cheaper || self.discovered.len() > known
    }
}

impl Campaign {
    /// A campaign for a failure seen for the first time, which begins with σ.
    /// `before` are the build's counters without that failure.
    pub fn begin(
        id: CampaignId,
        build: BuildId,
        program: String,
        failure: LocatedFailure,
        before: BuildCounts,
        sigma: u32,
    ) -> Campaign {
        let identity = Identity {
            id,
            signature: failure.signature(&build),
            title: failure.title(),
            build,
            program,
            failure: Some(failure),
            runs_before: before.runs,
            failures_before: before.failures,
        };
        let first = Stage::Preparing {
            sigma,
            iteration: 1,
        };
        Campaign::new(identity, State::Active(first))
    }

    /// A campaign that says why there is no diagnosis of a failure.
    pub fn impossible(
        id: CampaignId,
        build: BuildId,
        program: String,
        (signature, title): (FailureSignature, String),
        before: BuildCounts,
        problem: String,
    ) -> Campaign {
        let identity = Identity {
            id,
            build,
            program,
            signature,
            title,
            failure: None,
            runs_before: before.runs,
            failures_before: before.failures,
        };
        let last = Stage::Preparing {
            sigma: 0,
            iteration: 0,
        };
        Campaign::new(identity, State::Failed { problem, last })
    }

    fn new(identity: Identity, state: State) -> Campaign {
        Campaign {
            identity,
            learned: Learned::default(),
            pinned: false,
            state,
        }
    }

    pub fn id(&self) -> CampaignId {
        self.identity.id
    }

    /// Whether it does nothing any more unless a developer resumes it.
    pub fn is_over(&self) -> bool {
        self.state.name().is_over()
    }

    pub fn sigma(&self) -> u32 {
        self.state.stage().sigma()
    }

    pub fn iteration(&self) -> u32 {
        self.state.stage().iteration()
    }

    /// The runs of the current iteration.
    pub fn counts(&self) -> RunCounts {
        self.state.stage().counts()
    }

    /// The iteration that agents run now.
    pub fn tracking(&self) -> Option<&Tracking> {
        match &self.state {
            State::Active(stage) => stage.tracking(),
            _ => None,
        }
    }

    /// Whether its next plans watch nothing: watching made every run fail, or has to wait
    /// for what hooks alone tell.
    pub fn watches_nothing(&self) -> bool {
        let stage = self.state.stage();
        self.learned.watching_given_up
            || state::is_first(
                stage.iteration(),
                stage.sigma(),
                self.learned.slice_statements,
            )
    }

    /// Whether it waits for a tracked build.
    pub fn is_preparing(&self) -> bool {
        matches!(self.state, State::Active(Stage::Preparing { .. }))
    }

    /// A tracked build that is being made or run, by its plan.
    pub fn variant(&self, plan: u32) -> VariantRef {
        VariantRef {
            campaign: self.id(),
            iteration: self.iteration(),
            plan,
        }
    }

    /// The failures that it is about.
    pub fn family(&self) -> Family {
        match &self.identity.failure {
            Some(failure) => Family::of(&self.identity.build, failure),
            None => Family::of_signature(&self.identity.signature),
        }
    }

    /// Whether failures of this family are its own.
    pub fn is_of(&self, family: &Family) -> bool {
        self.family() == *family
    }

    /// Takes note of where a failing run, tracked or not, failed.
    pub fn note_face(&mut self, face: Face) {
        family::note(&mut self.learned.faces, face);
    }

    /// What a run of one of this campaign's tracked builds counts as.
    /// `failure` is the family of failures it belongs to, if it failed.
    pub fn counted_as(&self, variant: VariantRef, failure: Option<&Family>) -> CountedAs {
        let tracking = self.tracking();
        let Some(tracking) = tracking.filter(|it| it.iteration == variant.iteration) else {
            return CountedAs::TooLate;
        };
        if tracking.plan(variant.plan).is_none() {
            return CountedAs::Refused;
        }
        match failure {
            None => CountedAs::Successful,
            Some(family) if self.is_of(family) => CountedAs::Failing,
            Some(_) => CountedAs::OtherFailure,
        }
    }

    /// Counts a run of one of the current iteration's plans.
    pub fn count(&mut self, plan: u32, counted_as: CountedAs) {
        if let State::Active(Stage::Tracking(tracking)) = &mut self.state {
            tracking.count(plan, counted_as);
        }
    }

    /// The slice is known, and with it how large σ can be.
    pub fn sliced(mut self, statements: u32) -> Campaign {
        self.learned.slice_statements = Some(statements);
        if let State::Active(Stage::Preparing { sigma, .. }) = &mut self.state {
            let whole = *sigma == FIRST_SIGMA && statements <= SMALL_SLICE;
            *sigma = match whole {
                true => statements.max(1),
                false => (*sigma).min(statements.max(1)),
            };
        }
        self
    }

    /// The tracked builds of the iteration that was being prepared are ready, one for
    /// each plan; a σ that could hook nothing may have been passed over.
    pub fn built(mut self, sigma: u32, plans: Vec<PlanRuns>) -> Campaign {
        if let State::Active(Stage::Preparing { iteration, .. }) = self.state {
            self.state = State::Active(Stage::Tracking(Tracking {
                sigma,
                iteration,
                plans,
                failing_at_last_look: 0,
            }));
        }
        self
    }

    /// The tracked builds of this iteration are gone: they have to be made again.
    pub fn rebuild(mut self) -> Campaign {
        if let State::Active(stage) = &self.state {
            self.state = State::Active(Stage::Preparing {
                sigma: stage.sigma(),
                iteration: stage.iteration(),
            });
        }
        self
    }

    /// The same σ in an iteration of its own, which no run counts for yet.
    pub fn begin_again(mut self) -> Campaign {
        if let State::Active(stage) = &self.state {
            self.state = State::Active(stage.next(stage.sigma()));
        }
        self
    }

    /// The next σ, or `None` if the slice is tracked whole.
    pub fn wider(&self) -> Option<u32> {
        self.learned.wider(self.sigma())
    }

    /// Whether a verdict should be sought after this run: at each failing run,
    /// and at each successful one as long as a look is due.
    pub fn look_is_due(&self) -> bool {
        let tracking = self.tracking();
        tracking.is_some_and(|it| it.counts().failing > it.failing_at_last_look)
    }

    /// Moves on as the verdict says.
    pub fn judge(mut self, verdict: Verdict) -> (Campaign, Step) {
        self.learned.best = verdict.best;
        self.learned.explaining = verdict.explaining;
        let mut tracking = match self.state {
            State::Active(Stage::Tracking(tracking)) => tracking,
            state => return (Campaign { state, ..self }, Step::Keep),
        };
        if !verdict.enough {
            let overwhelmed = !self.learned.watching_given_up && tracking.is_overwhelmed();
            let (stage, step) = match overwhelmed {
                true => {
                    self.learned.watching_given_up = true;
                    self.learned.find(verdict.discovered, verdict.promotions);
                    (tracking.next(tracking.sigma), Step::Rebuild)
                }
                false => (Stage::Tracking(tracking), Step::Keep),
            };
            let state = State::Active(stage);
            return (Campaign { state, ..self }, step);
        }
        self.learned.looks += 1;
        tracking.failing_at_last_look = tracking.counts().failing;
        let found = self.learned.find(verdict.discovered, verdict.promotions);
        // The first plans watch nothing: watching is what is left to be tried where what
        // hooks recorded holds no answer. Who freed the memory that a failure used is one,
        // however few failures showed it: chance hardly makes it.
        let best = verdict.result.overall();
        let has_answer = best.is_some_and(|b| is_answer(b) || b.class == PredictorClass::Lifetime);
        let unwatched = tracking.watches_nothing_yet(self.learned.slice_statements);
        let news = found || (unwatched && !has_answer);
        if verdict.settled {
            let (by, last) = (SettledBy::StopRule, Stage::Tracking(tracking));
            let state = State::Settled { by, last };
            return (Campaign { state, ..self }, Step::Settle);
        }
        // If no other iteration follows, the next look is this rule's next one.
        self.learned.history = vec![verdict.result];
        let sigma = match self.pinned {
            true => None,
            false => self.learned.next_sigma(tracking.sigma, news),
        };
        let (stage, step) = match sigma {
            Some(sigma) => (tracking.next(sigma), Step::Rebuild),
            None => (Stage::Tracking(tracking), Step::Keep),
        };
        let state = State::Active(stage);
        (Campaign { state, ..self }, step)
    }

    /// Whether traced runs of P may come.
    pub fn expects_traces(&self) -> bool {
        let mut fleet = self.learned.fleet.iter();
        fleet.any(|offers| offers.has(Capability::IntelPt))
    }

    /// Takes note of a verdict that a traced run of P brought. It may end the
    /// campaign; σ and the tracked builds go their own way.
    pub fn judge_traced(mut self, verdict: Verdict) -> Campaign {
        self.learned.best = verdict.best;
        if !verdict.enough {
            return self;
        }
        match self.state {
            State::Active(last) => {
                self.learned.looks += 1;
                self.learned.history = vec![verdict.result];
                let by = SettledBy::StopRule;
                self.state = match verdict.settled {
                    true => State::Settled { by, last },
                    false => State::Active(last),
                };
                self
            }
            state => Campaign { state, ..self },
        }
    }

    /// It cannot go on. Nothing happens to a campaign that is over.
    pub fn fail(self, problem: String) -> Campaign {
        let state = match self.state {
            State::Active(last) => State::Failed { problem, last },
            over => over,
        };
        Campaign { state, ..self }
    }

    /// The number of the next sketch.
    pub fn next_sketch(&mut self) -> u32 {
        self.learned.sketch_version += 1;
        self.learned.sketch_version
    }

    pub fn summary(&self, counts: BuildCounts) -> CampaignSummary {
        let (identity, learned, tracked) = (&self.identity, &self.learned, self.counts());
        CampaignSummary {
            id: identity.id,
            build: identity.build.clone(),
            program: identity.program.clone(),
            signature: identity.signature.clone(),
            title: identity.title.clone(),
            state: self.state.name(),
            problem: self.state.problem().map(str::to_owned),
            sigma: self.sigma(),
            iteration: self.iteration(),
            runs: counts.runs.saturating_sub(identity.runs_before),
            failures: counts.failures.saturating_sub(identity.failures_before),
            tracked_failing: tracked.failing,
            tracked_successful: tracked.successful,
            sketch_version: (learned.sketch_version > 0).then_some(learned.sketch_version),
            best: learned.best.clone(),
            declared: self.state.is_declared(),
            pinned: self.pinned,
            seen: learned.seen.clone(),
        }
    }
}
