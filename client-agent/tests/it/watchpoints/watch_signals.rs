//! Watchpoint hits that come by SIGTRAP, for machines that refuse rings: they are the
//! same hits, and a program to which SIGTRAP means something goes on as without us.

use crate::common::{AGENT, FakeServer, Workshop, signed_patch};
use sketch_model::{Outcome, RunRecord};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    os::unix::{
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::PathBuf,
    process::{Command, Output, Stdio},
};

const BY_SIGNAL: [&str; 4] = ["--watch-way", "sigtrap", "--max-overhead", "0"];
const NO_RINGS: &str =
    "watchpoint hits came by SIGTRAP, not through rings: this way was not asked for";

struct Traps {
    workshop: Workshop,
    pair: (PathBuf, PathBuf),
}

impl Traps {
    fn new() -> Traps {
        let workshop = Workshop::new();
        let pair = workshop.compile_pair_of("traps", &[]);
        Traps { workshop, pair }
    }

    /// The record of the tracked build, which must do what the program does alone.
    fn run(&self, how: &str) -> RunRecord {
        let told = |output: &Output| {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            (output.status.code(), output.status.signal(), said)
        };
        let bare = Command::new(&self.pair.0).arg(how).output().expect("runs");
        let (output, record) = self
            .workshop
            .record_tracked_with(&BY_SIGNAL, &self.pair, &[how]);
        assert_eq!(told(&output), told(&bare), "{how}: {:?}", record.gaps);
        assert!(record.variant.is_some(), "{how}: {:?}", record.gaps);
        assert_eq!(record.watch.refused, None, "{how}");
        let said = record.gaps.iter().any(|gap| gap == NO_RINGS);
        assert!(said, "{how}: {:?}", record.gaps);
        record
    }
}

fn stored(record: &RunRecord) -> Vec<u64> {
    record
        .watch
        .hits
        .iter()
        .map(|hit| hit.registers[0])
        .collect()
}

fn assert_says(record: &RunRecord, gap: &str) {
    let said = record.gaps.iter().any(|said| said == gap);
    assert!(said, "{gap}: {:?}", record.gaps);
}

fn ended(why: &str) -> String {
    format!("watching ended before the run did: {why}, and hits come by SIGTRAP")
}

#[test]
fn hits_of_contending_threads_are_all_there_and_right() {
    const TIMES: usize = 150;
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("contend", &[]);
    let file = workshop.path("seen");
    let arguments = [file.to_str().expect("text"), &TIMES.to_string()];
    let (output, record) = workshop.record_tracked_with(&BY_SIGNAL, &pair, &arguments);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(record.watch.refused, None);
    assert_eq!(record.gaps, [NO_RINGS]);
    // By thread, in program order; the three accesses use rax, rbx and rcx in turn.
    let mut truth = BTreeMap::<i32, Vec<i64>>::new();
    for line in fs::read_to_string(file).expect("written").lines() {
        let (tid, value) = line.split_once(' ').expect("two numbers");
        let values = truth.entry(tid.parse().expect("a thread")).or_default();
        values.push(value.parse().expect("a value"));
    }
    let mut hits = BTreeMap::<i32, Vec<i64>>::new();
    for hit in &record.watch.hits {
        let seen = hits.entry(hit.tid).or_default();
        seen.push(hit.registers[seen.len() % 3] as i64);
    }
    assert_eq!(record.watch.counted, 12 * TIMES as u64);
    assert_eq!(hits, truth);
    // Each has its slot, its address, and the stack that its caller is found in.
    let first = &record.watch.hits[0];
    for hit in &record.watch.hits {
        assert_eq!((hit.slot, hit.address), (0, first.address));
        assert_eq!(hit.stack.len(), 32);
    }
}

#[test]
fn threads_that_block_all_signals_go_on_and_the_record_says_what_is_missing() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("contend", &[]);
    let file = workshop.path("seen");
    let arguments = [file.to_str().expect("text"), "50", "blocked"];
    let (output, record) = workshop.record_tracked_with(&BY_SIGNAL, &pair, &arguments);
    assert_eq!(output.status.code(), Some(0));
    assert_says(&record, &ended("the program blocked SIGTRAP"));
    assert_eq!(record.watch.skipped_aims, 1);
    assert_eq!((record.watch.counted, record.watch.hits.len()), (0, 0));
}

#[test]
fn watching_ends_before_the_program_blocks_the_signal() {
    let traps = Traps::new();
    for how in ["blocks", "waits"] {
        let record = traps.run(how);
        assert_eq!(stored(&record), [1, 2, 3], "{how}");
        assert_eq!(record.watch.counted, 3, "{how}");
        assert_eq!(record.watch.skipped_aims, 1, "{how}");
        assert_says(&record, &ended("the program blocked SIGTRAP"));
    }
}

#[test]
fn a_program_with_its_own_handler_gets_its_own_signals() {
    let traps = Traps::new();
    for how in ["handles", "handles-once", "handles-the-old-way", "ignores"] {
        let record = traps.run(how);
        assert_eq!(stored(&record), [1, 2, 3], "{how}");
        assert_eq!(record.watch.counted, 3, "{how}");
        let why = "the program installed its own handler for SIGTRAP";
        assert_says(&record, &ended(why));
    }
}

#[test]
fn a_breakpoint_still_kills_and_is_captured() {
    let record = Traps::new().run("dies");
    assert_eq!(stored(&record), [1, 2, 3]);
    assert!(matches!(record.outcome, Outcome::Failure(_)));
}

#[test]
fn what_a_program_blocks_unseen_is_lost_and_counted() {
    let record = Traps::new().run("blocks-unseen");
    assert_eq!(stored(&record), [1, 2, 3, 20, 21]);
    assert_eq!(record.watch.counted, 10);
    assert_says(&record, "5 of 10 watchpoint hits were lost");
    let late = "1 watchpoint hits came too late, with SIGTRAP blocked, and tell nothing";
    assert_says(&record, late);
}

#[test]
fn many_late_hits_end_the_watching() {
    let traps = Traps::new();
    let why = "SIGTRAP was blocked in a way that could not be foreseen";
    let record = traps.run("blocks-in-handlers");
    assert_says(&record, &ended(why));
    assert_eq!(stored(&record), [1, 2, 3]);
    assert_eq!(record.watch.counted, 3 + 16);
    // Else our own handler would be interrupted for ever.
    let record = traps.run("dead-stack");
    assert_says(&record, &ended(why));
}

#[test]
fn a_forked_child_is_neither_watched_nor_disturbed() {
    let record = Traps::new().run("forks");
    assert_eq!(stored(&record), [1, 2, 3, 20, 21, 22]);
    assert_eq!(record.watch.counted, 6);
}

#[test]
fn watching_ends_after_as_many_hits_as_there_is_room_for() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("contend", &[]);
    let file = workshop.path("seen");
    let arguments = [file.to_str().expect("text"), "5000"];
    let (output, record) = workshop.record_tracked_with(&BY_SIGNAL, &pair, &arguments);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(record.watch.hits.len(), 2048);
    assert!(record.watch.counted >= 2048 && record.watch.counted < 60_000);
    let said = |text: &str| record.gaps.iter().any(|gap| gap.contains(text));
    assert!(
        said("watching ended before the run did, after"),
        "{:?}",
        record.gaps
    );
}

#[test]
fn a_static_program_has_no_watchpoints_of_this_kind() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("traps", &["-static"]);
    let (output, record) = workshop.record_tracked_with(&BY_SIGNAL, &pair, &["blocks"]);
    assert_eq!(output.status.code(), Some(44));
    assert_eq!(
        record.watch.refused.as_deref(),
        Some(
            "this way was not asked for; nor by SIGTRAP: nothing is preloaded that would see the \
             program block or handle SIGTRAP"
        )
    );
}

#[test]
fn hits_on_their_way_never_meet_the_default_action() {
    let traps = Traps::new();
    for _ in 0..10 {
        let record = traps.run("hammered");
        let why = "the program installed its own handler for SIGTRAP";
        assert_says(&record, &ended(why));
    }
}

#[test]
fn a_debugger_is_not_shown_our_signals() {
    let record = Traps::new().run("debugged");
    assert_eq!(stored(&record), [1, 2, 3]);
    assert_says(&record, &ended("the program is being debugged"));
}

#[test]
fn a_program_that_filters_its_calls_is_left_alone() {
    let record = Traps::new().run("filters");
    assert_eq!(stored(&record), [1, 2, 3]);
    assert_says(&record, &ended("the program has a seccomp filter"));
}

#[test]
fn the_governor_pauses_these_watchpoints_too() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("contend", &[]);
    let file = workshop.path("seen");
    let arguments = [file.to_str().expect("text"), "5000"];
    let options = ["--watch-way", "sigtrap"];
    let (output, record) = workshop.record_tracked_with(&options, &pair, &arguments);
    assert_eq!(output.status.code(), Some(0));
    assert!(!record.tracking.pauses.is_empty(), "{:?}", record.gaps);
    let hits = record.watch.hits.len() as u64;
    assert!(hits > 0 && record.watch.counted >= hits);
}

#[test]
fn each_hit_tells_its_slot() {
    let record = Traps::new().run("two");
    let hits = record.watch.hits.iter();
    let seen: Vec<_> = hits.map(|hit| (hit.slot, hit.registers[0])).collect();
    assert_eq!(
        seen[3..],
        [(0, 10), (2, 20), (0, 11), (2, 21), (0, 12), (2, 22)]
    );
    assert_eq!(record.watch.counted, 9);
}

#[test]
fn a_watch_ends_with_its_memory_in_this_way_too() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("heap", &[]);
    for how in ["free", "free-in-thread", "munmap"] {
        let (output, record) = workshop.record_tracked_with(&BY_SIGNAL, &pair, &[how]);
        assert_eq!(output.status.code(), Some(0), "{how}: {:?}", record.gaps);
        assert_eq!(stored(&record), [1, 2, 3], "{how}");
        assert_eq!((record.watch.armed, record.watch.disarmed), (2, 1), "{how}");
    }
}

/// Runs the tracked build with SIGTRAP as `prepare` leaves it to the agent.
fn refused_after(prepare: fn()) -> Option<String> {
    let Traps { workshop, pair } = Traps::new();
    let server = FakeServer::start(Some(signed_patch(&pair.0, &pair.1)));
    let mut agent = workshop.agent();
    agent
        .args(BY_SIGNAL)
        .args(["--server", &server.url, "--key", &server.key(), "--"])
        .arg(&pair.0)
        .arg("two");
    // SAFETY: a system call or two between fork and exec.
    unsafe {
        agent.pre_exec(move || {
            prepare();
            Ok(())
        });
    }
    assert_eq!(agent.status().expect("starts").code(), Some(52));
    let mut records = server.records();
    records.remove(0).watch.refused
}

#[test]
fn a_program_that_begins_with_the_signal_blocked_or_ignored_has_no_such_watchpoints() {
    let blocked = refused_after(|| {
        // SAFETY: the set is initialised before use.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGTRAP);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
    });
    let ignored = refused_after(|| {
        // SAFETY: takes no pointers.
        unsafe { libc::signal(libc::SIGTRAP, libc::SIG_IGN) };
    });
    let nor = "this way was not asked for; nor by SIGTRAP: the program";
    assert_eq!(
        [blocked.as_deref(), ignored.as_deref()],
        [
            Some(format!("{nor} was started with SIGTRAP blocked").as_str()),
            Some(format!("{nor} handles or ignores SIGTRAP").as_str()),
        ]
    );
}

/// A user who may lock no more memory: an ordinary one, since root may always.
#[test]
fn where_rings_cannot_be_mapped_hits_come_by_signal_if_allowed() {
    let Traps { workshop, pair } = Traps::new();
    // SAFETY: takes no arguments.
    let user = match unsafe { libc::geteuid() } {
        0 => 61917,
        user => user,
    };
    let hold = workshop.compile("hold", "hold", &[]);
    fs::set_permissions(workshop.path(""), fs::Permissions::from_mode(0o777)).expect("allowed");
    let mut holder = Command::new(hold)
        .arg(user.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut said = String::new();
    let output = holder.stdout.take().expect("is piped");
    BufReader::new(output).read_line(&mut said).expect("read");
    assert_eq!(said, "held\n");

    let server = FakeServer::start(Some(signed_patch(&pair.0, &pair.1)));
    // As the agent's own file may be out of that user's reach.
    let agent = workshop.path("agent");
    fs::copy(AGENT, &agent).expect("copied");
    let mut command = Command::new(agent);
    command
        .args(["run", "--canary", "1", "--max-overhead", "0"])
        .args(["--watch-way", "any", "--cache"])
        .arg(workshop.path("cache"))
        .args(["--server", &server.url, "--key", &server.key(), "--"])
        .arg(&pair.0)
        .arg("forks")
        .uid(user);
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const none);
            Ok(())
        });
    }
    let output = command.output().expect("starts");
    drop(holder.stdin.take());
    holder.wait().expect("ends");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(59), "{complaint}");
    let records = server.records();
    let record = records.first().expect(&complaint);
    assert_eq!(stored(record), [1, 2, 3, 20, 21, 22], "{:?}", record.gaps);
    assert_eq!(record.watch.counted, 6);
    let began = "watchpoint hits came by SIGTRAP, not through rings: mmap of a watchpoint ring \
                 was refused: Operation not permitted";
    let said = record.gaps.iter().any(|gap| gap.starts_with(began));
    assert!(said, "{:?}", record.gaps);
}
