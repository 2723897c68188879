//! Programs that end badly, fork strangely or lock themselves in: the records are
//! readable, and the exit status is the bare program's.

use crate::common::{Workshop, function_at};
use sketch_model::{AimObstacle, FailureReport, Gap, Outcome, RunRecord};
use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

struct Rough {
    workshop: Workshop,
    pair: (PathBuf, PathBuf),
}

impl Rough {
    fn new() -> Rough {
        let workshop = Workshop::new();
        let pair = workshop.compile_pair_of("rough", &[]);
        Rough { workshop, pair }
    }

    /// Runs the tracked build, and checks that it ended as the bare program does.
    fn run(&self, how: &str) -> (Output, RunRecord) {
        let bare = Command::new(&self.pair.0).arg(how).status().expect("runs");
        let (output, record) = self.workshop.record_tracked(&self.pair, &[how]);
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (bare.code(), bare.signal()),
            "{how}: {:?}",
            record.gaps
        );
        assert!(
            record.execution.tracked().is_some(),
            "{how}: {:?}",
            record.gaps
        );
        (output, record)
    }

    /// Functions of the program on the failing stack.
    fn functions(&self, report: &FailureReport) -> Vec<String> {
        let frames = report.threads.first().map_or(&[][..], |t| &t.frames);
        frames
            .iter()
            .filter(|frame| Path::new(&frame.module) == self.pair.0)
            .filter_map(|frame| function_at(&self.pair.1, frame.lookup.0))
            // The optimiser may have made a copy for one caller.
            .map(|name| name.split('.').next().unwrap_or("").to_string())
            .collect()
    }
}

fn failure(record: &RunRecord) -> &FailureReport {
    match &record.outcome {
        Outcome::Failure(report) => report,
        Outcome::Success => panic!("the run failed, and the record says it did not"),
    }
}

/// How many events each thread left.
fn events(record: &RunRecord) -> Vec<usize> {
    record.threads.iter().map(|t| t.events().count()).collect()
}

#[test]
fn a_stack_overflow_in_a_thread_is_captured() {
    let rough = Rough::new();
    let (output, record) = rough.run("overflow-in-thread");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let functions = rough.functions(failure(&record));
    assert!(functions.len() > 5, "{functions:?}");
    assert!(functions.iter().all(|f| f == "overflow"), "{functions:?}");
    assert_eq!(events(&record), [3, 2]);
}

#[test]
fn a_crash_in_a_signal_handler_is_captured() {
    let rough = Rough::new();
    let (output, record) = rough.run("crash-in-handler");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let functions = rough.functions(failure(&record));
    assert_eq!(functions[..2], ["dereference", "faulty_handler"]);
    assert_eq!(events(&record), [4]);
}

#[test]
fn an_abort_under_a_lock_is_captured() {
    let rough = Rough::new();
    let (output, record) = rough.run("abort-under-lock");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(rough.functions(failure(&record)).contains(&"main".into()));
    assert_eq!(events(&record), [3]);
}

#[test]
fn a_wild_stack_pointer_costs_only_the_stack() {
    let rough = Rough::new();
    let (output, record) = rough.run("bad-stack");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let functions = rough.functions(failure(&record));
    assert_eq!(functions, ["main"]);
    assert_eq!(events(&record), [3]);
}

#[test]
fn sudden_death_leaves_the_records() {
    let rough = Rough::new();
    let (output, record) = rough.run("kill");
    assert_eq!(output.status.signal(), Some(libc::SIGKILL));
    assert_eq!(events(&record), [3]);
    assert!(record.gaps.contains(&Gap::CutShort {
        signal: "SIGKILL".to_owned()
    }));
    let (output, record) = rough.run("exit-in-thread");
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(events(&record), [3, 5]);
    let (output, _) = rough.run("stop-trap");
    assert_eq!(output.status.signal(), Some(libc::SIGTRAP));
}

#[test]
fn handlers_of_the_program_come_first() {
    let rough = Rough::new();
    let (output, record) = rough.run("own-handler-leaves");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(record.outcome, Outcome::Success);
    assert_eq!(events(&record), [3]);

    let (output, record) = rough.run("own-handler-gives-up");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let functions = rough.functions(failure(&record));
    assert_eq!(functions[..2], ["dereference", "main"]);
    assert_eq!(events(&record), [3]);
}

#[test]
fn a_handler_that_was_there_before_us_gets_the_fault_after_us() {
    let rough = Rough::new();
    let (output, record) = rough.run("handler-before-us");
    assert_eq!(output.status.code(), Some(9));
    let signal = "SIGSEGV".to_owned();
    let went_on = Gap::WentOnAfterSignal { signal };
    assert!(record.gaps.contains(&went_on), "{:?}", record.gaps);
}

#[test]
fn of_two_crashes_one_is_captured_whole() {
    let rough = Rough::new();
    let (output, record) = rough.run("two-crashes");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let report = failure(&record);
    assert_eq!(report.fault_address.map(|a| a.0), Some(24));
    assert_eq!(rough.functions(report)[0], "dereference");
    let mut left = events(&record);
    left.sort();
    assert_eq!(left, [1, 1, 3]);
}

#[test]
fn exec_vfork_and_raw_clone_do_not_mix_records() {
    let rough = Rough::new();
    let (output, record) = rough.run("exec");
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(events(&record), [3]);
    let (output, record) = rough.run("vfork");
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(events(&record), [5]);
    // Two that share a thread pointer share a slot; neither may break for it.
    let (output, record) = rough.run("raw-clone");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(record.threads.len(), 1);
}

#[test]
fn a_program_that_locks_itself_in_is_not_killed_for_our_calls() {
    let rough = Rough::new();
    let (output, record) = rough.run("strict-sandbox");
    assert_eq!(output.status.code(), Some(8));
    assert_eq!(events(&record), [7]);
    assert!(
        record.gaps.contains(&Gap::AimsSkipped {
            count: 1,
            because: AimObstacle::Sandboxed
        }),
        "{:?}",
        record.gaps
    );
    assert_eq!(record.watch.skipped_aims, 1);

    let (output, record) = rough.run("strict-sandbox-at-once");
    assert_eq!(output.status.code(), Some(8));
    assert_eq!(events(&record), [3]);
    assert!(
        record.gaps.contains(&Gap::CounterForbidden),
        "{:?}",
        record.gaps
    );
}

#[test]
fn a_crash_behind_a_killing_filter_keeps_its_signal_and_its_stack() {
    let rough = Rough::new();
    let (output, record) = rough.run("crash-in-sandbox");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let report = failure(&record);
    assert_eq!(report.fault_address.map(|a| a.0), Some(40));
    assert_eq!(rough.functions(report)[..2], ["dereference", "main"]);
    assert_eq!(events(&record), [4]);
    // And a program that breaks its own rules dies of them.
    let (output, _) = rough.run("kill-in-sandbox");
    assert_eq!(output.status.signal(), Some(libc::SIGSYS));
}
