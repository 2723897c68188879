//! Several plans of one iteration: built by what the fleet can do, given out in
//! turn, counted apart.

use crate::service_support::Server;
use crate::service_support::double::{self, Double};
use crate::service_support::records::{MUT, crash, tracked, untracked};
use code_patch::PublicKey;
use sketch_model::{
    AgentId, Assignments, AssignmentsRequest, CampaignState, Capabilities, Execution, Gap,
    LocationName, Outcome, RunRecord, VariantRef, WatchHit,
};
use sketch_server::storage::{Retention, Storage, sweep_all};
use std::collections::BTreeSet;
use test_support::records::{self, RunBuilder};

const FAILING: [u32; 2] = [120, 110];

fn variant(iteration: u32, plan: u32) -> VariantRef {
    records::variant(1, iteration, plan)
}

/// A server whose fleet has agents that offer this; the failure happened to each.
fn server(data: &std::path::Path, watching: u32, fleet: &[Capabilities]) -> Server {
    let double = Double {
        watching,
        ..Double::default()
    };
    let server = Server::start(data, double);
    for (number, offers) in fleet.iter().enumerate() {
        let run = untracked(&format!("first-{number}"), crash(&FAILING));
        server.upload(&run.on(offers.clone()));
    }
    server
}

fn assigned(server: &Server, capabilities: Capabilities) -> Option<VariantRef> {
    let request = AssignmentsRequest {
        agent: AgentId("agent-1".into()),
        capabilities,
        builds: vec![double::build()],
        seen: None,
        wait_s: 0,
    };
    let told: Assignments = server.post_json("/api/v1/assignments", &request).json();
    told.programs[0].variant
}

#[test]
fn agents_get_all_plans_and_each_has_its_patch() {
    let data = tempfile::tempdir().unwrap();
    let server = server(data.path(), 2, &[Capabilities::watchpoints()]);
    let plans: BTreeSet<u32> = (0..40)
        .filter_map(|_| assigned(&server, Capabilities::watchpoints()))
        .map(|variant| variant.plan)
        .collect();
    assert_eq!(plans, BTreeSet::from([0, 1]));
    let key = server.get("/api/v1/key").text();
    let key = PublicKey::from_text(&key).expect("the server's key");
    for plan in 0..2 {
        let patch = server.get(&format!("/api/v1/patches/1/1?plan={plan}"));
        let patch = code_patch::open(&patch.body, &key, 0).expect("a signed patch");
        assert_eq!(
            patch.manifest().execution,
            Execution::Tracked(variant(1, plan))
        );
    }
    let first = server.get("/api/v1/patches/1/1");
    assert_eq!(first.body, server.get("/api/v1/patches/1/1?plan=0").body);
    // The fleet has no machine without watchpoints: that plan was not built.
    let none = server.get("/api/v1/patches/1/1?plan=2");
    assert_eq!((none.status, none.error().contains("plan 2")), (404, true));
    let wrong = server.get("/api/v1/patches/1/1?plan=two");
    assert_eq!(wrong.status, 400);
    server.stop();
}

#[test]
fn a_fleet_without_watchpoints_gets_the_plan_that_needs_none() {
    let data = tempfile::tempdir().unwrap();
    let server = server(data.path(), 2, &[Capabilities::hooks()]);
    assert_eq!(
        assigned(&server, Capabilities::hooks()),
        Some(variant(1, 2))
    );
    assert_eq!(server.get("/api/v1/patches/1/1?plan=0").status, 404);
    server.stop();
}

#[test]
fn runs_of_different_plans_are_not_pooled() {
    let data = tempfile::tempdir().unwrap();
    let server = server(data.path(), 2, &[Capabilities::watchpoints()]);
    let feed = |server: &Server, plan: u32, from: u32, failing: u32, successful: u32| {
        for number in 0..failing + successful {
            let outcome = if number < failing {
                crash(&FAILING)
            } else {
                Outcome::Success
            };
            let id = format!("run-{plan}-{}", from + number);
            server.upload(&tracked(&id, variant(1, plan), outcome));
        }
    };
    // Together enough for a hint, apart too few: the iteration goes on.
    feed(&server, 0, 0, 2, 6);
    feed(&server, 1, 0, 2, 6);
    let campaign = server.campaign(1);
    assert_eq!(
        (campaign.iteration, campaign.state),
        (1, CampaignState::Tracking)
    );
    assert_eq!(
        (campaign.tracked_failing, campaign.tracked_successful),
        (4, 12)
    );
    let sketch = server.sketch(1);
    let two = |gap: &Gap| matches!(gap, Gap::PlansCountedApart { plans } if plans.len() == 2);
    assert!(sketch.gaps.iter().any(two), "{:?}", sketch.gaps);
    // One plan has enough by itself.
    feed(&server, 1, 1_000, 1, 10);
    assert_eq!(server.campaign(1).iteration, 2);
    server.stop();
}

#[test]
fn a_restart_counts_each_plan_as_before() {
    let data = tempfile::tempdir().unwrap();
    let first = server(data.path(), 2, &[Capabilities::watchpoints()]);
    for number in 0..12 {
        let id = format!("run-{number}");
        first.upload(&tracked(&id, variant(1, 1), Outcome::Success));
    }
    first.stop();
    let double = Double {
        watching: 2,
        ..Double::default()
    };
    let again = Server::start(data.path(), double);
    // Plan 0 has no run and plan 1 twelve: whoever asks gets plan 0.
    let plans: Vec<u32> = (0..3)
        .map(|_| assigned(&again, Capabilities::watchpoints()))
        .map(|variant| variant.expect("a tracked build").plan)
        .collect();
    assert_eq!(plans, [0, 0, 0]);
    again.stop();
}

#[test]
fn a_campaign_that_goes_on_after_its_records_were_dropped_counts_anew() {
    let data = tempfile::tempdir().unwrap();
    let first = server(data.path(), 2, &[Capabilities::watchpoints()]);
    for number in 0..5 {
        let id = format!("run-{number}");
        first.upload(&tracked(&id, variant(1, 1), Outcome::Success));
    }
    first.quiet();
    let before = first.campaign(1);
    assert_eq!((before.iteration, before.tracked_successful), (1, 5));
    first.post("/api/v1/campaigns/1/stop", b"");
    first.stop();
    // As the sweep of a server with --keep-runs does.
    let keep = Retention {
        days: None,
        runs: Some(0),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dropped = runtime.block_on(async {
        let storage = Storage::open_sqlite(&data.path().join("failsketch.sqlite")).await;
        let storage = storage.unwrap();
        let dropped = sweep_all(&storage, keep).await.unwrap();
        storage.close().await.unwrap();
        dropped
    });
    assert!(dropped >= 5, "{dropped}");
    let double = Double {
        watching: 2,
        ..Double::default()
    };
    let again = Server::start(data.path(), double);
    assert_eq!(again.post("/api/v1/campaigns/1/resume", b"").status, 200);
    again.quiet();
    let after = again.campaign(1);
    assert_eq!((after.sigma, after.iteration), (before.sigma, 2));
    assert_eq!(after.tracked_successful, 0);
    again.stop();
}

/// What a watchpoint on `mut` saw: each access that a hook recorded, and `more`
/// that none did.
fn with_hits(record: RunRecord, more: usize) -> RunRecord {
    let hit = |tid, at| records::hit(tid, at, 0x5000, MUT);
    let recorded = record.threads.iter().flat_map(|thread| {
        let events = thread.head.iter();
        events.map(|event| hit(thread.tid, event.before.0 + 5))
    });
    let mut hits: Vec<WatchHit> = recorded.collect();
    hits.extend((0..more).map(|_| hit(102, 9_000)));
    record.watched(hits)
}

/// A server whose first iteration is over; each of its runs had `more` hits that
/// no hook recorded.
fn after_first_iteration(data: &std::path::Path, more: usize) -> Server {
    let double = Double {
        watching: 1,
        watches_mut: true,
        ..Double::default()
    };
    let server = Server::start(data, double);
    server.upload(&untracked("first", crash(&FAILING)).on(Capabilities::watchpoints()));
    for number in 0..64 {
        let outcome = match number % 16 {
            0 => crash(&FAILING),
            _ => Outcome::Success,
        };
        let run = tracked(&format!("run-{number}"), variant(1, 0), outcome);
        server.upload(&with_hits(run, more));
    }
    assert_eq!(server.campaign(1).iteration, 2, "{:?}", server.campaign(1));
    server
}

#[test]
fn a_location_that_hooks_tell_all_of_hands_over_and_is_audited() {
    let data = tempfile::tempdir().unwrap();
    let server = after_first_iteration(data.path(), 0);
    // Plan 0 watches nothing now, plan 1 audits.
    let given: Vec<Option<u32>> = (0..64)
        .map(|_| assigned(&server, Capabilities::watchpoints()).map(|variant| variant.plan))
        .collect();
    let count = |plan| given.iter().filter(|given| **given == Some(plan)).count();
    assert_eq!((count(0), count(1)), (60, 4), "{given:?}");
    for number in 0..8 {
        let failing = tracked(&format!("two-{number}"), variant(2, 0), crash(&FAILING));
        server.upload(&failing);
    }
    let provenance = server.sketch(1).provenance;
    let location = LocationName::Global("mut".into());
    assert_eq!(provenance.promoted, [location]);
    assert_eq!(provenance.watched, []);
    server.stop();
}

#[test]
fn a_location_that_something_without_a_hook_touches_stays_watched() {
    let data = tempfile::tempdir().unwrap();
    let server = after_first_iteration(data.path(), 1);
    let plans: BTreeSet<u32> = (0..40)
        .filter_map(|_| assigned(&server, Capabilities::watchpoints()))
        .map(|variant| variant.plan)
        .collect();
    assert_eq!(plans, BTreeSet::from([0]));
    let failing = tracked("two", variant(2, 0), crash(&FAILING));
    server.upload(&failing);
    let provenance = server.sketch(1).provenance;
    let location = LocationName::Global("mut".into());
    assert_eq!(provenance.watched, [location]);
    assert_eq!(provenance.promoted, []);
    server.stop();
}
