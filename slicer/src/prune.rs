//! Fewer hooks for the same knowledge: call sites that another site implies.
//!
//! Accesses, branches and synchronisation carry a value; a plain call site only
//! tells that it was reached. If another tracked site of the function runs after
//! the call whenever the call runs, and never without it (the call dominates it
//! and it postdominates the call), that site's record tells the same.
//!
//! The design has dominance decide where tracking starts and postdominance where
//! it ends, which is about a processor's trace; with hooks only this much is
//! left of it. The implying site must come *after* the call, so that nothing is
//! said to have run which did not; and it must not belong to the failing
//! statement, which may end the run before its record is made. What remains
//! open: a run that ends between the call and the implying site shows neither.
//!
//! Deliberately absent: pruning of branches, whose outcomes are predictors.

use crate::dominance::Dominance;
use crate::points::is_point;
use crate::program::{FunctionId, InstructionId, Program};
use sketch_model::{PointKind, Site, SiteId, StatementId, TrackingPlan};
use std::collections::HashMap;

/// A plan without the sites that others imply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedPlan {
    pub plan: TrackingPlan,
    /// Statements that lost their last site, with the site (of `plan`) whose
    /// record tells that they ran.
    pub implied: Vec<(StatementId, SiteId)>,
}

/// Drops the call sites of a plan that other sites imply. Sites are numbered
/// anew; statements, locations and slots stay.
pub fn prune(program: &Program, plan: &TrackingPlan) -> PrunedPlan {
    let mut dominances: HashMap<FunctionId, Dominance> = HashMap::new();
    let places: Vec<Vec<(FunctionId, InstructionId)>> = plan
        .sites
        .iter()
        .map(|site| places(program, site))
        .collect();
    let mut by_function: HashMap<FunctionId, Vec<usize>> = HashMap::new();
    for (number, places) in places.iter().enumerate() {
        if let Some((function, _)) = places.first() {
            by_function.entry(*function).or_default().push(number);
        }
    }
    let failing = plan.statements.first().map(|s| s.id);
    // For each site that goes, the site that implies it.
    let mut gone: HashMap<usize, usize> = HashMap::new();
    for (number, site) in plan.sites.iter().enumerate() {
        let [(function, call)] = places[number][..] else {
            continue;
        };
        if site.kind != PointKind::Call {
            continue;
        }
        let body = &program.functions[function as usize];
        let dominance = dominances
            .entry(function)
            .or_insert_with(|| Dominance::of(body));
        let implies = |other: &usize| {
            let here = |(f, _): &(FunctionId, InstructionId)| *f == function;
            let follows = |(_, id): &(FunctionId, InstructionId)| {
                *id != call && dominance.dominates(body, call, *id)
            };
            let is_sure =
                |(_, id): &(FunctionId, InstructionId)| dominance.postdominates(body, *id, call);
            let places = &places[*other];
            let all = !places.is_empty() && places.iter().all(|p| here(p) && follows(p));
            *other != number
                && Some(plan.sites[*other].statement) != failing
                && !gone.contains_key(other)
                && all
                && places.iter().any(is_sure)
        };
        let mut others = by_function[&function].iter().copied();
        if let Some(other) = others.find(implies) {
            gone.insert(number, other);
        }
    }
    rebuild(plan, &gone)
}

/// Where a site stands. More than one instruction of a line may share a column.
fn places(program: &Program, site: &Site) -> Vec<(FunctionId, InstructionId)> {
    let members = program.members(site.statement).iter();
    let fits = members.filter(|at| is_point(program, **at, site.kind, site.column));
    fits.map(|at| (at.function, at.instruction)).collect()
}

fn rebuild(plan: &TrackingPlan, gone: &HashMap<usize, usize>) -> PrunedPlan {
    let mut numbers: HashMap<usize, SiteId> = HashMap::new();
    let mut result = TrackingPlan {
        sites: Vec::new(),
        ..plan.clone()
    };
    for (number, site) in plan.sites.iter().enumerate() {
        if !gone.contains_key(&number) {
            let id = SiteId(result.sites.len() as u32);
            numbers.insert(number, id);
            result.sites.push(Site { id, ..site.clone() });
        }
    }
    let mut implied: Vec<(StatementId, SiteId)> = Vec::new();
    for number in 0..plan.sites.len() {
        // The site that implies this one may have gone later: follow.
        let mut by = number;
        while let Some(next) = gone.get(&by) {
            by = *next;
        }
        let statement = plan.sites[number].statement;
        let is_left = result.sites.iter().any(|s| s.statement == statement);
        let is_known = implied.iter().any(|(known, _)| *known == statement);
        if let Some(id) = numbers.get(&by).filter(|_| !is_left && !is_known) {
            implied.push((statement, *id));
        }
    }
    PrunedPlan {
        plan: result,
        implied,
    }
}
