//! `doctor` says what it tried and what came of it, whatever the machine.

use crate::common;
use std::{path::Path, process::Command};

#[test]
fn each_line_has_a_verdict_and_the_exit_is_clean() {
    let output = Command::new(common::AGENT)
        .args(["doctor", "--config", "/dev/null"])
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
    assert_eq!(verdict("Intel PT") == "missing", !traced);
    // A child of the same user gets what its parent gets.
    assert_eq!(verdict("watchpoints"), verdict("watchpoints in a child"));
    assert_eq!(
        verdict("watchpoints"),
        verdict("watchpoints with SIGTRAP blocked")
    );
    for what in [
        "kernel.perf_event_paranoid",
        "seccomp",
        "capabilities",
        "memory for rings",
    ] {
        verdict(what);
    }
    assert_eq!(verdict("key"), "missing");
    assert_eq!(verdict("server"), "missing");
    assert_eq!(verdict("privacy"), "ok");
    assert_eq!(said.lines().count(), 12);
}

#[test]
fn the_same_findings_come_as_json() {
    let output = Command::new(common::AGENT)
        .args(["doctor", "--json", "--server", "http://127.0.0.1:9"])
        .output()
        .expect("the agent starts");
    assert_eq!(output.status.code(), Some(0));
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let findings = findings.as_array().expect("is a list");
    let server = findings
        .iter()
        .find(|f| f["what"] == "server")
        .expect("is there");
    assert_eq!(server["health"], "missing");
    let detail = server["detail"].as_str().expect("is text");
    assert!(
        detail.contains("http://127.0.0.1:9 cannot be reached"),
        "{detail}"
    );
}

#[test]
fn names_that_act_on_a_terminal_are_only_seen() {
    let nasty = "/none/\x1b]0;owned\x07\r\u{9b}2J\u{202e}";
    let server = format!("http://127.0.0.1:9{nasty}");
    let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    for more in [&[][..], &["--json"]] {
        let output = Command::new(common::AGENT)
            .args(["doctor", "--config", "/dev/null", "--server", &server])
            .args(more)
            .output()
            .expect("the agent starts");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(said.contains("owned"), "{said}");
        assert!(!said.chars().any(acts), "{said:?}");
    }
    let output = Command::new(common::AGENT)
        .args(["doctor", "--config", nasty])
        .output()
        .expect("the agent starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("\\u{1b}]0;owned\\u{7}"), "{said:?}");
    assert!(!said.chars().any(acts), "{said:?}");
}
