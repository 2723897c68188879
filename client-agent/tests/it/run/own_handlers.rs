//! Programs that install their own handlers for crash signals after ours: they
//! see what they would see without us, and the first crash is captured.

use crate::common::{Workshop, function_at};
use sketch_model::{Gap, Outcome, RunRecord};
use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const SURVIVE: [&str; 8] = [
    "repairs",
    "repairs-on-alternate-stack",
    "jumps",
    "nests",
    "does-not-nest",
    "breakpoints",
    "steps-over",
    "wrong",
];
const DIE_OF_A_DEREFERENCE: [&str; 4] = [
    "reraises",
    "reraises-old",
    "reraises-sysv",
    "changes-its-mind",
];

struct Handlers {
    workshop: Workshop,
    pair: (PathBuf, PathBuf),
}

impl Handlers {
    fn new() -> Handlers {
        let workshop = Workshop::new();
        let pair = workshop.compile_pair_of("handlers", &[]);
        Handlers { workshop, pair }
    }

    /// The records of P and of the tracked build; both must do what bare P does.
    fn run(&self, how: &str) -> [RunRecord; 2] {
        let told = |output: &Output| {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            (output.status.code(), output.status.signal(), said)
        };
        let bare = Command::new(&self.pair.0).arg(how).output().expect("runs");
        let (output, untouched) = self.workshop.record(&self.pair.0, &[how]);
        assert_eq!(told(&output), told(&bare), "{how}");
        let (output, tracked) = self.workshop.record_tracked(&self.pair, &[how]);
        assert_eq!(told(&output), told(&bare), "{how}, tracked");
        assert!(tracked.execution.tracked().is_some(), "{:?}", tracked.gaps);
        [untouched, tracked]
    }

    /// Functions of the program on the failing stack.
    fn functions(&self, record: &RunRecord) -> Vec<String> {
        let Outcome::Failure(report) = &record.outcome else {
            panic!("it failed: {:?}", record.gaps);
        };
        let file = match record.execution.tracked() {
            Some(_) => &self.pair.1,
            None => &self.pair.0,
        };
        let frames = report.threads.first().map_or(&[][..], |t| &t.frames);
        let own = frames
            .iter()
            .filter(|frame| Path::new(&frame.module) == self.pair.0);
        own.filter_map(|frame| function_at(file, frame.lookup.0))
            .collect()
    }
}

#[test]
fn a_program_that_lives_by_its_handlers_lives_on() {
    let handlers = Handlers::new();
    for how in SURVIVE {
        for record in handlers.run(how) {
            assert_eq!(record.outcome, Outcome::Success, "{how}");
        }
    }
}

#[test]
fn a_handler_of_sigtrap_gets_breakpoints_and_no_hits_of_watchpoints() {
    let [_, tracked] = Handlers::new().run("breakpoints");
    assert_eq!(tracked.watch.refused, None);
    let hits = (tracked.watch.counted, tracked.watch.hits.len());
    assert_eq!(hits, (5, 5), "{:?}", tracked.gaps);
}

#[test]
fn the_first_crash_is_captured_before_the_programs_own_handler_runs() {
    let handlers = Handlers::new();
    for how in DIE_OF_A_DEREFERENCE {
        for record in handlers.run(how) {
            let functions = handlers.functions(&record);
            assert_eq!(
                functions[..2],
                ["dereference", "caller_of_dereference"],
                "{how}"
            );
            let taken_over = record.gaps.contains(&Gap::OnlyFirstSignalCaptured);
            assert_eq!(taken_over, how != "changes-its-mind", "{:?}", record.gaps);
        }
    }
}

#[test]
fn a_handler_that_ends_the_program_is_told_of() {
    let handlers = Handlers::new();
    for record in handlers.run("leaves") {
        assert_eq!(record.outcome, Outcome::Success);
        let signal = "SIGSEGV".to_owned();
        let went_on = Gap::WentOnAfterSignal { signal };
        assert!(record.gaps.contains(&went_on), "{:?}", record.gaps);
    }
    for record in handlers.run("aborts") {
        assert!(handlers.functions(&record).contains(&"main".to_string()));
    }
}

#[test]
fn a_handler_for_one_time_is_used_up_by_the_first() {
    let handlers = Handlers::new();
    for record in handlers.run("once") {
        let functions = handlers.functions(&record);
        assert_eq!(functions[..2], ["dereference", "caller_of_dereference"]);
    }
}
