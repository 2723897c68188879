//! The faults are the ones that the fixes repair.
//!
//! A bounded form of `bugbase fixed paper further --runs 2000`; the real programs take
//! too long to build for a test. That faulty concurrent programs do
//! fail depends on the scheduler and is shown by every evaluation; that faulty
//! sequential ones do is certain, because their inputs follow from the seeds.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

/// Runs a counting command of the harness; its rows by bug.
fn rows(command: &str, bugs: &[&str], runs: u32) -> (Output, Vec<Value>) {
    let name = format!("bugbase-rows-{command}-{runs}-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    let output = Command::new(env!("CARGO_BIN_EXE_bugbase"))
        .args([command, "--runs", &runs.to_string(), "--json"])
        .arg(&file)
        .args(bugs)
        .output()
        .unwrap();
    let text = fs::read_to_string(&file).unwrap_or_else(|_| panic!("{output:?}"));
    fs::remove_file(&file).unwrap();
    (output, serde_json::from_str(&text).unwrap())
}

#[test]
fn no_fixed_program_ever_fails() {
    let (output, rows) = rows("fixed", &["paper", "further"], 25);
    assert!(output.status.success(), "{output:?}");
    assert!(rows.len() >= 20, "{}", rows.len());
    for row in rows {
        assert_eq!(row["failures"], 0, "{row}");
        assert_eq!(row["runs"], 25, "{row}");
        assert_eq!(row["other"].as_array().map(Vec::len), Some(0), "{row}");
    }
}

#[test]
fn faulty_sequential_programs_fail_on_some_inputs_only() {
    let sequential = [
        "cppcheck-2782",
        "cppcheck-3238",
        "curl-965",
        "image-overflow",
        "stale-record",
    ];
    let (output, rows) = rows("rate", &sequential, 120);
    assert!(output.status.success(), "{output:?}");
    for row in rows {
        let failures = row["failures"].as_u64().unwrap();
        // 2% to 40% of 120 runs, and the same number each time.
        assert!((3..=48).contains(&failures), "{row}");
        assert_eq!(row["other"].as_array().map(Vec::len), Some(0), "{row}");
    }
}
