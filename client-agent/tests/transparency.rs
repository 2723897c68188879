//! The command cannot tell that the agent stands in front of it.

mod common;

use common::{FakeServer, Workshop};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

/// Runs bare and under the agent, with the same environment, and compares.
fn same_output(workshop: &Workshop, arguments: &[&str], environment: &[(&str, &str)]) {
    let program = workshop.path("transparent");
    let run = |mut command: Command| {
        let mut child = command
            .args(arguments)
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut stdin = child.stdin.take().expect("piped");
        // A command that does not read may be gone already.
        let _ = stdin.write_all(b"one\ntwo\n");
        drop(stdin);
        let output = child.wait_with_output().expect("ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let bare = run(Command::new(&program));
    let mut agent = workshop.agent();
    agent.arg("--store-record").arg(workshop.path("r.json"));
    agent.arg("--").arg(&program);
    assert_eq!(run(agent), bare);
    assert!(!bare.is_empty());
}

#[test]
fn arguments_input_descriptors_and_signals_are_the_same() {
    let workshop = Workshop::new();
    workshop.compile("transparent", "transparent", &[]);
    same_output(&workshop, &["a b", "--", "-x"], &[]);
}

#[test]
fn grandchildren_get_the_environment_untouched() {
    let workshop = Workshop::new();
    workshop.compile("transparent", "transparent", &[]);
    same_output(&workshop, &["grandchild"], &[("A", "1"), ("Z", "2 3")]);
    let library = workshop.path("own.so");
    let made = Command::new("clang-19")
        .args(["-shared", "-xc", "/dev/null", "-o"])
        .arg(&library)
        .status()
        .expect("clang-19 is installed");
    assert!(made.success());
    let library = library.to_str().expect("paths are text");
    same_output(
        &workshop,
        &["grandchild"],
        &[("A", "1"), ("LD_PRELOAD", library), ("Z", "2")],
    );
}

#[test]
fn a_signal_to_the_agent_reaches_the_command() {
    let workshop = Workshop::new();
    let program = workshop.compile("transparent", "transparent", &[]);
    let mut agent = workshop
        .agent()
        .arg("--")
        .arg(&program)
        .arg("wait-for-term")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    let mut line = String::new();
    BufReader::new(agent.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    assert_eq!(line, "ready\n");
    // SAFETY: sends a signal to our own child.
    unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) };
    assert_eq!(agent.wait().expect("ends").code(), Some(5));
}

#[test]
fn scripts_and_missing_commands_behave_as_in_a_shell() {
    let workshop = Workshop::new();
    let script = workshop.path("script");
    fs::write(&script, "#!/bin/sh\nkill -SEGV $$\n").expect("written");
    let status = Command::new("chmod").arg("+x").arg(&script).status();
    assert!(status.expect("chmod runs").success());
    let run = |command: &str| {
        workshop
            .agent()
            .arg("--store-record")
            .arg(workshop.path("r.json"))
            .arg("--")
            .arg(command)
            .output()
            .expect("the agent starts")
    };
    let output = run(script.to_str().expect("text"));
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("is run without recording: it is not a 64-bit ELF file"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);

    let output = run("no-such-command-anywhere");
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "failsketch-agent: no-such-command-anywhere: command not found; give a path or check PATH\n"
    );
    let output = run("/etc/passwd");
    assert_eq!(output.status.code(), Some(126));
}

#[test]
fn without_a_server_the_command_runs_all_the_same() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    // A port that was free a moment ago, and that nobody listens on.
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("bound")
    };
    let output = workshop
        .agent()
        .args(["--server", &format!("http://{gone}"), "--"])
        .arg(&program)
        .args(["exit", "7"])
        .output()
        .expect("the agent starts");
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cannot be reached"), "{said}");
}

#[test]
fn the_record_reaches_the_server_under_the_agents_name() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let server = FakeServer::start(None);
    let status = workshop
        .agent()
        .args(["--server", &server.url, "--agent", "canary-1", "--"])
        .arg(&program)
        .args(["exit", "0"])
        .status()
        .expect("the agent starts");
    assert_eq!(status.code(), Some(0));
    assert_eq!(
        server.paths(),
        ["POST /api/v1/assignment", "POST /api/v1/runs"]
    );
    let records = server.records();
    assert_eq!(records[0].agent.0, "canary-1");
    assert_eq!(records[0].build, common::build_id(&program));
    assert_eq!(records[0].variant, None);
    assert!(records[0].clock.end_ns > records[0].clock.start_ns);
}

#[test]
fn repeated_runs_end_when_the_server_has_finished() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let server = FakeServer::start_finishing_after(None, 3);
    let status = workshop
        .agent()
        .args(["--server", &server.url, "--until-finished", "--"])
        .arg(&program)
        .args(["abort"])
        .status()
        .expect("the agent starts");
    assert_eq!(status.code(), Some(0));
    let mut ids: Vec<_> = server.records().into_iter().map(|r| r.id).collect();
    assert_eq!(ids.len(), 3);
    ids.dedup();
    assert_eq!(ids.len(), 3);

    let server = FakeServer::start(None);
    let status = workshop
        .agent()
        .args(["--server", &server.url, "--repeat", "2", "--"])
        .arg(&program)
        .args(["exit", "9"])
        .status()
        .expect("the agent starts");
    assert_eq!(status.code(), Some(0));
    assert_eq!(server.records().len(), 2);
}
