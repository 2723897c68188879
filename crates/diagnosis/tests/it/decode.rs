//! From run records to traces: probes, hits, what is merged, what is lost.

use crate::support::records::*;
use crate::support::*;
use diagnosis::{Answer, decode, observe};
use formats::address_map::{AddressMap, CodeFrame, FunctionCode, LineRow};
use formats::statement_map::{LoadedSegment, LoadedSegments};
use proptest::prelude::*;
use sketch_model::*;
use sketch_model::{Gap, WatchRefusal};
use test_support::records::{self, crash, stack};

/// The code of one function: `mov rax,[rdi]` (statement 1), `mov qword [rdi],0`
/// (statement 2), `call` (statement 3), `mov [rdi],rsi` without a line,
/// `mov [rdi+4],eax` (statement 5).
const CODE: &[u8] = &[
    0x48, 0x8b, 0x07, 0x48, 0xc7, 0x07, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x48, 0x89, 0x37, 0x89, 0x47,
    0x04,
];
const AFTER_LOAD: u64 = BIAS + 0x103;
const AFTER_STORE: u64 = BIAS + 0x10a;
const AFTER_CALL: u64 = BIAS + 0x10f;
const AFTER_LINELESS: u64 = BIAS + 0x112;
const AFTER_HALF: u64 = BIAS + 0x115;
const IN_LIBC: u64 = 0x7fff_0000_0010;

fn one_function() -> AddressMap {
    let build = BuildId(PROGRAM.into());
    let segment = LoadedSegment {
        file_offset: 0,
        file_size: 0x1000,
        address: 0,
        executable: true,
    };
    let function = FunctionCode {
        name: "f".into(),
        start: StaticAddress(0x100),
        bytes: CODE.to_vec(),
    };
    let row = |(from, to, line): (u64, u64, u32)| LineRow {
        from,
        to,
        column: 0,
        frames: vec![CodeFrame {
            function: Some("f".into()),
            file: Some("f.c".into()),
            line: Some(line),
        }],
    };
    let lines = [
        (0x100, 0x103, 1),
        (0x103, 0x10a, 2),
        (0x10a, 0x10f, 3),
        (0x112, 0x115, 5),
    ];
    AddressMap::new(
        vec![build],
        LoadedSegments(vec![segment]),
        vec![function],
        lines.map(row).to_vec(),
        |_, _, line| Some(StatementId(line)),
    )
}

fn hit(tid: i32, handled_ns: u64, after_pc: u64) -> WatchHit {
    let mut registers = [0; 16];
    registers[0] = 0xabcd; // rax
    registers[4] = 0x99; // rsi
    registers[5] = ADDRESS.0; // rdi
    WatchHit {
        registers,
        ..records::hit(tid, handled_ns, after_pc, ADDRESS)
    }
}

fn decoded(record: &RunRecord) -> diagnosis::DecodedRun {
    decode(record, &plan(&[1, 2]), &one_function()).expect("a tracked run")
}

fn interval(earliest: u64, latest: u64) -> Interval {
    Interval {
        earliest: Tsc(earliest),
        latest: Tsc(latest),
    }
}

#[test]
fn a_failed_try_takes_no_lock() {
    const EBUSY: u64 = 16;
    let lock = LocationName::Global("lock".to_owned());
    let mut plan = plan(&[1, 2, 3]);
    for site in &mut plan.sites {
        if site.kind == PointKind::Branch {
            site.kind = PointKind::Sync(SyncOp::MutexLock);
            site.location = Some(lock.clone());
        }
    }
    // Thread 0 takes the lock, thread 1 tries it in vain; all end up waiting for it.
    let begin = |statement, at| probe(statement, ProbeKind::SyncBegin, at, at, 0);
    let end = |statement, at, result| probe(statement, ProbeKind::SyncEnd, at, at + 5, result);
    let holder = |tried: u64| {
        let threads = vec![
            thread(0, vec![begin(1, 10), end(1, 10, 0), begin(1, 100)]),
            thread(1, vec![begin(2, 20), end(2, 20, tried), begin(2, 100)]),
            thread(2, vec![begin(3, 100)]),
        ];
        let mut record = record(threads, Vec::new());
        record.outcome = Outcome::Failure(records::report(FailureKind::Hang));
        let run = decode(&record, &plan, &AddressMap::default()).expect("a tracked run");
        let waits = diagnosis::predictors::deadlock::waits(&run);
        let of_third = waits
            .iter()
            .find(|wait| run.trace.events[wait.waiting].thread == ThreadIndex(2));
        let taken = &run.trace.events[of_third.expect("a holder").taken];
        (taken.thread, taken.kind)
    };
    let taken = EventKind::SyncEnd(SyncOp::MutexLock);
    assert_eq!(holder(EBUSY), (ThreadIndex(0), taken));
    // sem_trywait fails with -1.
    assert_eq!(holder(u64::from(u32::MAX)), (ThreadIndex(0), taken));
    assert_eq!(holder(0), (ThreadIndex(1), taken));
    // EOWNERDEAD: taken from a thread that is gone.
    assert_eq!(holder(130), (ThreadIndex(1), taken));
}

#[test]
fn a_run_of_p_itself_is_no_trace() {
    let mut untracked = record(vec![], vec![]);
    untracked.execution = Execution::Original;
    assert!(decode(&untracked, &plan(&[1]), &one_function()).is_none());
}

#[test]
fn probes_keep_their_interval_value_and_order() {
    let run = decoded(&record(
        vec![thread(
            0,
            vec![
                probe(1, ProbeKind::Read, 10, 20, 7),
                probe(1, ProbeKind::Branch, 0, 30, 1),
            ],
        )],
        vec![],
    ));
    let [read, branch] = run.trace.events.as_slice() else {
        panic!("two events: {:?}", run.trace.events);
    };
    assert_eq!(read.kind, EventKind::Read);
    assert_eq!(read.when, interval(10, 20));
    assert_eq!(read.statement(), Some(StatementId(1)));
    assert_eq!(read.location, Some(queue_mut()));
    let value = read.value.expect("a value");
    assert_eq!((value.value, value.size, value.exact), (7, 8, true));
    assert_eq!(branch.kind, EventKind::Branch { successor: 1 });
    assert_eq!(branch.when, interval(30, 30));
    assert_eq!((read.position, branch.position), (0, 1));
    assert_eq!(run.weight, 2.0);
}

#[test]
fn what_was_withheld_is_unknown_and_not_zero() {
    let mut sent = record(
        vec![thread(0, vec![probe(1, ProbeKind::Read, 10, 20, 7)])],
        vec![hit(100, 1_000_000, AFTER_STORE)],
    );
    sent.privacy = Privacy::Shapes;
    let shapes = decoded(&sent).trace.events;
    let values: Vec<bool> = shapes.iter().map(|e| e.value.is_some()).collect();
    assert_eq!(
        values,
        [true, false],
        "a probe's is disguised, a hit's is gone"
    );
    sent.privacy = Privacy::ControlFlowOnly;
    for event in decoded(&sent).trace.events {
        assert_eq!(event.kind, EventKind::Call);
        assert_eq!(
            (event.address, event.location, event.value),
            (None, None, None)
        );
    }
}

#[test]
fn a_hit_lies_between_its_threads_previous_event_and_its_handling() {
    let run = decoded(&record(
        vec![
            thread(0, vec![probe(1, ProbeKind::Branch, 500, 500, 0)]),
            thread(1, vec![]),
        ],
        vec![hit(100, 1_000_000, AFTER_STORE), hit(101, 700, AFTER_LOAD)],
    ));
    let store = &run.trace.events[1];
    assert_eq!(store.kind, EventKind::Write);
    assert_eq!(store.statement(), Some(StatementId(2)));
    assert_eq!(store.when, interval(500, 1_000_005));
    assert_eq!(
        store.value.map(|v| (v.value, v.size, v.exact)),
        Some((0, 8, true))
    );
    assert_eq!(store.source, Source::Watchpoint);
    let load = &run.trace.events[2];
    assert_eq!(load.kind, EventKind::Read);
    assert_eq!(load.when, interval(0, 705));
    assert_eq!(load.value.map(|v| v.value), Some(0xabcd));
    assert_eq!(
        run.watch.complete.iter().collect::<Vec<_>>(),
        [&queue_mut()]
    );
}

#[test]
fn a_second_hit_begins_where_the_first_was_handled() {
    let run = decoded(&record(
        vec![thread(0, vec![])],
        vec![hit(100, 2_000, AFTER_STORE), hit(100, 1_000, AFTER_LOAD)],
    ));
    let kinds: Vec<EventKind> = run.trace.events.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [EventKind::Read, EventKind::Write]);
    assert_eq!(run.trace.events[1].when, interval(995, 2_005));
}

#[test]
fn one_access_that_left_a_probe_and_a_hit_is_one_event() {
    let read = |statement| {
        vec![thread(
            0,
            vec![probe(statement, ProbeKind::Read, 1_000, 2_000, 7)],
        )]
    };
    let load = |tid, at| hit(tid, at, AFTER_LOAD);
    let elsewhere = WatchHit {
        address: RuntimeAddress(0x2000),
        ..load(100, 1_500)
    };
    let table = [
        ("within", 1, load(100, 1_500), 1),
        ("just after", 1, load(100, 20_000), 1),
        ("long after", 1, load(100, 900_000), 2),
        ("before", 1, load(100, 500), 2),
        ("another statement", 1, hit(100, 1_500, AFTER_STORE), 2),
        ("another thread", 1, load(101, 1_500), 2),
        ("another address", 1, elsewhere, 2),
        ("another statement that loads", 2, load(100, 1_500), 2),
    ];
    for (case, statement, hit, expected) in table {
        let run = decoded(&record(read(statement), vec![hit]));
        assert_eq!(run.trace.events.len(), expected, "{case}");
    }
    let probed = read(1);
    // The probe is kept, not the hit.
    let run = decoded(&record(probed.clone(), vec![hit(100, 1_500, AFTER_LOAD)]));
    assert_eq!(run.trace.events[0].value.map(|v| v.value), Some(7));
    // One probe answers for one hit only.
    let twice = vec![hit(100, 1_500, AFTER_LOAD), hit(100, 1_600, AFTER_LOAD)];
    assert_eq!(decoded(&record(probed, twice)).trace.events.len(), 2);
}

#[test]
fn a_library_access_belongs_to_the_caller_and_has_no_effect() {
    let mut inside = hit(100, 1_000, IN_LIBC);
    // Not code, code that no call precedes, then the return address.
    inside.stack = vec![0x7ffd_1234, AFTER_LOAD, AFTER_CALL, AFTER_STORE];
    let run = decoded(&record(vec![thread(0, vec![])], vec![inside]));
    let event = &run.trace.events[0];
    assert_eq!(event.kind, EventKind::Call);
    assert_eq!(event.statement(), Some(StatementId(3)));
    assert_eq!((event.value, event.address), (None, Some(ADDRESS)));
    assert!(run.discovered(&plan(&[1, 2])).contains(&StatementId(3)));
}

#[test]
fn a_hit_without_a_statement_is_said_and_taints_the_watch() {
    for pc in [AFTER_LINELESS, IN_LIBC, 0x1234] {
        let run = decoded(&record(vec![thread(0, vec![])], vec![hit(100, 1_000, pc)]));
        assert_eq!(run.trace.events.len(), 1);
        assert!(run.watch.complete.is_empty());
        assert_eq!(run.trace.gaps, [Gap::HitsUnattributed { count: 1 }]);
    }
    // The store itself is still known to be one, by its instruction.
    let run = decoded(&record(vec![], vec![hit(100, 1_000, AFTER_LINELESS)]));
    assert_eq!(run.trace.events[0].kind, EventKind::Write);
}

/// A slot that moved on no longer sees its first address, and nobody knows what
/// an aim that was skipped would have seen.
#[test]
fn a_watch_that_was_aimed_again_vouches_for_nothing() {
    let hits = || vec![hit(100, 1_000, AFTER_STORE)];
    let once = decoded(&record(vec![], hits()));
    assert!(!once.watch.complete.is_empty());
    let mut again = record(vec![], hits());
    again.watch.armed = 1 + plan(&[1, 2]).watched.len() as u64;
    assert!(decoded(&again).watch.complete.is_empty());
    let mut skipped = record(vec![], hits());
    skipped.watch.skipped_aims = 1;
    assert!(decoded(&skipped).watch.complete.is_empty());
}

#[test]
fn what_is_wider_than_a_register_has_no_value() {
    let mut wide = probe(1, ProbeKind::Read, 10, 20, 0);
    wide.size = 16;
    let run = decoded(&record(vec![thread(0, vec![wide])], vec![]));
    assert_eq!(run.trace.events[0].value, None);
}

#[test]
fn threads_that_left_nothing_are_missing() {
    let mut partial = record(vec![], vec![]);
    assert!(!decoded(&partial).missing);
    partial.unrecorded_threads = 1;
    assert!(decoded(&partial).missing);
}

#[test]
fn an_access_to_a_part_of_the_location_has_no_value() {
    let run = decoded(&record(vec![], vec![hit(100, 1_000, AFTER_HALF)]));
    let event = &run.trace.events[0];
    assert_eq!((event.kind, event.value), (EventKind::Write, None));
}

#[test]
fn loss_is_data() {
    let mut lossy = thread(0, vec![probe(1, ProbeKind::Read, 10, 20, 7)]);
    lossy.dropped = 12;
    lossy.tail = vec![probe(1, ProbeKind::Read, 90, 95, 7)];
    let mut record = record(vec![lossy], vec![hit(100, 200_000, AFTER_STORE)]);
    record.watch.counted = 4;
    let run = decoded(&record);
    assert_eq!(run.trace.incomplete, [ThreadIndex(0)]);
    let holes: Vec<u32> = run.holes.iter().map(|h| h.before).collect();
    assert_eq!(holes, [1]);
    assert!(run.watch.complete.is_empty());
    assert_eq!(
        run.trace.gaps,
        [
            Gap::EventsLost {
                tid: 100,
                count: 12
            },
            Gap::HitsLost {
                lost: 3,
                counted: 4
            }
        ]
    );
}

#[test]
fn hits_within_a_hole_leave_a_hole_on_both_sides() {
    let mut lossy = thread(0, vec![probe(1, ProbeKind::Read, 10, 20, 7)]);
    lossy.dropped = 12;
    lossy.tail = vec![probe(1, ProbeKind::Read, 900_000, 900_005, 7)];
    let run = decoded(&record(vec![lossy], vec![hit(100, 400_000, AFTER_STORE)]));
    let holes: Vec<u32> = run.holes.iter().map(|h| h.before).collect();
    assert_eq!(holes, [1, 2]);
}

#[test]
fn what_happened_in_a_pause_is_not_known() {
    let events = |moments: &[u64]| -> Vec<ProbeEvent> {
        let reads = moments.iter();
        reads
            .map(|at| probe(1, ProbeKind::Read, *at, at + 5, 7))
            .collect()
    };
    let threads = vec![thread(0, events(&[10, 20, 90])), thread(1, events(&[15]))];
    let mut record = record(threads, vec![hit(100, 200_000, AFTER_STORE)]);
    record.tracking.pauses = vec![Pause {
        from: Tsc(30),
        to: Tsc(80),
        reason: PauseReason::Hooks,
    }];
    let run = decoded(&record);
    let holes: Vec<_> = run.holes.iter().map(|h| (h.thread.0, h.before)).collect();
    assert_eq!(holes, [(0, 2), (1, 1)]);
    assert!(run.missing && run.watch.complete.is_empty());
    let seen = observe(&run, &plan(&[1]), &everything_placed());
    assert_eq!(seen.answer(&branch(1, 0)), Answer::Unobserved);
}

#[test]
fn an_account_of_edges_outlives_lost_events() {
    let mut lossy = thread(0, vec![probe(1, ProbeKind::Read, 10, 20, 7)]);
    lossy.dropped = 12;
    lossy.edges = vec![EdgeCount {
        site: SiteId(5),
        successor: Some(1),
        count: 1_000_000,
        first: Tsc(30),
        last: Tsc(40),
    }];
    let mut record = record(vec![lossy], vec![]);
    let answers = |record: &RunRecord| {
        let seen = observe(&decoded(record), &plan(&[1]), &everything_placed());
        let of_branches = [0, 1].map(|way| seen.answer(&branch(1, way)));
        (of_branches, seen.answer(&value(1, ValueShape::Zero)))
    };
    let known = [Answer::NotHeld, Answer::Held];
    assert_eq!(answers(&record), (known, Answer::Unobserved));
    // Without room for all edges, one that is not there may have been passed.
    record.threads[0].uncounted = 1;
    let doubtful = [Answer::Unobserved, Answer::Held];
    assert_eq!(answers(&record).0, doubtful);
}

#[test]
fn hits_that_no_clock_places_are_not_used() {
    let mut record = record(vec![], vec![hit(100, 1_000, AFTER_LOAD)]);
    record.clock = ClockTie::default();
    let run = decoded(&record);
    assert!(run.trace.events.is_empty());
    assert!(run.watch.complete.is_empty());
    assert_eq!(run.trace.gaps, [Gap::HitsWithoutTime { count: 1 }]);
}

#[test]
fn refused_watchpoints_are_said_once() {
    let mut record = record(vec![], vec![]);
    let because = WatchRefusal::NotOffered;
    record.watch.refused = Some(because.clone());
    record.gaps = vec![Gap::NoWatchpoints { because }];
    let run = decoded(&record);
    assert_eq!(run.trace.gaps, record.gaps);
    assert!(run.watch.complete.is_empty());
}

#[test]
fn events_that_contradict_the_plan_are_refused() {
    let run = decoded(&record(
        vec![
            thread(
                0,
                vec![
                    probe(77, ProbeKind::Read, 1, 2, 0),
                    ProbeEvent {
                        kind: ProbeKind::Write,
                        ..probe(1, ProbeKind::Read, 1, 2, 0)
                    },
                ],
            ),
            thread(0, vec![probe(1, ProbeKind::Read, 1, 2, 0)]),
        ],
        vec![],
    ));
    assert!(run.trace.events.is_empty());
    assert_eq!(run.trace.gaps.len(), 2, "{:?}", run.trace.gaps);
}

#[test]
fn the_failing_thread_is_known_even_if_it_recorded_nothing() {
    let mut record = record(vec![thread(0, vec![])], vec![]);
    record.outcome = Outcome::Failure(crash(stack(4711, &[])));
    let run = decoded(&record);
    assert_eq!(run.failing_thread, Some(ThreadIndex(1)));
    assert_eq!(run.threads[1].tid, 4711);
}

fn any_probe() -> impl Strategy<Value = ProbeEvent> {
    let kinds = prop_oneof![
        Just(ProbeKind::Read),
        Just(ProbeKind::Write),
        Just(ProbeKind::Branch),
        Just(ProbeKind::SyncEnd),
    ];
    let times = prop_oneof![0u64..50, Just(u64::MAX), any::<u64>()];
    let address = prop_oneof![Just(0x1000u64), 0x0ff8u64..0x1008, any::<u64>()];
    (
        0u32..10,
        kinds,
        times.clone(),
        times,
        address,
        any::<(u16, u8)>(),
    )
        .prop_map(
            |(site, kind, before, after, address, (size, value))| ProbeEvent {
                site: SiteId(site),
                kind,
                size: if size % 2 == 0 { 8 } else { size },
                before: Tsc(before),
                after: Tsc(after),
                address: RuntimeAddress(address),
                value: u64::from(value % 3),
            },
        )
}

fn any_hit() -> impl Strategy<Value = WatchHit> {
    let pcs = prop_oneof![
        Just(AFTER_LOAD),
        Just(AFTER_STORE),
        Just(AFTER_HALF),
        Just(IN_LIBC),
        any::<u64>()
    ];
    let times = prop_oneof![0u64..50, any::<u64>()];
    (100i32..104, times, pcs, any::<u8>(), any::<u64>()).prop_map(
        |(tid, handled_ns, pc, slot, word)| {
            let mut hit = hit(tid, handled_ns, pc);
            hit.slot = slot % 3;
            hit.stack = vec![word, AFTER_CALL];
            hit
        },
    )
}

proptest! {
    #[test]
    fn no_record_makes_it_panic(
        threads in proptest::collection::vec(
            (0u32..4, proptest::collection::vec(any_probe(), 0..12), 0u64..2),
            0..4,
        ),
        hits in proptest::collection::vec(any_hit(), 0..12),
        error_ns in any::<u64>(),
        sampling in any::<f64>(),
    ) {
        let threads = threads
            .into_iter()
            .map(|(index, mut events, dropped)| {
                let tail = events.split_off(events.len() / 2);
                ThreadRecord { dropped, tail, ..thread(index, events) }
            })
            .collect();
        let mut record = record(threads, hits);
        record.clock.error_ns = error_ns;
        record.sampling_probability = sampling;
        let run = decoded(&record);
        let observed = observe(&run, &plan(&[1, 2]), &everything_placed());
        prop_assert!(observed.weight.is_finite() && observed.weight > 0.0);
        prop_assert!(observed.held.is_disjoint(&observed.open));
    }
}
