//! The plans of one iteration: which of them an agent gets.
//!
//! A σ has several plans (`slicer::plan_iteration`): the same hooks, different
//! watched locations, and one that watches nothing.
//!
//! An agent gets a plan that asks for most of what its machine offers, among those the
//! one with the fewest runs; except that it stays with a plan of its own, chosen
//! by its name, while that is not more than [`SLACK`] runs ahead: changing plans
//! costs an agent the making of another tracked build. If no plan fits, it gets one that asks for more:
//! its hooks work, and the record says that its watchpoints were refused.
//!
//! An audit plan watches locations that have handed over to hooks. One run in
//! [`AUDIT_SHARE`] of those that could gets it.

use diagnosis::campaign::PlanRuns;
use sketch_model::{AgentId, Capabilities};

/// How many runs a plan may be ahead of the others before its agents change.
pub const SLACK: u64 = 8;

/// One tracked run in this many audits the promoted locations.
pub const AUDIT_SHARE: u64 = 16;

/// The plan that an agent runs next, by how often each was given out.
pub fn next_for(
    agent: &AgentId,
    offers: &Capabilities,
    plans: &[PlanRuns],
    given: &dyn Fn(u32) -> u64,
) -> Option<u32> {
    let fits = |plan: &&PlanRuns| offers.offer(&plan.wants);
    let runs_of = |plan: &PlanRuns| given(plan.plan).max(plan.runs());
    if let Some(audit) = plans.iter().filter(fits).find(|p| p.audit) {
        let all: u64 = plans.iter().map(runs_of).sum();
        // The first comes in the middle of its share: others have runs by then.
        if runs_of(audit) * AUDIT_SHARE + AUDIT_SHARE / 2 <= all {
            return Some(audit.plan);
        }
    }
    let usual = || plans.iter().filter(|p| !p.audit);
    let served: Vec<&Capabilities> = usual().filter(fits).map(|p| &p.wants).collect();
    let most = |plan: &&PlanRuns| {
        let is_less = served.iter().any(|other| other.exceed(&plan.wants));
        fits(plan) && !is_less
    };
    let candidates: Vec<(u64, u32)> = usual()
        .filter(|plan| served.is_empty() || most(plan))
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

    #[test]
    fn an_agent_gets_what_it_can_serve_and_the_least_run_of_it() {
        let mut plans = [
            PlanRuns::new(0, Capabilities::watchpoints()),
            PlanRuns::new(1, Capabilities::watchpoints()),
            PlanRuns::new(2, Capabilities::hooks()),
        ];
        let agent = AgentId("a".into());
        let none = |_| 0;
        assert_eq!(
            next_for(&agent, &Capabilities::hooks(), &plans, &none),
            Some(2)
        );
        plans[0].successful = 30;
        assert_eq!(
            next_for(&agent, &Capabilities::intel_pt(), &plans, &none),
            Some(1)
        );
        let given = |plan: u32| if plan == 1 { 90 } else { 0 };
        assert_eq!(
            next_for(&agent, &Capabilities::intel_pt(), &plans, &given),
            Some(0)
        );
    }

    #[test]
    fn agents_stay_with_a_plan_and_the_plans_stay_even() {
        let plans = [0, 1, 2].map(|plan| PlanRuns::new(plan, Capabilities::watchpoints()));
        let mut given = [0u64; 3];
        let mut changes = 0;
        let mut last = [None; 4];
        for turn in 0..3_000 {
            let agent = AgentId(format!("agent-{}", turn % 4));
            let next = next_for(&agent, &Capabilities::watchpoints(), &plans, &|p| {
                given[p as usize]
            });
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
            ..PlanRuns::new(1, Capabilities::watchpoints())
        };
        let plans = [PlanRuns::new(0, Capabilities::hooks()), audit];
        let mut given = [0u64; 2];
        for _ in 0..160 {
            let agent = AgentId("a".into());
            let next = next_for(&agent, &Capabilities::watchpoints(), &plans, &|p| {
                given[p as usize]
            });
            given[next.expect("a plan") as usize] += 1;
        }
        assert_eq!(given, [150, 10]);
        let agent = AgentId("a".into());
        let inline = next_for(&agent, &Capabilities::hooks(), &plans, &|_| 1000);
        assert_eq!(inline, Some(0));
    }

    #[test]
    fn without_a_fitting_plan_the_hooks_still_work() {
        let plans = [PlanRuns::new(0, Capabilities::watchpoints())];
        let agent = AgentId("a".into());
        assert_eq!(
            next_for(&agent, &Capabilities::hooks(), &plans, &|_| 0),
            Some(0)
        );
        assert_eq!(next_for(&agent, &Capabilities::hooks(), &[], &|_| 0), None);
    }
}
