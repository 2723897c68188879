//! A program that overwrites the memory it shares with the agent, at random and while it
//! runs, ends as it does alone: the same exit status, the same signal. And its record is
//! made without a defect of ours.
//!
//! A few hundred runs; `FAILSKETCH_SOAK` makes them ten thousand.

use crate::common;
use crate::common::{Workshop, new_key, usual_terms};
use runtime::layout::{Region, THREAD_SLOTS, ThreadSlot};
use sketch_model::{Gap, RunRecord};
use std::{
    fs,
    mem::{offset_of, size_of},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

const RUNS: u64 = 200;
const SOAK_RUNS: u64 = 10_000;
const AT_ONCE: usize = 2;

/// Ways to end: by exits of all kinds and by signals, sent and met.
const ENDINGS: [&[&str]; 16] = [
    &["exit", "0"],
    &["exit", "7"],
    &["exit", "101"],
    &["exit", "255"],
    &["leave", "3"],
    &["thread", "42"],
    &["raise", "15"],
    &["raise", "9"],
    &["raise", "11"],
    &["raise", "7"],
    &["raise", "6"],
    &["raise", "10"],
    &["abort"],
    &["null"],
    &["divide"],
    &["illegal"],
];

struct Stage {
    workshop: Workshop,
    program: PathBuf,
    patch: PathBuf,
    key: String,
}

impl Stage {
    fn new() -> Stage {
        let workshop = Workshop::new();
        let flags = [
            format!("-DSLOTS_AT={}ul", offset_of!(Region, threads)),
            format!("-DSLOT_SIZE={}ul", size_of::<ThreadSlot>()),
            format!("-DSLOTS={THREAD_SLOTS}"),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let (program, tracked) = workshop.compile_pair_of("scribble", &flags);
        let terms = usual_terms(&program);
        let signed = common::SignedPatch::on_terms(&program, &tracked, &new_key(), terms);
        let patch = workshop.path("patch");
        fs::write(&patch, &signed.bytes).expect("written");
        Stage {
            program,
            patch,
            key: signed.public_key,
            workshop,
        }
    }

    /// One run alone and one under the agent.
    fn compare(&self, number: u64) {
        let ending = ENDINGS[number as usize % ENDINGS.len()];
        let tracked = !(number / ENDINGS.len() as u64).is_multiple_of(3);
        let blows = [1, 8, 40, 81, 300][number as usize % 5];
        let arguments: Vec<String> = [number.to_string(), blows.to_string()]
            .into_iter()
            .chain(ending.iter().map(|word| word.to_string()))
            .collect();
        let words = format!("run {number}, tracked {tracked}: {arguments:?}");
        let alone = Command::new(&self.program)
            .args(&arguments)
            .stdout(Stdio::null())
            .status()
            .expect("runs");

        let record = self.workshop.path(&format!("record-{number}"));
        let mut agent = self.workshop.agent();
        agent.args(["--config", "/dev/null", "--store-record"]);
        agent.arg(&record);
        if tracked {
            agent.arg("--patch").arg(&self.patch);
            agent.args(["--key", &self.key]);
        }
        if number.is_multiple_of(2) {
            agent.args(["--privacy", "shapes"]);
        }
        let output = agent
            .arg("--")
            .arg(&self.program)
            .args(&arguments)
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let expected: ExitStatus = alone;
        assert_eq!(output.status, expected, "{words}: {said}");
        assert!(!said.contains("internal error"), "{words}: {said}");
        // It did scribble, and in the build that was meant.
        let printed = String::from_utf8_lossy(&output.stdout);
        let (found, build) = printed.trim().split_once(' ').expect("two words");
        assert!(found.parse::<u32>().expect("a number") >= 1, "{words}");
        assert_eq!(build == "tracked", tracked, "{words}: {printed}");
        self.check_record(&record, &words);
    }

    fn check_record(&self, file: &Path, words: &str) {
        let text = fs::read(file).expect("the agent stored a record");
        let record: RunRecord = serde_json::from_slice(&text).expect("one JSON document");
        assert_eq!(record.build, common::build_id(&self.program), "{words}");
        let defect = record
            .gaps
            .iter()
            .find(|gap| matches!(gap, Gap::AgentDefect { .. }));
        assert_eq!(defect, None, "{words}");
        fs::remove_file(file).expect("ours");
    }
}

#[test]
fn a_program_that_overwrites_the_region_ends_as_it_does_alone() {
    let runs = match std::env::var_os("FAILSKETCH_SOAK") {
        Some(_) => SOAK_RUNS,
        None => RUNS,
    };
    let stage = Stage::new();
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs {
                        return;
                    }
                    stage.compare(number);
                }
            });
        }
    });
}
