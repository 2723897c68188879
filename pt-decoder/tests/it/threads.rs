//! Threads on several processors: each stretch of each trace goes to the thread
//! that ran, by the kernel's switch records alone.

use formats::perf_records::{SampleId, parse_ring};
use pt_decoder::{
    CodeImage, CpuModel, GapReason, ProcessorTimeline, Running, ThreadId, decode_recording,
};
use sketch_model::{PerfClock, PtBuffer, PtRecord, SidebandKind};
use std::collections::BTreeSet;
use test_support::intel_pt::{
    InMemory,
    tracer::{
        children::compile,
        programs,
        ptrace::{CLOCK, Plan, Recorded, record},
        truth::assert_same,
        writer::{Setup, USUAL},
    },
};

fn pt_record(recorded: &Recorded, setup: usize) -> PtRecord {
    let buffers = recorded.traces[setup].iter().enumerate();
    PtRecord {
        clock: Some(CLOCK),
        buffers: buffers
            .map(|(cpu, bytes)| PtBuffer {
                cpu: Some(cpu as u32),
                tid: None,
                bytes: bytes.clone(),
            })
            .collect(),
        sideband: recorded.sideband.clone(),
        ..PtRecord::default()
    }
}

fn traced(processors: usize, quantum: usize) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let program = programs::THREADS;
    let file = compile(
        folder.path(),
        program.name,
        program.source,
        program.compiler,
    );
    let sparse = Setup {
        psb_every: usize::MAX,
        tnt_capacity: 47,
        ..USUAL
    };
    let mut plan = Plan::new(&[USUAL, sparse]);
    (plan.processors, plan.quantum) = (processors, quantum);
    record(&file, program.from, &plan)
}

#[test]
fn every_thread_gets_what_it_executed() {
    for (processors, quantum) in [(1, 30), (2, 7), (3, 101)] {
        let recorded = traced(processors, quantum);
        assert_eq!(recorded.truth.len(), 3);
        for setup in 0..2 {
            let record = pt_record(&recorded, setup);
            let decoded = decode_recording(&record, &InMemory(&recorded.image), usize::MAX);
            assert_eq!((decoded.unassigned, decoded.cut), (0, false));
            assert_eq!(decoded.threads.len(), 3);
            for (tid, truth) in &recorded.truth {
                let pid = recorded.pid;
                let items: Vec<_> = decoded
                    .items(ThreadId { pid, tid: *tid })
                    .cloned()
                    .collect();
                let what = format!("thread {tid} of {processors} processors");
                assert_same(truth, &items, &recorded.image, &what);
            }
        }
    }
}

/// The end of a stretch is told by the timing packet with which the next one on its
/// processor begins: only the last one has none.
#[test]
fn every_stretch_but_the_last_is_known_to_have_ended() {
    for (processors, quantum) in [(1, 30), (2, 7)] {
        let recorded = traced(processors, quantum);
        let record = pt_record(&recorded, 0);
        let decoded = decode_recording(&record, &InMemory(&recorded.image), usize::MAX);
        let stretches: Vec<_> = decoded.threads.values().flatten().collect();
        let open = stretches.iter().filter(|it| it.until.is_none()).count();
        assert_eq!(open, processors, "of {}", stretches.len());
        assert!(stretches.len() > 20, "{}", stretches.len());
        let ended = stretches.iter().filter(|it| it.until.is_some());
        assert!(ended.clone().all(|it| it.until > it.at));
        // What runs next on the processor begins no earlier.
        if processors == 1 {
            let mut times: Vec<_> = ended.map(|it| (it.at, it.until)).collect();
            times.sort();
            assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }
}

/// Without switch records nothing is attributed, and that is said.
#[test]
fn without_switches_nobody_is_named() {
    let recorded = traced(2, 50);
    let mut record = pt_record(&recorded, 0);
    let switches = record
        .sideband
        .iter()
        .filter(|it| it.kind == SidebandKind::SwitchIn)
        .count() as u64;
    for event in &mut record.sideband {
        if event.kind == SidebandKind::SwitchIn || event.kind == SidebandKind::SwitchOut {
            event.kind = SidebandKind::Exit;
        }
    }
    let decoded = decode_recording(&record, &InMemory(&recorded.image), usize::MAX);
    assert_eq!(decoded.threads.len(), 0);
    assert!(decoded.unassigned >= switches / 2, "{}", decoded.unassigned);
    assert_eq!(decoded.doubtful.len(), 3);
}

#[test]
fn no_more_is_kept_than_was_asked_for() {
    let recorded = traced(1, 1000);
    let record = pt_record(&recorded, 0);
    let decoded = decode_recording(&record, &InMemory(&recorded.image), 50);
    let kept: usize = decoded
        .threads
        .values()
        .flatten()
        .map(|it| it.items.len())
        .sum();
    assert_eq!((kept, decoded.cut), (50, true));
}

/// LLDB's recording of two processors. Its switch records are raw ring bytes
/// with thread and time; two of the program's three threads ran there.
#[test]
fn a_real_recording_of_two_processors() {
    const PROGRAM: i32 = 3_497_234;
    let layout = SampleId(SampleId::TID | SampleId::TIME);
    let mut sideband = Vec::new();
    for (cpu, bytes, count) in [
        (45, &include_bytes!("../data/core45.switches")[..], 76),
        (51, &include_bytes!("../data/core51.switches")[..], 226),
    ] {
        let mut events = parse_ring(bytes, layout);
        assert_eq!((events.events.len(), events.error), (count, None));
        events.events.iter_mut().for_each(|it| it.cpu = Some(cpu));
        sideband.extend(events.events);
    }
    let ours: BTreeSet<_> = sideband
        .iter()
        .filter(|it| it.pid == PROGRAM)
        .map(|it| it.tid)
        .collect();
    assert_eq!(ours, BTreeSet::from([3_497_496, 3_497_497]));
    let buffer = |cpu, bytes: &[u8]| PtBuffer {
        cpu: Some(cpu),
        tid: None,
        bytes: bytes.to_vec(),
    };
    let clock = PerfClock {
        shift: 31,
        mult: 1_076_264_588,
        zero: 18_433_473_881_008_870_804,
    };
    let record = PtRecord {
        cpu: Some(CpuModel {
            family: 6,
            model: 85,
            stepping: 4,
        }),
        frequency: None,
        clock: Some(clock),
        buffers: vec![
            buffer(45, include_bytes!("../data/core45.ptraw")),
            buffer(51, include_bytes!("../data/core51.ptraw")),
        ],
        sideband,
        ..PtRecord::default()
    };
    let nothing = CodeImage::new();
    let decoded = decode_recording(&record, &InMemory(&nothing), usize::MAX);
    // The code is not at hand, so each stretch is a gap that names it.
    for (tid, cpu) in [(3_497_496, 51), (3_497_497, 45)] {
        let thread = ThreadId { pid: PROGRAM, tid };
        let stretches = &decoded.threads[&thread];
        let timeline = ProcessorTimeline::new(&record.sideband);
        for stretch in stretches {
            let at = clock.ns_at(stretch.at.unwrap()).unwrap();
            assert_eq!(timeline.running(cpu, at, at), Running::One(thread));
        }
        let no_code = decoded.items(thread).filter(|item| {
            matches!(item, pt_decoder::ExecutionItem::Gap(gap)
                if matches!(gap.reason, GapReason::NoCode { .. }))
        });
        assert!(no_code.count() > 0, "{stretches:?}");
    }
    assert_eq!(decoded.unassigned, 0);
}
