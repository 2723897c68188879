//! Campaigns as a server of the last release wrote them are read into their states.
//!
//! The files in `stored_campaigns/` were written by the code of commit 75fca5c, in which a
//! campaign was one record of flat fields. `tracking_one_plan` lacks what was added
//! since the first release, as documents of that release do.

use diagnosis::campaign::*;
use sketch_model::{CampaignState, Capabilities, LocationName, StatementId};

fn read(text: &str) -> Campaign {
    serde_json::from_str(text).expect("a stored campaign")
}

macro_rules! stored {
    ($name:literal) => {
        read(include_str!(concat!("stored_campaigns/", $name, ".json")))
    };
}

fn plans(campaign: &Campaign) -> Vec<(u32, u64, u64, u64, bool)> {
    let tracking = campaign.state.stage().tracking();
    let plans = tracking.map_or(&[][..], |it| &it.plans);
    let runs = |p: &PlanRuns| (p.plan, p.failing, p.successful, p.otherwise, p.audit);
    plans.iter().map(runs).collect()
}

fn preparing(sigma: u32, iteration: u32) -> Stage {
    Stage::Preparing { sigma, iteration }
}

#[test]
fn campaigns_that_are_being_prepared() {
    let first = stored!("preparing_first");
    assert_eq!(first.state, State::Active(preparing(16, 1)));
    assert_eq!(first.learned.slice_statements, None);
    assert_eq!(first.identity.runs_before, 40);
    let second = stored!("preparing_second");
    assert_eq!(second.state, State::Active(preparing(32, 2)));
    assert_eq!(second.learned.looks, 1);
    assert_eq!(second.learned.discovered, [StatementId(31)]);
    assert_eq!(second.learned.history.len(), 1);
    let promoted = &second.learned.promotions[0].location;
    assert_eq!(*promoted, LocationName::Global("mut".into()));
    let given_up = stored!("watching_given_up");
    assert!(given_up.learned.watching_given_up);
    assert_eq!(given_up.state, State::Active(preparing(32, 3)));
}

#[test]
fn plans_that_were_left_behind_by_widening_are_dropped() {
    let text = include_str!("stored_campaigns/widened.json");
    assert!(!text.contains("\"plans\":[]"), "the last release left them");
    assert_eq!(read(text).state, State::Active(preparing(64, 3)));
    // Also if it was stopped before the wider build was there.
    let stopped = text.replace("\"state\":\"preparing\"", "\"state\":\"stopped\"");
    let last = preparing(64, 3);
    assert_eq!(read(&stopped).state, State::Stopped { last });
}

#[test]
fn campaigns_that_are_tracking() {
    let first = stored!("tracking_first");
    assert_eq!(first.state.name(), CampaignState::Tracking);
    let runs = [(0, 1, 1, 0, false), (1, 0, 1, 1, false), (2, 0, 0, 0, true)];
    assert_eq!(plans(&first), runs);
    assert_eq!(first.learned.traced.failing(), 1);
    assert_eq!(first.learned.fleet, [Capabilities::watchpoints()].into());
    let pinned = stored!("tracking_pinned");
    assert!(pinned.pinned);
    let tracking = pinned.tracking().expect("it tracks");
    assert_eq!((tracking.sigma, tracking.iteration), (32, 2));
    assert_eq!(tracking.failing_at_last_look, 3);
    assert!(!pinned.look_is_due() && stored!("tracking_second").look_is_due());
}

#[test]
fn a_campaign_from_before_there_were_several_plans_has_plan_0() {
    let old = stored!("tracking_one_plan");
    assert_eq!(plans(&old), [(0, 1, 2, 1, false)]);
    assert_eq!(old.counted_as(old.variant(0), None), CountedAs::Successful);
}

#[test]
fn campaigns_that_are_over_know_where_they_were() {
    let tracked = stored!("tracking_second").state.into_stage();
    for (campaign, by) in [
        (stored!("settled_by_rule"), SettledBy::StopRule),
        (stored!("settled_declared"), SettledBy::Developer),
    ] {
        let State::Settled { by: said, last } = campaign.state else {
            panic!("it is settled: {:?}", campaign.state);
        };
        assert_eq!((said, last.iteration(), last.sigma()), (by, 2, 32));
        assert_eq!(last.counts(), tracked.counts());
    }
    let by_trace = stored!("settled_by_trace");
    let (by, last) = (SettledBy::StopRule, preparing(32, 2));
    assert_eq!(by_trace.state, State::Settled { by, last });
    let stopped = stored!("stopped_tracking");
    assert_eq!(stopped.state, State::Stopped { last: tracked });
    let last = preparing(16, 1);
    assert_eq!(stored!("stopped_preparing").state, State::Stopped { last });
    let failed = stored!("failed_at_once");
    assert_eq!(failed.state.problem(), Some("no frame lies in the program"));
    assert_eq!((failed.sigma(), failed.identity.failure), (0, None));
    let failed = stored!("failed_tracking");
    assert_eq!(plans(&failed), [(0, 3, 1, 0, false)]);
}

#[test]
fn what_this_release_writes_the_last_one_could_have_written() {
    for text in [
        include_str!("stored_campaigns/tracking_first.json"),
        include_str!("stored_campaigns/preparing_second.json"),
        include_str!("stored_campaigns/settled_declared.json"),
        include_str!("stored_campaigns/stopped_tracking.json"),
        include_str!("stored_campaigns/failed_at_once.json"),
        include_str!("stored_campaigns/watching_given_up.json"),
    ] {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let written = serde_json::to_value(read(text)).expect("it can be written");
        assert_eq!(written, value);
    }
}
