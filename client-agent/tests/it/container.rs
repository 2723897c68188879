//! The agent as a container's entry point: the first process of its namespace.

use crate::common::{AGENT, Workshop};
use std::process::{Command, Output};

/// Runs a shell script as a container's service behind the agent.
fn contained(workshop: &Workshop, script: &str) -> Output {
    let mut unshare = Command::new("unshare");
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        unshare.arg("--map-root-user");
    }
    unshare
        .args(["--pid", "--fork", "--mount-proc", AGENT])
        .args(["run", "--config", "/dev/null", "--cache"])
        .arg(workshop.path("cache"))
        .arg("--store-record")
        .arg(workshop.path("record.json"))
        .args(["--", "/bin/sh", "-c", script])
        .output()
        .expect("unshare is part of every Debian")
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_first_process_passes_on_how_the_service_ends() {
    let workshop = Workshop::new();
    let output = contained(&workshop, "echo $PPID; exit 7");
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert_eq!(said(&output), "1\n", "the agent is the first process");
    // The kernel lets the first process of a container die of no signal of its own;
    // engines know the number all the same.
    let output = contained(&workshop, "kill -SEGV $$");
    assert_eq!(output.status.code(), Some(128 + 11), "{}", said(&output));
}

#[test]
fn signals_from_outside_reach_the_service() {
    let workshop = Workshop::new();
    // The service ends its own first process, as an engine's stop would.
    let output = contained(
        &workshop,
        "trap 'echo asked; exit 5' TERM; kill -TERM 1; wait; sleep 60 & wait",
    );
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert_eq!(said(&output), "asked\n");
}

#[test]
fn orphans_are_buried() {
    let workshop = Workshop::new();
    let orphans = "for i in 1 2 3 4 5 6 7 8 9 10; do (true & (true &) ); done";
    let dead = "cat /proc/[0-9]*/status 2>/dev/null | grep -c '^State:.Z'";
    // The last one may just be dying.
    let output = contained(
        &workshop,
        &format!(
            "{orphans}; i=0; while [ $({dead}) != 0 ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; {dead}; exit 4"
        ),
    );
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert_eq!(said(&output), "0\n");
}
