//! The plans of one iteration: the planner's one entry.
//!
//! Planning is a chain of decisions, each in a file of its own: which points of the
//! first σ statements are hooked (`plan`, without `hot_buffers`), which branches and
//! which synchronisation beside them (`branch_points`, `order_points`), which of
//! those hooks others make needless (`implied`), which are told apart by caller
//! (`by_caller`), what each plan watches (`watch_split`), which locations hand over
//! to hooks (`promotion`), and which plans the fleet can use (`fleet`).
//!
//! One decision needs what only building tells: whether the optimiser left the
//! hooks of a promoted location their places. So whoever builds the first plan
//! asks [`Iteration::revised`] before building the others.
//!
//! Same program, same slice, same request: same plans.

use crate::dependences::dominance::Dominances;
use crate::ir::program::Program;
use crate::planner::branch_points::branch_points;
use crate::planner::by_caller::split_by_caller;
use crate::planner::fleet::Fleet;
use crate::planner::hot_buffers::without_bulk;
use crate::planner::implied::prune;
use crate::planner::order_points::order_points;
use crate::planner::plan::plan;
use crate::planner::promotion::{has_hooks_for, hooks_are_placed_for, promote};
use crate::planner::watch_split::split;
use crate::slice::{SourceText, entry_for};
use sketch_model::{
    Placement, Promotion, Purpose, Site, SiteId, Slice, SliceEntry, Statement, StatementId,
    TrackPoint, TrackingPlan,
};

/// What an iteration is planned for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanRequest {
    /// How many statements of the slice are tracked, nearest first.
    pub sigma: u32,
    /// Statements to be tracked beside them, because runs led there.
    pub discovered: Vec<StatementId>,
    /// Locations that may hand over to hooks.
    pub promotions: Vec<Promotion>,
    /// Who is going to run the plans; `None` asks for all plans there are.
    pub fleet: Option<Fleet>,
}

impl PlanRequest {
    /// All plans of a σ, whoever runs them.
    pub fn all(sigma: u32) -> PlanRequest {
        PlanRequest {
            sigma,
            ..PlanRequest::default()
        }
    }
}

/// The plans of an iteration, and what they follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// The plans to build. All have the same hooks; those that watch come first,
    /// nearest locations first, then the one that does not, then the audit.
    pub plans: Vec<TrackingPlan>,
    /// The plans of the σ, before any location hands over.
    variants: Vec<TrackingPlan>,
    promotions: Vec<Promotion>,
    fleet: Option<Fleet>,
}

impl Iteration {
    /// What a request makes of the plans of its σ, which have the same hooks.
    pub fn new(variants: Vec<TrackingPlan>, ask: &PlanRequest) -> Iteration {
        let hooked = |promotion: &&Promotion| {
            let mut plans = variants.iter();
            plans.any(|plan| has_hooks_for(plan, promotion))
        };
        let promotions = ask.promotions.iter().filter(hooked).cloned().collect();
        Iteration::promoting(variants, promotions, ask.fleet.clone())
    }

    fn promoting(
        variants: Vec<TrackingPlan>,
        promotions: Vec<Promotion>,
        fleet: Option<Fleet>,
    ) -> Iteration {
        let promoted: Vec<_> = promotions.iter().map(|p| p.location.clone()).collect();
        let plans = promote(variants.clone(), &promoted);
        Iteration {
            plans: match &fleet {
                Some(fleet) => fleet.worth_building(plans),
                None => plans,
            },
            variants,
            promotions,
            fleet,
        }
    }

    /// The plans to build instead, now that it is known where the hooks of the
    /// first one stand: a location is watched after all if the optimiser left a
    /// hook that it needs no place. `None` if the plans stay as they are.
    pub fn revised(&self, placement: &Placement) -> Option<Iteration> {
        let first = self.plans.first()?;
        let mut placed = self.promotions.clone();
        placed.retain(|promotion| hooks_are_placed_for(promotion, first, placement));
        (placed.len() < self.promotions.len())
            .then(|| Iteration::promoting(self.variants.clone(), placed, self.fleet.clone()))
    }
}

/// The plans that a request asks for. `source` gives the text of lines.
pub fn plan_iteration(
    program: &Program,
    slice: &Slice,
    ask: &PlanRequest,
    source: SourceText<'_>,
) -> Iteration {
    let entry = |id: &StatementId| entry_for(program, *id, source);
    let discovered: Vec<SliceEntry> = ask.discovered.iter().map(entry).collect();
    let whole = hooks(program, slice, ask.sigma, &discovered, source);
    Iteration::new(split(&whole), ask)
}

/// A plan with all hooks of a σ.
fn hooks(
    program: &Program,
    slice: &Slice,
    sigma: u32,
    discovered: &[SliceEntry],
    source: SourceText<'_>,
) -> TrackingPlan {
    let (slice, discovered) = without_bulk(program, slice, sigma, discovered);
    let mut whole = plan(&slice, sigma, &discovered);
    let tracked: Vec<StatementId> = whole.statements.iter().map(|s| s.id).collect();
    let mut dominances = Dominances::new(program);
    let branches = branch_points(program, &tracked);
    let orders = order_points(program, &tracked, &mut dominances);
    for (points, purpose) in [(branches, Purpose::ControlFlow), (orders, Purpose::Order)] {
        for (statement, point) in points {
            add(&mut whole, program, statement, point, purpose, source);
        }
    }
    prune(program, &mut whole, &mut dominances);
    split_by_caller(program, &mut whole);
    whole
}

fn add(
    plan: &mut TrackingPlan,
    program: &Program,
    statement: StatementId,
    point: TrackPoint,
    purpose: Purpose,
    source: SourceText<'_>,
) {
    if !plan.all_statements().any(|s| s.id == statement)
        && let Some(info) = program.statements.get(statement.0 as usize)
    {
        plan.beside.push(Statement {
            id: statement,
            function: info.function.clone(),
            location: info.location.clone(),
            text: source(&info.location).unwrap_or_default().trim().to_owned(),
        });
    }
    plan.sites.push(Site {
        id: SiteId(plan.sites.len() as u32),
        statement,
        kind: point.kind,
        column: point.column,
        location: point.location,
        size: point.size,
        arm_slot: None,
        purpose,
        caller: None,
    });
}
