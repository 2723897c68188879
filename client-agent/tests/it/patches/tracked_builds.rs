//! Tracked builds: fetched, verified, executed from memory, and recording.

use crate::common;
use crate::common::{
    FakeServer, SignedPatch, VARIANT, Workshop, new_key, read_record, signed_patch, usual_terms,
};
use code_patch::Terms;
use sketch_model::{
    AimObstacle, Execution, Gap, LifetimeObstacle, Outcome, PatchId, PreloadObstacle, ProbeKind,
    RunRecord, ThreadLoss, ThreadRecord,
};
use std::{os::unix::process::ExitStatusExt, process::Command};

const UNGOVERNED: &[&str] = &["--max-overhead", "0"];

fn shape(thread: &ThreadRecord) -> (usize, u64, usize) {
    (thread.head.len(), thread.dropped, thread.tail.len())
}

fn no_gaps(record: &RunRecord) {
    assert_eq!(record.gaps, []);
}

#[test]
fn every_kind_of_event_arrives_as_it_was_recorded() {
    let workshop = Workshop::new();
    for flags in [
        &["-pie", "-fPIE"][..],
        &["-no-pie"],
        &["-static"],
        &["-static-pie", "-fPIE"],
    ] {
        let pair = workshop.compile_pair(flags);
        let (output, record) = workshop.record_tracked(&pair, &["kinds"]);
        assert_eq!(output.status.code(), Some(0), "{flags:?}");
        // Nothing stands in front of a static program's allocator.
        let because = LifetimeObstacle::NotPreloaded;
        let unseen = [Gap::LifetimesNotObserved { because }];
        let is_static = flags[0].starts_with("-static");
        let gaps = if is_static { &unseen[..] } else { &[] };
        assert_eq!(record.gaps, gaps, "{flags:?}");
        assert_eq!(record.execution.tracked(), Some(VARIANT));
        let [thread] = record.threads.as_slice() else {
            panic!("one thread recorded with {flags:?}");
        };
        let events = &thread.head;
        let seen: Vec<_> = events
            .iter()
            .map(|e| (e.site.0, e.kind, e.size, e.address.0, e.value))
            .collect();
        assert_eq!(
            seen,
            [
                (1, ProbeKind::Read, 8, 0x2000, 42),
                (2, ProbeKind::Write, 2, 0x3000, 43),
                (3, ProbeKind::Branch, 0, 0, 5),
                (4, ProbeKind::Call, 0, 0, 0),
                (5, ProbeKind::SyncBegin, 0, 0x4000, 0),
                (6, ProbeKind::SyncEnd, 0, 0x4000, 16),
            ]
        );
        assert_eq!((events[1].before.0, events[1].after.0), (300, 400));
        assert_eq!(events[5].before.0, 77);
        // The runtime's own readings lie within the run.
        for event in &events[2..5] {
            assert!(event.before >= record.clock.start_tsc);
            assert!(event.after <= record.clock.end_tsc);
        }
    }
}

#[test]
fn each_thread_keeps_its_first_and_last_events_and_counts_the_rest() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (_, record) = workshop.record_tracked_with(
        UNGOVERNED,
        &pair,
        &["threads", "1", "256", "4352", "4353", "5000", "300000"],
    );
    no_gaps(&record);
    let shapes: Vec<_> = record.threads.iter().map(shape).collect();
    assert_eq!(
        shapes,
        [
            (1, 0, 0),
            (256, 0, 0),
            (256, 0, 4096),
            (256, 1, 4096),
            (256, 648, 4096),
            (256, 295_648, 4096)
        ]
    );
    for thread in &record.threads {
        let values: Vec<u64> = thread.events().map(|e| e.value).collect();
        let count = (values.len() as u64) + thread.dropped;
        let expected: Vec<u64> = (0..count.min(256))
            .chain((256 + thread.dropped)..count)
            .collect();
        assert_eq!(values, expected);
    }
    let mut tids: Vec<_> = record.threads.iter().map(|t| t.tid).collect();
    tids.dedup();
    assert_eq!(tids.len(), 6);
}

#[test]
fn a_hot_access_leaves_room_for_others_and_keeps_its_latest() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (_, record) = workshop.record_tracked_with(UNGOVERNED, &pair, &["hot"]);
    no_gaps(&record);
    let [thread] = record.threads.as_slice() else {
        panic!("one thread: {:?}", record.threads.len());
    };
    // The first 512 of the hot one, and the other.
    assert_eq!(shape(thread), (256, 0, 257));
    let last = thread.tail.last().expect("an event");
    assert_eq!((last.site.0, last.value), (8, 42));
    let [thinned] = thread.thinned.as_slice() else {
        panic!("one site: {:?}", thread.thinned);
    };
    assert_eq!(thinned.count, 100_000);
    let latest = thinned.latest.expect("the latest");
    assert_eq!((latest.site.0, latest.value as i64), (7, -99_999));
    assert_eq!((latest.before.0, latest.after.0), (999_991, 999_995));
    let shapes = thinned.shapes;
    assert!(shapes.zero && shapes.non_zero && shapes.negative);
}

#[test]
fn threads_beyond_the_room_are_counted() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (_, record) = workshop.record_tracked(&pair, &["at-once", "70"]);
    assert_eq!(record.threads.len(), 64);
    assert_eq!(
        record.gaps,
        [Gap::ThreadsNotRecorded {
            count: 6,
            because: ThreadLoss::NoRoom { slots: 64 }
        }]
    );
    assert_eq!(record.unrecorded_threads, 6);
}

#[test]
fn every_thread_of_a_storm_is_recorded_or_counted() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, record) = workshop.record_tracked(&pair, &["storm", "3000"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(record.threads.len() >= 128, "{}", record.threads.len());
    assert_eq!(
        record.threads.len() as u64 + u64::from(record.unrecorded_threads),
        3000,
        "{:?}",
        record.gaps
    );
    for (at, thread) in record.threads.iter().enumerate() {
        // All of it, or what followed its first event if that came while every
        // slot was being emptied.
        let found = shape(thread);
        assert!(found == (2, 0, 0) || found == (0, 1, 1), "{found:?}");
        assert_eq!(thread.index.0 as usize, at);
    }
}

#[test]
fn a_hot_loop_does_not_push_out_what_came_before_it() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (_, record) = workshop.record_tracked(&pair, &["edges"]);
    no_gaps(&record);
    let thread = &record.threads[0];
    let edges: Vec<_> = thread
        .edges
        .iter()
        .map(|e| (e.site.0, e.successor, e.count))
        .collect();
    assert_eq!(
        edges,
        [
            (10, Some(1), 1),
            (11, Some(0), 99_999),
            (11, Some(1), 1),
            (12, None, 1)
        ]
    );
    assert!(thread.edges.iter().all(|e| e.first <= e.last));
    // The first event, 512 of the loop, its last way out, and what followed.
    assert_eq!(shape(thread), (256, 0, 259));
    let sites: Vec<_> = thread.events().map(|e| (e.site.0, e.value)).collect();
    assert_eq!(sites[0], (10, 1));
    assert_eq!(sites[512..], [(11, 0), (11, 1), (12, 0)]);
}

#[test]
fn a_forked_child_writes_nothing() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (_, record) = workshop.record_tracked(&pair, &["fork"]);
    no_gaps(&record);
    assert_eq!(
        record.threads.iter().map(shape).collect::<Vec<_>>(),
        [(5, 0, 0)]
    );
    assert_eq!(record.watch.armed, 0);
}

#[test]
fn a_signal_handler_may_record_too() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (_, record) = workshop.record_tracked(&pair, &["handler"]);
    no_gaps(&record);
    let sites: Vec<_> = record.threads[0].head.iter().map(|e| e.site.0).collect();
    assert_eq!(sites, [1, 2, 1]);
}

#[test]
fn watchpoints_see_every_access_of_another_thread() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, record) = workshop.record_tracked(&pair, &["watch"]);
    assert_eq!(record.watch.refused, None);
    no_gaps(&record);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<u64> = said
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    let [tid, first, second] = numbers[..] else {
        panic!("the program says three numbers: {said}");
    };
    let hits = &record.watch.hits;
    assert_eq!(record.watch.counted, 50);
    assert_eq!(hits.len(), 50);
    assert_eq!(
        record.watch.armed, 2,
        "aiming at the same place is no aiming"
    );
    for (at, hit) in hits.iter().enumerate() {
        assert_eq!(hit.tid as u64, tid);
        if at < 40 {
            assert_eq!((hit.slot, hit.address.0), (0, first));
            assert_eq!(
                hit.registers[0],
                1000 + at as u64,
                "rax holds what was stored"
            );
            assert_eq!(hit.registers[5], first, "rdi holds where");
        } else {
            assert_eq!((hit.slot, hit.address.0), (1, second));
            assert_eq!(hit.registers[5], second);
        }
        assert_eq!(hit.stack.len(), 32);
        assert!(record.clock.start_ns <= hit.handled_ns && hit.handled_ns <= record.clock.end_ns);
        // The instruction is in the program, which goes by its own path.
        let module = record
            .mappings
            .iter()
            .find(|m| (m.start..m.end).contains(&hit.after_pc))
            .expect("a mapping");
        assert_eq!(std::path::Path::new(&module.path), pair.0);
    }
}

/// How many hits a record says are missing between what was counted and kept.
fn said_missing(record: &RunRecord) -> u64 {
    record
        .gaps
        .iter()
        .map(|gap| match gap {
            Gap::HitsLost { lost, .. } => *lost,
            Gap::HitsTrimmed { count, .. } => *count,
            _ => 0,
        })
        .sum()
}

#[test]
fn a_hammered_watchpoint_accounts_for_every_hit() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, record) = workshop.record_tracked_with(UNGOVERNED, &pair, &["hammer"]);
    assert_eq!(output.status.code(), Some(0));
    let kept = record.watch.hits.len() as u64;
    assert!((2048..=4096).contains(&kept), "{kept}");
    // The program stores 20,000 times; after about two thousand watching ends.
    let ended = record.gaps.iter().any(|gap| {
        matches!(
            gap,
            Gap::WatchingEndedByHits { .. } | Gap::WatchingEndedBySwitches { .. }
        )
    });
    assert!(
        ended || record.watch.counted == 20_000,
        "{} hits, {:?}",
        record.watch.counted,
        record.gaps
    );
    assert_eq!(
        record.watch.counted,
        kept + said_missing(&record),
        "{:?}",
        record.gaps
    );
}

#[test]
fn records_and_hits_survive_a_crash() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, record) = workshop.record_tracked(&pair, &["watch-and-crash"]);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert_eq!(record.watch.hits.len(), 1);
    assert_eq!(record.watch.hits[0].slot, 2);
    assert_eq!(record.threads[0].head.len(), 1);
    let Outcome::Failure(report) = &record.outcome else {
        panic!("it crashed");
    };
    assert_eq!(report.fault_address.map(|a| a.0), Some(16));
    let frame = &report.threads[0].frames[0];
    assert_eq!(std::path::Path::new(&frame.module), pair.0);
    // Addresses are those of the tracked build.
    assert_eq!(
        common::function_at(&pair.1, frame.lookup.0).as_deref(),
        Some("main")
    );
}

#[test]
fn a_static_program_is_captured_once_it_is_tracked() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&["-static"]);
    let (_, record) = workshop.record(&pair.0, &["crash-after", "3"]);
    let Outcome::Failure(report) = &record.outcome else {
        panic!("it crashed");
    };
    assert!(report.threads.is_empty());
    let because = PreloadObstacle::StaticallyLinked;
    assert_eq!(record.gaps[0], Gap::NothingPreloaded { because });
    let (_, record) = workshop.record_tracked(&pair, &["crash-after", "3"]);
    let Outcome::Failure(report) = &record.outcome else {
        panic!("it crashed");
    };
    assert_eq!(report.threads.len(), 1);
    assert_eq!(record.threads[0].head.len(), 3);
}

#[test]
fn a_program_that_closes_all_descriptors_only_loses_watchpoints() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, record) = workshop.record_tracked(&pair, &["close-all"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(record.threads[0].head.len(), 4);
    assert_eq!(record.watch.hits, []);
    assert!(
        record.gaps.iter().any(|gap| matches!(
            gap,
            Gap::AimsSkipped {
                because: AimObstacle::RefusedByKernel,
                ..
            }
        )),
        "{:?}",
        record.gaps
    );
}

#[test]
fn without_an_agent_the_hooks_do_nothing() {
    let workshop = Workshop::new();
    let (_, tracked) = workshop.compile_pair(&[]);
    for forged in [
        None,
        Some("3:0123456789abcdef"),
        Some("0:"),
        Some("x"),
        Some(""),
    ] {
        let mut command = Command::new(&tracked);
        command.args(["threads", "5000", "10"]);
        if let Some(forged) = forged {
            command.env("FAILSKETCH_FD", forged);
        }
        assert_eq!(
            command.status().expect("runs").code(),
            Some(0),
            "{forged:?}"
        );
    }
}

#[test]
fn a_patch_is_fetched_once() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let server = FakeServer::start(Some(signed_patch(&pair.0, &pair.1)));
    for _ in 0..2 {
        let status = workshop
            .agent()
            .args(["--server", &server.url, "--key", &server.key()])
            .args(["--repeat", "2", "--"])
            .arg(&pair.0)
            .arg("kinds")
            .status()
            .expect("the agent starts");
        assert_eq!(status.code(), Some(0));
    }
    let fetched = server
        .paths()
        .iter()
        .filter(|path| path.contains("patches"))
        .count();
    assert_eq!(fetched, 1);
    assert!(
        server
            .records()
            .iter()
            .all(|r| r.execution.tracked() == Some(VARIANT))
    );
    assert_eq!(server.records().len(), 4);
}

#[test]
fn a_constructor_without_arguments_does_nothing() {
    let workshop = Workshop::new();
    let pair = workshop.compile_pair(&[]);
    let (output, record) = workshop.record_tracked(&pair, &["no-arguments"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(record.threads[0].head.len(), 6);
}

/// A patch by hand needs no server, and is held to the same rules as one from it.
#[test]
fn a_patch_that_the_operator_names_is_run() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let key = new_key();
    let patch = SignedPatch::on_terms(&base, &tracked, &key, usual_terms(&base));
    let (file, records) = (workshop.path("by-hand.patch"), workshop.path("records"));
    let run = |bytes: &[u8], sampled: &[&str]| {
        std::fs::write(&file, bytes).unwrap();
        let output = workshop
            .agent()
            .args(["--key", &patch.public_key, "--patch"])
            .arg(&file)
            .args(sampled)
            .arg("--store-record")
            .arg(&records)
            .arg("--")
            .arg(&base)
            .arg("kinds")
            .output()
            .expect("the agent starts");
        assert_eq!(output.status.code(), Some(0));
        read_record(&records)
    };
    let record = run(&patch.bytes, &[]);
    no_gaps(&record);
    assert_eq!(record.execution.tracked(), Some(VARIANT));
    assert_eq!(record.threads[0].head.len(), 6);

    let of_no_campaign = Terms {
        variant: None,
        ..usual_terms(&base)
    };
    let made = SignedPatch::on_terms(&base, &tracked, &key, of_no_campaign);
    let record = run(&made.bytes, &[]);
    no_gaps(&record);
    let made = code_patch::sha256_hex(&std::fs::read(&tracked).unwrap());
    let patch_id = PatchId::of_result(&made);
    assert_eq!(record.execution, Execution::Local { patch: patch_id });
    assert_eq!(record.threads[0].head.len(), 6);

    let mut tampered = patch.bytes.clone();
    let last = tampered.len() - 1;
    tampered[last] ^= 1;
    let record = run(&tampered, &[]);
    assert_eq!(
        (record.execution.tracked(), record.threads.len()),
        (None, 0)
    );
    let refused = matches!(record.gaps[0], Gap::NamedPatchRefused { .. });
    assert!(refused, "{:?}", record.gaps);

    // A run of milliseconds does not earn what tracking it costs: the first credit of
    // 10 ms is used up before long, and from then on few runs are tracked.
    let sampled = (0..100).map(|_| run(&patch.bytes, &["--sampled"]));
    let spared = sampled.filter(|record| record.execution.tracked().is_none());
    let reasons: Vec<Gap> = spared.flat_map(|record| record.gaps).collect();
    assert!(reasons.len() > 10, "{} of 100 runs", reasons.len());
    let costly = |gap: &Gap| matches!(gap, Gap::TrackedBuildTooCostly { .. });
    assert!(reasons.iter().all(costly), "{reasons:?}");
    assert_eq!(run(&patch.bytes, &[]).execution.tracked(), Some(VARIANT));
}
