//! Which plans of an iteration a fleet can make use of.
//!
//! Each plan that is built costs the time of a tracked build, and runs of
//! different plans are never pooled, so each also asks for failing recurrences of
//! its own. Therefore only plans that some agent can make use of are built, and of
//! those that watch at most [`MOST_WATCHING`], nearest locations first; what they
//! leave out is listed in the plans (`unwatched`) and comes with a later iteration,
//! when a tracked access needs no watch any more. For agents that trace (Intel PT)
//! each has a second form without hooks for branches: the trace records those.
//!
//! Deliberately absent: which agent gets which plan. That changes with every run
//! (`sketch-server/src/campaigns/plans.rs`).

use sketch_model::{Capabilities, Capability, TrackingPlan};
use std::collections::BTreeSet;

/// Plans with watchpoints that one iteration builds.
const MOST_WATCHING: usize = 2;

/// The machines that are going to run the plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// What each kind of them offers; empty while no agent has said so.
    pub offers: BTreeSet<Capabilities>,
    /// Watching changed the program too much: nothing is watched any more.
    pub watching_given_up: bool,
}

impl Fleet {
    /// The plans that it can make use of; at least one if there is any.
    pub(crate) fn worth_building(&self, plans: Vec<TrackingPlan>) -> Vec<TrackingPlan> {
        let watching = |offers: &Capabilities| offers.has(Capability::Watchpoints);
        let can_watch = self.offers.iter().any(watching);
        let watches = can_watch && !self.watching_given_up;
        let known = self.watching_given_up || !self.offers.is_empty();
        let count = plans.len();
        let (audits, plans): (Vec<_>, Vec<_>) = plans.into_iter().partition(|p| p.audit);
        let (watch, inline): (Vec<_>, Vec<_>) =
            plans.into_iter().partition(|plan| watching(&plan.wants));
        let mut chosen: Vec<TrackingPlan> = watch.into_iter().take(MOST_WATCHING).collect();
        if known && !watches && !inline.is_empty() {
            chosen.clear();
        }
        if chosen.is_empty() || !self.offers.iter().all(watching) {
            chosen.extend(inline);
        }
        let mut chosen = self.with_traced_forms(chosen, count);
        if watches {
            chosen.extend(audits);
        }
        chosen
    }

    /// With agents that trace, plans without hooks for branches, and of all of them those
    /// that are the most that some machine can serve.
    fn with_traced_forms(&self, chosen: Vec<TrackingPlan>, count: usize) -> Vec<TrackingPlan> {
        if !self.offers.iter().any(|it| it.has(Capability::IntelPt)) {
            return chosen;
        }
        let traced = chosen.iter().map(|plan| TrackingPlan {
            variant: count as u32 + plan.variant,
            wants: plan.wants.clone().and(Capability::IntelPt),
            ..plan.clone()
        });
        let mut all: Vec<TrackingPlan> = traced.collect();
        all.extend(chosen);
        let wants: Vec<Capabilities> = all.iter().map(|plan| plan.wants.clone()).collect();
        let most = |offers: &Capabilities, plan: &TrackingPlan| {
            let mut served = wants.iter().filter(|wants| offers.offer(wants));
            offers.offer(&plan.wants) && !served.any(|wants| wants.exceed(&plan.wants))
        };
        let worth = |plan: &TrackingPlan| self.offers.iter().any(|offers| most(offers, plan));
        if all.iter().any(worth) {
            all.retain(worth);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::{BuildId, Schema};

    fn hooks() -> Capabilities {
        Capabilities::hooks()
    }

    fn watches() -> Capabilities {
        Capabilities::watchpoints()
    }

    fn traces() -> Capabilities {
        Capabilities::intel_pt()
    }

    fn of(offers: &[Capabilities], watching_given_up: bool) -> Fleet {
        Fleet {
            offers: offers.iter().cloned().collect(),
            watching_given_up,
        }
    }

    fn plan(variant: u32, wants: Capabilities) -> TrackingPlan {
        TrackingPlan {
            schema: Schema::default(),
            build: BuildId("ab".into()),
            sigma: 2,
            variant,
            wants,
            statements: Vec::new(),
            beside: Vec::new(),
            sites: Vec::new(),
            implied: Vec::new(),
            watched: Vec::new(),
            unwatched: Vec::new(),
            promoted: Vec::new(),
            audit: false,
        }
    }

    fn built(watching: u32, fleet: &[Capabilities]) -> Vec<u32> {
        let mut plans: Vec<TrackingPlan> = (0..watching).map(|n| plan(n, watches())).collect();
        plans.push(plan(watching, hooks()));
        let chosen = of(fleet, false).worth_building(plans);
        chosen.iter().map(|p| p.variant).collect()
    }

    #[test]
    fn only_what_the_fleet_can_use_is_built() {
        assert_eq!(built(1, &[watches()]), [0]);
        assert_eq!(built(1, &[hooks()]), [1]);
        assert_eq!(built(1, &[hooks(), watches()]), [0, 1]);
        // Where processors trace, branches need no hooks: plans of their own.
        assert_eq!(built(5, &[traces()]), [6, 7]);
        assert_eq!(built(5, &[traces(), hooks()]), [6, 7, 5]);
        let all = [hooks(), watches(), traces()];
        assert_eq!(built(5, &all), [6, 7, 0, 1, 5]);
        // A trace without watchpoints, alone and beside others.
        let blind = hooks().and(Capability::IntelPt);
        assert_eq!(built(5, std::slice::from_ref(&blind)), [11]);
        assert_eq!(built(5, &[blind.clone(), hooks()]), [11, 5]);
        assert_eq!(built(5, &[blind, watches()]), [11, 0, 1]);
        // Nothing to watch, or a fleet of which nothing is known yet.
        assert_eq!(built(0, &[watches()]), [0]);
        assert_eq!(built(1, &[]), [0]);
    }

    #[test]
    fn a_campaign_that_may_not_watch_gets_the_plan_that_does_not() {
        let plans = vec![plan(0, watches()), plan(1, hooks())];
        let chosen = of(&[watches()], true).worth_building(plans);
        assert_eq!(chosen.iter().map(|p| p.variant).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn an_audit_is_built_where_somebody_can_watch() {
        let audit = TrackingPlan {
            audit: true,
            ..plan(1, watches())
        };
        let plans = || vec![plan(0, hooks()), audit.clone()];
        let built = |fleet: &[Capabilities], given_up| -> Vec<u32> {
            let chosen = of(fleet, given_up).worth_building(plans());
            chosen.iter().map(|p| p.variant).collect()
        };
        assert_eq!(built(&[watches()], false), [0, 1]);
        assert_eq!(built(&[hooks()], false), [0]);
        assert_eq!(built(&[watches()], true), [0]);
    }
}
