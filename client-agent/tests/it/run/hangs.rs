//! A deadlock is reported with every thread's stack; a patient service is not. And
//! whatever becomes of the report, the program goes on or ends as it would alone.

use crate::common;
use crate::common::{FakeServer, Workshop, function_at};
use sketch_model::{FailureKind, FailureReport, Gap, Outcome, RunRecord};
use std::{
    io::Write,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

const SIGKILL: i32 = 9;

fn failure(record: &RunRecord) -> &FailureReport {
    match &record.outcome {
        Outcome::Failure(report) => report,
        Outcome::Success => panic!("a failure was expected: {:?}", record.gaps),
    }
}

fn functions(program: &Path, report: &FailureReport) -> Vec<Vec<String>> {
    let own = program.to_str().expect("paths are text");
    let stacks = report.threads.iter().map(|thread| {
        let frames = thread.frames.iter().filter(|frame| frame.module == own);
        frames
            .filter_map(|frame| function_at(program, frame.lookup.0))
            .filter(|function| function != "_start")
            .collect()
    });
    stacks.collect()
}

fn watched(workshop: &Workshop, program: &Path, flags: &[&str], how: &str) -> Command {
    let mut agent = workshop.agent();
    agent
        .arg("--store-record")
        .arg(workshop.path("record.json"))
        .args(["--hang-after", "0.3"])
        .args(flags)
        .arg("--")
        .arg(program)
        .arg(how);
    agent
}

#[test]
fn a_deadlock_is_described_and_ended_where_the_operator_wants_that() {
    let workshop = Workshop::new();
    let program = workshop.compile("hang", "hang", &[]);
    let status = watched(&workshop, &program, &["--end-hung"], "deadlock")
        .status()
        .expect("runs");
    assert_eq!(status.signal(), Some(SIGKILL));
    let record = common::read_record(&workshop.path("record.json"));
    let report = failure(&record);
    assert_eq!(report.kind, FailureKind::Hang);
    let mut stacks = functions(&program, report);
    stacks.sort();
    assert_eq!(
        stacks,
        [vec!["take_left", "other_order"], vec!["take_right", "main"]],
        "{report:#?}"
    );
    for (thread, holder) in report.threads.iter().zip(report.threads.iter().rev()) {
        let waits = thread.waits_for.as_deref().expect("waits");
        let held = format!("which thread {} holds", holder.tid);
        assert!(
            waits.starts_with("the mutex at 0x") && waits.ends_with(&held),
            "{waits}"
        );
    }
}

#[test]
fn a_hang_that_goes_on_is_reported_while_it_does() {
    let workshop = Workshop::new();
    let program = workshop.compile("hang", "hang", &[]);
    let server = FakeServer::start(None);
    let mut agent = workshop
        .agent()
        .args(["--server", &server.url, "--hang-after", "0.3", "--"])
        .arg(&program)
        .spawn()
        .expect("starts");
    // A minute is the test's own limit; the report comes after a third of a second.
    let seen = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        !server.records().is_empty()
    });
    assert!(seen, "no report came");
    assert!(
        agent.try_wait().expect("is ours").is_none(),
        "it still runs"
    );
    let ended = Command::new("kill")
        .arg(agent.id().to_string())
        .status()
        .expect("kill runs");
    assert!(ended.success());
    assert_eq!(agent.wait().expect("ends").signal(), Some(15));
    let records = server.records();
    assert_eq!(records.len(), 1, "one run is one record");
    assert_eq!(failure(&records[0]).kind, FailureKind::Hang);
}

/// As `status`, but a program that stands still for half a minute has been kept by us.
fn ends(mut agent: Command, what: &str) -> ExitStatus {
    let mut agent = agent.stdout(Stdio::null()).spawn().expect("starts");
    for _ in 0..300 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        if let Some(status) = agent.try_wait().expect("is ours") {
            return status;
        }
    }
    let _ = agent.kill();
    panic!("{what}: it does not end");
}

#[test]
fn a_thread_that_cannot_be_stopped_goes_on_later() {
    let workshop = Workshop::new();
    let program = workshop.compile("hang", "hang", &[]);
    let agent = watched(&workshop, &program, &["--hang-when-idle"], "deep-sleep");
    assert_eq!(ends(agent, "deep-sleep").code(), Some(7));
    let record = common::read_record(&workshop.path("record.json"));
    let gaps = &failure(&record).gaps;
    let told = |gap: &Gap| matches!(gap, Gap::ThreadNotCaptured { .. });
    assert!(gaps.iter().any(told), "{gaps:?}");
}

#[test]
fn a_program_that_is_killed_while_its_hang_is_described_has_been_killed() {
    let workshop = Workshop::new();
    let program = workshop.compile("hang", "hang", &[]);
    let flags = ["--hang-when-idle"];
    let agent = watched(&workshop, &program, &flags, "killed-in-sleep");
    let status = ends(agent, "killed-in-sleep");
    assert_eq!(status.signal(), Some(SIGKILL), "{status}");
}

#[test]
fn waiting_for_the_world_and_working_are_no_hangs() {
    let workshop = Workshop::new();
    let program = workshop.compile("hang", "hang", &[]);
    let mut service = watched(&workshop, &program, &["--end-hung"], "service")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    // Several times the patience.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let mut input = service.stdin.take().expect("piped");
    input.write_all(b"x").expect("it still reads");
    let output = service.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"served\n");
    let record = common::read_record(&workshop.path("record.json"));
    assert_eq!(record.outcome, Outcome::Success);

    let status = watched(&workshop, &program, &["--end-hung"], "busy").status();
    assert_eq!(status.expect("runs").code(), Some(0));
}
