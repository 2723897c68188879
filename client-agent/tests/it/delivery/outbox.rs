//! Records reach the server, now or later, and say no more than they may.

use crate::common;
use crate::common::{
    AGENT, FakeServer, Workshop,
    daemon::{Daemon, eventually, segments, silent_server},
    signed_patch,
};
use sketch_model::{FailureKind, Gap, Outcome, Privacy, ProbeKind, RunRecord};
use std::{fs, process::Command, time::Duration};

#[test]
fn a_record_that_the_server_misses_is_sent_by_a_later_run() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let run = |server: &str, argument: &str| {
        workshop
            .agent()
            .args(["--server", server, "--grace", "0.3", "--"])
            .arg(&program)
            .arg(argument)
            .output()
            .expect("runs")
    };
    let alone = run(&silent_server(), "abort");
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(said.contains("the record will be sent later"), "{said}");
    let spool = workshop.path("cache").join("spool");
    assert_eq!(segments(&spool), 1);

    let server = FakeServer::start(None);
    run(&server.url, "");
    let records = server.records();
    let failed: Vec<bool> = records.iter().map(RunRecord::failed).collect();
    assert_eq!(failed, [false, true], "the fresh one first, then the old");
    assert_ne!(records[0].id, records[1].id);
    assert_eq!(segments(&spool), 0);
}

#[test]
fn a_checker_makes_a_wrong_answer_a_failure() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let output = workshop.path("output");
    let judged = |check: &str| {
        let file = workshop.path("record.json");
        let status = workshop
            .agent()
            .arg("--store-record")
            .arg(&file)
            .args(["--check", check, "--"])
            .arg(&program)
            .arg("none")
            .stdout(fs::File::create(&output).expect("a file"))
            .status()
            .expect("runs");
        assert_eq!(status.code(), Some(0), "the command's status stays its own");
        common::read_record(&file).outcome
    };
    assert_eq!(judged("true"), Outcome::Success);
    assert_eq!(judged("test -r \"$FAILSKETCH_OUTPUT\""), Outcome::Success);
    match judged("exit 3") {
        Outcome::Failure(report) => assert_eq!(report.kind, FailureKind::Check(3)),
        Outcome::Success => panic!("the checker was not heard"),
    }
}

#[test]
fn a_daemon_serves_runs_and_its_acknowledged_records_survive_it() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let mut daemon = Daemon::start(&workshop, &silent_server(), "", "");
    for _ in 0..3 {
        assert_eq!(daemon.run(&program, &["none"]), Some(0));
    }
    daemon.kill();
    let spool = workshop.path("daemon-cache").join("spool");
    assert!(segments(&spool) > 0, "acknowledged records are on disk");

    let server = FakeServer::start(None);
    let daemon = Daemon::start(&workshop, &server.url, "", "");
    assert!(eventually(|| server.records().len() == 3), "all were sent");
    assert!(eventually(|| segments(&spool) == 0), "and none is kept");
    // One that runs into a second daemon's socket says so and goes.
    let second = Command::new(AGENT)
        .args(["daemon", "--config"])
        .arg(&daemon.config)
        .output()
        .expect("runs");
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("another daemon answers there"), "{said}");
}

#[test]
fn the_daemons_policy_reaches_every_run_and_follows_its_file() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let patch = signed_patch(&base, &tracked);
    let key = patch.public_key.clone();
    let server = FakeServer::start(Some(patch));
    let policy = "[policy]\ncanary = 1\nprivacy = \"shapes\"\n";
    let daemon = Daemon::start(&workshop, &server.url, &key, policy);
    daemon.run(&base, &["kinds"]);
    assert!(eventually(|| server.records().len() == 1));
    let shapes = server.records().remove(0);
    assert_eq!(shapes.privacy, Privacy::Shapes);
    assert_eq!(
        shapes.execution.tracked(),
        Some(common::VARIANT),
        "{:?}",
        shapes.gaps
    );
    assert!(shapes.watch.hits.iter().all(|hit| hit.registers == [0; 16]));

    let text = fs::read_to_string(&daemon.config).expect("is ours");
    let stricter = text.replace("shapes", "control-flow-only");
    // File times may be coarse; the daemon looks at them to notice a change.
    std::thread::sleep(Duration::from_millis(50));
    fs::write(&daemon.config, stricter).expect("written");
    daemon.run(&base, &["kinds"]);
    assert!(eventually(|| server.records().len() == 2));
    let strict = server.records().remove(1);
    assert_eq!(strict.privacy, Privacy::ControlFlowOnly);
    let events = strict.threads.iter().flat_map(|thread| thread.events());
    let mut accesses = 0;
    for event in events {
        assert_eq!(event.address.0, 0);
        if matches!(event.kind, ProbeKind::Read | ProbeKind::Write) {
            accesses += 1;
            assert_eq!(event.value, 0);
        }
    }
    assert!(accesses > 0, "that they happened is control flow");
    assert!(strict.watch.hits.is_empty());
}

#[test]
fn a_tracked_build_that_only_breaks_things_is_withdrawn() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let server = FakeServer::start(Some(signed_patch(&base, &tracked)));
    let run = |argument: &str| {
        workshop
            .agent()
            .args(["--server", &server.url, "--key", &server.key()])
            .args(["--fail-exit", "0", "--"])
            .arg(&base)
            .arg(argument)
            .output()
            .expect("runs")
    };
    // Its ordinary end is declared a failure that nobody expects.
    for _ in 0..4 {
        run("kinds");
    }
    let records = server.records();
    assert!(
        records
            .iter()
            .take(3)
            .all(|record| record.execution.tracked().is_some())
    );
    let last = records.last().expect("has records");
    assert_eq!(
        last.execution.tracked(),
        None,
        "the fourth run was the original's"
    );
    assert!(
        matches!(last.gaps[..], [Gap::TrackedBuildWithdrawn { .. }, ..]),
        "{:?}",
        last.gaps
    );
}
