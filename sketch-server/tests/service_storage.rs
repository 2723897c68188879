//! The storage: what is acknowledged is kept, counted once, and read back.

use sketch_model::{
    AgentId, BuildId, CampaignId, ClockTie, FailureKind, FailureReport, FailureSketch, Outcome,
    Placement, Provenance, RunId, RunRecord, Schema, Slice, SourceLocation, Statement, StatementId,
    Tier, TrackingPlan, VariantRef, WatchRecord,
};
use sketch_server::service::storage::{
    Arrival, BlobId, BuildCounts, Changes, Filing, IterationRecord, RunRole, SqliteStorage,
    Storage, StorageError,
};
use sketch_server::service::{Campaign, LocatedFailure};
use std::path::Path;

fn run(id: &str, variant: Option<VariantRef>, failed: bool) -> RunRecord {
    let report = FailureReport {
        schema: Schema::default(),
        kind: FailureKind::ExitCode(3),
        fault_address: None,
        said: None,
        threads: Vec::new(),
        mappings: Vec::new(),
        gaps: Vec::new(),
    };
    RunRecord {
        schema: Schema::default(),
        id: RunId(id.into()),
        agent: AgentId("agent".into()),
        build: BuildId("ab".into()),
        tier: Tier::Inline,
        variant,
        sampling_probability: 1.0,
        outcome: if failed {
            Outcome::Failure(report)
        } else {
            Outcome::Success
        },
        wall_us: 0,
        cpu_us: 0,
        unrecorded_threads: 0,
        threads: Vec::new(),
        watch: WatchRecord::default(),
        tracking: Default::default(),
        clock: ClockTie::default(),
        mappings: Vec::new(),
        pt: None,
        gaps: Vec::new(),
        privacy: sketch_model::Privacy::Full,
    }
}

fn campaign(id: u64, line: u32) -> Campaign {
    let failure = LocatedFailure {
        kind: FailureKind::ExitCode(3),
        failing: Statement {
            id: StatementId(line),
            function: "main".into(),
            location: SourceLocation {
                file: "/src/a.c".into(),
                line,
            },
            text: String::new(),
        },
        callers: Vec::new(),
        others: Vec::new(),
        said: None,
    };
    Campaign::begin(
        CampaignId(id),
        BuildId("ab".into()),
        "a".into(),
        failure,
        BuildCounts::default(),
    )
}

fn sketch(campaign: u64, version: u32) -> FailureSketch {
    FailureSketch {
        schema: Schema::default(),
        campaign: CampaignId(campaign),
        version,
        build: BuildId("ab".into()),
        program: "a".into(),
        title: "exit code 3 in main (a.c:1)".into(),
        summary: format!("version {version}"),
        said: None,
        settled: false,
        stack: Vec::new(),
        threads: Vec::new(),
        steps: Vec::new(),
        arrows: Vec::new(),
        predictors: Vec::new(),
        provenance: Provenance {
            failing_runs: 0,
            successful_runs: 0,
            all_runs: 0,
            all_failures: 0,
            sigma: 2,
            iteration: 1,
            slice_statements: 4,
            predictors_tested: 0,
            looks: 0,
            control_flow: "inline branch recorder".into(),
            tier: Tier::Inline,
            privacy: "none".into(),
            drawn_run: None,
            untracked_failure_rate: Some(1.0 / 3.0),
            tracked_failure_rate: None,
            coverage: None,
            paused_runs: 0,
            watched: Vec::new(),
            promoted: Vec::new(),
        },
        gaps: Vec::new(),
    }
}

fn filed(arrival: Arrival, role: RunRole, record: &RunRecord) -> Changes {
    Changes {
        filing: Some(Filing {
            arrival,
            build: record.build.clone(),
            role,
            failed: record.failed(),
            untracked: record.variant.is_none(),
        }),
        ..Changes::default()
    }
}

async fn open(folder: &Path) -> SqliteStorage {
    SqliteStorage::open(&folder.join("db.sqlite"))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_run_is_kept_once_and_filed_once() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open(folder.path()).await;
    let record = run("r1", None, true);
    assert!(storage.accept_run(&record).await.unwrap());
    assert!(!storage.accept_run(&record).await.unwrap());
    let pending = storage.next_pending().await.unwrap().unwrap();
    assert_eq!(pending.record, record);

    let changes = filed(pending.arrival, RunRole::Untracked, &record);
    storage.commit(changes.clone()).await.unwrap();
    storage.commit(changes).await.unwrap();
    assert_eq!(storage.next_pending().await.unwrap(), None);
    let counts = storage.build_counts(&record.build).await.unwrap();
    assert_eq!(counts, BuildCounts::default().and(&record));
    assert!(!storage.accept_run(&record).await.unwrap());
    assert_eq!(storage.next_pending().await.unwrap(), None);
}

#[tokio::test]
async fn pending_runs_come_in_order_of_arrival_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open(folder.path()).await;
    for id in ["z", "a", "m"] {
        storage.accept_run(&run(id, None, false)).await.unwrap();
    }
    storage.close().await;
    let storage = open(folder.path()).await;
    let mut order = Vec::new();
    while let Some(pending) = storage.next_pending().await.unwrap() {
        order.push(pending.record.id.0.clone());
        let changes = filed(pending.arrival, RunRole::Untracked, &pending.record);
        storage.commit(changes).await.unwrap();
    }
    assert_eq!(order, ["z", "a", "m"]);
}

#[tokio::test]
async fn only_runs_that_count_are_replayed_and_only_of_their_variant() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open(folder.path()).await;
    let variant = |iteration| {
        Some(VariantRef {
            campaign: CampaignId(1),
            iteration,
            plan: 0,
        })
    };
    let roles = [
        ("a", variant(1), RunRole::Successful),
        ("b", variant(2), RunRole::Successful),
        ("c", variant(1), RunRole::OtherFailure),
        ("d", variant(1), RunRole::Late),
        ("e", variant(1), RunRole::Failing),
        ("f", None, RunRole::Untracked),
    ];
    for (id, variant, role) in roles {
        let record = run(id, variant, role == RunRole::Failing);
        storage.accept_run(&record).await.unwrap();
        let pending = storage.next_pending().await.unwrap().unwrap();
        let changes = filed(pending.arrival, role, &record);
        storage.commit(changes).await.unwrap();
    }
    let mut replayed = Vec::new();
    let mut after = Arrival(0);
    let first = variant(1).unwrap();
    while let Some(run) = storage.next_counted(first, after).await.unwrap() {
        replayed.push(run.record.id.0.clone());
        after = run.arrival;
    }
    assert_eq!(replayed, ["a", "e"]);
}

#[tokio::test]
async fn campaigns_builds_slices_and_all_sketch_versions_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open(folder.path()).await;
    let build = BuildId("ab".into());
    let slice = Slice {
        schema: Schema::default(),
        build: build.clone(),
        entries: Vec::new(),
        gaps: vec!["assembly".into()],
    };
    let iteration = IterationRecord {
        variant: VariantRef {
            campaign: CampaignId(1),
            iteration: 1,
            plan: 0,
        },
        plan: TrackingPlan {
            schema: Schema::default(),
            build: build.clone(),
            sigma: 2,
            variant: 0,
            tier: Tier::Inline,
            beside: Vec::new(),
            implied: Vec::new(),
            statements: Vec::new(),
            sites: Vec::new(),
            watched: Vec::new(),
            unwatched: Vec::new(),
            promoted: Vec::new(),
            audit: false,
        },
        placement: Placement {
            places: vec![1, 0],
            ..Placement::default()
        },
        patch_version: 1,
        patch: BlobId("p".into()),
        full: BlobId("f".into()),
    };
    assert_eq!(storage.next_patch_version().await.unwrap(), 1);
    let changes = Changes {
        filing: None,
        campaigns: vec![campaign(1, 10), campaign(2, 20)],
        slices: vec![(CampaignId(1), slice.clone())],
        iterations: vec![iteration.clone()],
        sketches: vec![sketch(1, 1), sketch(1, 2)],
    };
    storage.commit(changes).await.unwrap();
    storage.close().await;

    let storage = open(folder.path()).await;
    let both = vec![campaign(1, 10), campaign(2, 20)];
    assert_eq!(storage.campaigns().await.unwrap(), both);
    assert_eq!(storage.campaigns_of(&build).await.unwrap(), both);
    assert_eq!(storage.campaign(CampaignId(3)).await.unwrap(), None);
    assert_eq!(storage.slice(CampaignId(1)).await.unwrap(), Some(slice));
    let read = storage.iteration(iteration.variant).await.unwrap();
    assert_eq!(read, Some(iteration));
    assert_eq!(storage.next_patch_version().await.unwrap(), 2);
    let one = CampaignId(1);
    assert_eq!(storage.sketch(one, None).await.unwrap(), Some(sketch(1, 2)));
    assert_eq!(
        storage.sketch(one, Some(1)).await.unwrap(),
        Some(sketch(1, 1))
    );
    assert_eq!(storage.sketch(one, Some(3)).await.unwrap(), None);
    assert_eq!(storage.sketch(CampaignId(2), None).await.unwrap(), None);
}

#[tokio::test]
async fn changes_are_written_together_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open(folder.path()).await;
    let record = run("r1", None, true);
    storage.accept_run(&record).await.unwrap();
    let arrival = storage.next_pending().await.unwrap().unwrap().arrival;
    // Two campaigns of one signature: the database refuses the second.
    let changes = Changes {
        campaigns: vec![campaign(1, 10), campaign(2, 10)],
        ..filed(arrival, RunRole::Untracked, &record)
    };
    assert!(matches!(
        storage.commit(changes).await,
        Err(StorageError::Database { .. })
    ));
    assert!(storage.next_pending().await.unwrap().is_some());
    assert_eq!(storage.campaigns().await.unwrap(), []);
    let counts = storage.build_counts(&record.build).await.unwrap();
    assert_eq!(counts, BuildCounts::default());
}

#[tokio::test]
async fn a_damaged_run_does_not_stand_in_the_way_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open(folder.path()).await;
    for id in ["a", "b", "c"] {
        storage.accept_run(&run(id, None, false)).await.unwrap();
    }
    let path = folder.path().join("db.sqlite");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let other = sqlx::sqlite::SqlitePool::connect_with(options)
        .await
        .unwrap();
    for damage in [
        "UPDATE runs SET record = x'00ff00ff' WHERE id = 'a'",
        "UPDATE runs SET record = substr(record, 1, 40) WHERE id = 'b'",
    ] {
        sqlx::query(damage).execute(&other).await.unwrap();
    }
    other.close().await;
    let pending = storage.next_pending().await.unwrap().unwrap();
    assert_eq!(pending.record.id.0, "c");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.sqlite");
    open(folder.path()).await.close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let newer = sqlx::sqlite::SqlitePool::connect_with(options)
        .await
        .unwrap();
    sqlx::query("PRAGMA user_version = 99")
        .execute(&newer)
        .await
        .unwrap();
    newer.close().await;
    let refusal = SqliteStorage::open(&path).await.unwrap_err().to_string();
    assert!(
        refusal.contains("schema version 99") && refusal.contains("versions up to 2"),
        "{refusal}"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.sqlite");
    std::fs::write(&path, "this is a letter, not a database; ".repeat(100)).unwrap();
    assert!(SqliteStorage::open(&path).await.is_err());
}
