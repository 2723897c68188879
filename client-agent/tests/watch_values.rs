//! Values of watchpoint hits under contention, against what the program itself
//! wrote down: every one is right, and every one that is missing is counted.
//!
//! The processor stops after the access and before the next instruction, so the
//! register that the access used still has the value. Memory does not: three
//! other threads are writing to it.

mod common;

use common::Workshop;
use sketch_model::RunRecord;
use std::{collections::BTreeMap, fs};

/// Twelve hits each time. One ring has room for all of them, so none is lost even where all
/// threads share a processor and the agent does not get to run.
const TIMES: usize = 90;

/// By thread, in program order.
type Values = BTreeMap<i32, Vec<i64>>;

fn run(more: &[&str]) -> (RunRecord, Values) {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("contend", &[]);
    let file = workshop.path("seen");
    let times = TIMES.to_string();
    let arguments = [&[file.to_str().expect("text"), &times], more].concat();
    // Nothing is to be paused here.
    let (output, record) =
        workshop.record_tracked_with(&["--max-overhead", "0"], &pair, &arguments);
    assert_eq!(output.status.code(), Some(0));
    let mut values = Values::new();
    for line in fs::read_to_string(file).expect("written").lines() {
        let (tid, value) = line.split_once(' ').expect("two numbers");
        let tid = tid.parse().expect("a thread");
        let value = value.parse().expect("a value");
        values.entry(tid).or_default().push(value);
    }
    (record, values)
}

fn assert_right(record: &RunRecord, truth: &Values) {
    assert_eq!(record.watch.refused, None);
    let mut hits = Values::new();
    for hit in &record.watch.hits {
        // By the order of the three accesses: rax, rbx, rcx.
        let seen = hits.entry(hit.tid).or_default();
        let register = seen.len() % 3;
        seen.push(hit.registers[register] as i64);
    }
    let all: usize = truth.values().map(Vec::len).sum();
    assert_eq!(all, 12 * TIMES);
    assert_eq!(record.watch.counted, all as u64, "the counter saw them all");
    assert_eq!(&hits, truth, "{:?}", record.gaps);
    // It was contended: some load returned what another thread had put there.
    let torn = truth
        .values()
        .flat_map(|seen| seen.chunks(3))
        .filter(|seen| seen[0] != seen[1])
        .count();
    assert!(torn > 0, "no load met another thread's store");
}

#[test]
fn every_value_of_a_contended_hit_is_the_one_that_the_access_had() {
    let (record, truth) = run(&[]);
    assert_right(&record, &truth);
}

#[test]
fn signals_that_are_blocked_cost_no_hit() {
    let (record, truth) = run(&["blocked"]);
    assert_right(&record, &truth);
}
