//! The governor on real programs: one whose inner loop is hooked, one that
//! hammers a watched location, one that needs no governing.
//!
//! What tracking costs is taken from the governor's own account, whose prices
//! were measured when the process started; `./dev bench overhead` measures it
//! against the clock.

use crate::common::{FakeServer, SignedPatch, Workshop, signed_patch};
use sketch_model::{Gap, PauseReason, RunRecord};
use std::{fs, thread, time::Duration};

/// What every run may use up.
const BUCKET_NS: u64 = 10_000_000;
/// Threads settle every ten microseconds, and the last look may pay in once more.
const SLACK_NS: u64 = 5_000_000;

fn assert_governed(record: &RunRecord) {
    let tracking = &record.tracking;
    assert_eq!(tracking.max_overhead, Some(0.01));
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
            .any(|gap| matches!(gap, Gap::RecordingPaused { .. })),
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
    assert_governed(&record);
    let most = BUCKET_NS + record.cpu_us * 10 + SLACK_NS;
    assert!(
        record.tracking.cost_ns <= most,
        "tracking cost {} ns where {most} were allowed",
        record.tracking.cost_ns
    );
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
    // How much more than its share it cost depends on how soon the agent gets to
    // run, so that is for a benchmark to say; `policy` tests that debts are paid.
    assert_governed(&record);
    assert!(
        record
            .tracking
            .pauses
            .iter()
            .all(|p| p.reason == PauseReason::WatchpointHits)
    );
    assert!(record.tracking.coverage() < 1.0);
    // A pause is no loss: what was counted while recording was on arrived, or is
    // said to be missing.
    assert!(record.watch.counted > 100);
}

#[test]
fn aiming_is_on_the_account() {
    const AIMS: u64 = 400;
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let all = ["--max-overhead", "100"];
    let cost_of = |aims: u64| {
        let (_, record) = workshop.record_tracked_with(&all, &pair, &["aims", &aims.to_string()]);
        assert_eq!(record.watch.refused, None);
        assert_eq!((record.watch.armed, record.watch.counted), (aims, 0));
        record.tracking.cost_ns
    };
    // Nothing else costs anything here but the start. No kernel changes an event
    // of each processor in less than this.
    let (few, many) = (cost_of(1), cost_of(AIMS));
    let least_ns = AIMS * 1000;
    assert!(many > few.min(least_ns) + least_ns, "{few} ns, then {many}");
}

/// Each costs a thread with watchpoints more than one without, aimed or not; and a build
/// that watches nothing has none.
#[test]
fn switches_between_threads_are_on_the_account_where_watchpoints_are_open() {
    const SWITCHES: u64 = 3000;
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let cost_of = |patch| {
        let options = ["--max-overhead", "100"];
        let switches = SWITCHES.to_string();
        let what = ["switches", &switches];
        let (_, record) = workshop.record_patched(&options, patch, &base, &what);
        assert_eq!(record.watch.refused, None);
        record.tracking.cost_ns
    };
    let watching = cost_of(signed_patch(&base, &tracked));
    let quiet = cost_of(SignedPatch::that_watches_nothing(&base, &tracked));
    assert!(watching > SWITCHES * 1000, "{watching} ns");
    assert!(quiet < SWITCHES * 1000, "{quiet} ns");
}

#[test]
fn a_build_that_watches_nothing_opens_no_watchpoint() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let hits = |patch| {
        let (_, record) = workshop.record_patched(&[], patch, &base, &["watch"]);
        assert_eq!(record.watch.refused, None);
        (record.watch.armed > 0, record.watch.counted > 0)
    };
    assert_eq!(hits(signed_patch(&base, &tracked)), (true, true));
    let quiet = SignedPatch::that_watches_nothing(&base, &tracked);
    assert_eq!(hits(quiet), (false, false));
}

#[test]
fn a_branch_that_is_only_counted_is_charged_as_a_whole_hook() {
    const BRANCHES: u64 = 500_000;
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let all = ["--max-overhead", "100"];
    let branches = BRANCHES.to_string();
    let (_, record) = workshop.record_tracked_with(&all, &pair, &["branches", &branches]);
    assert_eq!(record.tracking.pauses, []);
    // A call that finds its thread's slot and the edge in it: some 13 ticks. The
    // increment alone, which is what was charged once, takes four.
    let each_ns = record.tracking.cost_ns as f64 / BRANCHES as f64;
    assert!(each_ns > 3.0, "{each_ns} ns a hook");
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
    assert_eq!(record.gaps, []);
}

#[test]
fn forked_children_do_not_enter_clones() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, _) = workshop.record_tracked(&pair, &["fork-enabled"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_program_whose_agent_was_killed_goes_on_without_us() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let server = FakeServer::start(Some(signed_patch(&pair.0, &pair.1)));
    let said = workshop.path("said");
    let mut agent = workshop
        .agent()
        .args(["--server", &server.url, "--key", &server.key()])
        .args(["--max-overhead", "100", "--"])
        .arg(&pair.0)
        .arg("orphan")
        .arg(&said)
        .spawn()
        .expect("the agent starts");
    let patience = |done: &dyn Fn() -> bool| {
        for _ in 0..6000 {
            if done() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it takes too long");
    };
    // Fetched: the program is about to start or has.
    patience(&|| server.paths().iter().any(|path| path.contains("patches")));
    thread::sleep(Duration::from_millis(500));
    agent.kill().expect("ours to kill");
    agent.wait().expect("killed");
    patience(&|| fs::read_to_string(&said).is_ok_and(|text| text.ends_with('\n')));
    let text = fs::read_to_string(&said).expect("said");
    let (enabled, ticks) = text.trim().split_once(' ').expect("two numbers");
    // A watchpoint hit takes thousands of ticks.
    assert_eq!(enabled, "0");
    assert!(ticks.parse::<u64>().expect("a number") < 2000, "{text}");
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
