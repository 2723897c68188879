//! `doctor` says what it tried and what came of it, whatever the machine.

mod common;

use std::{path::Path, process::Command};

#[test]
fn each_line_has_a_verdict_and_the_exit_is_clean() {
    let output = Command::new(common::AGENT)
        .arg("doctor")
        .output()
        .expect("the agent starts");
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let verdict = |what: &str| {
        said.lines()
            .find_map(|line| {
                let (verdict, rest) = line.split_once(' ')?;
                rest.trim_start()
                    .starts_with(&format!("{what}:"))
                    .then(|| verdict.to_string())
            })
            .unwrap_or_else(|| panic!("no line about {what}: {said}"))
    };
    assert_eq!(verdict("shared memory"), "ok");
    let traced = Path::new("/sys/bus/event_source/devices/intel_pt").exists();
    let expected = if traced { "degraded" } else { "missing" };
    assert_eq!(verdict("Intel PT"), expected);
    // A child of the same user gets what its parent gets.
    assert_eq!(verdict("watchpoints"), verdict("watchpoints in a child"));
    verdict("kernel.perf_event_paranoid");
    assert_eq!(said.lines().count(), 5);
}
