//! The swift way and libipt's give the same path: of long random walks through
//! real code, of traces that are cut off, and of damaged ones.

use pt_decoder::{Blocks, CodeImage, ExecutionItem};
use std::collections::BTreeSet;
use test_support::intel_pt::tracer::{
    children::compile,
    programs::PROGRAMS,
    ptrace::{Plan, record},
    walk::Walk,
    writer::{PtWriter, Setup, USUAL},
};
use test_support::intel_pt::{PLAIN, Recording, Step, program, steps};

fn swiftly(trace: &[u8], image: &CodeImage) -> Vec<Step> {
    steps(&Blocks::new(trace, image, None).collect::<Vec<_>>(), image)
}

fn slowly(trace: &[u8], image: &CodeImage) -> Vec<Step> {
    let items: Vec<ExecutionItem> = Blocks::by_libipt(trace, image, None).collect();
    steps(&items, image)
}

/// A random walk through the code of a program that was really loaded.
#[test]
fn long_walks_through_real_code() {
    let source = PROGRAMS
        .iter()
        .find(|it| it.name == "sorting-with-callbacks");
    let source = source.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = compile(folder.path(), "walked", source.source, source.compiler);
    let recorded = record(&file, source.from, &Plan::new(&[USUAL]));
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
        walk.write(&mut writer, 20_000);
        let trace = writer.finish();
        let ours = swiftly(&trace, &recorded.image);
        assert!(ours.len() > 20_000, "{seed}: {}", ours.len());
        assert_eq!(ours.len(), slowly(&trace, &recorded.image).len(), "{seed}");
        assert!(
            ours == slowly(&trace, &recorded.image),
            "walk {seed} differs"
        );
    }
}

fn small() -> Vec<(Vec<u8>, CodeImage)> {
    let mut traces = Vec::new();
    for (tnt_capacity, psb_every) in [(6, 7), (47, 3), (1, 50)] {
        let how = Recording {
            compressed_returns: tnt_capacity == 6,
            tnt_capacity,
            psb_every,
            ..PLAIN
        };
        traces.push((test_support::intel_pt::record(40, how), program(40)));
    }
    traces
}

#[test]
fn cut_off_anywhere() {
    for (trace, image) in small() {
        for length in 0..trace.len() {
            let cut = &trace[..length];
            assert_eq!(swiftly(cut, &image), slowly(cut, &image), "cut at {length}");
        }
    }
}

/// What was found up to the first gap and with it, and whether there was one.
/// Behind it the code may be read otherwise: a damaged synchronisation point can
/// state another mode of the processor.
fn up_to_a_gap(items: impl Iterator<Item = ExecutionItem>) -> (Vec<ExecutionItem>, bool) {
    let gap = |item: &ExecutionItem| matches!(item, ExecutionItem::Gap(_));
    let all: Vec<ExecutionItem> = items.collect();
    match all.iter().position(gap) {
        Some(at) => (all[..=at].to_vec(), true),
        None => (all, false),
    }
}

/// Whether a byte is the payload of a packet that states the processor's mode.
fn states_a_mode(trace: &[u8], at: usize) -> bool {
    at > 0 && trace[at - 1] == 0x99
}

/// How many instructions, which code of another mode has as well, and what else.
fn counted(items: &[ExecutionItem]) -> (u64, Vec<Step>) {
    let (mut instructions, mut others) = (0, Vec::new());
    for item in items {
        match item {
            ExecutionItem::Block(block) => instructions += u64::from(block.instructions),
            ExecutionItem::Paused => others.push(Step::Paused),
            ExecutionItem::Gap(gap) => others.push(Step::Gap(gap.reason.clone())),
        }
    }
    (instructions, others)
}

/// libipt tells the code of a block that it cannot finish as far as it happens to
/// have it in its cache: just before a gap, one may tell a few instructions more.
fn same_to_the_gap(ours: &[Step], theirs: &[Step], place: &str) {
    let (Some((our_end, ours)), Some((their_end, theirs))) =
        (ours.split_last(), theirs.split_last())
    else {
        assert_eq!(ours, theirs, "{place}");
        return;
    };
    assert_eq!(our_end, their_end, "{place}");
    let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let more = ours.len().max(theirs.len()) - same;
    let allowed = usize::from(matches!(our_end, Step::Gap(_))) * 4;
    assert!(
        same == ours.len().min(theirs.len()) && more <= allowed,
        "{place}: {ours:x?} and {theirs:x?}"
    );
}

/// Each bit is turned: up to the first gap, and about its reason, both say the
/// same. Behind it they may go on at different PSBs: libipt distrusts one that
/// contradicts what came before, and we begin anew with it.
#[test]
fn damaged_anywhere() {
    let (mut compared, mut broken) = (0, 0);
    for (trace, image) in small() {
        for at in 0..trace.len() {
            for bit in 0..8 {
                let mut damaged = trace.clone();
                damaged[at] ^= 1 << bit;
                let (ours, gap) = up_to_a_gap(Blocks::new(&damaged, &image, None));
                let (theirs, their_gap) = up_to_a_gap(Blocks::by_libipt(&damaged, &image, None));
                let place = format!("bit {bit} of byte {at} of {trace:x?}");
                assert_eq!(gap, their_gap, "{place}");
                if states_a_mode(&trace, at) {
                    assert_eq!(counted(&ours), counted(&theirs), "{place}");
                } else {
                    same_to_the_gap(&steps(&ours, &image), &steps(&theirs, &image), &place);
                }
                compared += 1;
                broken += usize::from(gap);
            }
        }
    }
    assert!(compared > 1_000 && broken > 300, "{broken} of {compared}");
}
