//! What one run says about every predictor: it held, it did not, or the run
//! cannot tell.
//!
//! The third answer is what keeps the statistics honest. "It did not hold" is
//! said only if the run could have shown it: every hook that the predictor
//! needs stands in this build, no thread lost events, and nothing that was
//! recorded leaves room for it. A statement that has no hook and is known from
//! watchpoints alone was watchable only from the moment a slot was aimed at the
//! location; a run in which the watch never saw it therefore cannot tell.
//!
//! One file a class beside this one: a [`Detector`], which adds what held and what is
//! open, says which runs can deny its predictors, finds the events to draw, and words
//! them. A new class is its file, a variant of [`Predictor`] and a line in [`ALL`].
//!
//! Predictors of later runs are not known when a run is observed. So a run
//! keeps, beside what held, the [`Coverage`] from which [`Observations::answer`]
//! decides about any predictor, whenever it is first seen.

pub mod branch;
pub mod call_value;
pub mod deadlock;
pub mod lifetime;
pub mod missed_wakeup;
pub mod order;
pub mod unset_memory;
pub mod value;

use super::evidence::decoded_run::DecodedRun;
use super::evidence::order::Evidence;
use super::sketch::sentences::Names;
use lifetime::LifetimeCoverage;
use sketch_model::{
    AgentId, LocationName, Placement, PointKind, Predictor, RunId, Source, StatementId,
    TrackingPlan,
};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a run says about a predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Held,
    NotHeld,
    Unobserved,
}

/// What a hook can show, for telling whether a predictor's hooks exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aspect {
    Load,
    Store,
    Branch,
    Call,
}

/// A hook of the plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hook {
    pub statement: StatementId,
    pub aspect: Aspect,
    pub column: u32,
    pub location: Option<LocationName>,
    /// Whether the optimiser left something to hook.
    pub placed: bool,
    /// The statement whose calls it records; `None`: calls from anywhere.
    pub caller: Option<StatementId>,
}

impl Hook {
    /// The location whose writes it records.
    fn writes(&self) -> Option<&LocationName> {
        let records = self.aspect == Aspect::Store && self.placed;
        self.location.as_ref().filter(|_| records)
    }
}

/// The hooks of a plan as they were placed: the same in all runs of a build, and
/// therefore made once and shared.
pub type Hooks = Arc<BTreeSet<Hook>>;

/// What the run was able to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub hooks: Hooks,
    /// No thread lost events.
    pub complete: bool,
    /// What is known of freed memory.
    pub lifetimes: LifetimeCoverage,
    /// Every way that a branch went is known.
    pub branches_complete: bool,
    /// Branches have no hooks: without a whole trace nothing is known of them.
    pub branches_traced: bool,
    /// Statements that a watchpoint saw touch a location of which it saw
    /// everything since it was armed.
    pub watched: BTreeSet<(StatementId, LocationName)>,
    /// Accesses of which at least one value is unknown.
    pub blurred: BTreeSet<(StatementId, u32, LocationName)>,
    /// Accesses of which some values other than zero are known by their sign alone.
    pub summarised: BTreeSet<(StatementId, u32, LocationName)>,
    /// Statements that share code with others in a hit.
    pub ambiguous: BTreeSet<StatementId>,
    /// Locations with too many accesses to analyse.
    pub saturated: BTreeSet<LocationName>,
    /// Statements of which lost accesses to a location may have met others.
    pub unknown_order: BTreeSet<(StatementId, LocationName)>,
}

/// All but the hooks, which hardly ever differ and are many.
impl Hash for Coverage {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Coverage {
            hooks,
            complete,
            lifetimes,
            branches_complete,
            branches_traced,
            watched,
            blurred,
            summarised,
            ambiguous,
            saturated,
            unknown_order,
        } = self;
        hooks.len().hash(state);
        (complete, lifetimes, branches_complete, branches_traced).hash(state);
        (watched, blurred, summarised, ambiguous).hash(state);
        (saturated, unknown_order).hash(state);
    }
}

/// One run's answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    pub run: RunId,
    /// Who reported it.
    pub agent: AgentId,
    pub failed: bool,
    pub weight: f64,
    pub held: BTreeSet<Predictor>,
    /// May have held: the accesses are there, evidence for their order is not.
    pub open: BTreeSet<Predictor>,
    pub coverage: Coverage,
}

/// The hooks that a plan wants, and which of them the build has.
pub fn hooks(plan: &TrackingPlan, placement: &Placement) -> Hooks {
    let hooks = |site: &sketch_model::Site| -> Vec<Hook> {
        let aspects: &[Aspect] = match site.kind {
            PointKind::Load => &[Aspect::Load],
            PointKind::Store => &[Aspect::Store],
            PointKind::Branch => &[Aspect::Branch],
            // Taking a lock writes it, waiting for it reads it (see `deadlock`).
            PointKind::Sync(_) if site.location.is_some() => &[Aspect::Load, Aspect::Store],
            PointKind::Call => &[Aspect::Call],
            PointKind::Sync(_) => &[],
        };
        let hook = |aspect: &Aspect| Hook {
            statement: site.statement,
            aspect: *aspect,
            column: site.column,
            location: site.location.clone(),
            placed: match (site.kind, site.caller) {
                (PointKind::Branch, _) | (_, Some(_)) => placement.tells_all(site.id),
                (_, None) => plan.copies(site).any(|copy| placement.tells_all(copy.id)),
            },
            caller: site.caller,
        };
        aspects.iter().map(hook).collect()
    };
    Arc::new(plan.sites.iter().flat_map(hooks).collect())
}

/// What a class is given of a run.
pub struct RecordedRun<'a> {
    pub evidence: &'a Evidence<'a>,
    /// What was to be recorded.
    pub plan: &'a TrackingPlan,
}

impl<'a> RecordedRun<'a> {
    pub fn run(&self) -> &'a DecodedRun {
        self.evidence.run
    }
}

/// What the classes have found in a run so far.
#[derive(Debug, Default)]
pub struct Found {
    pub held: BTreeSet<Predictor>,
    /// May have held.
    pub open: BTreeSet<Predictor>,
    /// What the run could show; each class completes what concerns it.
    pub coverage: Coverage,
}

/// One class of predictors.
pub trait Detector: Sync {
    fn name(&self) -> &'static str;

    /// Adds what held in this run, and what may have.
    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found);

    /// Whether this class may state such a predictor. Classes may share a form: WR
    /// on a lock is a deadlock's, WR on other memory an order's.
    fn asks(&self, predictor: &Predictor) -> bool;

    /// Whether a run that could show `coverage` may say "it did not hold".
    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool;

    /// The events of a run that a predictor names, in its order, for drawing arrows
    /// between them. A predictor about one statement has none.
    fn occurrence(&self, _: &Evidence<'_>, _: &Predictor) -> Option<Vec<usize>> {
        None
    }

    /// What it says, in the page's words; `None` if it is another class's.
    fn sentence(&self, predictor: &Predictor, names: &Names) -> Option<String>;
}

/// Every class. Where two share a form of predictor, the more special one is first.
pub static ALL: &[&dyn Detector] = &[
    &lifetime::Lifetime,
    &branch::Branch,
    &value::Value,
    &call_value::CallValue,
    &unset_memory::UnsetMemory,
    &deadlock::Deadlock,
    &missed_wakeup::MissedWakeup,
    &order::Order,
];

/// The classes that may state a predictor.
fn asking(predictor: &Predictor) -> impl Iterator<Item = &'static dyn Detector> {
    let all = ALL.iter().copied();
    all.filter(move |class| class.asks(predictor))
}

/// The events of a run that a predictor names, in its order.
pub fn occurrence(evidence: &Evidence<'_>, predictor: &Predictor) -> Option<Vec<usize>> {
    asking(predictor).find_map(|class| class.occurrence(evidence, predictor))
}

/// What a predictor says, without its counts.
pub fn sentence(predictor: &Predictor, names: &Names) -> String {
    let said = asking(predictor).find_map(|class| class.sentence(predictor, names));
    said.unwrap_or_else(|| "a predictor of no known class held".to_owned())
}

/// Observes one run.
pub fn observe(run: &DecodedRun, plan: &TrackingPlan, placement: &Placement) -> Observations {
    observe_hooked(run, plan, &hooks(plan, placement))
}

/// Observes one run of a build with these [`hooks`].
pub fn observe_hooked(run: &DecodedRun, plan: &TrackingPlan, hooks: &Hooks) -> Observations {
    let evidence = Evidence::new(run);
    let recorded = RecordedRun {
        evidence: &evidence,
        plan,
    };
    let mut found = Found {
        coverage: coverage(run, hooks),
        ..Found::default()
    };
    for class in ALL {
        class.observe(&recorded, &mut found);
    }
    let Found {
        held,
        mut open,
        coverage,
    } = found;
    // A proven occurrence outweighs any number of doubtful ones.
    open.retain(|p| !held.contains(p));
    Observations {
        run: run.trace.run.clone(),
        agent: run.agent.clone(),
        failed: run.trace.failed,
        weight: run.weight,
        held,
        open,
        coverage,
    }
}

/// What the run could show, as far as it concerns all classes.
fn coverage(run: &DecodedRun, hooks: &Hooks) -> Coverage {
    let mut coverage = Coverage {
        hooks: Arc::clone(hooks),
        complete: run.trace.incomplete.is_empty() && run.holes.is_empty() && !run.missing,
        ..Coverage::default()
    };
    for event in &run.trace.events {
        if event.source != Source::Watchpoint {
            continue;
        }
        match (event.statement(), &event.location) {
            (Some(statement), Some(location)) if run.watch.complete.contains(location) => {
                coverage.watched.insert((statement, location.clone()));
            }
            (None, _) => coverage.ambiguous.extend(&event.candidates),
            _ => {}
        }
    }
    coverage
}

impl Observations {
    /// What this run says about a predictor, also one that it never met.
    pub fn answer(&self, predictor: &Predictor) -> Answer {
        if self.held.contains(predictor) {
            Answer::Held
        } else if self.open.contains(predictor) || !self.coverage.can_answer(predictor) {
            Answer::Unobserved
        } else {
            Answer::NotHeld
        }
    }
}

impl Coverage {
    /// Whether a run that could show this can say "it did not hold": every class that
    /// may state the predictor would have.
    pub fn can_answer(&self, predictor: &Predictor) -> bool {
        let mut asking = asking(predictor).peekable();
        asking.peek().is_some() && asking.all(|class| class.can_deny(self, predictor))
    }

    /// Whether the hooks of a statement that fit exist and all stand in the build,
    /// for calls from anywhere. One that the optimiser removed may have been the one that
    /// matters.
    fn hooked(&self, statement: StatementId, fits: impl Fn(&Hook) -> bool) -> bool {
        self.hooked_for(None, statement, fits)
    }

    /// The same, of what one statement calls.
    fn hooked_for(
        &self,
        caller: Option<StatementId>,
        statement: StatementId,
        fits: impl Fn(&Hook) -> bool,
    ) -> bool {
        // The least hook of the statement: hooks are ordered by statement first.
        let first = Hook {
            statement,
            aspect: Aspect::Load,
            column: 0,
            location: None,
            placed: false,
            caller: None,
        };
        let its = self.hooks.range(first..);
        let its = its.take_while(|h| h.statement == statement);
        let mut fitting = its.filter(|h| h.caller == caller && fits(h)).peekable();
        fitting.peek().is_some() && fitting.all(|h| h.placed)
    }

    /// Whether hooks record writes to a location.
    fn sees_written(&self, location: &LocationName) -> bool {
        let mut stores = self.hooks.iter();
        stores.any(|hook| hook.writes() == Some(location))
    }

    /// Whether the watch can vouch for a statement without a hook.
    fn watched(&self, statement: StatementId, location: &LocationName) -> bool {
        !self.ambiguous.contains(&statement)
            && self.watched.contains(&(statement, location.clone()))
    }
}

/// Whether a hook's location can be the predictor's: the same, or one of which
/// nothing is known statically.
fn may_be(hooked: &Option<LocationName>, location: &LocationName) -> bool {
    match hooked {
        None | Some(LocationName::Unnamed) => true,
        Some(name) => name == location || *location == LocationName::Unnamed,
    }
}
