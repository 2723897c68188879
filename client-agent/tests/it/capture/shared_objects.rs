//! Programs between shared objects: linked ones that run before `main` and after
//! `exit`, and one that is opened, calls back, makes threads, crashes, handles
//! signals and goes again.
//!
//! Nothing inside a shared object is tracked. What must be right is the program:
//! it does what it does without us, its hooked functions record whoever calls
//! them, and there is one runtime in the process, which reports a crash once.

use crate::common;
use crate::common::{Workshop, function_at};
use sketch_model::{FailureReport, Gap, Outcome, RunRecord, StackObstacle};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const UNGOVERNED: &[&str] = &["--max-overhead", "0"];

struct Objects {
    workshop: Workshop,
    pair: (PathBuf, PathBuf),
    plugin: PathBuf,
}

impl Objects {
    fn new() -> Objects {
        Objects::with(&["-DSTUBS"], &[])
    }

    /// With a runtime inside each shared object, too.
    fn with_runtimes_of_their_own() -> Objects {
        let workshop = Workshop::new();
        let (object, hidden) = (workshop.path("runtime.o"), workshop.path("hidden"));
        fs::write(&object, runtime::LINKABLE).expect("written");
        fs::write(&hidden, "{ local: __failsketch_*; };").expect("written");
        let script = format!("-Wl,--version-script={}", hidden.display());
        Objects::with(&[object.to_str().expect("text"), &script], &[])
    }

    fn with(flags: &[&str], of_the_program: &[&str]) -> Objects {
        let workshop = Workshop::new();
        let shared = |source: &str, name: &str, number: &str| {
            let flags = [&["-shared", "-fPIC", number], flags].concat();
            workshop.compile(source, name, &flags)
        };
        let plugin = shared("shared_plugin", "plugin.so", "-DNUMBER=0");
        let linked = shared("shared_linked", "first.so", "-DNUMBER=10");
        let other = shared("shared_linked", "second.so", "-DNUMBER=11");
        let libraries = [&linked, &other].map(|path| path.to_str().expect("text"));
        let export = "-Wl,--export-dynamic-symbol=host_event";
        let flags = [&libraries[..], &[export], of_the_program].concat();
        let pair = workshop.compile_pair_of("shared_host", &flags);
        Objects {
            workshop,
            pair,
            plugin,
        }
    }

    /// The records of P and of the tracked build; both must do what bare P does.
    fn run(&self, how: &str) -> [(Output, RunRecord); 2] {
        let plugin = self.plugin.to_str().expect("text");
        let bare = Command::new(&self.pair.0)
            .args([how, plugin])
            .output()
            .expect("runs");
        let untouched = self.workshop.record(&self.pair.0, &[how, plugin]);
        let tracked = self
            .workshop
            .record_tracked_with(UNGOVERNED, &self.pair, &[how, plugin]);
        for (output, _) in [&untouched, &tracked] {
            assert_eq!(told(output), told(&bare), "{how}");
        }
        let record = &tracked.1;
        assert!(record.execution.tracked().is_some(), "{:?}", record.gaps);
        assert_eq!(recorded(record), said(&tracked.0), "{how}");
        [untouched, tracked]
    }

    /// Where the failing thread was: file and function, innermost first, the C
    /// library's left out.
    fn stack(&self, record: &RunRecord) -> Vec<(String, String)> {
        let report = failure(record);
        let [thread] = report.threads.as_slice() else {
            panic!("one stack: {:?} {:?}", report.gaps, record.gaps);
        };
        let frames = thread.frames.iter().filter_map(|frame| {
            let file = match (Path::new(&frame.module), record.execution.tracked()) {
                (program, Some(_)) if program == self.pair.0 => &self.pair.1,
                (module, _) => module,
            };
            let name = Path::new(&frame.module).file_name()?.to_str()?;
            let here = file.parent() == self.pair.0.parent();
            here.then(|| (name.to_string(), function_at(file, frame.lookup.0)))
        });
        frames
            .map(|(file, function)| (file, function.unwrap_or_default()))
            .filter(|(_, function)| function != "_start")
            .collect()
    }
}

fn named(stack: &[(&str, &str)]) -> Vec<(String, String)> {
    let text = |(file, function): &(&str, &str)| (file.to_string(), function.to_string());
    stack.iter().map(text).collect()
}

fn failure(record: &RunRecord) -> &FailureReport {
    match &record.outcome {
        Outcome::Failure(report) => report,
        Outcome::Success => panic!("it failed: {:?}", record.gaps),
    }
}

/// Ending and words, without the numbers of threads.
fn told(output: &Output) -> (Option<i32>, Option<i32>, Vec<String>) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().map(|line| match event(line) {
        Some((_, site)) => site.to_string(),
        None => line.to_string(),
    });
    (
        output.status.code(),
        output.status.signal(),
        lines.collect(),
    )
}

/// Thread and site of a line in which the hooked function says that it was called.
fn event(line: &str) -> Option<(i32, u32)> {
    let (tid, site) = line.split_once(' ')?;
    Some((tid.parse().ok()?, site.parse().ok()?))
}

/// Sites by thread, in program order.
type Events = BTreeMap<i32, Vec<u32>>;

fn said(output: &Output) -> Events {
    let mut events = Events::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((tid, site)) = event(line) {
            events.entry(tid).or_default().push(site);
        }
    }
    events
}

fn recorded(record: &RunRecord) -> Events {
    let sites = |thread: &sketch_model::ThreadRecord| thread.events().map(|e| e.site.0).collect();
    let threads = record.threads.iter();
    threads.map(|thread| (thread.tid, sites(thread))).collect()
}

/// Also before `main`, after `exit`, and while the plugin comes and goes.
#[test]
fn whoever_calls_a_hooked_function_is_recorded() {
    let forms = [["-pie", "-fPIE"], ["-no-pie", "-fno-pie"]];
    let objects = forms.map(|form| Objects::with(&["-DSTUBS"], &form));
    for (output, record) in objects.iter().flat_map(|objects| objects.run("callbacks")) {
        assert_eq!(record.outcome, Outcome::Success);
        assert_eq!(record.gaps, []);
        let (code, _, lines) = told(&output);
        assert_eq!(code, Some(5));
        let events: Vec<_> = said(&output).into_values().collect();
        let before = [11, 10, 20, 40, 41, 42, 45];
        assert_eq!(events, [[&before[..], &[22, 15, 16]].concat()]);
        assert_eq!(lines.iter().filter(|line| *line == "gone").count(), 1);
        // What was prepared for the run is not to be seen, by nobody.
        let clean = lines.iter().filter(|line| *line == "unset, unset");
        assert_eq!(clean.count(), 2, "{lines:?}");
    }
}

#[test]
fn threads_of_a_plugin_are_recorded_to_their_last_destructor() {
    let objects = Objects::new();
    for (output, record) in objects.run("threads") {
        assert_eq!(record.outcome, Outcome::Success);
        let events = said(&output);
        assert_eq!(events.len(), 4);
        let short = events.values().filter(|sites| **sites == [43, 44]);
        assert_eq!(short.count(), 3, "{events:?}");
    }
}

#[test]
fn a_crash_in_a_plugin_is_reported_once_and_through_both_files() {
    let objects = Objects::new();
    for (output, record) in objects.run("crash") {
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
        assert_eq!(
            objects.stack(&record),
            named(&[
                ("plugin.so", "inner_faults"),
                ("plugin.so", "plugin_faults"),
                ("program", "host_enters"),
                ("program", "main"),
            ])
        );
        let report = failure(&record);
        assert_eq!(report.threads[0].truncated, None);
        assert_eq!(report.fault_address.map(|a| a.0), Some(24));
        let mut mappings = report.mappings.iter();
        let plugin = mappings.find(|m| Path::new(&m.path) == objects.plugin);
        let id = plugin.expect("is mapped").build_id.clone();
        assert_eq!(id, Some(common::build_id(&objects.plugin)));
    }
}

/// As an upgrade does it. What called the plugin cannot be known without its tables.
#[test]
fn a_plugin_that_was_deleted_ends_the_stack_and_says_so() {
    let objects = Objects::new();
    let copy = objects.workshop.path("copy.so");
    let arguments = ["crash-deleted", copy.to_str().expect("text")];
    let untouched = || objects.workshop.record(&objects.pair.0, &arguments);
    let tracked = || objects.workshop.record_tracked(&objects.pair, &arguments);
    for run in [&untouched as &dyn Fn() -> (Output, RunRecord), &tracked] {
        fs::copy(&objects.plugin, &copy).expect("copied");
        let (output, record) = run();
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
        let [thread] = failure(&record).threads.as_slice() else {
            panic!("one stack: {:?}", record.gaps);
        };
        let modules: Vec<_> = thread.frames.iter().map(|f| f.module.as_str()).collect();
        assert_eq!(modules, [format!("{} (deleted)", copy.display())]);
        let truncated = thread.truncated.as_deref().unwrap_or("");
        assert!(truncated.contains("could not be read"), "{truncated}");
    }
}

/// Before any code of the program: the runtime is there before the first library.
#[test]
fn a_crash_before_main_is_captured() {
    let objects = Objects::new();
    for how in ["early-crash", "early-child"] {
        for (output, record) in objects.run(how) {
            assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
            let stack = objects.stack(&record);
            let expected = named(&[("second.so", "linked_faults"), ("second.so", "before_main")]);
            assert_eq!(stack, expected, "{how}");
        }
    }
}

/// The record cannot say which file it was: it has the mappings from before the
/// plugin came. It must not name another.
#[test]
fn a_plugin_that_writes_a_watched_word_is_a_hit_of_nobodys() {
    let objects = Objects::new();
    let [_, (_, record)] = objects.run("watch");
    assert_eq!(record.watch.refused, None);
    assert_eq!((record.watch.counted, record.watch.hits.len()), (3, 3));
    let holder = |pc| {
        let mut mappings = record.mappings.iter();
        let found = mappings.find(|m| (m.start..m.end).contains(&pc));
        found.map(|m| m.path.clone())
    };
    let pcs = record.watch.hits.iter().map(|hit| hit.after_pc);
    let holders: Vec<_> = pcs.map(holder).collect();
    let program = objects.pair.0.to_str().map(str::to_string);
    assert_eq!(holders, [None, program.clone(), program]);
    assert_eq!(record.watch.hits[0].registers[0], 7, "what was written");
}

/// A fault that the plugin survives is not the one that the program dies of.
#[test]
fn a_plugins_handler_goes_with_it() {
    let objects = Objects::new();
    for how in ["handler", "handler-stays"] {
        for (output, record) in objects.run(how) {
            assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
            assert_eq!(failure(&record).fault_address.map(|a| a.0), Some(32));
            let expected = named(&[("program", "host_faults"), ("program", "main")]);
            assert_eq!(objects.stack(&record), expected, "{how}");
        }
    }
}

/// The program's runtime is the one that records, whatever else carries one.
#[test]
fn a_second_runtime_stays_silent() {
    let objects = Objects::with_runtimes_of_their_own();
    for (_, record) in objects.run("callbacks") {
        assert_eq!(record.outcome, Outcome::Success);
        assert_eq!(record.gaps, []);
    }
    for (_, record) in objects.run("crash") {
        assert_eq!(objects.stack(&record).len(), 4);
    }
}

/// What is executed in the program's place has a runtime that nobody activates, and
/// its crash is not taken for one of the program's functions.
#[test]
fn a_second_tracked_program_in_its_place_records_nothing() {
    let objects = Objects::new();
    let second = objects.pair.1.to_str().expect("text");
    let plugin = objects.plugin.to_str().expect("text");
    let arguments = ["exec", second, plugin];
    let (output, record) =
        objects
            .workshop
            .record_tracked_with(UNGOVERNED, &objects.pair, &arguments);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    let [thread] = record.threads.as_slice() else {
        panic!("one thread: {:?}", record.threads.len());
    };
    let sites: Vec<_> = thread.events().map(|e| e.site.0).collect();
    assert_eq!(sites, [11, 10, 20]);
    let report = failure(&record);
    assert!(report.threads.is_empty(), "{:?}", report.threads);
    assert!(
        matches!(
            report.gaps[0],
            Gap::NoStack {
                because: StackObstacle::TakenByProgram { .. }
            }
        ),
        "{:?}",
        report.gaps
    );
}
