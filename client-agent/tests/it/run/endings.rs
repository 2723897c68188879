//! Every way in which a process can end, with and without the agent.

use crate::common::{AGENT, Workshop};
use std::{
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

/// How a command ended: its exit status or its signal.
type Ending = (Option<i32>, Option<i32>);

fn ending(status: ExitStatus) -> Ending {
    (status.code(), status.signal())
}

/// The ending of `crash`, of `crash` behind the agent, and of `crash` recorded.
fn endings(workshop: &Workshop, program: &Path, arguments: [&str; 2]) -> [Ending; 3] {
    let bare = Command::new(program).args(arguments).status();
    let behind = Command::new(AGENT)
        .args(["run", "--config", "/dev/null", "--cache"])
        .arg(workshop.path("cache"))
        .args(["--daemon", "/nonexistent/socket", "--"])
        .arg(program)
        .args(arguments)
        // It says, each time, that there is no daemon.
        .stderr(Stdio::null())
        .status();
    let recorded = workshop
        .agent()
        .arg("--store-record")
        .arg(workshop.path("record.json"))
        .arg("--")
        .arg(program)
        .args(arguments)
        .status();
    [bare, behind, recorded].map(|status| ending(status.expect("runs")))
}

#[test]
fn every_exit_status_is_the_commands_own() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    for code in 0..=255 {
        let got = endings(&workshop, &program, ["exit", &code.to_string()]);
        assert_eq!(got, [(Some(code), None); 3]);
    }
}

#[test]
fn every_signal_that_kills_the_command_kills_the_agent() {
    // Whoever runs the tests may ignore some, as `nohup` does, and commands inherit that.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: no handler of ours is replaced.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    // By default these do nothing; the C library keeps 32 and 33 to itself.
    let ignored = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGURG,
        libc::SIGWINCH,
        32,
        33,
    ];
    for signal in (1..=64).filter(|signal| !stops.contains(signal)) {
        let expected = match ignored.contains(&signal) {
            true => (Some(0), None),
            false => (None, Some(signal)),
        };
        let got = endings(&workshop, &program, ["raise", &signal.to_string()]);
        assert_eq!(got, [expected; 3], "signal {signal}");
    }
}
