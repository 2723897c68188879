//! Real programs, stepped instruction by instruction: what a processor would
//! have written about them must decode to exactly what they did, by either way
//! through a trace, and a second decoder must read the same packets.

use pt_decoder::{
    Blocks, ExecutionItem, Packet, PacketItem, Packets, TraceSetup, decode_stream_in_small_chunks,
};
use std::num::NonZero;
use test_support::intel_pt::Step;
use test_support::intel_pt::second_decoder::read_by_second;
use test_support::intel_pt::tracer::{
    children::compile,
    programs::{self, PROGRAMS},
    ptrace::{Plan, Recorded, record},
    truth::assert_same,
    writer::{Setup, USUAL},
};

/// All ways to pack that a processor has, PSBs at every distance from "almost
/// always" to "once".
fn setups() -> Vec<Setup> {
    let mut setups = Vec::new();
    for compressed_returns in [false, true] {
        for tnt_capacity in [1, 6, 47] {
            for psb_every in [1, 24, 200, usize::MAX] {
                setups.push(Setup {
                    compressed_returns,
                    tnt_capacity,
                    psb_every,
                    timed: psb_every != 24,
                });
            }
        }
    }
    setups
}

fn decode(recorded: &Recorded, setup: usize) -> Vec<ExecutionItem> {
    Blocks::new(&recorded.traces[setup][0], &recorded.image, None).collect()
}

/// All packets, and whether the trace is whole.
fn packets(trace: &[u8]) -> (Vec<Packet>, bool) {
    let mut whole = true;
    let packets = Packets::new(trace).filter_map(|item| match item {
        PacketItem::Packet { packet, .. } => Some(packet),
        PacketItem::Gap(_) => {
            whole = false;
            None
        }
    });
    (packets.collect(), whole)
}

/// As many parts as there are PSBs, in two threads.
fn decode_in_parts(recorded: &Recorded, setup: usize) -> Vec<ExecutionItem> {
    let mut items = Vec::new();
    decode_stream_in_small_chunks(
        &*recorded.traces[setup][0],
        &recorded.image,
        TraceSetup::default(),
        const { NonZero::new(2).unwrap() },
        |part| part.collect::<Vec<_>>(),
        |part| items.extend(part),
    )
    .unwrap();
    items
}

fn comes_back(program: &programs::Program, plan: &Plan) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let file = compile(
        folder.path(),
        program.name,
        program.source,
        program.compiler,
    );
    let recorded = record(&file, program.from, plan);
    for (number, setup) in plan.setups.iter().enumerate() {
        let what = format!("{} with {setup:?}", program.name);
        let items = decode(&recorded, number);
        assert_same(recorded.only_truth(), &items, &recorded.image, &what);
        let trace = &recorded.traces[number][0];
        assert_eq!(packets(trace), read_by_second(trace, true), "{what}");
        let items: Vec<_> = Blocks::by_libipt(trace, &recorded.image, None).collect();
        let by_libipt = format!("{what}, by libipt alone");
        assert_same(recorded.only_truth(), &items, &recorded.image, &by_libipt);
        let items = decode_in_parts(&recorded, number);
        let what = format!("{what}, in parts");
        assert_same(recorded.only_truth(), &items, &recorded.image, &what);
    }
    recorded
}

#[test]
fn every_program_comes_back_however_it_was_packed() {
    let plan = Plan::new(&setups());
    for program in PROGRAMS {
        let recorded = comes_back(program, &plan);
        assert!(recorded.status >= 0, "{} died", program.name);
        assert!(recorded.only_truth().len() > 100, "{}", program.name);
    }
}

#[test]
fn overflows_are_gaps_and_the_rest_is_right() {
    let mut overflows = 0;
    for program in PROGRAMS {
        let dense = Setup {
            tnt_capacity: 47,
            psb_every: 60,
            ..USUAL
        };
        let mut plan = Plan::new(&[USUAL, dense]);
        plan.overflow_every = Some(97);
        let recorded = comes_back(program, &plan);
        let is_gap = |step: &&Step| matches!(step, Step::Gap(_));
        overflows += recorded.only_truth().iter().filter(is_gap).count();
    }
    assert!(overflows > 200, "{overflows}");
}

/// A filter turns tracing on and off by address: nothing is lost, and what is
/// outside of it is not guessed.
#[test]
fn of_a_filtered_window_only_its_inside_is_told() {
    for (name, window) in [
        ("recursion", "fib"),
        ("inlined", "collatz"),
        ("indirect-calls", "b"),
        ("tail-calls", "odd"),
        ("sorting-with-callbacks", "sort"),
        ("loops", "run"),
    ] {
        let program = PROGRAMS.iter().find(|it| it.name == name).unwrap();
        let mut plan = Plan::new(&setups());
        plan.window = Some(window);
        let recorded = comes_back(program, &plan);
        let pauses = recorded.only_truth().iter();
        assert!(
            pauses.filter(|it| **it == Step::Paused).count() >= 1,
            "{name}"
        );
    }
}
