//! The server over real HTTP: a campaign from first failure to settled.

use crate::service_support::Server;
use crate::service_support::double::{self, Double};
use crate::service_support::records::{crash, tracked, untracked};
use diagnosis::campaign::{Campaign, FIRST_SIGMA, LocatedFailure};
use sketch_model::{
    AgentId, Assignments, AssignmentsRequest, CampaignId, CampaignState, CampaignSummary,
    Capabilities, Execution, FailureKind, FailureSketch, Outcome, PredictorClass, Privacy,
    ProgramAssignment, Slice, VariantRef,
};
use sketch_server::UNTRACKED_SHARE;
use sketch_server::storage::{BuildCounts, Changes, Revised, Storage};
use std::path::Path;
use test_support::records;

/// The failure that most tests are about.
const FAILING: [u32; 2] = [120, 110];

fn assignment(server: &Server) -> ProgramAssignment {
    let request = AssignmentsRequest {
        agent: AgentId("agent-1".into()),
        capabilities: Capabilities::hooks(),
        builds: vec![double::build()],
        seen: None,
        wait_s: 0,
    };
    let told: Assignments = server.post_json("/api/v1/assignments", &request).json();
    told.programs.into_iter().next().expect("asked about one")
}

fn variant(campaign: u64, iteration: u32) -> VariantRef {
    records::variant(campaign, iteration, 0)
}

/// A server on which the failure has happened once.
fn with_first_failure(data: &Path, double: Double) -> Server {
    let server = Server::start(data, double);
    server.upload(&untracked("first", crash(&FAILING)));
    server
}

/// Feeds tracked runs, one failing to ten successful, until the campaign leaves
/// its iteration; `stop_after` runs if that does not happen.
fn feed(server: &Server, from: u64, stop_after: u64) -> u64 {
    let iteration = server.campaign(1).iteration;
    let mut number = from;
    while number < stop_after {
        let campaign = server.campaign(1);
        if campaign.iteration != iteration || campaign.state != CampaignState::Tracking {
            break;
        }
        let outcome = if number.is_multiple_of(11) {
            crash(&FAILING)
        } else {
            Outcome::Success
        };
        let id = format!("run-{number}");
        server.upload(&tracked(&id, variant(1, iteration), outcome));
        number += 1;
    }
    number
}

/// Feeds until the campaign is over.
fn feed_to_the_end(server: &Server, from: u64) -> u64 {
    let mut number = from;
    while server.campaign(1).state == CampaignState::Tracking && number < 2_000 {
        number = feed(server, number, 2_000);
    }
    number
}

#[test]
fn the_first_failure_begins_a_campaign_with_a_sketch_from_the_slice() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    let all: Vec<CampaignSummary> = server.get("/api/v1/campaigns").json();
    assert_eq!(all.len(), 1);
    let campaign = &all[0];
    assert_eq!(campaign.state, CampaignState::Tracking);
    assert_eq!(campaign.program, "pbzip2");
    assert_eq!(campaign.title, "SIGSEGV in consumer (pbzip2.c:120)");
    assert_eq!((campaign.sigma, campaign.iteration), (2, 1));
    assert_eq!((campaign.runs, campaign.failures), (1, 1));
    let sketch = server.sketch(1);
    assert_eq!((sketch.version, sketch.settled), (1, false));
    assert_eq!(
        sketch.stack,
        ["consumer (pbzip2.c:120)", "consumer (pbzip2.c:110)"]
    );
    assert!(sketch.steps.iter().all(|s| s.static_only), "{sketch:?}");
    assert!(!sketch.steps.is_empty());
    let slice: Slice = server.get("/api/v1/campaigns/1/slice").json();
    assert_eq!(slice, double::slice());
    server.stop();
}

/// Values that two secrets disguised are told apart by nobody who looks at them.
#[test]
fn machines_with_different_secrets_are_named_on_the_fleet_page_and_in_the_sketch() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    let said = "cannot be compared";
    let disguised = |number: u64, key: &str| {
        let outcome = match number.is_multiple_of(2) {
            true => crash(&FAILING),
            false => Outcome::Success,
        };
        let mut record = tracked(&format!("run-{number}"), variant(1, 1), outcome);
        record.agent = AgentId(format!("agent-{key}"));
        record.privacy = Privacy::Shapes;
        record.privacy_key = Some(key.to_owned());
        server.upload(&record);
    };
    (0..6).for_each(|number| disguised(number, "aaaaaaaa"));
    assert!(!server.get("/fleet").text().contains(said));
    assert_eq!(server.sketch(1).provenance.privacy, "shapes of values");
    (6..12).for_each(|number| disguised(number, "bbbbbbbb"));
    let fleet = server.get("/fleet").text();
    assert!(fleet.contains(said) && fleet.contains("2 secrets are in use"));
    let privacy = server.sketch(1).provenance.privacy;
    assert!(privacy.contains(said), "{privacy}");
    let agents: Vec<serde_json::Value> = server.get("/api/v1/agents").json();
    let keys: Vec<_> = agents.iter().map(|agent| &agent["privacy_key"]).collect();
    assert!(keys.contains(&&"aaaaaaaa".into()) && keys.contains(&&"bbbbbbbb".into()));
    server.stop();
}

#[test]
fn a_campaign_walks_to_settled_and_names_the_race() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    let number = feed(&server, 0, 2_000);
    let campaign = server.campaign(1);
    assert_eq!((campaign.iteration, campaign.sigma), (2, 4));
    assert_eq!(
        (campaign.tracked_failing, campaign.tracked_successful),
        (0, 0)
    );
    let end = feed_to_the_end(&server, number);
    let campaign = server.campaign(1);
    assert_eq!(campaign.state, CampaignState::Settled, "after {end} runs");
    assert_eq!(campaign.runs, end + 1);

    let sketch = server.sketch(1);
    assert!(sketch.settled);
    assert_eq!(Some(sketch.version), campaign.sketch_version);
    let best = sketch.predictors.iter().find(|p| p.best).unwrap();
    assert_eq!(best.class, PredictorClass::Order);
    assert!(best.score.f_measure > 0.99, "{best:?}");
    assert_eq!(sketch.provenance.failing_runs, campaign.tracked_failing);
    assert_eq!(
        sketch.provenance.successful_runs,
        campaign.tracked_successful
    );
    assert_eq!(sketch.provenance.untracked_failure_rate, Some(1.0));
    let best = campaign.best.unwrap();
    assert!(best.f_measure > 0.99, "{best:?}");

    // Every version is kept, in order.
    for version in 1..=sketch.version {
        let path = format!("/api/v1/campaigns/1/sketch?version={version}");
        let kept: FailureSketch = server.get(&path).json();
        assert_eq!(kept.version, version);
    }
    assert!(assignment(&server).finished);
    assert_eq!(assignment(&server).variant, None);
    server.stop();
}

#[test]
fn newer_figures_alone_make_no_new_version() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    let fail = |id: &str| {
        server.upload(&tracked(id, variant(1, 1), crash(&FAILING)));
        server.sketch(1)
    };
    let first = fail("f0");
    assert_eq!(first.version, 2, "a run is drawn instead of the slice");
    for number in 1..9 {
        let next = fail(&format!("f{number}"));
        assert_eq!(next.version, 2);
        assert_eq!(next.provenance.failing_runs, number + 1);
    }
    assert_eq!(server.campaign(1).sketch_version, Some(2));
    // The first version is as it was.
    let slice: FailureSketch = server.get("/api/v1/campaigns/1/sketch?version=1").json();
    assert!(slice.steps.iter().all(|s| s.static_only));
    server.stop();
}

/// A campaign without the times of its failures, which no two servers share; how
/// many there were stays, beside it.
fn timeless(mut campaign: CampaignSummary) -> (CampaignSummary, u64) {
    let seen = campaign.seen.take().unwrap_or_default();
    let failures = seen.days.iter().map(|(_, n)| n).sum();
    (campaign, failures)
}

#[test]
fn a_restart_changes_nothing() {
    let through = tempfile::tempdir().unwrap();
    let server = with_first_failure(through.path(), Double::default());
    feed_to_the_end(&server, 0);
    let expected = (timeless(server.campaign(1)), server.sketch(1));
    assert_eq!(expected.0.0.state, CampaignState::Settled);
    server.stop();

    let broken = tempfile::tempdir().unwrap();
    let mut server = with_first_failure(broken.path(), Double::default());
    let mut number = 0;
    while server.campaign(1).state == CampaignState::Tracking && number < 2_000 {
        number = feed(&server, number, number + 7);
        server.stop();
        server = Server::start(broken.path(), Double::default());
    }
    assert_eq!((timeless(server.campaign(1)), server.sketch(1)), expected);
    server.stop();
}

#[test]
fn a_campaign_that_was_being_prepared_is_prepared_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    // What a server leaves that dies between the failure and the tracked build.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let path = data.path().join("failsketch.sqlite");
        let storage = Storage::open_sqlite(&path).await.unwrap();
        let failure = LocatedFailure {
            kind: FailureKind::ExitCode(1),
            failing: double::statement(120).unwrap(),
            callers: Vec::new(),
            others: Vec::new(),
            said: None,
        };
        let campaign = Campaign::begin(
            CampaignId(1),
            double::build(),
            "pbzip2".into(),
            failure,
            BuildCounts::default(),
            FIRST_SIGMA,
        );
        let changes = Changes {
            campaigns: vec![Revised::new(campaign)],
            ..Changes::default()
        };
        storage.commit(changes).await.unwrap();
        storage.close().await.unwrap();
    });
    let server = Server::start(data.path(), Double::default());
    server.quiet();
    assert_eq!(server.campaign(1).state, CampaignState::Tracking);
    assert_eq!(server.sketch(1).version, 1);
    assert_eq!(server.get("/api/v1/patches/1/1").status, 200);
    server.stop();
}

#[test]
fn a_blob_store_that_fails_for_a_while_does_not_end_a_diagnosis() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    // A file where the folder should be: nothing can be written below it.
    let blobs = data.path().join("blobs");
    std::fs::remove_dir_all(&blobs).unwrap();
    std::fs::write(&blobs, "").unwrap();
    let reply = server.post_json("/api/v1/runs", &untracked("first", crash(&[120, 210])));
    assert_eq!(reply.status, 202);
    // The slice is there; the build was made and could not be kept.
    while server.get("/api/v1/campaigns/1/slice").status != 200 {
        std::thread::yield_now();
    }
    assert_eq!(server.campaign(1).state, CampaignState::Preparing);
    std::fs::remove_file(&blobs).unwrap();
    std::fs::create_dir(&blobs).unwrap();
    server.quiet();
    assert_eq!(server.campaign(1).state, CampaignState::Tracking);
    assert_eq!(server.get("/api/v1/patches/1/1").status, 200);
    server.stop();
}

#[test]
fn a_lost_tracked_build_fails_its_campaign_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    with_first_failure(data.path(), Double::default()).stop();
    std::fs::remove_dir_all(data.path().join("blobs")).unwrap();
    let server = Server::start(data.path(), Double::default());
    assert_eq!(server.get("/api/v1/patches/1/1").status, 500);
    server.upload(&tracked("r", variant(1, 1), Outcome::Success));
    let campaign = server.campaign(1);
    assert_eq!(campaign.state, CampaignState::Failed);
    let problem = campaign.problem.unwrap();
    assert!(
        problem.contains("no longer in the data folder"),
        "{problem}"
    );
    server.upload(&untracked("other", crash(&[205])));
    assert_eq!(server.campaign(2).state, CampaignState::Tracking);
    server.stop();
}

#[test]
fn uploads_from_many_agents_at_once_count_exactly_once() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    std::thread::scope(|scope| {
        for agent in 0..4 {
            let server = &server;
            scope.spawn(move || {
                // Neighbours send half of each other's runs as well.
                for number in agent * 10..agent * 10 + 20 {
                    let run = untracked(&format!("run-{number}"), Outcome::Success);
                    assert_eq!(server.post_json("/api/v1/runs", &run).status, 202);
                }
            });
        }
    });
    server.quiet();
    let campaign = server.campaign(1);
    assert_eq!((campaign.runs, campaign.failures), (51, 1));
    server.stop();
}

#[test]
fn a_run_uploaded_twice_counts_once() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    server.upload(&untracked("first", crash(&FAILING)));
    let run = tracked("again", variant(1, 1), Outcome::Success);
    server.upload(&run);
    server.upload(&run);
    let campaign = server.campaign(1);
    assert_eq!((campaign.runs, campaign.failures), (2, 1));
    assert_eq!(campaign.tracked_successful, 1);
    server.stop();
}

/// Agents of earlier releases ask about each run by itself and run what they are told.
#[test]
fn agents_of_earlier_releases_are_answered_and_some_of_their_runs_stay_with_p() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    let ask = || -> serde_json::Value {
        let build = double::build();
        let request = serde_json::json!({"agent": "agent-1", "build": build, "tier": "inline"});
        server.post_json("/api/v1/assignment", &request).json()
    };
    let nothing = serde_json::json!({"schema": 1, "variant": null, "finished": false});
    assert_eq!(ask(), nothing);
    server.upload(&untracked("first", crash(&FAILING)));
    let answers: Vec<serde_json::Value> = (0..2 * UNTRACKED_SHARE).map(|_| ask()).collect();
    let with_p = |answer: &&serde_json::Value| answer["variant"].is_null();
    assert_eq!(answers.iter().filter(with_p).count(), 2);
    let tracked = answers.iter().filter(|answer| !with_p(answer));
    for answer in tracked {
        let told: VariantRef = serde_json::from_value(answer["variant"].clone()).unwrap();
        assert_eq!(told, variant(1, 1));
        assert!(answer["expected"].is_object(), "{answer}");
    }
    // Those of this release are told the share, and decide by themselves.
    let now: Vec<_> = (0..2 * UNTRACKED_SHARE)
        .map(|_| assignment(&server))
        .collect();
    assert!(now.iter().all(|told| told.variant == Some(variant(1, 1))));
    assert!(now.iter().all(|told| told.tracked_share == 0.875));
    server.stop();
}

#[test]
fn the_patch_turns_p_into_the_tracked_build() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    let key = server.get("/api/v1/key").text();
    let patch = server.get("/api/v1/patches/1/1");
    assert_eq!(
        patch.header("content-type"),
        Some("application/octet-stream")
    );
    let key = code_patch::PublicKey::from_text(&key).unwrap();
    let patch = code_patch::open(&patch.body, &key, 0).unwrap();
    assert_eq!(
        patch.manifest().execution,
        Execution::Tracked(variant(1, 1))
    );
    assert_eq!(patch.manifest().version, 1);
    let result = patch.apply(&double::deployed(0)).unwrap();
    assert_eq!(result, double::deployed(2));
    let missing = server.get("/api/v1/patches/1/9");
    assert_eq!(missing.status, 404);
    assert!(missing.error().contains("iteration 9"));
    server.stop();
}

#[test]
fn another_failure_of_the_tracked_build_is_its_own_campaign() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    server.upload(&tracked("other", variant(1, 1), crash(&[205])));
    let first = server.campaign(1);
    assert_eq!((first.tracked_failing, first.tracked_successful), (0, 0));
    assert_eq!((first.runs, first.failures), (2, 2));
    let second = server.campaign(2);
    assert_eq!(second.title, "SIGSEGV in main (pbzip2.c:205)");
    assert_eq!(second.state, CampaignState::Tracking);
    // P has shown the first failure once and the second never.
    assert_eq!(assignment(&server).variant, Some(variant(1, 1)));
    assert_eq!(server.post("/api/v1/campaigns/1/stop", b"").status, 200);
    assert_eq!(assignment(&server).variant, Some(variant(2, 1)));
    server.stop();
}

#[test]
fn runs_of_an_earlier_iteration_do_not_count_for_the_current_one() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    feed(&server, 0, 2_000);
    let before = server.campaign(1);
    assert_eq!(before.iteration, 2);
    server.upload(&tracked("late-1", variant(1, 1), crash(&FAILING)));
    server.upload(&tracked("late-2", variant(1, 1), Outcome::Success));
    let after = server.campaign(1);
    assert_eq!((after.tracked_failing, after.tracked_successful), (0, 0));
    assert_eq!(after.sketch_version, before.sketch_version);
    assert_eq!(after.runs, before.runs + 2);
    server.stop();
}

/// The engine files runs more slowly than they arrive, so most of these are
/// still waiting when the server is told to end; they are filed after a restart.
#[test]
fn a_server_ends_in_the_middle_of_a_backlog() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    for number in 0..200 {
        let run = tracked(
            &format!("waiting-{number}"),
            variant(1, 1),
            Outcome::Success,
        );
        assert_eq!(server.post_json("/api/v1/runs", &run).status, 202);
    }
    server.stop();
    let again = Server::start(data.path(), Double::default());
    again.quiet();
    assert_eq!(again.campaign(1).runs, 201);
    again.stop();
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    let refusal = Server::refusal(data.path());
    assert!(refusal.contains("another server uses"), "{refusal}");
    server.stop();
    Server::start(data.path(), Double::default()).stop();
}

#[test]
fn a_developer_stops_a_campaign_for_good() {
    let data = tempfile::tempdir().unwrap();
    let server = with_first_failure(data.path(), Double::default());
    let stopped: CampaignSummary = server.post("/api/v1/campaigns/1/stop", b"").json();
    assert_eq!(stopped.state, CampaignState::Stopped);
    assert!(assignment(&server).finished);
    server.stop();
    let server = Server::start(data.path(), Double::default());
    server.upload(&untracked("again", crash(&FAILING)));
    assert_eq!(server.campaign(1).state, CampaignState::Stopped);
    let all: Vec<CampaignSummary> = server.get("/api/v1/campaigns").json();
    assert_eq!(all.len(), 1);
    server.stop();
}

#[test]
fn a_sigma_that_hooks_nothing_is_passed_over() {
    let data = tempfile::tempdir().unwrap();
    let double = Double {
        hookable_from: 4,
        ..Double::default()
    };
    let server = with_first_failure(data.path(), double);
    let campaign = server.campaign(1);
    assert_eq!(campaign.state, CampaignState::Tracking);
    assert_eq!((campaign.sigma, campaign.iteration), (4, 1));
    server.stop();
}

#[test]
fn a_build_that_cannot_be_made_fails_the_campaign_and_keeps_its_sketch() {
    for (double, problem) in [
        (
            Double {
                broken: Some("ld.lld: no such file".into()),
                ..Double::default()
            },
            "ld.lld: no such file",
        ),
        (
            Double {
                hookable_from: 99,
                ..Double::default()
            },
            "nothing that led to the failure can be recorded",
        ),
    ] {
        let data = tempfile::tempdir().unwrap();
        let server = with_first_failure(data.path(), double);
        let campaign = server.campaign(1);
        assert_eq!(campaign.state, CampaignState::Failed);
        let said = campaign.problem.unwrap();
        assert!(said.contains(problem), "{said}");
        assert_eq!(server.sketch(1).version, 1);
        assert!(assignment(&server).finished);
        server.stop();
    }
}

#[test]
fn a_failure_at_no_statement_says_so() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    server.upload(&untracked("a", crash(&[9_999])));
    server.upload(&untracked("b", crash(&[])));
    let all: Vec<CampaignSummary> = server.get("/api/v1/campaigns").json();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].state, CampaignState::Failed);
    assert_eq!((all[0].runs, all[0].failures), (2, 2));
    let no_sketch = server.get("/api/v1/campaigns/1/sketch");
    assert_eq!(no_sketch.status, 404);
    assert!(no_sketch.error().contains("lies in no function"));
    server.stop();
}
