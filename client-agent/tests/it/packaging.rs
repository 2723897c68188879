//! What is shipped beside the agent is what systemd and container engines take.

use crate::common;
use std::{fs, process::Command};

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let workshop = common::Workshop::new();
    let unit = include_str!("../../packaging/failsketch-agent.service");
    // systemd looks whether the command exists; here it lies elsewhere.
    let unit = unit.replace("/usr/bin/failsketch-agent", common::AGENT);
    let file = workshop.path("failsketch-agent.service");
    fs::write(&file, unit).expect("written");
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&file)
        .output()
        .expect("systemd-analyze is installed, ./dev test sees to it");
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_seccomp_line_is_one_that_a_profile_takes() {
    let line = include_str!("../../packaging/seccomp-watchpoints.json");
    let line: serde_json::Value = serde_json::from_str(line).expect("is JSON");
    // As in the "syscalls" of an engine's default profile.
    assert_eq!(line["names"], serde_json::json!(["perf_event_open"]));
    assert_eq!(line["action"], "SCMP_ACT_ALLOW");
    let container = include_str!("../../packaging/Dockerfile.example");
    assert!(container.contains("seccomp-watchpoints.json"));
    let entry = container
        .lines()
        .find_map(|line| line.strip_prefix("ENTRYPOINT "))
        .expect("has an entry point");
    let entry: Vec<String> = serde_json::from_str(entry).expect("is a list");
    assert_eq!(entry[..2], ["failsketch-agent", "run"]);
}
