//! A watch ends with the memory that it watches: what the next object there does
//! is not reported as the first one's.

use crate::common::Workshop;

/// The values stored while the word was watched, how often the slot was aimed,
/// and how often a watch ended.
fn run(how: &str, flags: &[&str]) -> (Vec<u64>, u64, u64) {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("heap", flags);
    let (output, record) = workshop.record_tracked(&pair, &[how]);
    assert_eq!(output.status.code(), Some(0), "{how}: {:?}", record.gaps);
    assert_eq!(record.watch.refused, None);
    assert_eq!(record.watch.counted, record.watch.hits.len() as u64);
    let stored = record.watch.hits.iter().map(|hit| hit.registers[0]);
    (stored.collect(), record.watch.armed, record.watch.disarmed)
}

#[test]
fn a_watch_ends_when_its_memory_is_given_back_and_can_be_aimed_again() {
    for how in ["free", "free-in-thread", "realloc", "munmap"] {
        let (stored, armed, disarmed) = run(how, &[]);
        assert_eq!(stored, [1, 2, 3], "{how}");
        assert_eq!((armed, disarmed), (2, 1), "{how}");
    }
}

#[test]
fn a_watch_outlives_its_neighbours() {
    assert_eq!(run("neighbours", &[]), (vec![1, 2, 3], 1, 0));
}

#[test]
fn a_static_programs_watch_goes_on_and_that_is_known() {
    // Nothing can stand in front of its `free`: the next object's stores are seen.
    let (stored, armed, disarmed) = run("free", &["-static"]);
    assert_eq!(stored, [1, 2, 100, 101, 102, 103, 104, 3]);
    assert_eq!((armed, disarmed), (1, 0));
}
