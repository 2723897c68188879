//! The command cannot tell that the agent stands in front of it.

use crate::common;
use crate::common::{FakeServer, Workshop};
use std::{
    ffi::{CString, OsStr},
    fs,
    io::Write,
    os::unix::{ffi::OsStrExt, process::ExitStatusExt},
    path::Path,
    process::{Command, ExitStatus, Stdio},
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

/// What a command under the agent ends with, and what the agent says meanwhile.
fn under_agent(workshop: &Workshop, words: &[&str]) -> (ExitStatus, String) {
    let output = workshop.agent().args(words).output();
    let output = output.expect("the agent starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status, said)
}

/// Words for the agent that make it record the command.
fn recorded<'a>(record: &'a Path, command: &[&'a str]) -> Vec<&'a str> {
    let record = record.to_str().expect("paths are text");
    [&["--store-record", record, "--"], command].concat()
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
fn an_operator_who_cannot_be_told_anything_changes_nothing() {
    let workshop = Workshop::new();
    let program = workshop.compile("transparent", "transparent", &[]);
    let shell = |redirection: &str, prefix: &[&OsStr]| {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("\"$@\" {redirection}"), "sh"])
            .args(prefix)
            .arg(&program)
            .arg("streams")
            .stdin(Stdio::null());
        command.status().expect("runs").code()
    };
    let cache = workshop.path("cache");
    let impossible = workshop.path("no-such-folder/record.json");
    let agent: [&OsStr; 7] = [
        common::AGENT.as_ref(),
        "run".as_ref(),
        "--cache".as_ref(),
        cache.as_ref(),
        // This gives it something to say.
        "--store-record".as_ref(),
        impossible.as_ref(),
        "--".as_ref(),
    ];
    for (redirection, streams) in [
        ("2>/dev/full", 7),
        ("2>&-", 3),
        ("0<&- 2>&-", 2),
        ("0<&- 1>&- 2>&-", 0),
    ] {
        assert_eq!(shell(redirection, &[]), Some(streams), "{redirection} bare");
        assert_eq!(shell(redirection, &agent), Some(streams), "{redirection}");
    }
    let silenced = |arguments: &str| {
        Command::new("/bin/sh")
            .args(["-c", &format!("\"$0\" {arguments}"), common::AGENT])
            .status()
            .expect("runs")
            .code()
    };
    assert_eq!(silenced("doctor >/dev/full"), Some(0));
    assert_eq!(silenced("run -- no-such-command 2>/dev/full"), Some(127));
}

#[test]
fn a_record_that_cannot_be_stored_is_said_and_the_command_runs() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let record = workshop.path("no-such-folder/record.json");
    let command = [program.to_str().expect("text"), "exit", "7"];
    let (status, said) = under_agent(&workshop, &recorded(&record, &command));
    assert_eq!(status.code(), Some(7));
    assert!(said.contains("records are not stored"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn nothing_is_preloaded_before_a_sanitizer() {
    let workshop = Workshop::new();
    // Like the real one, it ends a process in which it does not come first.
    let source = workshop.path("asan.c");
    fs::write(
        &source,
        "#include <stdlib.h>\n__attribute__((constructor)) static void first(void) \
         { if (getenv(\"LD_PRELOAD\")) _Exit(1); }\n",
    )
    .expect("written");
    let library = workshop.path("libasan.so.8");
    let made = Command::new("clang-19")
        .args(["-shared", "-fPIC", "-Wl,-soname,libasan.so.8"])
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .status()
        .expect("clang-19 is installed");
    assert!(made.success());
    let folder = workshop.path("");
    let program = workshop.compile(
        "crash",
        "crash",
        &[
            "-Wl,--no-as-needed",
            library.to_str().expect("text"),
            &format!("-Wl,-rpath,{}", folder.display()),
        ],
    );
    let (output, record) = workshop.record(&program, &["exit", "7"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(
        record.gaps[0]
            .to_string()
            .starts_with("the program uses libasan.so.8"),
        "{:?}",
        record.gaps
    );
}

#[test]
fn a_program_with_file_capabilities_is_left_alone() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let path = CString::new(program.as_os_str().as_bytes()).expect("a path");
    // Version 2, effective, cap_net_bind_service permitted.
    let value: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
    // SAFETY: strings end in zero; the value is as long as said.
    let set = unsafe {
        libc::setxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            value.as_ptr().cast(),
            size_of_val(&value),
            0,
        )
    };
    let refusal = std::io::Error::last_os_error();
    // SAFETY: the call has no arguments and cannot fail.
    let as_root = unsafe { libc::geteuid() } == 0;
    if set != 0 && !as_root {
        // Only root may grant capabilities; anybody else gets exactly this.
        assert_eq!(refusal.raw_os_error(), Some(libc::EPERM));
        eprintln!("not shown here: granting capabilities was refused ({refusal})");
        return;
    }
    assert_eq!(set, 0, "granting capabilities: {refusal}");
    let command = [program.to_str().expect("text"), "exit", "7"];
    let (status, said) = under_agent(&workshop, &recorded(&workshop.path("r.json"), &command));
    assert_eq!(status.code(), Some(7));
    assert!(said.contains("it has file capabilities"), "{said}");
}

#[test]
fn scripts_and_missing_commands_behave_as_in_a_shell() {
    let workshop = Workshop::new();
    let script = workshop.path("script");
    fs::write(&script, "#!/bin/sh\nkill -SEGV $$\n").expect("written");
    let status = Command::new("chmod").arg("+x").arg(&script).status();
    assert!(status.expect("chmod runs").success());
    let record = workshop.path("r.json");
    let run = |command: &str| under_agent(&workshop, &recorded(&record, &[command]));
    let (status, said) = run(script.to_str().expect("text"));
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    assert!(
        said.contains("without recording: it is not a 64-bit ELF file"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);

    let (status, said) = run("no-such-command-anywhere");
    assert_eq!(status.code(), Some(127));
    assert_eq!(
        said,
        "failsketch-agent: no-such-command-anywhere: command not found; give a path or check PATH\n"
    );
    assert_eq!(run("/etc/passwd").0.code(), Some(126));
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
    let program = program.to_str().expect("text");
    let server = format!("http://{gone}");
    let words = ["--server", &server, "--", program, "exit", "7"];
    let (status, said) = under_agent(&workshop, &words);
    assert_eq!(status.code(), Some(7));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("running the original program"), "{said}");
    assert!(lines[1].contains("the record will be sent later"), "{said}");
    assert!(lines.iter().all(|line| line.contains("cannot be reached")));
}

#[test]
fn the_record_reaches_the_server_under_the_agents_name() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let server = FakeServer::start(None);
    let command = program.to_str().expect("text");
    let words = ["--server", &server.url, "--agent", "canary-1", "--"];
    let words = [&words[..], &[command, "exit", "0"]].concat();
    assert_eq!(under_agent(&workshop, &words).0.code(), Some(0));
    assert_eq!(
        server.paths(),
        ["POST /api/v1/assignments", "POST /api/v1/runs"]
    );
    let records = server.records();
    assert_eq!(records[0].agent.0, "canary-1");
    assert_eq!(records[0].build, common::build_id(&program));
    assert_eq!(records[0].execution.tracked(), None);
    assert!(records[0].clock.end_ns > records[0].clock.start_ns);
}

#[test]
fn repeated_runs_end_when_the_server_has_finished() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let program = program.to_str().expect("text");
    let ended = |server: &FakeServer, words: &[&str]| {
        let words = [&["--server", &*server.url], words].concat();
        assert_eq!(under_agent(&workshop, &words).0.code(), Some(0));
        server.records()
    };
    let server = FakeServer::start_finishing_after(None, 3);
    let records = ended(&server, &["--until-finished", "--", program, "abort"]);
    let mut ids: Vec<_> = records.into_iter().map(|r| r.id).collect();
    assert_eq!(ids.len(), 3);
    ids.dedup();
    assert_eq!(ids.len(), 3);

    let server = FakeServer::start(None);
    let words = ["--repeat", "2", "--", program, "exit", "9"];
    assert_eq!(ended(&server, &words).len(), 2);
}
