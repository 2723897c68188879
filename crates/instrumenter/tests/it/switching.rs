//! Recording is turned off and on while calls run that never end; and what hooks
//! cost while it is off, in instructions.

use crate::common::{Built, NONCE, build, read_region, region, spawn};
use instrumenter::{TrackedBuild, Way, track};
use runtime::layout::{ACTIVATION_VARIABLE, Control, Region};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SWITCHING: &str = include_str!("../programs/switching.c");
const HOT: &str = include_str!("../programs/hot.c");

/// A program that answers each byte with one.
struct Conversation {
    child: Child,
    region: File,
}

impl Conversation {
    fn begin(program: &Path) -> Self {
        let region = region();
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).env(
            ACTIVATION_VARIABLE,
            format!("{}:{NONCE:016x}", region.as_raw_fd()),
        );
        let child = spawn(&mut command);
        Conversation { child, region }
    }

    fn say(&mut self, what: u8) {
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(&[what]).expect("the program reads");
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.say(b'x');
            let output = self.child.stdout.as_mut().expect("piped");
            let mut answer = [0];
            output.read_exact(&mut answer).expect("the program answers");
        }
    }

    fn turn(&self, on: bool) {
        let at = offset_of!(Region, control) + offset_of!(Control, enabled);
        let value = u32::from(on).to_le_bytes();
        self.region.write_all_at(&value, at as u64).unwrap();
    }

    /// Events ever recorded, by slot.
    fn recorded(&self) -> Vec<u64> {
        let region = read_region(&self.region);
        let used = region.threads.iter().filter(|slot| slot.count > 0);
        used.map(|slot| slot.count).collect()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn tracked(program: &Built, functions: &[&str]) -> TrackedBuild {
    let tracked = track(&program.build, &program.plan(functions)).unwrap();
    assert!(matches!(tracked.way, Way::Clones { .. }), "{}", tracked.way);
    tracked
}

#[test]
fn a_call_that_never_ends_stops_recording_and_begins_again() {
    for level in ["-O0", "-O2"] {
        let program = build(&[("switching.c", SWITCHING)], &[level, "-fPIE"], &["-pie"]);
        let tracked = tracked(&program, &["main", "worker"]);
        let file = program.write("tracked", &tracked.deployed);
        let mut talk = Conversation::begin(&file);
        talk.rounds(5);
        let before = talk.recorded();
        assert!(before[0] > 5, "{level}: {before:?}");
        talk.turn(false);
        // The round that was under way.
        talk.rounds(1);
        let off = talk.recorded();
        talk.rounds(20);
        assert_eq!(talk.recorded(), off, "{level}");
        talk.turn(true);
        talk.rounds(5);
        assert!(talk.recorded()[0] > off[0] + 5, "{level}");
        talk.end();
    }
}

#[test]
fn a_thread_that_began_while_recording_was_off_records_when_it_is_on() {
    for level in ["-O0", "-O2"] {
        let program = build(&[("switching.c", SWITCHING)], &[level, "-fPIE"], &["-pie"]);
        let tracked = tracked(&program, &["worker"]);
        let file = program.write("tracked", &tracked.deployed);
        let mut talk = Conversation::begin(&file);
        talk.rounds(1);
        talk.turn(false);
        talk.say(b's');
        talk.rounds(5);
        assert!(
            talk.recorded().is_empty(),
            "{level}: the thread is not recorded"
        );
        talk.turn(true);
        talk.rounds(5);
        let recorded = talk.recorded();
        assert!(recorded.iter().sum::<u64>() > 5, "{level}: {recorded:?}");
        talk.end();
    }
}

/// Instructions of a run, by Valgrind.
fn instructions(program: &Path, mode: &str, rounds: u64) -> u64 {
    let out = program.with_extension("callgrind");
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args([mode, &rounds.to_string()])
        .env_remove(ACTIVATION_VARIABLE)
        .output()
        .expect("valgrind is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let profile = fs::read_to_string(&out).unwrap();
    let total = profile.lines().find_map(|line| {
        line.strip_prefix("summary: ")
            .or(line.strip_prefix("totals: "))
    });
    total.and_then(|t| t.trim().parse().ok()).expect("a total")
}

#[test]
fn with_recording_off_a_call_costs_its_gate_and_a_hook_in_an_endless_call_its_comparisons() {
    const ROUNDS: u64 = 10_000;
    let program = build(&[("hot.c", HOT)], &["-O2", "-fPIE"], &["-pie"]);
    let tracked = tracked(&program, &["main", "called"]);
    let p = program.write("p", &program.build.deployed().unwrap());
    let with_hooks = program.write("tracked", &tracked.deployed);
    let each = |program: &Path, mode: &str| {
        let more = instructions(program, mode, 2 * ROUNDS) - instructions(program, mode, ROUNDS);
        more as f64 / ROUNDS as f64
    };
    let (loop_before, loop_after) = (each(&p, "loop"), each(&with_hooks, "loop"));
    let (call_before, call_after) = (each(&p, "call"), each(&with_hooks, "call"));
    eprintln!(
        "a round of the loop: {loop_before:.1} instructions, with hooks that are off {loop_after:.1}"
    );
    eprintln!(
        "a round with a call: {call_before:.1} instructions, with hooks that are off {call_after:.1}"
    );
    // Two branches, a load, and a load and a store of a counter.
    assert!(loop_after - loop_before < 5.0 * 20.0);
    // Three instructions of the gate; the loop that calls has a branch, a call and its
    // argument.
    assert!(call_after - call_before < 4.0 + 3.0 * 16.0);
}
