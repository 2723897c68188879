//! The campaign state machine, without storage, engine or builds.

use diagnosis::IterationResult;
use diagnosis::campaign::*;
use sketch_model::{
    BuildId, CampaignId, CampaignState, Capabilities, FailureKind, FailureSignature,
    SourceLocation, Statement, StatementId,
};

/// A campaign whose first tracked build is out, with a σ that is small enough to double.
fn campaign(slice: u32) -> Campaign {
    begun(16, slice)
}

fn begun(sigma: u32, slice: u32) -> Campaign {
    let failure = LocatedFailure {
        kind: FailureKind::Signal {
            number: 11,
            name: "SIGSEGV".into(),
        },
        failing: Statement {
            id: StatementId(0),
            function: "consumer".into(),
            location: SourceLocation {
                file: "/src/a.c".into(),
                line: 3,
            },
            text: String::new(),
        },
        callers: Vec::new(),
        others: Vec::new(),
        said: None,
    };
    let campaign = Campaign::begin(
        CampaignId(1),
        BuildId("ab".into()),
        "a".into(),
        failure,
        BuildCounts::default(),
        sigma,
    );
    built(campaign.sliced(slice))
}

/// The build that a campaign waits for comes at once.
fn built(campaign: Campaign) -> Campaign {
    let sigma = campaign.sigma();
    campaign.built(sigma, vec![PlanRuns::new(0, Capabilities::watchpoints())])
}

fn counts(campaign: &Campaign) -> (u64, u64, u64) {
    let counts = campaign.counts();
    (counts.failing, counts.successful, counts.otherwise)
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
    campaign.count(0, CountedAs::Failing);
    assert!(campaign.look_is_due());
    let (judged, step) = campaign.clone().judge(verdict);
    *campaign = judged;
    if step == Step::Rebuild {
        assert_eq!(campaign.state.name(), CampaignState::Preparing);
        *campaign = built(campaign.clone());
    }
    step
}

#[test]
fn watching_is_given_up_where_it_makes_every_run_fail() {
    let mut campaign = campaign(11);
    let waiting = || verdict(false, false, &[7]);
    for _ in 1..OVERWHELMED {
        assert_eq!(failing_run(&mut campaign, waiting()), Step::Keep);
    }
    assert_eq!(failing_run(&mut campaign, waiting()), Step::Rebuild);
    assert!(campaign.learned.watching_given_up);
    // The same statements, and what the watchpoints found meanwhile.
    assert_eq!((campaign.sigma(), campaign.iteration()), (11, 2));
    assert_eq!(campaign.learned.discovered, [StatementId(7)]);
    // Once; a program that always fails keeps its plan.
    for _ in 0..2 * OVERWHELMED {
        assert_eq!(failing_run(&mut campaign, waiting()), Step::Keep);
    }
}

#[test]
fn sigma_doubles_up_to_the_slice_and_no_further() {
    let mut campaign = campaign(100);
    let mut sigmas = vec![campaign.sigma()];
    while failing_run(&mut campaign, verdict(true, false, &[])) == Step::Rebuild {
        sigmas.push(campaign.sigma());
    }
    assert_eq!(sigmas, [16, 32, 64, 100]);
    assert_eq!(campaign.iteration(), 4);
    assert_eq!(campaign.state.name(), CampaignState::Tracking);
    // At the slice's end it keeps looking, once per new failing run.
    assert!(!campaign.look_is_due());
    let step = failing_run(&mut campaign, verdict(true, false, &[]));
    assert_eq!((step, campaign.iteration()), (Step::Keep, 4));
}

#[test]
fn a_small_slice_is_tracked_whole_at_once() {
    let sigmas = [1, SMALL_SLICE, SMALL_SLICE + 1].map(|slice| begun(FIRST_SIGMA, slice).sigma());
    assert_eq!(sigmas, [1, SMALL_SLICE, FIRST_SIGMA]);
}

#[test]
fn a_slice_shorter_than_the_first_sigma_caps_it() {
    let mut campaign = campaign(1);
    assert_eq!(campaign.sigma(), 1);
    // Once for plans that watch, which the first one does not.
    for step in [Step::Rebuild, Step::Keep] {
        assert_eq!(failing_run(&mut campaign, verdict(true, false, &[])), step);
    }
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
    assert_eq!(campaign.learned.discovered.len(), 20);
}

#[test]
fn a_known_discovery_is_no_reason_for_a_build() {
    let mut campaign = campaign(2);
    let first = failing_run(&mut campaign, verdict(true, false, &[7]));
    let again = failing_run(&mut campaign, verdict(true, false, &[7]));
    assert_eq!((first, again), (Step::Rebuild, Step::Keep));
    assert_eq!(campaign.learned.discovered, [StatementId(7)]);
}

#[test]
fn without_enough_runs_nothing_moves() {
    let mut campaign = campaign(8);
    let step = failing_run(&mut campaign, verdict(false, true, &[7]));
    assert_eq!(step, Step::Keep);
    assert_eq!((campaign.learned.looks, campaign.sigma()), (0, 8));
    // The look is still due when successful runs make it enough.
    campaign.count(0, CountedAs::Successful);
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
    assert_eq!(
        campaign.learned.beyond_sigma(),
        [StatementId(7), StatementId(40)]
    );
    // What explains changes with what is understood; discoveries stay.
    failing_run(&mut campaign, verdict(true, false, &[]));
    assert_eq!(campaign.learned.beyond_sigma(), [StatementId(7)]);
}

#[test]
fn a_settled_campaign_is_over() {
    let mut campaign = campaign(8);
    let step = failing_run(&mut campaign, verdict(true, true, &[]));
    assert_eq!(step, Step::Settle);
    assert!(campaign.is_over());
    let stopped = campaign.clone().steer(Steering::Stop).expect("it may be");
    assert_eq!(stopped, campaign);
    assert_eq!(campaign.clone().fail("no".into()), campaign);
}

#[test]
fn counts_start_anew_with_each_tracked_build() {
    let mut campaign = campaign(64);
    campaign.count(0, CountedAs::Successful);
    failing_run(&mut campaign, verdict(true, false, &[]));
    assert_eq!(counts(&campaign), (0, 0, 0));
}

#[test]
fn runs_count_by_iteration_plan_and_family() {
    let mut campaign = campaign(8);
    let own = campaign.family();
    let other = Family::of_signature(&FailureSignature("another".into()));
    let now = campaign.variant(0);
    assert_eq!(campaign.counted_as(now, None), CountedAs::Successful);
    assert_eq!(campaign.counted_as(now, Some(&own)), CountedAs::Failing);
    let otherwise = campaign.counted_as(now, Some(&other));
    assert_eq!(otherwise, CountedAs::OtherFailure);
    let unknown_plan = campaign.variant(9);
    assert_eq!(campaign.counted_as(unknown_plan, None), CountedAs::Refused);
    let later = sketch_model::VariantRef {
        iteration: 2,
        ..now
    };
    assert_eq!(campaign.counted_as(later, None), CountedAs::TooLate);
    campaign.count(0, CountedAs::OtherFailure);
    assert_eq!(counts(&campaign), (0, 0, 1));
    let stopped = campaign.steer(Steering::Stop).expect("it may be");
    assert_eq!(stopped.counted_as(now, Some(&own)), CountedAs::TooLate);
}

#[test]
fn widening_leaves_nothing_of_the_iteration_before() {
    let mut campaign = campaign(64);
    campaign.count(0, CountedAs::Failing);
    campaign.count(0, CountedAs::Successful);
    let before = campaign.clone();
    campaign = campaign.steer(Steering::Pin).expect("it may be");
    let wider = campaign.steer(Steering::Widen).expect("it may be");
    let expected = Stage::Preparing {
        sigma: 32,
        iteration: 2,
    };
    assert_eq!(wider.state, State::Active(expected));
    assert_eq!((counts(&wider), wider.pinned), ((0, 0, 0), false));
    assert_eq!(wider.tracking(), None, "no plan is given out");
    // The stop rule would have left it the same way.
    let (judged, step) = before.judge(verdict(true, false, &[]));
    assert_eq!((step, &judged.state), (Step::Rebuild, &wider.state));
    // Nor does it come back with a document.
    let text = serde_json::to_string(&wider).expect("it can be written");
    let read: Campaign = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(read, wider);
    assert_eq!(
        wider.steer(Steering::Widen),
        Err(CannotSteer::BeingPrepared)
    );
}

#[test]
fn a_campaign_that_ended_goes_on_where_it_was() {
    let mut tracking = campaign(64);
    tracking.count(0, CountedAs::Failing);
    tracking.next_sketch();
    for ending in [Steering::Stop, Steering::Declare] {
        let over = tracking.clone().steer(ending).expect("it may be");
        assert!(over.is_over() && over.tracking().is_none());
        assert_eq!(counts(&over), (1, 0, 0), "the page still shows them");
        assert_eq!(over.steer(Steering::Resume).as_ref(), Ok(&tracking));
    }
    let under_way = tracking.clone().steer(Steering::Resume);
    assert_eq!(under_way, Err(CannotSteer::UnderWay));
    // It was stopped before its build was ready: that is made first.
    let preparing = tracking.clone().steer(Steering::Widen).expect("it may be");
    let stopped = preparing.clone().steer(Steering::Stop).expect("it may be");
    assert_eq!(stopped.steer(Steering::Resume), Ok(preparing));
}

#[test]
fn only_a_developers_word_makes_an_answer_declared() {
    let declared = |campaign: &Campaign| campaign.summary(BuildCounts::default()).declared;
    let mut tracking = campaign(64);
    let early = tracking.clone().steer(Steering::Declare);
    assert_eq!(early, Err(CannotSteer::NoSketch));
    tracking.next_sketch();
    let by_developer = tracking.clone().steer(Steering::Declare).expect("it may");
    assert!(declared(&by_developer));
    let again = by_developer.clone().steer(Steering::Declare);
    assert_eq!(again, Err(CannotSteer::SettledAlready));
    let resumed = by_developer.steer(Steering::Resume).expect("it may be");
    assert!(!declared(&resumed));
    failing_run(&mut tracking, verdict(true, true, &[]));
    assert!(tracking.is_over() && !declared(&tracking));
}

#[test]
fn a_campaign_that_cannot_go_on_can_only_be_stopped() {
    let failed = campaign(64).fail("its files are gone".into());
    assert_eq!(failed.state.problem(), Some("its files are gone"));
    assert_eq!(failed.clone().steer(Steering::Stop).as_ref(), Ok(&failed));
    for steering in [
        Steering::Resume,
        Steering::Widen,
        Steering::Declare,
        Steering::Pin,
        Steering::Unpin,
    ] {
        assert_eq!(failed.clone().steer(steering), Err(CannotSteer::Failed));
    }
}

#[test]
fn a_pinned_campaign_keeps_its_sigma_and_its_looks() {
    let mut pinned = campaign(64).steer(Steering::Pin).expect("it may be");
    let again = pinned.clone().steer(Steering::Pin);
    assert_eq!(again, Err(CannotSteer::PinnedAlready));
    let step = failing_run(&mut pinned, verdict(true, false, &[]));
    assert_eq!(
        (step, pinned.sigma(), pinned.learned.looks),
        (Step::Keep, 16, 1)
    );
    let mut free = pinned.steer(Steering::Unpin).expect("it may be");
    let again = free.clone().steer(Steering::Unpin);
    assert_eq!(again, Err(CannotSteer::NotPinned));
    let step = failing_run(&mut free, verdict(true, false, &[]));
    assert_eq!((step, free.sigma()), (Step::Rebuild, 32));
}

#[test]
fn traced_runs_may_settle_a_campaign_while_its_build_is_being_made() {
    let widened = campaign(64).steer(Steering::Widen).expect("it may be");
    let keeps = widened.clone().judge_traced(verdict(true, false, &[]));
    assert_eq!((keeps.learned.looks, &keeps.state), (1, &widened.state));
    let settled = widened.clone().judge_traced(verdict(true, true, &[]));
    assert!(settled.is_over());
    let resumed = settled.steer(Steering::Resume).expect("it may be");
    assert_eq!(resumed.state, widened.state);
}
