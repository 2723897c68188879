//! The plans of one σ: the same hooks, different watched locations.
//!
//! The hardware watches four locations. Where more want watching, the fleet
//! shares them: each plan watches the next four in slice order, so that every
//! location is watched by exactly one. The last plan watches nothing and is for
//! machines without watchpoints. Hooks are the same in all, so that what an
//! agent records by hooks means the same whichever plan it runs.
//!
//! Same program, same slice, same σ, same discoveries: same plans.

use crate::dependences::dominance::Dominances;
use crate::ir::program::Program;
use crate::planner::branch_points::branch_points;
use crate::planner::by_caller::tell_callers_apart;
use crate::planner::hot_buffers::without_bulk;
use crate::planner::implied::prune;
use crate::planner::order_points::order_points;
use crate::planner::plan::{can_watch, plan};
use sketch_model::{
    LocationName, Purpose, Site, SiteId, Slice, SliceEntry, SourceLocation, Statement, StatementId,
    Tier, TrackPoint, TrackingPlan, WATCH_SLOTS,
};

/// The plans for a given σ: those that watch, nearest locations first, then the
/// one that does not. `source` gives the text of lines.
pub fn plan_variants(
    program: &Program,
    slice: &Slice,
    sigma: u32,
    discovered: &[SliceEntry],
    source: &dyn Fn(&SourceLocation) -> Option<String>,
) -> Vec<TrackingPlan> {
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
    tell_callers_apart(program, &mut whole);
    split(&whole)
}

fn add(
    plan: &mut TrackingPlan,
    program: &Program,
    statement: StatementId,
    point: TrackPoint,
    purpose: Purpose,
    source: &dyn Fn(&SourceLocation) -> Option<String>,
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

/// One plan for each four of the locations that want watching, and one without.
fn split(whole: &TrackingPlan) -> Vec<TrackingPlan> {
    let wanted: Vec<LocationName> = whole
        .watched
        .iter()
        .chain(&whole.unwatched)
        .cloned()
        .collect();
    let mut plans: Vec<TrackingPlan> = wanted
        .chunks(WATCH_SLOTS)
        .map(|watched| watching(whole, &wanted, watched))
        .collect();
    plans.push(watching(whole, &wanted, &[]));
    for (number, plan) in plans.iter_mut().enumerate() {
        plan.variant = number as u32;
    }
    plans
}

pub(crate) fn watching(
    whole: &TrackingPlan,
    wanted: &[LocationName],
    watched: &[LocationName],
) -> TrackingPlan {
    let slot = |site: &Site| -> Option<u8> {
        let name = site
            .location
            .as_ref()
            .filter(|_| can_watch(site.size, &site.location))?;
        let slot = watched.iter().position(|w| w == name)?;
        u8::try_from(slot).ok()
    };
    let mut plan = whole.clone();
    for site in &mut plan.sites {
        site.arm_slot = slot(site);
    }
    plan.tier = if watched.is_empty() {
        Tier::Inline
    } else {
        Tier::Watchpoints
    };
    plan.watched = watched.to_vec();
    let elsewhere = wanted.iter().filter(|name| !watched.contains(name));
    plan.unwatched = elsewhere.cloned().collect();
    plan
}
