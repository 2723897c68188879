//! The plans of one iteration: which are built, and which an agent gets.
//!
//! A σ has several plans (`slicer::plan_variants`): the same hooks, different
//! watched locations, and one that watches nothing. Each one built costs the
//! time of a tracked build, and runs of different plans are never pooled, so
//! each also asks for failing recurrences of its own. Therefore only plans that
//! some agent of the fleet can make use of are built, and of those that watch at
//! most [`MOST_WATCHING`], nearest locations first; what they leave out is said
//! in the plans (`unwatched`) and comes with a later iteration, when a tracked
//! access needs no watch any more. For agents that trace (Intel PT) each has a
//! second form without hooks for branches: the trace tells of those.
//!
//! An agent gets a plan of the highest tier that it can serve, among those the
//! one with the fewest runs; except that it stays with a plan of its own, chosen
//! by its name, while that is not more than [`SLACK`] runs ahead: changing plans
//! costs an agent the making of another tracked build. If no plan fits, it gets one that asks for more:
//! its hooks work, and the record says that its watchpoints were refused.
//!
//! An audit plan watches locations that have handed over to hooks. One run in
//! [`AUDIT_SHARE`] of those that could gets it.

use diagnosis::campaign::PlanRuns;
use sketch_model::{AgentId, Tier, TrackingPlan};
use std::collections::BTreeSet;

/// Plans with watchpoints that one iteration builds.
pub const MOST_WATCHING: usize = 2;

/// How many runs a plan may be ahead of the others before its agents change.
pub const SLACK: u64 = 8;

/// One tracked run in this many audits the promoted locations.
pub const AUDIT_SHARE: u64 = 16;

/// The plans worth building for a fleet of these tiers; at least one if there is
/// any. `watching_given_up` asks for those that watch nothing.
pub fn worth_building(
    plans: Vec<TrackingPlan>,
    fleet: &BTreeSet<Tier>,
    watching_given_up: bool,
) -> Vec<TrackingPlan> {
    let watches = !watching_given_up && fleet.iter().any(|tier| *tier >= Tier::Watchpoints);
    let inline_only = fleet.contains(&Tier::Inline);
    let count = plans.len();
    let (audits, plans): (Vec<_>, Vec<_>) = plans.into_iter().partition(|p| p.audit);
    let (watching, inline): (Vec<_>, Vec<_>) =
        plans.into_iter().partition(|p| p.tier > Tier::Inline);
    let mut chosen: Vec<TrackingPlan> = watching.into_iter().take(MOST_WATCHING).collect();
    if !watches && !inline.is_empty() && (watching_given_up || !fleet.is_empty()) {
        chosen.clear();
    }
    if chosen.is_empty() || inline_only {
        chosen.extend(inline);
    }
    let mut chosen = by_trace(chosen, fleet, count);
    if watches {
        chosen.extend(audits);
    }
    chosen
}

/// With agents that trace, plans without hooks for branches: each of the most
/// that the fleet can use, beside its original if others need that.
fn by_trace(chosen: Vec<TrackingPlan>, fleet: &BTreeSet<Tier>, count: usize) -> Vec<TrackingPlan> {
    let best = chosen.iter().map(|plan| plan.tier).max();
    let Some(best) = best.filter(|_| fleet.contains(&Tier::IntelPt)) else {
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
        Tier::Inline => fleet.contains(&Tier::Inline),
        _ => fleet.contains(&Tier::Watchpoints),
    };
    let untraced = chosen.into_iter().filter(needed);
    traced.into_iter().chain(untraced).collect()
}

/// The plan that an agent runs next, by how often each was given out.
pub fn next_for(
    agent: &AgentId,
    tier: Tier,
    plans: &[PlanRuns],
    given: &dyn Fn(u32) -> u64,
) -> Option<u32> {
    let fits = |plan: &&PlanRuns| plan.tier <= tier;
    let runs_of = |plan: &PlanRuns| given(plan.plan).max(plan.runs());
    if let Some(audit) = plans.iter().filter(fits).find(|p| p.audit) {
        let all: u64 = plans.iter().map(runs_of).sum();
        // The first comes in the middle of its share: others have runs by then.
        if runs_of(audit) * AUDIT_SHARE + AUDIT_SHARE / 2 <= all {
            return Some(audit.plan);
        }
    }
    let usual = || plans.iter().filter(|p| !p.audit);
    let best = usual().filter(fits).map(|p| p.tier).max();
    let candidates: Vec<(u64, u32)> = usual()
        .filter(|p| best.is_none_or(|best| p.tier == best))
        .map(|p| (runs_of(p), p.plan))
        .collect();
    let fewest = candidates.iter().min()?;
    let own = candidates[share_of(agent, candidates.len())];
    let next = if own.0 < fewest.0 + SLACK {
        own
    } else {
        *fewest
    };
    Some(next.1)
}

/// A number below `count` that depends on the agent's name alone.
fn share_of(agent: &AgentId, count: usize) -> usize {
    let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = agent.0.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    // The high bits: the low ones of two names that differ at the end are alike.
    ((hash >> 32) as usize) % count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::records;

    fn plan(variant: u32, tier: Tier) -> TrackingPlan {
        TrackingPlan {
            variant,
            ..records::plan(tier)
        }
    }

    fn built(watching: u32, fleet: &[Tier]) -> Vec<u32> {
        let mut plans: Vec<TrackingPlan> =
            (0..watching).map(|n| plan(n, Tier::Watchpoints)).collect();
        plans.push(plan(watching, Tier::Inline));
        let fleet = fleet.iter().copied().collect();
        let chosen = worth_building(plans, &fleet, false);
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
        let fleet = [Tier::Watchpoints].into();
        let chosen = worth_building(plans, &fleet, true);
        assert_eq!(chosen.iter().map(|p| p.variant).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn an_agent_gets_what_it_can_serve_and_the_least_run_of_it() {
        let mut plans = [
            PlanRuns::new(0, Tier::Watchpoints),
            PlanRuns::new(1, Tier::Watchpoints),
            PlanRuns::new(2, Tier::Inline),
        ];
        let agent = AgentId("a".into());
        let none = |_| 0;
        assert_eq!(next_for(&agent, Tier::Inline, &plans, &none), Some(2));
        plans[0].successful = 30;
        assert_eq!(next_for(&agent, Tier::IntelPt, &plans, &none), Some(1));
        let given = |plan: u32| if plan == 1 { 90 } else { 0 };
        assert_eq!(next_for(&agent, Tier::IntelPt, &plans, &given), Some(0));
    }

    #[test]
    fn agents_stay_with_a_plan_and_the_plans_stay_even() {
        let plans = [0, 1, 2].map(|plan| PlanRuns::new(plan, Tier::Watchpoints));
        let mut given = [0u64; 3];
        let mut changes = 0;
        let mut last = [None; 4];
        for turn in 0..3_000 {
            let agent = AgentId(format!("agent-{}", turn % 4));
            let next = next_for(&agent, Tier::Watchpoints, &plans, &|p| given[p as usize]);
            changes += u32::from(last[turn % 4] != next);
            last[turn % 4] = next;
            given[next.expect("a plan") as usize] += 1;
        }
        let (most, fewest) = (given.iter().max().unwrap(), given.iter().min().unwrap());
        assert!(most - fewest <= SLACK, "{given:?}");
        assert!(changes < 2_000, "{changes} changes in 3000 runs");
    }

    #[test]
    fn one_run_in_sixteen_audits_and_only_where_it_can() {
        let audit = PlanRuns {
            audit: true,
            ..PlanRuns::new(1, Tier::Watchpoints)
        };
        let plans = [PlanRuns::new(0, Tier::Inline), audit];
        let mut given = [0u64; 2];
        for _ in 0..160 {
            let agent = AgentId("a".into());
            let next = next_for(&agent, Tier::Watchpoints, &plans, &|p| given[p as usize]);
            given[next.expect("a plan") as usize] += 1;
        }
        assert_eq!(given, [150, 10]);
        let agent = AgentId("a".into());
        let inline = next_for(&agent, Tier::Inline, &plans, &|_| 1000);
        assert_eq!(inline, Some(0));
    }

    #[test]
    fn an_audit_is_built_where_somebody_can_watch() {
        let audit = TrackingPlan {
            audit: true,
            ..plan(1, Tier::Watchpoints)
        };
        let plans = || vec![plan(0, Tier::Inline), audit.clone()];
        let built = |fleet: &[Tier], given_up| -> Vec<u32> {
            let chosen = worth_building(plans(), &fleet.iter().copied().collect(), given_up);
            chosen.iter().map(|p| p.variant).collect()
        };
        assert_eq!(built(&[Tier::Watchpoints], false), [0, 1]);
        assert_eq!(built(&[Tier::Inline], false), [0]);
        assert_eq!(built(&[Tier::Watchpoints], true), [0]);
    }

    #[test]
    fn without_a_fitting_plan_the_hooks_still_work() {
        let plans = [PlanRuns::new(0, Tier::Watchpoints)];
        let agent = AgentId("a".into());
        assert_eq!(next_for(&agent, Tier::Inline, &plans, &|_| 0), Some(0));
        assert_eq!(next_for(&agent, Tier::Inline, &[], &|_| 0), None);
    }
}
