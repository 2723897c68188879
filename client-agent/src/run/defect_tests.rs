//! Defects of ours, wherever they strike: the command runs, once, and ends as it would
//! without us; and what was lost is said.

use super::program::Program;
use super::{Executable, Supervisor, repeat};
use crate::cli::RunArguments;
use crate::process::environment;
use crate::process::inherited::Inherited;
use crate::process::supervise::Ending;
use clap::Parser;
use sketch_model::{FailureKind, Gap, Outcome, RunRecord};
use std::{
    cell::Cell,
    ffi::{CString, OsStr},
    fs,
    path::PathBuf,
};
use tempfile::TempDir;

thread_local! {
    static FAILS: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// What this thread does next of this kind comes upon a defect, once.
fn fail_once_while(doing: &'static str) {
    FAILS.set(Some(doing));
}

/// Whether the defect that was asked for has not struck.
fn is_still_to_fail() -> bool {
    FAILS.take().is_some()
}

/// Called by the barrier for all that it guards.
pub fn fail_if_asked(doing: &str) {
    if FAILS.get() == Some(doing) {
        FAILS.set(None);
        panic!("a defect of ours");
    }
}

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    run: RunArguments,
}

struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Stage {
        Stage {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command for the shell that counts its runs.
    fn counted(&self, then: &str) -> String {
        format!("echo run >> {}; {then}", self.path("runs").display())
    }

    fn runs(&self) -> usize {
        let text = fs::read_to_string(self.path("runs")).unwrap_or_default();
        text.lines().count()
    }

    /// How `failsketch-agent run` ends.
    fn run(&self, options: &[&str], then: &str) -> Option<Ending> {
        let (cache, record) = (self.path("cache"), self.path("record"));
        let mut words = vec!["agent", "--config", "/dev/null"];
        words.extend(["--cache", cache.to_str().expect("text")]);
        words.extend(["--store-record", record.to_str().expect("text")]);
        words.extend(options);
        let command = self.counted(then);
        words.extend(["--", "/bin/sh", "-c", &command]);
        let arguments = CommandLine::try_parse_from(words).expect("is understood");
        let ended = repeat::run(&arguments.run).expect("it can be run");
        ended.map(|ended| ended.ending)
    }

    fn records(&self) -> Vec<RunRecord> {
        let text = fs::read_to_string(self.path("record")).unwrap_or_default();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("is a record"))
            .collect()
    }
}

fn tells_of(record: &RunRecord, what: &str) -> bool {
    let mut gaps = record.gaps.iter();
    gaps.any(|gap| matches!(gap, Gap::AgentDefect { doing, .. } if doing == what))
}

#[test]
fn a_defect_before_the_command_starts_does_not_keep_it_from_running() {
    for (doing, recorded) in [
        ("looking at the program's file", false),
        ("preparing to record runs", false),
        ("running the program", false),
        ("asking what to run", true),
        ("preparing the recording of a run", true),
        ("starting the trace of a run", true),
    ] {
        let stage = Stage::new();
        fail_once_while(doing);
        assert_eq!(stage.run(&[], "exit 7"), Some(Ending::Exit(7)), "{doing}");
        assert!(!is_still_to_fail(), "{doing}");
        assert_eq!(stage.runs(), 1, "{doing}");
        let records = stage.records();
        assert_eq!(records.len(), usize::from(recorded), "{doing}");
        let told = records.iter().all(|record| tells_of(record, doing));
        assert!(told, "{doing}: {records:?}");
    }
}

#[test]
fn after_a_defect_the_runs_that_are_left_run() {
    let stage = Stage::new();
    fail_once_while("running the program");
    assert_eq!(stage.run(&["--repeat", "3"], "exit 0"), None);
    assert!(!is_still_to_fail());
    assert_eq!(stage.runs(), 3);
}

#[test]
fn after_a_defect_while_the_command_runs_it_is_waited_for() {
    let stage = Stage::new();
    let program = Program::find(OsStr::new("/bin/sh"), None).expect("is there");
    let command = stage.counted("sleep 0.2; exit 7");
    let words = ["sh", "-c", &command].map(|word| CString::new(word).expect("text"));
    let inherited = Inherited::take().expect("a mask");
    let supervisor = Supervisor::new(&program, &words, environment::own(), inherited, None);
    let lost = supervisor.begin(|| {
        let executable = Executable::Path(&program.path);
        let launched = supervisor.launch(executable, &supervisor.environment, &[]);
        launched.expect("it can be run");
        panic!("a defect of ours");
    });
    assert!(lost.is_err());
    let ended = supervisor.go_on_bare().expect("it can be waited for");
    assert_eq!((ended.ending, stage.runs()), (Ending::Exit(7), 1));
}

#[test]
fn a_hang_that_cannot_be_described_is_reported_and_ended() {
    let stage = Stage::new();
    let doing = "describing a hang";
    fail_once_while(doing);
    let options = ["--hang-after", "0.2", "--hang-when-idle", "--end-hung"];
    let ending = stage.run(&options, "exec sleep 20");
    assert_eq!(ending, Some(Ending::Signal(libc::SIGKILL)));
    assert!(!is_still_to_fail());
    let [record] = &stage.records()[..] else {
        panic!("one run is one record");
    };
    let Outcome::Failure(report) = &record.outcome else {
        panic!("it hung: {record:?}");
    };
    assert_eq!(report.kind, FailureKind::Hang);
    let told = |gap: &Gap| matches!(gap, Gap::AgentDefect { doing: what, .. } if what == doing);
    assert!(report.gaps.iter().any(told), "{:?}", report.gaps);
}
