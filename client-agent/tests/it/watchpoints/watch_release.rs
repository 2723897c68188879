//! A service whose threads switch often gives its watchpoints up within the run: each
//! switch costs more with them, whether they are turned on or not.

use crate::common::Workshop;
use sketch_model::{AimObstacle, Gap, RunRecord};

/// By far more than the share allows, and a second or more of sleeping.
const REQUESTS: &str = "20000";

/// What the program says: events that it has open in the end, descriptors of ours
/// whose numbers it has used, and how many of these were closed under its hands.
type Said = (usize, usize, usize);

fn serve(options: &[&str], arguments: &[&str]) -> (Said, RunRecord) {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair_of("requests", &[]);
    let (output, record) = workshop.record_tracked_with(options, &pair, arguments);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(record.watch.refused, None);
    let said = String::from_utf8(output.stdout).expect("numbers");
    let mut numbers = said
        .split_whitespace()
        .map(|n| n.parse().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    ((next(), next(), next()), record)
}

fn ended_for_switches(record: &RunRecord) -> bool {
    let ended = |gap: &Gap| matches!(gap, Gap::WatchingEndedBySwitches { .. });
    record.gaps.iter().any(ended)
}

#[test]
fn a_service_that_switches_often_closes_its_watchpoints_and_says_so() {
    let ((open, ..), record) = serve(&[], &[REQUESTS]);
    assert_eq!(open, 0);
    assert!(ended_for_switches(&record), "{:?}", record.gaps);
    // The store before, and not the one after.
    assert_eq!((record.watch.counted, record.watch.hits.len()), (1, 1));
    // Not all of them were paid for. How many were depends on how soon the agent gets to
    // run, so that is for a benchmark to say.
    let all_ns = 20_000 * 1_300;
    let cost_ns = record.tracking.cost_ns;
    assert!(cost_ns < all_ns, "{cost_ns}");
}

#[test]
fn memory_on_the_own_stack_is_not_watched_and_that_is_said() {
    let (_, record) = serve(&[], &["1"]);
    assert_eq!((record.watch.armed, record.watch.counted), (1, 2));
    let skipped = Gap::AimsSkipped {
        count: 1,
        because: AimObstacle::OwnStack,
    };
    assert!(record.gaps.contains(&skipped), "{:?}", record.gaps);
}

#[test]
fn one_that_may_cost_anything_keeps_them() {
    let ((open, ..), record) = serve(&["--max-overhead", "0"], &[REQUESTS]);
    assert!(open > 0 && open.is_multiple_of(4), "{open}");
    assert!(!ended_for_switches(&record), "{:?}", record.gaps);
    assert_eq!(record.watch.counted, 2);
}

#[test]
fn numbers_that_the_program_uses_itself_are_not_closed() {
    let ((open, taken, gone), record) = serve(&[], &[REQUESTS, "takes-numbers"]);
    assert!(taken > 0);
    assert_eq!((open, gone), (0, 0));
    assert!(ended_for_switches(&record), "{:?}", record.gaps);
    assert_eq!(record.watch.counted, 1);
}

#[test]
fn hooks_that_aim_nothing_close_them_too() {
    let ((open, ..), record) = serve(&["--max-overhead", "5"], &["80000", "records-only"]);
    assert_eq!(open, 0);
    assert!(ended_for_switches(&record), "{:?}", record.gaps);
}
