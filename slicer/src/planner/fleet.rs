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

use sketch_model::{Tier, TrackingPlan};
use std::collections::BTreeSet;

/// Plans with watchpoints that one iteration builds.
const MOST_WATCHING: usize = 2;

/// The machines that are going to run the plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// What they offer; empty while no agent has said so.
    pub tiers: BTreeSet<Tier>,
    /// Watching changed the program too much: nothing is watched any more.
    pub watching_given_up: bool,
}

impl Fleet {
    /// The plans that it can make use of; at least one if there is any.
    pub(crate) fn worth_building(&self, plans: Vec<TrackingPlan>) -> Vec<TrackingPlan> {
        let can_watch = self.tiers.iter().any(|tier| *tier >= Tier::Watchpoints);
        let watches = can_watch && !self.watching_given_up;
        let known = self.watching_given_up || !self.tiers.is_empty();
        let count = plans.len();
        let (audits, plans): (Vec<_>, Vec<_>) = plans.into_iter().partition(|p| p.audit);
        let (watching, inline): (Vec<_>, Vec<_>) =
            plans.into_iter().partition(|p| p.tier > Tier::Inline);
        let mut chosen: Vec<TrackingPlan> = watching.into_iter().take(MOST_WATCHING).collect();
        if known && !watches && !inline.is_empty() {
            chosen.clear();
        }
        if chosen.is_empty() || self.tiers.contains(&Tier::Inline) {
            chosen.extend(inline);
        }
        let mut chosen = self.with_traced_forms(chosen, count);
        if watches {
            chosen.extend(audits);
        }
        chosen
    }

    /// With agents that trace, plans without hooks for branches: each of the most
    /// that the fleet can use, beside its original if others need that.
    fn with_traced_forms(&self, chosen: Vec<TrackingPlan>, count: usize) -> Vec<TrackingPlan> {
        let best = chosen.iter().map(|plan| plan.tier).max();
        let Some(best) = best.filter(|_| self.tiers.contains(&Tier::IntelPt)) else {
            return chosen;
        };
        let traced = chosen.iter().filter(|plan| plan.tier == best);
        let traced: Vec<TrackingPlan> = traced
            .map(|plan| TrackingPlan {
                variant: count as u32 + plan.variant,
                tier: Tier::IntelPt,
                ..plan.clone()
            })
            .collect();
        let needed = |plan: &TrackingPlan| match plan.tier {
            Tier::Inline => self.tiers.contains(&Tier::Inline),
            _ => self.tiers.contains(&Tier::Watchpoints),
        };
        let untraced = chosen.into_iter().filter(needed);
        traced.into_iter().chain(untraced).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::{BuildId, Schema};

    fn of(tiers: &[Tier], watching_given_up: bool) -> Fleet {
        Fleet {
            tiers: tiers.iter().copied().collect(),
            watching_given_up,
        }
    }

    fn plan(variant: u32, tier: Tier) -> TrackingPlan {
        TrackingPlan {
            schema: Schema::default(),
            build: BuildId("ab".into()),
            sigma: 2,
            variant,
            tier,
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

    fn built(watching: u32, fleet: &[Tier]) -> Vec<u32> {
        let mut plans: Vec<TrackingPlan> =
            (0..watching).map(|n| plan(n, Tier::Watchpoints)).collect();
        plans.push(plan(watching, Tier::Inline));
        let chosen = of(fleet, false).worth_building(plans);
        chosen.iter().map(|p| p.variant).collect()
    }

    #[test]
    fn only_what_the_fleet_can_use_is_built() {
        assert_eq!(built(1, &[Tier::Watchpoints]), [0]);
        assert_eq!(built(1, &[Tier::Inline]), [1]);
        assert_eq!(built(1, &[Tier::Inline, Tier::Watchpoints]), [0, 1]);
        // Where processors trace, branches need no hooks: plans of their own.
        assert_eq!(built(5, &[Tier::IntelPt]), [6, 7]);
        assert_eq!(built(5, &[Tier::IntelPt, Tier::Inline]), [6, 7, 5]);
        let all = [Tier::Inline, Tier::Watchpoints, Tier::IntelPt];
        assert_eq!(built(5, &all), [6, 7, 0, 1, 5]);
        // Nothing to watch, or a fleet of which nothing is known yet.
        assert_eq!(built(0, &[Tier::Watchpoints]), [0]);
        assert_eq!(built(1, &[]), [0]);
    }

    #[test]
    fn a_campaign_that_may_not_watch_gets_the_plan_that_does_not() {
        let plans = vec![plan(0, Tier::Watchpoints), plan(1, Tier::Inline)];
        let chosen = of(&[Tier::Watchpoints], true).worth_building(plans);
        assert_eq!(chosen.iter().map(|p| p.variant).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn an_audit_is_built_where_somebody_can_watch() {
        let audit = TrackingPlan {
            audit: true,
            ..plan(1, Tier::Watchpoints)
        };
        let plans = || vec![plan(0, Tier::Inline), audit.clone()];
        let built = |fleet: &[Tier], given_up| -> Vec<u32> {
            let chosen = of(fleet, given_up).worth_building(plans());
            chosen.iter().map(|p| p.variant).collect()
        };
        assert_eq!(built(&[Tier::Watchpoints], false), [0, 1]);
        assert_eq!(built(&[Tier::Inline], false), [0]);
        assert_eq!(built(&[Tier::Watchpoints], true), [0]);
    }
}
