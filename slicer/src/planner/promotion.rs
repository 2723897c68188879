//! Plans whose watched locations have handed over to hooks.
//!
//! A watchpoint discovers which statements touch a location; once each of them
//! has a hook, the hooks tell the same for a thousandth of the price, and the
//! slot is free for a location of which less is known. Such a location is
//! *promoted*: the plans of the iteration do not watch it.
//!
//! One further plan, the audit plan, watches the first four promoted locations.
//! It is meant for few runs: a statement that the runs so far never reached is
//! then still found. It comes last, after the plan that watches nothing.
//!
//! Deliberately absent: which locations deserve it. That follows from what runs
//! have shown (`crates/diagnosis/src/campaign/promotion.rs`). But whether a plan has
//! the hooks that must take over, and whether the optimiser left them a place, is
//! known here.

use crate::planner::watch_split::watching;
use sketch_model::{
    LocationName, Need, Placement, PointKind, Promotion, Site, TrackingPlan, WATCH_SLOTS,
};

/// The same plans with `promoted` locations watched by an audit plan alone.
/// Locations that no plan wants watched are ignored.
pub(crate) fn promote(plans: Vec<TrackingPlan>, promoted: &[LocationName]) -> Vec<TrackingPlan> {
    let Some(quiet) = plans.iter().find(|plan| plan.watched.is_empty()) else {
        return plans;
    };
    let (promoted, wanted): (Vec<LocationName>, Vec<LocationName>) = quiet
        .unwatched
        .iter()
        .cloned()
        .partition(|location| promoted.contains(location));
    if promoted.is_empty() {
        return plans;
    }
    let mut whole = quiet.clone();
    whole.promoted = promoted;
    let mut split: Vec<TrackingPlan> = wanted
        .chunks(WATCH_SLOTS)
        .map(|watched| watching(&whole, &wanted, watched))
        .collect();
    split.push(watching(&whole, &wanted, &[]));
    let audited = &whole.promoted[..whole.promoted.len().min(WATCH_SLOTS)];
    split.push(TrackingPlan {
        audit: true,
        ..watching(&whole, &wanted, audited)
    });
    for (number, plan) in split.iter_mut().enumerate() {
        plan.variant = number as u32;
    }
    split
}

/// Whether a plan has a hook for every access of the location.
pub(crate) fn has_hooks_for(plan: &TrackingPlan, promotion: &Promotion) -> bool {
    let mut needs = promotion.needs.iter();
    needs.all(|need| hooks(promotion, *need, plan).next().is_some())
}

/// Whether those hooks stand wherever the optimised program makes the accesses.
pub(crate) fn hooks_are_placed_for(
    promotion: &Promotion,
    plan: &TrackingPlan,
    placement: &Placement,
) -> bool {
    let mut needs = promotion.needs.iter();
    needs.all(|need| hooks(promotion, *need, plan).any(|site| placement.tells_all(site.id)))
}

fn hooks<'a>(
    promotion: &'a Promotion,
    need: Need,
    plan: &'a TrackingPlan,
) -> impl Iterator<Item = &'a Site> {
    let kind = match need.writes {
        true => PointKind::Store,
        false => PointKind::Load,
    };
    plan.sites.iter().filter(move |site| {
        // An access through a pointer of which nothing is known may be this one.
        let here = match &site.location {
            None | Some(LocationName::Unnamed) => true,
            Some(location) => *location == promotion.location,
        };
        site.statement == need.statement && site.kind == kind && here
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::iteration::{Iteration, PlanRequest};
    use sketch_model::{BuildId, Capabilities, Purpose, Schema, SiteId, StatementId};
    use std::collections::BTreeSet;

    fn plan(hooked: &[(u32, PointKind)]) -> TrackingPlan {
        let site = |(number, (statement, kind)): (usize, &(u32, PointKind))| Site {
            id: SiteId(number as u32),
            statement: StatementId(*statement),
            kind: *kind,
            column: 1,
            location: Some(LocationName::Global("mut".into())),
            size: 8,
            arm_slot: None,
            purpose: Purpose::Statement,
            caller: None,
        };
        TrackingPlan {
            schema: Schema::default(),
            build: BuildId("ab".into()),
            sigma: 2,
            variant: 0,
            wants: Capabilities::hooks(),
            statements: Vec::new(),
            beside: Vec::new(),
            sites: hooked.iter().enumerate().map(site).collect(),
            implied: Vec::new(),
            watched: Vec::new(),
            unwatched: vec![LocationName::Global("mut".into())],
            promoted: Vec::new(),
            audit: false,
        }
    }

    fn promotion() -> Promotion {
        let need = |statement, writes| Need {
            statement: StatementId(statement),
            writes,
        };
        Promotion {
            location: LocationName::Global("mut".into()),
            needs: BTreeSet::from([need(1, false), need(2, true)]),
        }
    }

    #[test]
    fn every_access_needs_a_hook_that_stands_somewhere() {
        let promotion = promotion();
        let half = plan(&[(1, PointKind::Load), (2, PointKind::Load)]);
        assert!(!has_hooks_for(&half, &promotion), "no hook of the store");
        let whole = plan(&[(1, PointKind::Load), (2, PointKind::Store)]);
        assert!(has_hooks_for(&whole, &promotion));
        assert!(hooks_are_placed_for(&promotion, &whole, &places(&[1, 2])));
        assert!(!hooks_are_placed_for(&promotion, &whole, &places(&[1, 0])));
    }

    fn places(places: &[u32]) -> Placement {
        Placement {
            partial: Vec::new(),
            places: places.to_vec(),
        }
    }

    #[test]
    fn a_location_whose_hooks_have_no_place_is_watched_after_all() {
        let whole = plan(&[(1, PointKind::Load), (2, PointKind::Store)]);
        let variants = crate::planner::watch_split::split(&whole);
        let ask = PlanRequest {
            promotions: vec![promotion()],
            ..PlanRequest::all(2)
        };
        let iteration = Iteration::new(variants.clone(), &ask);
        let audits: Vec<bool> = iteration.plans.iter().map(|plan| plan.audit).collect();
        assert_eq!(audits, [false, true], "hooks take over, one plan audits");
        assert_eq!(iteration.revised(&places(&[1, 2])), None);
        let revised = iteration.revised(&places(&[1, 0])).expect("other plans");
        assert_eq!(revised.plans, variants);
        assert_eq!(
            revised.revised(&places(&[1, 0])),
            None,
            "it comes to an end"
        );
    }

    #[test]
    fn a_location_without_the_hooks_is_not_promoted() {
        let half = plan(&[(1, PointKind::Load)]);
        let variants = crate::planner::watch_split::split(&half);
        let ask = PlanRequest {
            promotions: vec![promotion()],
            ..PlanRequest::all(2)
        };
        assert_eq!(Iteration::new(variants.clone(), &ask).plans, variants);
    }
}
