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
//! One file a class beside this one; each adds what held and what is open.
//!
//! Predictors of later runs are not known when a run is observed. So a run
//! keeps, beside what held, the [`Coverage`] from which [`Observations::answer`]
//! decides about any predictor, whenever it is first seen.

pub mod branch;
pub mod call_value;
pub mod deadlock;
pub mod missed_wakeup;
pub mod order;
pub mod unset_memory;
pub mod value;

use super::evidence::decoded_run::DecodedRun;
use super::evidence::hot_accesses;
use super::evidence::order::Evidence;
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
    /// Only what this statement calls; `None`: whoever calls.
    pub caller: Option<StatementId>,
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
    /// Every way that a branch went is known.
    pub branches_complete: bool,
    /// Branches have no hooks: without a whole trace nothing is known of them.
    pub branches_traced: bool,
    /// Statements that a watchpoint saw touch a location of which it saw
    /// everything since it was armed.
    pub watched: BTreeSet<(StatementId, LocationName)>,
    /// Accesses of which at least one value is unknown.
    pub blurred: BTreeSet<(StatementId, u32, LocationName)>,
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
            branches_complete,
            branches_traced,
            watched,
            blurred,
            ambiguous,
            saturated,
            unknown_order,
        } = self;
        hooks.len().hash(state);
        (complete, branches_complete, branches_traced).hash(state);
        (watched, blurred, ambiguous).hash(state);
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

/// Observes one run.
pub fn observe(run: &DecodedRun, plan: &TrackingPlan, placement: &Placement) -> Observations {
    observe_hooked(run, plan, &hooks(plan, placement))
}

/// Observes one run of a build with these [`hooks`].
pub fn observe_hooked(run: &DecodedRun, plan: &TrackingPlan, hooks: &Hooks) -> Observations {
    let evidence = Evidence::new(run);
    let mut observations = Observations {
        run: run.trace.run.clone(),
        agent: run.agent.clone(),
        failed: run.trace.failed,
        weight: run.weight,
        held: BTreeSet::new(),
        open: BTreeSet::new(),
        coverage: coverage(run, plan, hooks),
    };
    observations.coverage.saturated = evidence.saturated.clone();
    // What a failing run lost may have been what it failed of. A successful one is
    // a sample of what the program does when all is well, and so are the accesses
    // that were kept of it: hundreds, from its very beginning.
    if run.trace.failed {
        observations.coverage.unknown_order = hot_accesses::unknown_order(run);
    }
    branch::observe(run, plan, &mut observations);
    branch::observe_accounts(run, plan, &mut observations);
    branch::forget_partial(&mut observations);
    value::observe(run, plan, &mut observations);
    value::observe_thinned(run, plan, &mut observations);
    call_value::observe(run, plan, &mut observations);
    unset_memory::observe(&evidence, plan, &mut observations);
    order::observe(&evidence, &mut observations);
    deadlock::observe(run, &mut observations);
    missed_wakeup::observe(&evidence, &mut observations);
    // A proven occurrence outweighs any number of doubtful ones.
    let held = std::mem::take(&mut observations.held);
    observations.open.retain(|p| !held.contains(p));
    observations.held = held;
    observations
}

fn coverage(run: &DecodedRun, plan: &TrackingPlan, hooks: &Hooks) -> Coverage {
    let mut coverage = Coverage {
        hooks: Arc::clone(hooks),
        complete: run.trace.incomplete.is_empty() && run.holes.is_empty() && !run.missing,
        branches_traced: plan.traces_branches(),
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
    /// Whether a run that could show this can say "it did not hold".
    pub fn can_answer(&self, predictor: &Predictor) -> bool {
        let complete = match predictor {
            Predictor::Branch { .. } => {
                let hooked = self.complete && !self.branches_traced;
                hooked || self.branches_complete
            }
            _ => self.complete,
        };
        complete && self.shows(predictor)
    }

    fn shows(&self, predictor: &Predictor) -> bool {
        match predictor {
            Predictor::Branch {
                statement, column, ..
            } => branch::shown(self, *statement, *column),
            Predictor::Value {
                statement,
                column,
                location,
                caller,
                ..
            } => value::shown(self, (*statement, *column, location), *caller),
            Predictor::Order {
                pattern,
                location,
                statements,
            } => order::shown(self, *pattern, location, statements),
        }
    }

    /// Whether the hooks of a statement that fit exist and all stand in the build,
    /// whoever calls it. One that the optimiser removed may have been the one that
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
