//! The evaluation's own promises, on bugs whose outcome does not depend on the
//! scheduler.
//!
//! A concurrent bug goes through the whole loop in `first_light`; here a sequential
//! one and a deadlock do. The deadlock is reported, sliced, tracked and drawn; that
//! its cause is not among the predictors yet, the evaluation says.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};
use system_tests::command;

fn evaluate(bug: &str, limits: &[&str]) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.json");
    let output = Command::new(command("bugbase"))
        .args(["eval", bug, "--folder"])
        .arg(folder.path().join("eval"))
        .arg("--json")
        .arg(&rows)
        .args(limits)
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
    let (output, row) = evaluate("curl-965", &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(row["verdict"], "as expected", "{row}");
    assert_eq!(row["expected"], true);
    assert!(row["relevance"].as_f64().unwrap() > 0.0, "{row}");
    assert!(row["successful_used"].as_u64().unwrap() > 0, "{row}");
}

/// With its usual 300 transfers a run hangs in 3% of cases if two processors are free,
/// in none of 500 if twenty others want them, and a tracked run hardly ever: no
/// population is large enough. So each run makes as many transfers as it takes. On a
/// machine as busy as that 7 of 20 runs of 300,000 transfers hung, so a run of a
/// hundred million ends without a hang with a probability below e^-100.
///
/// A hang is known by the lines at which threads wait. Two tellers that wait for each
/// other have both taken their first lock and wait for their second: there is one kind,
/// and all hangs but the first recur. Each takes more than a second to be called one, so
/// with three agents the server has half a minute to make a tracked build of a program of
/// 160 lines, and the agents to run it once.
#[test]
fn a_deadlock_is_reported_tracked_and_drawn() {
    let endless = ["--arguments", "100000000", "--no-cost"];
    let limits = ["--runs", "80", "--seconds", "300"];
    let (output, row) = evaluate("lock-order", &[&endless[..], &limits[..]].concat());
    assert!(row["recurrences"].as_u64().unwrap() > 0, "{row} {output:?}");
    assert!(row["sketch_statements"].as_u64() >= Some(2), "{row}");
    assert!(row["failing_used"].as_u64() >= Some(1), "{row}");
    let title = row["title"].as_str().unwrap();
    assert!(title.starts_with("hang in transfer"), "{row}");
}
