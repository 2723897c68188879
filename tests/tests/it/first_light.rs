//! From a crash to a picture, through the commands that people use.

use serde_json::Value;
use std::fs;
use std::process::Command;
use system_tests::command;

/// The demo's own promise: a real failure, diagnosed, with the order of the
/// NULL store and the other thread's read as the best order predictor.
#[test]
fn the_demo_explains_the_failure() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Command::new(command("bugbase"))
        .args(["demo", "pbzip2", "--once", "--folder"])
        .arg(folder.path().join("demo"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&demo.stdout);
    let complained = String::from_utf8_lossy(&demo.stderr);
    assert!(demo.status.success(), "{said}\n{complained}");

    let sketch = fs::read_to_string(folder.path().join("demo/sketch.json")).unwrap();
    let sketch: Value = serde_json::from_str(&sketch).unwrap();
    let step = |number: &Value| {
        sketch["steps"]
            .as_array()
            .unwrap()
            .iter()
            .find(|step| &step["number"] == number)
            .unwrap()
    };
    let arrow = &sketch["arrows"][0];
    let (from, to) = (step(&arrow["from_step"]), step(&arrow["to_step"]));
    assert_eq!(from["statement"]["text"], "q->mut = NULL;");
    let read = to["statement"]["text"].as_str().unwrap();
    assert!(read.contains("fifo->mut"), "{read}");
    assert_ne!(from["thread"], to["thread"], "the order is between threads");
    assert!(from["number"].as_u64() < to["number"].as_u64());

    let predictor = &sketch["predictors"][arrow["predictor"].as_u64().unwrap() as usize];
    assert_eq!(predictor["best"], true);
    assert_eq!(predictor["class"], "order");
    let score = &predictor["score"];
    // A consumer may be spared by the end of the process: then F is lower, and the
    // order still holds ten times as often in failing runs.
    let count = |name: &str| score["support"][name].as_f64().unwrap();
    let failing = count("failing_true") / (count("failing_true") + count("failing_false"));
    let successful =
        count("successful_true") / (count("successful_true") + count("successful_false"));
    let good = score["f_measure"].as_f64().unwrap() >= 0.8;
    assert!(
        good || (failing >= 0.9 && 10.0 * successful <= failing),
        "{score}"
    );
    assert!(score["corrected_p"].as_f64().unwrap() < 0.01, "{score}");
    assert!(
        score["support"]["failing_true"].as_u64().unwrap() >= 2,
        "{score}"
    );

    let text = fs::read_to_string(folder.path().join("demo/sketch.txt")).unwrap();
    for shown in ["main", "consumer", "q->mut = NULL;", read, "NULL"] {
        assert!(text.contains(shown), "the text lacks {shown:?}:\n{text}");
    }
    let page = fs::read_to_string(folder.path().join("demo/sketch.html")).unwrap();
    assert!(
        page.contains("q-&gt;mut = NULL;"),
        "the page shows the store"
    );
}

#[test]
fn an_unknown_bug_is_a_clear_refusal() {
    let demo = Command::new(command("bugbase"))
        .args(["demo", "heisenbug"])
        .output()
        .unwrap();
    assert_eq!(demo.status.code(), Some(1));
    let complained = String::from_utf8_lossy(&demo.stderr);
    assert!(
        complained.contains("there is no bug \"heisenbug\""),
        "{complained}"
    );
}
