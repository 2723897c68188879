//! The storage: what is acknowledged is kept, counted once, and read back.
//! The same tests run on SQLite and on a real PostgreSQL.

use crate::storage_support::{Place, campaign, filed, new, run, sketch};
use diagnosis::campaign::{PlanRuns, Steering};
use sketch_model::{
    AgentId, BuildId, CampaignId, CampaignState, Capabilities, ClockTie, Gap, Placement, RunRecord,
    Slice, VariantRef,
};
use sketch_server::storage::{
    Arrival, BlobId, BuildCounts, Changes, CountedAs, Database, IterationRecord, Retention,
    Revised, Storage, StorageError, sweep_all,
};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use test_support::postgres::Postgres;
use test_support::records;

macro_rules! on_each_database {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Place::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Place::postgres()).await;
            })*
        }
    };
}

on_each_database!(
    a_run_is_kept_once_and_filed_once,
    runs_that_come_at_once_are_each_kept_once,
    pending_runs_come_in_order_of_arrival_and_survive_a_restart,
    only_runs_that_count_are_replayed_and_only_of_their_variant,
    campaigns_builds_slices_and_all_sketch_versions_read_back,
    changes_are_written_together_or_not_at_all,
    a_campaign_is_written_only_over_what_was_read,
    a_damaged_run_does_not_stand_in_the_way_of_others,
    a_newer_schema_is_refused_and_left_alone,
    settings_are_agreed_upon_once,
    patch_versions_are_never_given_twice,
    a_nul_in_an_id_is_refused_alone,
    old_and_surplus_records_go_and_counts_stay,
);

async fn a_run_is_kept_once_and_filed_once(place: Place) {
    let storage = place.open().await;
    let record = run("r1", None, true);
    assert!(storage.accept_run(&record).await.unwrap());
    assert!(!storage.accept_run(&record).await.unwrap());
    // Not with other contents either: of two records of a run the first stays.
    let other = run("r1", None, false);
    assert_ne!(other, record);
    assert!(!storage.accept_run(&other).await.unwrap());
    let pending = storage.pending(9).await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].record, record);

    let changes = filed(pending[0].arrival, CountedAs::Untracked, &record);
    storage.commit(changes.clone()).await.unwrap();
    let again = storage.commit(changes).await.unwrap_err();
    assert!(again.is_conflict(), "{again}");
    assert_eq!(storage.pending(9).await.unwrap(), []);
    let counts = storage.build_counts(&record.build).await.unwrap();
    assert_eq!(counts, BuildCounts::default().and(&record));
    assert!(!storage.accept_run(&record).await.unwrap());
    assert!(!storage.accept_run(&other).await.unwrap());
    assert_eq!(storage.pending(9).await.unwrap(), []);
}

async fn runs_that_come_at_once_are_each_kept_once(place: Place) {
    let storage = place.open().await;
    let mut senders = Vec::new();
    for number in 0..300 {
        // Each id three times.
        let (storage, id) = (Arc::clone(&storage), format!("r{}", number % 100));
        senders.push(tokio::spawn(async move {
            storage.accept_run(&run(&id, None, false)).await.unwrap()
        }));
    }
    let mut added = 0;
    for sender in senders {
        added += u32::from(sender.await.unwrap());
    }
    assert_eq!(added, 100);
    assert_eq!(storage.pending(1_000).await.unwrap().len(), 100);
    assert_eq!(storage.pending(7).await.unwrap().len(), 7);
}

async fn pending_runs_come_in_order_of_arrival_and_survive_a_restart(place: Place) {
    let storage = place.open().await;
    for id in ["z", "a", "m"] {
        storage.accept_run(&run(id, None, false)).await.unwrap();
    }
    storage.close().await.unwrap();
    let storage = place.open().await;
    let mut order = Vec::new();
    while let Some(pending) = storage.pending(1).await.unwrap().pop() {
        order.push(pending.record.id.0.clone());
        let changes = filed(pending.arrival, CountedAs::Untracked, &pending.record);
        storage.commit(changes).await.unwrap();
    }
    assert_eq!(order, ["z", "a", "m"]);
}

async fn only_runs_that_count_are_replayed_and_only_of_their_variant(place: Place) {
    let storage = place.open().await;
    let variant = |iteration| Some(records::variant(1, iteration, 0));
    let roles = [
        ("a", variant(1), CountedAs::Successful),
        ("b", variant(2), CountedAs::Successful),
        ("c", variant(1), CountedAs::OtherFailure),
        ("d", variant(1), CountedAs::TooLate),
        ("e", variant(1), CountedAs::Failing),
        ("f", None, CountedAs::Untracked),
    ];
    for (id, variant, role) in roles {
        let record = run(id, variant, role == CountedAs::Failing);
        storage.accept_run(&record).await.unwrap();
        let pending = storage.pending(1).await.unwrap().pop().unwrap();
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
    let at_once = storage.counted(first, Arrival(0), 10).await.unwrap();
    assert_eq!(at_once.len(), 2);
}

async fn campaigns_builds_slices_and_all_sketch_versions_read_back(place: Place) {
    let storage = place.open().await;
    let build = BuildId("ab".into());
    let slice = Slice {
        schema: Slice::SCHEMA,
        build: build.clone(),
        entries: Vec::new(),
        gaps: vec![Gap::AssemblyOpaque { count: 1 }],
    };
    let iteration = IterationRecord {
        variant: records::variant(1, 1, 0),
        plan: records::plan(Capabilities::hooks()),
        placement: Placement {
            places: vec![1, 0],
            ..Placement::default()
        },
        patch_version: 1,
        patch: BlobId("p".into()),
        full: BlobId("f".into()),
    };
    let changes = Changes {
        filings: Vec::new(),
        campaigns: vec![new(1, 10), new(2, 20)],
        slices: vec![(CampaignId(1), slice.clone())],
        iterations: vec![iteration.clone()],
        sketches: vec![sketch(1, 1), sketch(1, 2)],
    };
    storage.commit(changes).await.unwrap();
    storage.close().await.unwrap();

    let storage = place.open().await;
    let both = vec![campaign(1, 10), campaign(2, 20)];
    assert_eq!(storage.campaigns().await.unwrap(), both);
    assert_eq!(storage.campaigns_of(&build).await.unwrap(), both);
    assert_eq!(storage.campaign(CampaignId(3)).await.unwrap(), None);
    assert_eq!(storage.slice(CampaignId(1)).await.unwrap(), Some(slice));
    let read = storage.iteration(iteration.variant).await.unwrap();
    assert_eq!(read, Some(iteration));
    let one = CampaignId(1);
    assert_eq!(storage.sketch(one, None).await.unwrap(), Some(sketch(1, 2)));
    assert_eq!(
        storage.sketch(one, Some(1)).await.unwrap(),
        Some(sketch(1, 1))
    );
    assert_eq!(storage.sketch(one, Some(3)).await.unwrap(), None);
    assert_eq!(storage.sketch(CampaignId(2), None).await.unwrap(), None);
}

async fn changes_are_written_together_or_not_at_all(place: Place) {
    let storage = place.open().await;
    let record = run("r1", None, true);
    storage.accept_run(&record).await.unwrap();
    let arrival = storage.pending(1).await.unwrap()[0].arrival;
    // Two campaigns of one signature: the database refuses the second.
    let changes = Changes {
        campaigns: vec![new(1, 10), new(2, 10)],
        ..filed(arrival, CountedAs::Untracked, &record)
    };
    assert!(storage.commit(changes).await.unwrap_err().is_conflict());
    assert_eq!(storage.pending(9).await.unwrap().len(), 1);
    assert_eq!(storage.campaigns().await.unwrap(), []);
    let counts = storage.build_counts(&record.build).await.unwrap();
    assert_eq!(counts, BuildCounts::default());
}

async fn a_campaign_is_written_only_over_what_was_read(place: Place) {
    let storage = place.open().await;
    let write = |revised: Revised| {
        let storage = Arc::clone(&storage);
        async move {
            let changes = Changes {
                campaigns: vec![revised],
                ..Changes::default()
            };
            storage.commit(changes).await
        }
    };
    write(new(1, 10)).await.unwrap();
    let one = CampaignId(1);
    let read = storage.revised(one).await.unwrap().unwrap();
    assert_eq!(read.revision, 1);
    assert_eq!(storage.claim_job().await.unwrap(), Some(one));
    let Revised { campaign, revision } = read;
    let stopped = campaign.clone().steer(Steering::Stop).unwrap();
    let theirs = Revised {
        campaign: stopped,
        revision,
    };
    let plans = vec![PlanRuns::new(0, Capabilities::hooks())];
    let mine = Revised {
        campaign: campaign.sliced(7).built(2, plans),
        revision,
    };
    write(mine.clone()).await.unwrap();
    assert!(write(theirs).await.unwrap_err().is_conflict());
    assert_eq!(storage.campaign(one).await.unwrap(), Some(mine.campaign));
    assert_eq!(storage.revisions().await.unwrap(), [(one, 2)]);
    // Built: there is nothing to prepare any more.
    assert_eq!(storage.claim_job().await.unwrap(), None);
}

async fn a_damaged_run_does_not_stand_in_the_way_of_others(place: Place) {
    let storage = place.open().await;
    for id in ["a", "b", "c"] {
        storage.accept_run(&run(id, None, false)).await.unwrap();
    }
    let bytes = match place.database {
        Database::Embedded => "x'00ff00ff'",
        Database::Postgres { .. } => "'\\x00ff00ff'::bytea",
    };
    place
        .meddle(&format!(
            "UPDATE runs SET record = {bytes} WHERE id = 'a';
             UPDATE runs SET record = substr(record, 1, 40) WHERE id = 'b';"
        ))
        .await;
    // Also where nothing but damage is found at first.
    let pending = storage.pending(1).await.unwrap();
    assert_eq!(pending[0].record.id.0, "c");
    assert_eq!(storage.pending(9).await.unwrap().len(), 1);
}

async fn a_newer_schema_is_refused_and_left_alone(place: Place) {
    let storage = place.open().await;
    storage.accept_run(&run("a", None, false)).await.unwrap();
    storage.close().await.unwrap();
    let (newer, known) = match place.database {
        Database::Embedded => ("PRAGMA user_version = 99", 3),
        Database::Postgres { .. } => ("INSERT INTO failsketch_schema VALUES (99)", 1),
    };
    place.meddle(newer).await;
    let refusal = place.database.open(place.folder.path()).await;
    let refusal = refusal.expect_err("refused").to_string();
    let says = [
        "schema version 99".to_owned(),
        format!("versions up to {known}"),
        "start the newer release".to_owned(),
    ];
    assert!(says.iter().all(|s| refusal.contains(s)), "{refusal}");
    // The newer release finds it as it left it.
    let back = match place.database {
        Database::Embedded => "PRAGMA user_version = 3",
        Database::Postgres { .. } => "DELETE FROM failsketch_schema WHERE version = 99",
    };
    place.meddle(back).await;
    assert_eq!(place.open().await.pending(9).await.unwrap().len(), 1);
}

async fn settings_are_agreed_upon_once(place: Place) {
    let storage = place.open().await;
    assert_eq!(storage.agree("signing_key", "a").await.unwrap(), "a");
    assert_eq!(storage.agree("signing_key", "b").await.unwrap(), "a");
}

async fn patch_versions_are_never_given_twice(place: Place) {
    let storage = place.open().await;
    assert_eq!(storage.reserve_patch_versions(3).await.unwrap(), 1);
    assert_eq!(storage.reserve_patch_versions(2).await.unwrap(), 4);
    storage.close().await.unwrap();
    let storage = place.open().await;
    assert_eq!(storage.reserve_patch_versions(1).await.unwrap(), 6);
}

async fn a_nul_in_an_id_is_refused_alone(place: Place) {
    let storage = place.open().await;
    let (bad, good) = (run("a\0b", None, false), run("ab", None, false));
    let (refused, added) = tokio::join!(storage.accept_run(&bad), storage.accept_run(&good));
    assert!(matches!(refused, Err(StorageError::NotAdded { .. })));
    assert!(added.unwrap());
}

/// The ids of the runs of a variant whose records are still there.
async fn kept(storage: &Storage, variant: VariantRef) -> Vec<String> {
    let runs = storage.counted(variant, Arrival(0), 100).await.unwrap();
    runs.into_iter().map(|run| run.record.id.0).collect()
}

async fn old_and_surplus_records_go_and_counts_stay(place: Place) {
    let storage = place.open().await;
    let variant = |iteration| VariantRef {
        campaign: CampaignId(1),
        iteration,
        plan: 0,
    };
    let plans = || vec![PlanRuns::new(0, Capabilities::hooks())];
    let first = campaign(1, 10).sliced(9).built(2, plans());
    let tracking = first.steer(Steering::Widen).unwrap().built(4, plans());
    let changes = Changes {
        campaigns: vec![Revised::new(tracking)],
        ..Changes::default()
    };
    storage.commit(changes).await.unwrap();
    for iteration in [1, 2] {
        for number in 0..4 {
            let id = format!("{iteration}-{number}");
            let record = run(&id, Some(variant(iteration)), false);
            storage.accept_run(&record).await.unwrap();
            let pending = storage.pending(1).await.unwrap().pop().unwrap();
            let changes = filed(pending.arrival, CountedAs::Successful, &record);
            storage.commit(changes).await.unwrap();
        }
    }
    storage.accept_run(&run("new", None, false)).await.unwrap();
    let counts = storage.build_counts(&BuildId("ab".into())).await.unwrap();
    assert_eq!(counts.runs, 8);
    let week = match place.database {
        Database::Embedded => "UPDATE runs SET received = received - 7 * 86400",
        Database::Postgres { .. } => "UPDATE runs SET received = received - INTERVAL '7 days'",
    };
    place
        .meddle(&format!("{week} WHERE id IN ('1-0', '2-0', 'new')"))
        .await;

    let keep = |days, runs| Retention { days, runs };
    let sweep = |keep| sweep_all(&storage, keep);
    assert_eq!(sweep(keep(None, None)).await.unwrap(), 0);
    // Longer than there are dates for.
    assert_eq!(sweep(keep(Some(u64::MAX), None)).await.unwrap(), 0);
    assert_eq!(sweep(keep(Some(8), Some(9))).await.unwrap(), 0);
    assert_eq!(sweep(keep(Some(6), None)).await.unwrap(), 1);
    assert_eq!(kept(&storage, variant(1)).await, ["1-1", "1-2", "1-3"]);
    // Of the seven of the campaign the newest six.
    assert_eq!(sweep(keep(None, Some(6))).await.unwrap(), 1);
    assert_eq!(kept(&storage, variant(1)).await, ["1-2", "1-3"]);
    assert_eq!(sweep(keep(Some(0), Some(0))).await.unwrap(), 2);
    assert_eq!(kept(&storage, variant(1)).await, [] as [&str; 0]);
    // What the running iteration counts is needed, and what nobody has filed yet.
    assert_eq!(
        kept(&storage, variant(2)).await,
        ["2-0", "2-1", "2-2", "2-3"]
    );
    assert_eq!(storage.pending(9).await.unwrap().len(), 1);
    // Counted once for all that.
    let again = run("1-0", Some(variant(1)), false);
    assert!(!storage.accept_run(&again).await.unwrap());
    let after = storage.build_counts(&BuildId("ab".into())).await.unwrap();
    assert_eq!(after, counts);

    // Its campaign is over: now they go too.
    let mut over = storage.revised(CampaignId(1)).await.unwrap().unwrap();
    over.campaign = over.campaign.steer(Steering::Stop).unwrap();
    let changes = Changes {
        campaigns: vec![over],
        ..Changes::default()
    };
    storage.commit(changes).await.unwrap();
    assert_eq!(sweep(keep(Some(6), None)).await.unwrap(), 1);
    assert_eq!(kept(&storage, variant(2)).await, ["2-1", "2-2", "2-3"]);
}

const LONG: Duration = Duration::from_secs(600);

/// Two servers of one database. The first is dead to others from the beginning
/// if `lease` is zero.
async fn two_servers(lease: Duration) -> (Storage, Storage) {
    let url = Postgres::shared().database();
    let first = Storage::open_postgres(&url, lease).await.unwrap();
    let second = Storage::open_postgres(&url, LONG).await.unwrap();
    (first, second)
}

#[tokio::test]
async fn runs_of_a_build_are_one_servers_while_it_lives() {
    let (first, second) = two_servers(LONG).await;
    second.accept_run(&run("a", None, false)).await.unwrap();
    assert_eq!(first.pending(9).await.unwrap().len(), 1);
    assert_eq!(second.pending(9).await.unwrap(), []);
    // Also those that come later, and to the other server.
    second.accept_run(&run("b", None, false)).await.unwrap();
    assert_eq!(second.pending(9).await.unwrap(), []);
    assert_eq!(first.pending(9).await.unwrap().len(), 2);
    // A server that ends leaves them to others at once.
    first.close().await.unwrap();
    assert_eq!(second.pending(9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_dead_servers_runs_are_taken_over_and_filed_once_even_if_it_was_not_dead() {
    let (first, second) = two_servers(Duration::ZERO).await;
    let record = run("a", None, false);
    first.accept_run(&record).await.unwrap();
    let theirs = first.pending(9).await.unwrap();
    let ours = second.pending(9).await.unwrap();
    assert_eq!(theirs, ours);
    let changes = filed(ours[0].arrival, CountedAs::Untracked, &record);
    second.commit(changes.clone()).await.unwrap();
    assert!(first.commit(changes).await.unwrap_err().is_conflict());
    let counts = second.build_counts(&record.build).await.unwrap();
    assert_eq!(counts.runs, 1);
}

#[tokio::test]
async fn a_job_is_one_servers_while_it_lives() {
    for (lease, free) in [(LONG, None), (Duration::ZERO, Some(CampaignId(1)))] {
        let (first, second) = two_servers(lease).await;
        let changes = Changes {
            campaigns: vec![new(1, 10)],
            ..Changes::default()
        };
        first.commit(changes).await.unwrap();
        assert_eq!(first.claim_job().await.unwrap(), Some(CampaignId(1)));
        assert_eq!(second.claim_job().await.unwrap(), free);
    }
}

#[tokio::test]
async fn servers_that_claim_at_once_take_different_jobs() {
    let url = Postgres::shared().database();
    let first = Storage::open_postgres(&url, LONG).await.unwrap();
    let changes = Changes {
        campaigns: (1..=6).map(|n| new(n, n as u32)).collect(),
        ..Changes::default()
    };
    first.commit(changes).await.unwrap();
    let mut claims = Vec::new();
    for _ in 0..6 {
        let server = Storage::open_postgres(&url, LONG).await.unwrap();
        claims.push(tokio::spawn(async move {
            // What another has locked at this moment is passed over, not waited for.
            loop {
                if let Some(id) = server.claim_job().await.unwrap() {
                    return id.0;
                }
            }
        }));
    }
    let mut taken = Vec::new();
    for claim in claims {
        taken.push(claim.await.unwrap());
    }
    taken.sort_unstable();
    assert_eq!(taken, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn servers_that_start_at_once_make_the_tables_once() {
    let url = Postgres::shared().database();
    let starts = (0..4).map(|_| Storage::open_postgres(&url, LONG));
    for started in futures_util::future::join_all(starts).await {
        started.unwrap();
    }
}

/// `version-3.sqlite` was written by the server of commit abbe15a, the last before
/// SQLite and PostgreSQL shared their statements.
#[tokio::test]
async fn a_database_of_the_last_release_is_carried_on() {
    let place = Place::sqlite();
    let file = place.folder.path().join("failsketch.sqlite");
    std::fs::write(&file, include_bytes!("../data/version-3.sqlite")).unwrap();
    let storage = place.open().await;
    let (one, two) = (CampaignId(1), CampaignId(2));

    let campaigns = storage.campaigns().await.unwrap();
    let states: Vec<_> = campaigns.iter().map(|c| c.state.name()).collect();
    assert_eq!(states, [CampaignState::Tracking, CampaignState::Preparing]);
    assert_eq!(campaigns[1], campaign(2, 20));
    let revisions = storage.revisions().await.unwrap();
    assert_eq!(revisions, [(one, 1), (two, 1)]);
    assert_eq!(storage.claim_job().await.unwrap(), Some(two));
    let latest = storage.sketch(one, None).await.unwrap();
    assert_eq!(latest, Some(sketch(1, 2)));
    let slice = storage.slice(one).await.unwrap().unwrap();
    assert_eq!(slice.gaps, [Gap::Words("assembly".into())]);

    let variant = VariantRef {
        campaign: one,
        iteration: 1,
        plan: 0,
    };
    let iteration = storage.iteration(variant).await.unwrap().unwrap();
    assert_eq!(iteration.plan.sigma, 2);
    assert_eq!(iteration.patch, BlobId("p".into()));
    assert_eq!(kept(&storage, variant).await, ["failing", "successful"]);
    let pending = storage.pending(9).await.unwrap();
    assert_eq!(
        pending[0].record,
        RunRecord {
            agent: AgentId("agent".into()),
            wall_us: 0,
            cpu_us: 0,
            clock: ClockTie::default(),
            ..run("pending", None, true)
        }
    );
    let counts = storage.build_counts(&BuildId("ab".into())).await.unwrap();
    let expected = BuildCounts {
        runs: 3,
        failures: 2,
        untracked_runs: 1,
        untracked_failures: 1,
    };
    assert_eq!(counts, expected);

    // And goes on: what was known is known, what is new is numbered after it.
    let again = run("untracked", None, true);
    assert!(!storage.accept_run(&again).await.unwrap());
    assert_eq!(storage.agree("signing_key", "other").await.unwrap(), "key");
    assert_eq!(storage.reserve_patch_versions(1).await.unwrap(), 2);
    let filing = filed(pending[0].arrival, CountedAs::Untracked, &pending[0].record);
    storage.commit(filing).await.unwrap();
    assert_eq!(storage.pending(9).await.unwrap(), []);
}

#[tokio::test]
async fn a_path_means_what_it_says_whatever_its_characters() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("a?mode=ro#b%41 é");
    std::fs::create_dir_all(odd.join("c")).unwrap();
    let path = odd.join("c").join("..").join("db.sqlite");
    let storage = Storage::open_sqlite(&path).await.unwrap();
    assert!(storage.accept_run(&run("a", None, false)).await.unwrap());
    storage.close().await.unwrap();
    assert!(odd.join("db.sqlite").is_file());

    // In the current folder: a name that SQLite would take for a URL.
    let named = tempfile::Builder::new()
        .prefix("file:")
        .tempdir_in(".")
        .unwrap();
    let relative = Path::new(named.path().file_name().unwrap()).join("db.sqlite");
    let storage = Storage::open_sqlite(&relative).await.unwrap();
    assert!(storage.accept_run(&run("a", None, false)).await.unwrap());
    storage.close().await.unwrap();
    assert!(std::fs::metadata(&relative).unwrap().len() > 0);

    let foreign = std::ffi::OsStr::from_bytes(b"\xff.sqlite");
    let refused = Storage::open_sqlite(&folder.path().join(foreign)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("its path is not UTF-8"), "{refused}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.sqlite");
    std::fs::write(&path, "this is a letter, not a database; ".repeat(100)).unwrap();
    assert!(Storage::open_sqlite(&path).await.is_err());
}

#[tokio::test]
async fn an_address_that_names_no_postgres_is_refused_without_repeating_a_password() {
    let refused = "mysql://user@host/db".parse::<Database>().unwrap_err();
    assert!(
        refused.to_string().contains("postgres://USER@HOST"),
        "{refused}"
    );
    let unreadable: Database = "postgres://user:secret@host:nine/db".parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = unreadable
        .open(folder.path())
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(!refused.contains("secret"), "{refused}");
}
