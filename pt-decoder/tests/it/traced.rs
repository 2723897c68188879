//! Real programs, stepped instruction by instruction: what a processor would
//! have written about them must decode to exactly what they did, and a second
//! decoder must read the same packets. Random walks through their code are longer
//! than anything that can be stepped.

use pt_decoder::{Blocks, ExecutionItem, Packet, PacketItem, Packets};
use std::collections::BTreeSet;
use test_support::intel_pt::{
    Step,
    second_decoder::read_by_second,
    tracer::{
        children::compile,
        programs::{self, PROGRAMS},
        ptrace::{Plan, Recorded, record},
        truth::{Path, assert_same},
        walk::Walk,
        writer::{PtWriter, Setup, USUAL},
    },
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

/// Random walks through code that was really loaded: the outcomes are invented,
/// so they take ways that no run takes.
#[test]
fn long_walks_through_real_code_come_back() {
    let program = PROGRAMS
        .iter()
        .find(|it| it.name == "sorting-with-callbacks")
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = compile(folder.path(), "walked", program.source, program.compiler);
    let recorded = record(&file, program.from, &Plan::new(&[USUAL]));
    let executed = |step: &Step| match step {
        Step::At(at) => Some(*at),
        _ => None,
    };
    let starts: BTreeSet<u64> = recorded.only_truth().iter().filter_map(executed).collect();
    let starts: Vec<u64> = starts.into_iter().step_by(7).collect();
    for seed in 0..24 {
        let setup = Setup {
            compressed_returns: seed % 2 == 0,
            tnt_capacity: [1, 6, 47][seed % 3],
            psb_every: [50, 400, usize::MAX][seed / 2 % 3],
            timed: seed % 5 != 0,
        };
        let mut writer = PtWriter::new(setup);
        let mut walk = Walk::new(recorded.image.clone(), &starts, seed as u64 + 1);
        walk.path = Some(Path::new());
        walk.write(&mut writer, 20_000);
        let trace = writer.finish();
        let truth = walk.path.unwrap();
        assert!(truth.len() > 20_000, "walk {seed}: {}", truth.len());
        let items: Vec<_> = Blocks::new(&trace, &recorded.image, None).collect();
        assert_same(&truth, &items, &recorded.image, &format!("walk {seed}"));
    }
}
