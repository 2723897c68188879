//! Which build an agent runs next.
//!
//! One campaign at a time per build: agents run one tracked build, and other
//! failures wait. First comes the failure that P shows most often: it hurts most,
//! and its recurrences come soonest. Only P's own failures count for that, since
//! a tracked build changes the rates. Among equals the oldest campaign is first.
//! A campaign that tracks its whole slice and has been looked at without an
//! answer comes after all others: it may never get one, and must not keep the
//! others from theirs. Nor may they keep it from its own: a failure that has been
//! seen once may never come again. So every other run goes to the commonest failure,
//! whatever its prospects.
//! An agent that asks before each run gets the commonest failure at every other question
//! about a build. One that keeps the answer for many runs works for it or not by its name,
//! so that the answer stands.
//! One run in eight is to stay with P, so that P's own failure rate remains known
//! beside the tracked build's. Which runs those are the agent decides. Among the plans of
//! an iteration, `plans` chooses by what the agent can do and by what ran least.

use super::plans;
use diagnosis::campaign::{Campaign, PlanRuns};
use parking_lot::Mutex;
use sketch_model::{AssignmentsRequest, BuildId, ProgramAssignment, VariantRef};
use std::collections::HashMap;

/// One run in this many is to stay with P while a tracked build is out.
pub const UNTRACKED_SHARE: u64 = 8;
/// The share of a machine's runs that a tracked build on probation gets.
const CANARY_SHARE: f64 = 0.25;

/// Counts the questions about each build.
#[derive(Default)]
pub struct Assigner {
    asked: Mutex<HashMap<BuildId, u64>>,
    /// How often each tracked build was given out for a single run since the server started.
    given: Mutex<HashMap<VariantRef, u64>>,
}

impl Assigner {
    /// What an agent is to run of a build with these campaigns, oldest first.
    pub fn next(
        &self,
        request: &AssignmentsRequest,
        build: &BuildId,
        campaigns: &[Campaign],
    ) -> ProgramAssignment {
        let for_one_run = request.wait_s == 0;
        let odd = match for_one_run {
            true => self.turn(build) & 1 == 1,
            false => request.agent.0.bytes().fold(0, |sum, byte| sum ^ byte) & 1 == 1,
        };
        let tracked = wanted(campaigns, odd);
        ProgramAssignment {
            variant: tracked.map(|campaign| self.give(campaign, request, for_one_run)),
            finished: most_wanted(campaigns).is_none() && !campaigns.is_empty(),
            expected: tracked
                .and_then(|campaign| campaign.identity.failure.as_ref())
                .map(|failure| failure.kind.clone()),
            tracked_share: 1.0 - 1.0 / UNTRACKED_SHARE as f64,
            canary_share: CANARY_SHARE,
            ..ProgramAssignment::original(build)
        }
    }

    /// Whether the run that was asked about last is to stay with P, for an agent of an
    /// earlier release, which does not decide that by itself.
    pub fn stays_with_p(&self, build: &BuildId) -> bool {
        let asked = self.asked.lock();
        let turn = asked.get(build).copied().unwrap_or_default();
        turn.is_multiple_of(UNTRACKED_SHARE)
    }

    /// A plan of a campaign. Of an answer that stands nobody knows how many runs it is for:
    /// the runs that were reported say which plan has had the fewest.
    fn give(
        &self,
        campaign: &Campaign,
        request: &AssignmentsRequest,
        for_one_run: bool,
    ) -> VariantRef {
        let mut given = self.given.lock();
        given.retain(|v, _| v.campaign != campaign.id() || v.iteration == campaign.iteration());
        let so_far = |plan| match for_one_run {
            true => given.get(&campaign.variant(plan)).copied().unwrap_or(0),
            false => 0,
        };
        let plan = plans::next_for(
            &request.agent,
            &request.capabilities,
            plans_of(campaign),
            &so_far,
        );
        let variant = campaign.variant(plan.unwrap_or(0));
        if for_one_run {
            *given.entry(variant).or_default() += 1;
        }
        variant
    }

    /// How many requests about a build there were, with this one.
    fn turn(&self, build: &BuildId) -> u64 {
        let mut asked = self.asked.lock();
        let count = asked.entry(build.clone()).or_default();
        *count += 1;
        *count
    }
}

/// The campaign that agents work for first, of those that are not over.
fn most_wanted(campaigns: &[Campaign]) -> Option<&Campaign> {
    // `max_by_key` keeps the last of equals: newest first makes that the oldest.
    let open = campaigns.iter().rev().filter(|c| !c.is_over());
    open.max_by_key(|c| (has_prospects(c), c.learned.untracked_failures))
}

/// The campaign to run a tracked build of: of the commonest failure, or of the one
/// that is wanted most.
fn wanted(campaigns: &[Campaign], commonest: bool) -> Option<&Campaign> {
    let is_tracking = |c: &&Campaign| c.tracking().is_some();
    let common = campaigns.iter().rev().filter(is_tracking);
    let common = common.max_by_key(|c| c.learned.untracked_failures);
    let most = most_wanted(campaigns).filter(is_tracking);
    if commonest { common } else { most }
}

fn has_prospects(campaign: &Campaign) -> bool {
    let tracking = campaign.tracking();
    campaign.learned.slice_statements.is_none()
        || campaign.wider().is_some()
        || tracking.is_none_or(|it| it.failing_at_last_look == 0)
}

fn plans_of(campaign: &Campaign) -> &[PlanRuns] {
    campaign.tracking().map_or(&[], |tracking| &tracking.plans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnosis::campaign::{BuildCounts, LocatedFailure, Stage, State};
    use sketch_model::{AgentId, CampaignId, Capabilities, FailureKind};
    use test_support::records;

    fn tracking(id: u64, untracked_failures: u64) -> Campaign {
        let failure = LocatedFailure {
            kind: FailureKind::ExitCode(1),
            failing: records::statement(0, "main", "/src/a.c", 3),
            callers: Vec::new(),
            others: Vec::new(),
            said: None,
        };
        let (build, before) = (BuildId("ab".into()), BuildCounts::default());
        let campaign = Campaign::begin(CampaignId(id), build, "a".into(), failure, before, 2);
        let plans = vec![PlanRuns::new(0, Capabilities::hooks())];
        let mut campaign = campaign.sliced(8).built(2, plans);
        campaign.learned.untracked_failures = untracked_failures;
        campaign
    }

    /// The same with other plans.
    fn with_plans(campaign: Campaign, plans: Vec<PlanRuns>) -> Campaign {
        campaign.rebuild().built(2, plans)
    }

    fn request(capabilities: Capabilities) -> AssignmentsRequest {
        AssignmentsRequest {
            agent: AgentId("agent-1".into()),
            capabilities,
            builds: vec![BuildId("ab".into())],
            seen: None,
            wait_s: 0,
        }
    }

    fn ask(
        assigner: &Assigner,
        offers: Capabilities,
        campaigns: &[Campaign],
    ) -> Option<VariantRef> {
        let request = request(offers);
        let told = assigner.next(&request, &request.builds[0], campaigns);
        told.variant
    }

    fn first(campaigns: &[Campaign]) -> Option<CampaignId> {
        let given = ask(&Assigner::default(), Capabilities::watchpoints(), campaigns);
        given.map(|variant| variant.campaign)
    }

    #[test]
    fn the_commonest_failure_is_first_and_the_oldest_of_equals() {
        let campaigns = [tracking(1, 2), tracking(2, 5), tracking(3, 5)];
        assert_eq!(first(&campaigns), Some(CampaignId(2)));
    }

    #[test]
    fn plans_are_given_out_evenly_by_what_agents_can_do() {
        let plan = |(number, wants)| PlanRuns::new(number, wants);
        let wants = [
            Capabilities::watchpoints(),
            Capabilities::watchpoints(),
            Capabilities::hooks(),
        ];
        let plans = (0..).zip(wants).map(plan).collect();
        let campaign = with_plans(tracking(1, 2), plans);
        let assigner = Assigner::default();
        let given = |offers| {
            let given = ask(&assigner, offers, std::slice::from_ref(&campaign));
            given.map(|variant| variant.plan)
        };
        let watching: Vec<_> = (0..80).map(|_| given(Capabilities::intel_pt())).collect();
        let count = |plan| watching.iter().filter(|given| **given == plan).count();
        assert_eq!((count(None), count(Some(2))), (0, 0));
        assert!(count(Some(0)).abs_diff(count(Some(1))) <= 8, "{watching:?}");
        assert_eq!(given(Capabilities::hooks()), Some(2));
    }

    #[test]
    fn a_campaign_without_prospects_lets_others_go_first() {
        let mut exhausted = tracking(1, 50);
        if let State::Active(Stage::Tracking(tracking)) = &mut exhausted.state {
            tracking.sigma = 8;
            tracking.failing_at_last_look = 3;
        }
        let fresh = tracking(2, 1);
        // The first question is the commonest failure's, the second is not.
        let assigner = Assigner::default();
        let given = |campaigns: &[Campaign]| {
            let given = ask(&assigner, Capabilities::watchpoints(), campaigns);
            given.map(|variant| variant.campaign.0)
        };
        let both = [exhausted.clone(), fresh];
        let turns: Vec<_> = (0..8).map(|_| given(&both)).collect();
        let (one, two) = (Some(1), Some(2));
        assert_eq!(turns, [one, two, one, two, one, two, one, two]);
        assert_eq!(given(&[exhausted]), one);
    }

    #[test]
    fn an_answer_that_stands_is_the_same_until_something_changes() {
        let plans = (0..2).map(|plan| PlanRuns::new(plan, Capabilities::watchpoints()));
        let campaigns = [with_plans(tracking(1, 9), plans.collect()), tracking(2, 1)];
        let assigner = Assigner::default();
        let kept = AssignmentsRequest {
            wait_s: 30,
            ..request(Capabilities::watchpoints())
        };
        let first = assigner.next(&kept, &kept.builds[0], &campaigns);
        assert!(first.variant.is_some() && first.tracked_share == 0.875);
        for _ in 0..20 {
            // What others ask for single runs does not move it.
            ask(&assigner, Capabilities::watchpoints(), &campaigns);
            let again = assigner.next(&kept, &kept.builds[0], &campaigns);
            assert_eq!(again, first);
        }
    }
}
