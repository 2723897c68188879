//! The whole loop on bugs with ground truth: built by the wrapper, run by agents until
//! they fail, diagnosed by the server, and compared with what their folders expect.
//!
//! Three of the corpus: two concurrent ones (the demo's, in `first_light`, is one of
//! them) and a sequential one; a deadlock is in `corpus`. They go one after the other, because they
//! share the machine's processors with themselves. The limit is for machines on which
//! nothing comes out; the loop itself takes seconds.

use serde_json::Value;
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use system_tests::command;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The row that the evaluation of one bug makes, and whether it was as expected.
fn evaluated(bug: &str) -> (bool, Value) {
    let _turn = ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.json");
    let eval = Command::new(command("bugbase"))
        .args(["eval", bug, "--no-cost", "--seconds", "240", "--folder"])
        .arg(folder.path().join("eval"))
        .arg("--json")
        .arg(&rows)
        .output()
        .unwrap();
    let complained = String::from_utf8_lossy(&eval.stderr).into_owned();
    let rows = fs::read_to_string(&rows).unwrap_or_else(|_| panic!("{complained}"));
    let rows: Value = serde_json::from_str(&rows).unwrap();
    (eval.status.success(), rows[0].clone())
}

#[test]
fn an_order_between_threads_is_found() {
    let (as_expected, row) = evaluated("transmission-1818");
    assert!(as_expected && row["settled"] == true, "{row:#}");
}

#[test]
fn an_input_that_nobody_thought_of_is_found() {
    let (as_expected, row) = evaluated("curl-965");
    assert!(as_expected && row["settled"] == true, "{row:#}");
    assert_eq!(row["sequential"], true);
}
