//! Real recordings (`data/README.md`): a second decoder that shares no code
//! with libipt (crate `iptr-decoder`) must read the same packets.
//!
//! The traced programs are not at hand. Of the one behind `single-thread.ptraw`
//! LLDB's own tests print the instructions with their addresses, which is enough
//! to assemble the loop again, and state what ran.

use pt_decoder::{
    Blocks, CodeImage, CpuModel, ExecutedBlock, ExecutionItem, GapReason, Packet, PacketItem,
    Packets, psb_offsets,
};
use sketch_model::RuntimeAddress;
use test_support::intel_pt::{second_decoder::read_by_second, steps};

const SINGLE_THREAD: &[u8] = include_bytes!("../data/single-thread.ptraw");
const CORE_45: &[u8] = include_bytes!("../data/core45.ptraw");
const CORE_51: &[u8] = include_bytes!("../data/core51.ptraw");

fn read(trace: &[u8]) -> (Vec<(u64, Packet)>, Vec<GapReason>) {
    let (mut packets, mut gaps) = (Vec::new(), Vec::new());
    for item in Packets::new(trace) {
        match item {
            PacketItem::Packet { offset, packet } => packets.push((offset, packet)),
            PacketItem::Gap(gap) => gaps.push(gap.reason),
        }
    }
    (packets, gaps)
}

/// PSB count as the recordings' README states it, and all packets.
fn agrees(trace: &[u8], psbs: usize, count: usize) {
    let (packets, gaps) = read(trace);
    let (second, whole) = read_by_second(trace, true);
    let kinds: Vec<_> = packets.iter().map(|(_, packet)| *packet).collect();
    assert_eq!(kinds, second);
    // All three begin before their first PSB, as a ring buffer does.
    assert_eq!(
        (kinds.len(), gaps, whole),
        (count, vec![GapReason::NoSync], true)
    );

    let starts = packets
        .iter()
        .filter_map(|(offset, packet)| (*packet == Packet::Psb).then_some(*offset));
    let offsets = psb_offsets(trace);
    assert!(starts.eq(offsets.iter().copied()));
    assert_eq!(offsets.len(), psbs);

    // The second decoder does not tell offsets: begun at each of ours, it must
    // see as many packets to the end as we do.
    for (at, (offset, _)) in packets.iter().enumerate() {
        let (rest, _) = read_by_second(&trace[*offset as usize..], false);
        assert_eq!(rest.len(), packets.len() - at, "from {offset}");
    }
}

#[test]
fn the_packets_of_one_thread() {
    agrees(SINGLE_THREAD, 4, 84);
}

#[test]
fn the_packets_of_cpu_45() {
    agrees(CORE_45, 2, 2125);
}

#[test]
fn the_packets_of_cpu_51() {
    agrees(CORE_51, 3, 2992);
}

/// The processor behind `single-thread.ptraw`.
const RECORDED_BY: CpuModel = CpuModel {
    family: 6,
    model: 79,
    stepping: 1,
};

fn missing_code(trace: &[u8], cpu: CpuModel) -> Vec<u64> {
    Blocks::new(trace, &CodeImage::new(), Some(cpu))
        .map(|item| match item {
            ExecutionItem::Gap(gap) => gap.reason,
            other => panic!("nothing can be known without code: {other:?}"),
        })
        .filter_map(|reason| match reason {
            GapReason::NoCode { at } => Some(at.0),
            GapReason::NoSync => None,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// LLDB's `testWrongImage` expects the same two addresses, and no others.
#[test]
fn without_code_it_says_which_code_is_missing() {
    assert_eq!(
        missing_code(SINGLE_THREAD, RECORDED_BY),
        [0x400511, 0x400518]
    );
}

/// LLDB's `TestTraceLoad` and `TestTraceDumpInstructions` expect these 21
/// instructions, in this order: the thread was stopped before the second one,
/// then ran four rounds of the loop up to the breakpoint behind it.
#[test]
fn a_real_recording_through_its_code() {
    let code = [
        0xc7u8, 0x45, 0xfc, 0, 0, 0, 0, // 511 movl $0x0, -0x4(%rbp)
        0xc7, 0x45, 0xf8, 0, 0, 0, 0, // 518 movl $0x0, -0x8(%rbp)
        0xeb, 0x08, // 51f jmp 0x400529
        0x83, 0x75, 0xfc, 0x01, // 521 xorl $0x1, -0x4(%rbp)
        0x83, 0x45, 0xf8, 0x01, // 525 addl $0x1, -0x8(%rbp)
        0x83, 0x7d, 0xf8, 0x03, // 529 cmpl $0x3, -0x8(%rbp)
        0x7e, 0xf2, // 52d jle 0x400521
    ];
    let mut image = CodeImage::new();
    image.add(RuntimeAddress(0x400511), code).unwrap();
    let block = |start, last, instructions| {
        ExecutionItem::Block(ExecutedBlock {
            start: RuntimeAddress(start),
            last: RuntimeAddress(last),
            instructions,
        })
    };
    let mut expected = vec![
        block(0x400511, 0x400511, 1),
        ExecutionItem::Paused,
        block(0x400518, 0x40051f, 2),
        block(0x400529, 0x40052d, 2),
    ];
    expected.extend(std::iter::repeat_n(block(0x400521, 0x40052d, 4), 4));
    expected.push(ExecutionItem::Paused);
    let mut items = Blocks::new(SINGLE_THREAD, &image, Some(RECORDED_BY));
    assert!(
        matches!(items.next(), Some(ExecutionItem::Gap(gap)) if gap.reason == GapReason::NoSync)
    );
    let items: Vec<_> = items.collect();
    assert_eq!(steps(&items, &image), steps(&expected, &image));
}

/// This processor's PSBs restate that tracing is on just before the packet that
/// turns it on (erratum BDM70): without its model that is a contradiction.
#[test]
fn without_the_processor_model_errata_contradict() {
    let reasons: Vec<_> = Blocks::new(SINGLE_THREAD, &CodeImage::new(), None)
        .map(|item| match item {
            ExecutionItem::Gap(gap) => gap.reason,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reasons[0], GapReason::NoSync);
    let contradicts = |reason: &GapReason| matches!(reason, GapReason::Contradiction(_));
    assert!(reasons.len() > 1 && reasons[1..].iter().all(contradicts));
}

/// The code that is asked for lies where packets say that execution went.
#[test]
fn missing_code_is_where_the_packets_point() {
    let recorded_by = CpuModel {
        family: 6,
        model: 85,
        stepping: 4,
    };
    for trace in [CORE_45, CORE_51] {
        let named: Vec<_> = read(trace)
            .0
            .into_iter()
            .filter_map(|(_, packet)| match packet {
                Packet::Tip(at) | Packet::TipPge(at) | Packet::Fup(at) => at.map(|it| it.0),
                _ => None,
            })
            .collect();
        let missing = missing_code(trace, recorded_by);
        assert!(missing.len() >= 2, "{missing:x?}");
        assert!(missing.iter().all(|at| named.contains(at)), "{missing:x?}");
    }
}
