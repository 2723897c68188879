//! What a program said when it aborted is in the report, if it may be.

use crate::common;
use crate::common::Workshop;
use sketch_model::{FailureReport, Gap, LastWords, Outcome, RunRecord, ThrownException};
use std::{os::unix::process::ExitStatusExt, path::Path, process::Command};

fn report(record: &RunRecord) -> &FailureReport {
    match &record.outcome {
        Outcome::Failure(report) => report,
        Outcome::Success => panic!("the run failed, and the record says it did not"),
    }
}

fn thrown(type_name: &str, text: Option<&str>) -> Option<LastWords> {
    Some(LastWords {
        message: None,
        exception: Some(ThrownException {
            type_name: type_name.into(),
            text: text.map(Into::into),
        }),
    })
}

/// The program, in C++, with these flags.
fn compiled(workshop: &Workshop, flags: &[&str]) -> std::path::PathBuf {
    workshop.compile_cpp("last_words", "last_words", flags)
}

fn said(workshop: &Workshop, program: &Path, how: &str) -> Option<LastWords> {
    let bare = Command::new(program).arg(how).output().expect("runs");
    let (output, record) = workshop.record(program, &[how]);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{how}");
    assert_eq!(bare.status.signal(), Some(libc::SIGABRT), "{how}");
    assert_eq!(output.stderr, bare.stderr, "{how}");
    let report = report(&record);
    assert!(!report.threads[0].frames.is_empty(), "{how}");
    report.said.clone()
}

#[test]
fn assertions_and_the_c_library_are_quoted() {
    let workshop = Workshop::new();
    let program = compiled(&workshop, &[]);
    let message = |how| said(&workshop, &program, how).and_then(|said| said.message);
    let assertion = message("assert").expect("a message");
    assert!(
        assertion.contains("Assertion `number == 7 && \"seven is asked for\"' failed."),
        "{assertion}"
    );
    assert!(assertion.contains("last_words.cpp:"), "{assertion}");
    let heap = message("heap").expect("a message");
    assert!(heap.starts_with("free(): double free"), "{heap}");
}

#[test]
fn exceptions_that_nobody_catches_are_named() {
    let workshop = Workshop::new();
    const STOCK: &str = "N4shop10OutOfStockE";
    // With the C++ library shared, and inside the program.
    for flags in [&[][..], &["-static-libstdc++", "-static-libgcc"]] {
        let program = compiled(&workshop, flags);
        let table = [
            ("throw", thrown(STOCK, Some("no kettle of size 2"))),
            ("throw-noexcept", thrown(STOCK, Some("not from here"))),
            ("throw-in-thread", thrown(STOCK, Some("no tea"))),
            ("rethrow-shared", thrown(STOCK, Some("no milk"))),
            ("throw-plain", thrown("N4shop5PlainE", None)),
            ("throw-int", thrown("i", None)),
        ];
        for (how, expected) in table {
            assert_eq!(said(&workshop, &program, how), expected, "{how} {flags:?}");
        }
        let range = said(&workshop, &program, "throw-logic").and_then(|said| said.exception);
        let range = range.expect("an exception");
        assert_eq!(range.type_name, "St12out_of_range");
        assert!(
            range
                .text
                .is_some_and(|text| text.contains("basic_string::at")),
            "a text"
        );
    }
}

#[test]
fn a_program_that_said_nothing_is_not_made_to_speak() {
    let workshop = Workshop::new();
    let program = compiled(&workshop, &[]);
    assert_eq!(said(&workshop, &program, "abort"), None);
    assert_eq!(said(&workshop, &program, "abort-after-caught"), None);
    // What only looks like an exception has neither name nor text.
    let (output, record) = workshop.record(&program, &["broken"]);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert_eq!(report(&record).said, None);
}

#[test]
fn words_that_may_hold_values_stay_where_values_stay() {
    let workshop = Workshop::new();
    let program = compiled(&workshop, &[]);
    let file = workshop.path("record.json");
    let record = |privacy: &str, how: &str| {
        let ran = workshop
            .agent()
            .arg("--store-record")
            .arg(&file)
            .args(["--privacy", privacy, "--"])
            .arg(&program)
            .arg(how)
            .output()
            .expect("runs");
        assert_eq!(ran.status.signal(), Some(libc::SIGABRT));
        common::read_record(&file)
    };
    let withheld = |record: &RunRecord| {
        let gaps = &report(record).gaps;
        gaps.contains(&Gap::AbortMessageWithheld)
    };
    let full = record("full", "assert");
    assert!(report(&full).said.is_some() && !withheld(&full));
    let assertion = record("control-flow-only", "assert");
    assert!(report(&assertion).said.is_none() && withheld(&assertion));
    // Which type was thrown is control flow.
    let exception = record("control-flow-only", "throw");
    assert_eq!(report(&exception).said, thrown("N4shop10OutOfStockE", None));
    assert!(withheld(&exception));
    let nothing = record("control-flow-only", "abort");
    assert!(!withheld(&nothing));
}
