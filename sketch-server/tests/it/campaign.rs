//! The campaign state machine, without storage, engine or builds.

use diagnosis::IterationResult;
use sketch_model::{BuildId, CampaignId, CampaignState, FailureSignature, StatementId, Tier};
use sketch_server::plans::PlanRuns;
use sketch_server::storage::{BuildCounts, RunRole};
use sketch_server::{Campaign, LocatedFailure, OVERWHELMED, Steering, Step, Verdict};
use test_support::records;

fn campaign(slice: u32) -> Campaign {
    let failure = LocatedFailure {
        kind: records::segmentation_fault(),
        failing: records::statement(0, "consumer", "/src/a.c", 3),
        callers: Vec::new(),
        others: Vec::new(),
        said: None,
    };
    let mut campaign = Campaign::begin(
        CampaignId(1),
        BuildId("ab".into()),
        "a".into(),
        failure,
        BuildCounts::default(),
    );
    campaign.sliced(slice);
    campaign.built(campaign.sigma);
    campaign
}

fn verdict(enough: bool, settled: bool, discovered: &[u32]) -> Verdict {
    Verdict {
        enough,
        settled,
        result: IterationResult::default(),
        best: None,
        discovered: discovered.iter().map(|n| StatementId(*n)).collect(),
        explaining: Vec::new(),
        promotions: Vec::new(),
    }
}

/// A failing run, judged; the build that a rebuild asks for comes at once.
fn failing_run(campaign: &mut Campaign, verdict: Verdict) -> Step {
    campaign.count(RunRole::Failing);
    assert!(campaign.look_is_due());
    let step = campaign.judge(verdict);
    if step == Step::Rebuild {
        assert_eq!(campaign.state, CampaignState::Preparing);
        campaign.built(campaign.sigma);
    }
    step
}

#[test]
fn watching_is_given_up_where_it_makes_every_run_fail() {
    let mut campaign = campaign(11);
    campaign.plans = vec![PlanRuns::new(0, Tier::Watchpoints)];
    let waiting = || verdict(false, false, &[7]);
    for _ in 1..OVERWHELMED {
        assert_eq!(failing_run(&mut campaign, waiting()), Step::Keep);
    }
    assert_eq!(failing_run(&mut campaign, waiting()), Step::Rebuild);
    assert!(campaign.quiet);
    // The same statements, and what the watchpoints found meanwhile.
    assert_eq!((campaign.sigma, campaign.iteration), (11, 2));
    assert_eq!(campaign.discovered, [StatementId(7)]);
    // Once; a program that always fails keeps its plan.
    for _ in 0..2 * OVERWHELMED {
        assert_eq!(failing_run(&mut campaign, waiting()), Step::Keep);
    }
}

#[test]
fn sigma_doubles_up_to_the_slice_and_no_further() {
    let mut campaign = campaign(100);
    let mut sigmas = vec![campaign.sigma];
    while failing_run(&mut campaign, verdict(true, false, &[])) == Step::Rebuild {
        sigmas.push(campaign.sigma);
    }
    assert_eq!(sigmas, [16, 32, 64, 100]);
    assert_eq!(campaign.iteration, 4);
    assert_eq!(campaign.state, CampaignState::Tracking);
    // At the slice's end it keeps looking, once per new failing run.
    assert!(!campaign.look_is_due());
    let step = failing_run(&mut campaign, verdict(true, false, &[]));
    assert_eq!((step, campaign.iteration), (Step::Keep, 4));
}

#[test]
fn a_slice_shorter_than_the_first_sigma_caps_it() {
    let mut campaign = campaign(1);
    assert_eq!(campaign.sigma, 1);
    let step = failing_run(&mut campaign, verdict(true, false, &[]));
    assert_eq!(step, Step::Keep);
}

#[test]
fn at_the_slices_end_discoveries_are_worth_only_a_few_builds() {
    let mut campaign = campaign(2);
    let mut rebuilds = 0;
    for discovered in 10..30 {
        if failing_run(&mut campaign, verdict(true, false, &[discovered])) == Step::Rebuild {
            rebuilds += 1;
        }
    }
    assert_eq!(rebuilds, 3);
    assert_eq!(campaign.discovered.len(), 20);
}

#[test]
fn a_known_discovery_is_no_reason_for_a_build() {
    let mut campaign = campaign(2);
    let first = failing_run(&mut campaign, verdict(true, false, &[7]));
    let again = failing_run(&mut campaign, verdict(true, false, &[7]));
    assert_eq!((first, again), (Step::Rebuild, Step::Keep));
    assert_eq!(campaign.discovered, [StatementId(7)]);
}

#[test]
fn without_enough_runs_nothing_moves() {
    let mut campaign = campaign(8);
    let step = failing_run(&mut campaign, verdict(false, true, &[7]));
    assert_eq!(step, Step::Keep);
    assert_eq!((campaign.looks, campaign.sigma), (0, 8));
    // The look is still due when successful runs make it enough.
    campaign.count(RunRole::Successful);
    assert!(campaign.look_is_due());
}

#[test]
fn the_next_plan_tracks_what_was_discovered_and_what_explains() {
    let mut campaign = campaign(64);
    let explaining = Verdict {
        explaining: vec![StatementId(7), StatementId(40)],
        ..verdict(true, false, &[7])
    };
    assert_eq!(failing_run(&mut campaign, explaining), Step::Rebuild);
    assert_eq!(campaign.beyond_sigma(), [StatementId(7), StatementId(40)]);
    // What explains changes with what is understood; discoveries stay.
    failing_run(&mut campaign, verdict(true, false, &[]));
    assert_eq!(campaign.beyond_sigma(), [StatementId(7)]);
}

#[test]
fn a_settled_campaign_is_over() {
    let mut campaign = campaign(8);
    let step = failing_run(&mut campaign, verdict(true, true, &[]));
    assert_eq!(step, Step::Settle);
    assert!(campaign.is_over());
    campaign.stop();
    campaign.fail("no".into());
    assert_eq!(campaign.state, CampaignState::Settled);
}

#[test]
fn counts_start_anew_with_each_tracked_build() {
    let mut campaign = campaign(64);
    campaign.count(RunRole::Successful);
    failing_run(&mut campaign, verdict(true, false, &[]));
    assert_eq!(campaign.tracked_failing, 0);
    assert_eq!(campaign.tracked_successful, 0);
}

#[test]
fn widening_leaves_nothing_of_the_iteration_before_it() {
    let counted = || {
        let mut campaign = campaign(100);
        campaign.plans = vec![
            PlanRuns::new(0, Tier::Watchpoints),
            PlanRuns::new(1, Tier::Inline),
        ];
        for role in [RunRole::Failing, RunRole::Successful, RunRole::OtherFailure] {
            campaign.count_for(1, role);
        }
        campaign
    };
    let mut widened = counted();
    widened.pinned = true;
    widened.steer(Steering::Widen, true).unwrap();
    assert_eq!(widened.plans, [], "its plans are not built yet");
    assert_eq!(widened.plan_numbers(), [0]);
    // The stop rule would have left it the same way.
    let mut judged = counted();
    assert_eq!(judged.judge(verdict(true, false, &[])), Step::Rebuild);
    judged.looks = widened.looks;
    judged.history.clear();
    assert_eq!(widened, judged);
}

#[test]
fn runs_count_by_iteration_and_signature() {
    let mut campaign = campaign(8);
    let own = campaign.signature.clone();
    let other = FailureSignature("another".into());
    assert_eq!(campaign.role_of(1, None), RunRole::Successful);
    assert_eq!(campaign.role_of(1, Some(&own)), RunRole::Failing);
    assert_eq!(campaign.role_of(1, Some(&other)), RunRole::OtherFailure);
    assert_eq!(campaign.role_of(2, Some(&own)), RunRole::Late);
    campaign.stop();
    assert_eq!(campaign.role_of(1, Some(&own)), RunRole::Late);
    campaign.count(RunRole::OtherFailure);
    assert_eq!(
        (campaign.tracked_failing, campaign.tracked_successful),
        (0, 0)
    );
}
