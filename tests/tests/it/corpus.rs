//! The evaluation's own promises, on a bug whose outcome does not depend on the
//! scheduler.
//!
//! A concurrent bug goes through the whole loop in `first_light`, a deadlock in
//! tests/tests/soak/full_loop.rs.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};
use system_tests::command;

fn evaluate(bug: &str) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.json");
    let output = Command::new(command("bugbase"))
        .args(["eval", bug, "--folder"])
        .arg(folder.path().join("eval"))
        .arg("--json")
        .arg(&rows)
        .output()
        .unwrap();
    let text = fs::read_to_string(&rows).unwrap_or_else(|_| panic!("{output:?}"));
    let rows: Value = serde_json::from_str(&text).unwrap();
    (output, rows[0].clone())
}

/// The input decides: the seeds give the same failing and successful inputs each
/// time, and the null pointer is read in failing runs only.
#[test]
fn a_bug_of_the_input_is_diagnosed() {
    let (output, row) = evaluate("curl-965");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(row["verdict"], "as expected", "{row}");
    assert_eq!(row["expected"], true);
    assert!(row["relevance"].as_f64().unwrap() > 0.0, "{row}");
    assert!(row["successful_used"].as_u64().unwrap() > 0, "{row}");
}
