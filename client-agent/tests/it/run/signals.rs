//! Signals reach the command as if the agent were not there.

use crate::common::Workshop;
use std::{
    io::{BufRead, BufReader},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
};

/// Starts `transparent` under the agent, waits until it is ready, and sends
/// `signal` to the agent.
fn signalled(workshop: &Workshop, mode: &str, signal: i32) -> ExitStatus {
    let mut agent = workshop
        .agent()
        .arg("--")
        .arg(workshop.path("transparent"))
        .arg(mode)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent starts");
    let mut line = String::new();
    BufReader::new(agent.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    assert_eq!(line, "ready\n");
    // SAFETY: sends a signal to our own child.
    unsafe { libc::kill(agent.id() as i32, signal) };
    agent.wait().expect("ends")
}

#[test]
fn a_signal_to_the_agent_reaches_the_command() {
    let workshop = Workshop::new();
    workshop.compile("transparent", "transparent", &[]);
    let status = signalled(&workshop, "wait-for-term", libc::SIGTERM);
    assert_eq!(status.code(), Some(5));
    // Not handled by the command: both die of it.
    let status = signalled(&workshop, "wait-for-term", libc::SIGABRT);
    assert_eq!(status.signal(), Some(libc::SIGABRT));
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGABRT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGURG,
        libc::SIGXCPU,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGWINCH,
        libc::SIGIO,
        libc::SIGPWR,
    ] {
        let status = signalled(&workshop, "wait-for-any", signal);
        assert_eq!(status.code(), Some(signal));
    }
}

#[test]
fn a_signal_before_the_command_exists_ends_the_agent() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    // It accepts, and never answers; the signal is sent once it was asked.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let mut agent = workshop
        .agent()
        .args(["--server", &url, "--"])
        .arg(&program)
        .args(["exit", "7"])
        .spawn()
        .expect("the agent starts");
    let asked = listener.accept().expect("the agent asks");
    // SAFETY: sends a signal to our own child.
    unsafe { libc::kill(agent.id() as i32, libc::SIGTERM) };
    let status = agent.wait().expect("ends");
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    drop(asked);
}

#[test]
fn a_parent_that_ignores_its_children_changes_nothing() {
    let workshop = Workshop::new();
    let program = workshop.compile("transparent", "transparent", &[]);
    let run = |mut command: Command| {
        command.stdin(Stdio::null());
        // SAFETY: one async-signal-safe call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                Ok(())
            })
        };
        let output = command.output().expect("runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let mut agent = workshop.agent();
    agent.arg("--").arg(&program);
    let bare = run(Command::new(&program));
    assert_eq!(run(agent), bare);
    assert!(bare.1.contains("SIGCHLD other"), "{}", bare.1);
}
