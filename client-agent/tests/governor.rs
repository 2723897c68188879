//! The governor on real programs: one whose inner loop is hooked, one that
//! hammers a watched location, one that needs no governing.
//!
//! What tracking costs is taken from the governor's own account, whose prices
//! were measured when the process started; `./dev bench overhead` measures it
//! against the clock.

mod common;

use common::Workshop;
use sketch_model::{PauseReason, RunRecord};

/// The bucket that every run may use up, and some slack for what is charged late.
const BUCKET_NS: u64 = 10_000_000;

fn assert_held(record: &RunRecord, percent: u64, late_ns: u64) {
    let tracking = &record.tracking;
    assert_eq!(tracking.max_overhead, Some(percent as f64 / 100.0));
    let most = BUCKET_NS + record.cpu_us * 10 * percent + late_ns;
    assert!(
        tracking.cost_ns <= most,
        "tracking cost {} ns where {most} were allowed",
        tracking.cost_ns
    );
    assert!(
        tracking.cost_ns > BUCKET_NS / 2,
        "{} ns: nothing to govern",
        tracking.cost_ns
    );
    assert!(!tracking.pauses.is_empty());
    let mut earliest = tracking.began;
    for pause in &tracking.pauses {
        assert!(earliest <= pause.from && pause.from <= pause.to);
        earliest = pause.to;
    }
    assert!(earliest <= tracking.ended);
    assert!(
        record
            .gaps
            .iter()
            .any(|gap| gap.starts_with("recording was paused")),
        "{:?}",
        record.gaps
    );
}

#[test]
fn a_hooked_inner_loop_is_held_at_one_percent_and_the_record_shows_the_gap() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, record) = workshop.record_tracked(&pair, &["hot-loop", "1.5"]);
    assert_eq!(output.status.code(), Some(0));
    assert_held(&record, 1, 5_000_000);
    assert!(
        record
            .tracking
            .pauses
            .iter()
            .all(|p| p.reason == PauseReason::Hooks)
    );
    assert!(record.tracking.coverage() < 0.5);
    // It came back, too: 1.5 s of processor time pay for more than the bucket.
    assert!(record.tracking.pauses.len() > 1);
    // No event is younger than the pause it lies in.
    let [thread] = record.threads.as_slice() else {
        panic!("one thread");
    };
    for event in thread.events() {
        let inside = record
            .tracking
            .pauses
            .iter()
            .find(|p| p.from < event.before && event.after < p.to);
        assert_eq!(inside, None, "{event:?}");
    }
}

#[test]
fn a_hammered_location_is_held_and_the_record_shows_the_gap() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, record) = workshop.record_tracked(&pair, &["hammer-for", "1.5"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(record.watch.refused, None);
    // Hits go on until the agent has been scheduled: at every pause once.
    let late = record.tracking.pauses.len() as u64 * 20_000_000;
    assert_held(&record, 1, late);
    assert!(
        record
            .tracking
            .pauses
            .iter()
            .all(|p| p.reason == PauseReason::WatchpointHits)
    );
    assert!(record.tracking.coverage() < 0.9);
    // A pause is no loss: what was counted while recording was on arrived, or is
    // said to be missing.
    assert!(record.watch.counted > 100);
}

#[test]
fn without_a_limit_nothing_pauses() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (_, record) =
        workshop.record_tracked_with(&["--max-overhead", "0"], &pair, &["hot-loop", "0.3"]);
    assert_eq!(record.tracking.max_overhead, None);
    assert_eq!(record.tracking.pauses, []);
    assert_eq!(record.tracking.coverage(), 1.0);
}

#[test]
fn a_frugal_program_is_recorded_from_end_to_end() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (_, record) = workshop.record_tracked(&pair, &["kinds"]);
    assert_eq!(record.tracking.pauses, []);
    assert_eq!(record.gaps, Vec::<String>::new());
}

#[test]
fn forked_children_do_not_enter_clones() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, _) = workshop.record_tracked(&pair, &["fork-enabled"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_impossible_limit_is_refused_with_its_reason() {
    let workshop = Workshop::new();
    for given in ["-1", "101", "much", "NaN"] {
        let output = workshop
            .agent()
            .arg(format!("--max-overhead={given}"))
            .args(["--", "true"])
            .output()
            .expect("the agent starts");
        assert_eq!(output.status.code(), Some(2), "{given}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("give a number from 0 to 100"), "{said}");
    }
}
