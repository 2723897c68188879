//! A crash becomes a report with the right frames, and the exit status stays
//! what it was.

use crate::common;
use crate::common::{Workshop, function_at};
use sketch_model::{FailureKind, FailureReport, Outcome, RunRecord};
use std::{os::unix::process::ExitStatusExt, path::Path, process::Command};

fn failure(record: &RunRecord) -> &FailureReport {
    match &record.outcome {
        Outcome::Failure(report) => report,
        Outcome::Success => panic!("the run failed, and the record says it did not"),
    }
}

/// The functions of the program itself on the failing stack, innermost first.
fn functions(report: &FailureReport, program: &Path) -> Vec<String> {
    report.threads[0]
        .frames
        .iter()
        .filter(|frame| Path::new(&frame.module) == program)
        .filter_map(|frame| function_at(program, frame.lookup.0))
        .collect()
}

#[test]
fn a_null_dereference_in_a_thread_is_reported_with_its_frames() {
    let workshop = Workshop::new();
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"]] {
        let program = workshop.compile("crash", "crash", flags);
        let (output, record) = workshop.record(&program, &["thread", "24"]);
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
        let report = failure(&record);
        assert_eq!(
            report.kind,
            FailureKind::Signal {
                number: 11,
                name: "SIGSEGV".into()
            }
        );
        assert_eq!(report.fault_address.map(|a| a.0), Some(24));
        assert_eq!(
            functions(report, &program),
            ["dereference", "caller_of_dereference", "crashing_thread"]
        );
        let stack = &report.threads[0];
        assert_eq!(stack.truncated, None);
        let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
        assert_eq!(said, format!("thread {}", stack.tid));
        let own = report
            .mappings
            .iter()
            .find(|m| Path::new(&m.path) == program)
            .expect("the program's mapping");
        assert_eq!(own.build_id.as_ref(), Some(&record.build));
    }
}

#[test]
fn an_abort_leads_through_the_c_library_to_its_caller() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let (output, record) = workshop.record(&program, &["abort"]);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    let report = failure(&record);
    assert_eq!(report.fault_address, None);
    assert!(report.threads[0].frames[0].module.contains("libc"));
    assert_eq!(functions(report, &program)[..2], ["gives_up", "main"]);
}

#[test]
fn a_stack_overflow_of_the_main_thread_is_captured() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let (output, record) = workshop.record(&program, &["overflow"]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let report = failure(&record);
    let functions = functions(report, &program);
    assert!(functions.len() > 5, "{functions:?}");
    assert!(functions.iter().all(|f| f == "overflow"), "{functions:?}");
    let truncated = report.threads[0].truncated.as_deref().unwrap_or("");
    assert!(
        truncated.starts_with("the captured stack does not reach"),
        "{truncated}"
    );
}

#[test]
fn a_call_through_null_names_the_caller() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let (_, record) = workshop.record(&program, &["null-call"]);
    let report = failure(&record);
    assert_eq!(report.threads[0].frames[0].module, "");
    assert_eq!(functions(report, &program)[..2], ["calls_through", "main"]);
}

#[test]
fn the_exit_status_is_the_bare_programs() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let exits = ["0", "1", "2", "42", "126", "127", "128", "139", "255"];
    let signals = [
        "1", "2", "4", "5", "6", "7", "8", "9", "11", "13", "15", "31",
    ];
    let cases = exits
        .iter()
        .map(|code| vec!["exit", code])
        .chain(signals.iter().map(|signal| vec!["raise", signal]))
        .chain(
            [
                "divide",
                "illegal",
                "breakpoint",
                "null-call",
                "own-handler",
            ]
            .iter()
            .map(|how| vec![*how]),
        );
    for case in cases {
        let bare = Command::new(&program).args(&case).status().expect("runs");
        let (output, record) = workshop.record(&program, &case);
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (bare.code(), bare.signal()),
            "{case:?}"
        );
        let crash = bare
            .signal()
            .is_some_and(|s| ![1, 2, 9, 13, 15].contains(&s));
        assert_eq!(record.failed(), crash, "{case:?}");
        if crash {
            assert!(!failure(&record).threads.is_empty(), "{case:?}");
        }
    }
}

#[test]
fn a_forked_childs_crash_is_not_the_programs() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let (output, record) = workshop.record(&program, &["child"]);
    assert_eq!(output.status.code(), Some(libc::SIGSEGV));
    assert_eq!(record.outcome, Outcome::Success);
    assert_eq!(record.gaps, []);
}

#[test]
fn a_declared_exit_code_is_a_failure() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let file = workshop.path("record.json");
    let status = workshop
        .agent()
        .args(["--fail-exit", "3", "--fail-exit", "4", "--store-record"])
        .arg(&file)
        .arg("--")
        .arg(&program)
        .args(["exit", "4"])
        .status()
        .expect("the agent starts");
    assert_eq!(status.code(), Some(4));
    let record = common::read_record(&file);
    assert_eq!(failure(&record).kind, FailureKind::ExitCode(4));
}

#[test]
fn a_program_that_was_replaced_while_it_ran_is_still_known() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let kept = workshop.compile("crash", "kept", &[]);
    let (output, record) = workshop.record(&program, &["unlinked"]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let named: Vec<_> = failure(&record).threads[0]
        .frames
        .iter()
        .filter(|frame| Path::new(&frame.module) == program)
        .filter_map(|frame| function_at(&kept, frame.lookup.0))
        .collect();
    assert_eq!(
        named[..3],
        ["dereference", "caller_of_dereference", "main"],
        "{named:?}"
    );
}
