//! Traces of a program whose path is known: decoding gives the path back, and
//! a damaged trace gives a part of it and says where the rest is missing.

use proptest::prelude::*;
use pt_decoder::{
    Blocks, CodeImage, ExecutionItem, GapReason, Packet, PacketItem, Packets, TntBits, TraceGap,
    next_psb, psb_offsets,
};
use sketch_model::RuntimeAddress;
use test_support::intel_pt::{BASE, PLAIN, Recording, block, program, record, steps, true_path};

fn decode(trace: &[u8], image: &CodeImage) -> Vec<ExecutionItem> {
    Blocks::new(trace, image, None).collect()
}

fn gap(offset: u64, resumes: Option<u64>, reason: GapReason) -> ExecutionItem {
    ExecutionItem::Gap(TraceGap {
        offset,
        resumes,
        reason,
    })
}

#[test]
fn packets_are_read_as_the_manual_writes_them() {
    let how = Recording {
        tnt_capacity: 47,
        address_bytes: 2,
        ..PLAIN
    };
    let trace = record(10, how);
    let address = |at| Some(RuntimeAddress(BASE + at));
    let packets: Vec<_> = Packets::new(&trace)
        .map(|item| match item {
            PacketItem::Packet { offset, packet } => (offset, packet),
            PacketItem::Gap(gap) => panic!("{gap:?}"),
        })
        .collect();
    let mode = pt_decoder::Mode::Exec {
        long: true,
        default_32: false,
    };
    let long_tnt = TntBits {
        bits: 0b11_1111_1110,
        count: 10,
    };
    assert_eq!(
        packets,
        [
            (0, Packet::Psb),
            (16, Packet::Mode(mode)),
            (18, Packet::PsbEnd),
            (20, Packet::TipPge(address(0x00))),
            (27, Packet::Tnt(long_tnt)),
            (35, Packet::Tip(address(0x20))),
            (38, Packet::Tip(address(0x12))),
            (41, Packet::Tip(address(0x17))),
            (44, Packet::TipPgd(None)),
        ]
    );
    assert_eq!(long_tnt.taken().collect::<Vec<_>>(), {
        let mut taken = vec![true; 9];
        taken.push(false);
        taken
    });
}

/// SDM vol. 3C, "IP Compression": a PSB clears the address compressed against.
#[test]
fn a_psb_clears_the_last_address() {
    let mut out = PLAIN.writer();
    out.psb();
    out.fup(BASE + 0x20);
    out.psb();
    out.raw(&[0x2d, 0x34, 0x12]);
    let last = Packets::new(&out.finish()).last();
    let packet = Packet::Tip(Some(RuntimeAddress(0x1234)));
    assert_eq!(last, Some(PacketItem::Packet { offset: 39, packet }));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]
    #[test]
    fn the_path_comes_back_however_it_was_packed(
        rounds in 1u8..=127,
        compressed_returns: bool,
        tnt_capacity in 1u32..=47,
        psb_every in 1usize..=200,
        address_bytes in prop::sample::select(vec![2u8, 4, 6, 8]),
    ) {
        let how = Recording { compressed_returns, tnt_capacity, psb_every, address_bytes };
        let trace = record(rounds, how);
        prop_assert_eq!(decode(&trace, &program(rounds)), true_path(rounds));
        prop_assert_eq!(psb_offsets(&trace).len(), 1 + usize::from(rounds) / psb_every);
    }
}

/// Short TNT packets with compressed returns, long ones, and one for each branch.
fn packings() -> [Recording; 3] {
    [(6, 7), (47, 3), (1, 50)].map(|(tnt_capacity, psb_every)| Recording {
        compressed_returns: tnt_capacity == 6,
        tnt_capacity,
        psb_every,
        ..PLAIN
    })
}

fn leading_blocks(items: &[ExecutionItem]) -> usize {
    let block = |item: &&ExecutionItem| matches!(item, ExecutionItem::Block(_));
    items.iter().take_while(block).count()
}

/// Only what is certain is reported, so a shorter trace gives a shorter path
/// and never a wrong one; and it never passes for a whole one.
#[test]
fn cut_anywhere_it_gives_a_beginning_of_the_path() {
    let (image, path) = (program(40), true_path(40));
    for how in packings() {
        let trace = record(40, how);
        let mut longest = 0;
        for length in 0..trace.len() {
            let what = format!("{how:?}, cut at {length}");
            let items = decode(&trace[..length], &image);
            let known = leading_blocks(&items);
            assert_eq!(items[..known], path[..known], "{what}");
            assert!(known < path.len() - 1, "{what}");
            assert!(known >= longest, "{what}");
            longest = known;
            if known > 0 {
                let ending = gap(length as u64, None, GapReason::EndsWhileTracing);
                assert_eq!(items[known..], [ending], "{what}");
            }
            for item in Packets::new(&trace[..length]) {
                if let PacketItem::Gap(gap) = item {
                    assert!(matches!(
                        gap.reason,
                        GapReason::Truncated | GapReason::NoSync
                    ));
                }
            }
        }
        // All but the block of the system call and the one before.
        assert_eq!(longest, path.len() - 3, "{how:?}");
    }
}

/// A single bit is turned: what the bytes before it tell is told as ever.
#[test]
fn with_any_bit_turned_the_path_before_it_stands() {
    let (image, path) = (program(40), true_path(40));
    let (mut tried, mut broken) = (0, 0);
    for how in packings() {
        let trace = record(40, how);
        for at in 0..trace.len() {
            let known = leading_blocks(&decode(&trace[..at], &image));
            for bit in 0..8 {
                let mut damaged = trace.clone();
                damaged[at] ^= 1 << bit;
                let items = decode(&damaged, &image);
                let what = format!("{how:?}, bit {bit} of byte {at}");
                let told = leading_blocks(&items);
                assert!(told >= known, "{what}: {told} of {known} blocks");
                assert_eq!(items[..known], path[..known], "{what}");
                tried += 1;
                let gap = |item: &ExecutionItem| matches!(item, ExecutionItem::Gap(_));
                broken += usize::from(items.iter().any(gap));
            }
        }
    }
    assert!(tried > 1_000 && broken > 300, "{broken} of {tried}");
}

#[test]
fn a_fault_ends_the_block_before_the_faulting_instruction() {
    let mut out = PLAIN.begun();
    out.outcome(true);
    out.fup(BASE + 0x04);
    out.tip_pgd(None);
    let trace = out.finish();
    let path = [block(0, 7, 4), block(2, 2, 1), ExecutionItem::Paused];
    assert_eq!(decode(&trace, &program(3)), path);
}

#[test]
fn an_overflow_is_a_gap_and_the_path_goes_on_behind_it() {
    let mut out = PLAIN.begun();
    out.outcome(true);
    out.ovf();
    out.fup(BASE + 0x09);
    out.tip(BASE + 0x20);
    out.tip(BASE + 0x12);
    out.tip(BASE + 0x17);
    out.tip_pgd(None);
    let items = decode(&out.finish(), &program(100));
    assert_eq!(items[0], block(0, 7, 4));
    let ExecutionItem::Gap(overflow) = &items[1] else {
        panic!("{items:?}");
    };
    assert_eq!(overflow.reason, GapReason::Overflow);
    assert!(overflow.resumes.is_some());
    assert_eq!(items[2..], true_path(100)[100..]);
}

#[test]
fn after_unknown_bytes_the_next_psb_takes_over() {
    // The last two look like CYC and TSC packets that eat into the PSB, whose
    // remains look like branches: no decoder can tell these from real ones.
    for (junk, misread) in [
        (&[0x05u8] as &[u8], false),
        (&[0xd9, 0x00, 0x00], false),
        (&[0xff, 0xff, 0x05, 0x05], true),
        (&[0x19], true),
    ] {
        let mut out = PLAIN.writer();
        out.raw(&[0x11, 0x22]);
        out.psb();
        out.mode_64();
        out.psb_end();
        out.tip_pge(BASE);
        out.outcome(true);
        out.raw(junk);
        let psb = out.position() as u64;
        out.psb_plus(BASE + 0x02);
        out.outcome(false);
        out.tip(BASE + 0x20);
        out.tip(BASE + 0x12);
        out.tip(BASE + 0x17);
        out.tip_pgd(None);
        let trace = out.finish();
        let items = decode(&trace, &program(2));
        assert_eq!(items[0], gap(0, Some(2), GapReason::NoSync), "{junk:x?}");
        assert_eq!(items[1], block(0, 7, 4), "{junk:x?}");
        let is_gap = |item: &ExecutionItem| matches!(item, ExecutionItem::Gap(_));
        let behind = items.iter().rposition(is_gap).unwrap() + 1;
        let ExecutionItem::Gap(broken) = &items[behind - 1] else {
            panic!("{junk:x?}: {items:?}");
        };
        assert_eq!(broken.resumes, Some(psb), "{junk:x?}");
        assert!(broken.offset <= psb, "{junk:x?}");
        let image = program(2);
        let rest = steps(&items[behind..], &image);
        assert_eq!(rest, steps(&true_path(2)[1..], &image), "{junk:x?}");
        if !misread {
            assert_eq!(behind, 3, "{junk:x?}");
            assert_eq!(broken.reason, GapReason::BadPacket, "{junk:x?}");
        }

        let gaps: Vec<_> = Packets::new(&trace)
            .filter_map(|item| match item {
                PacketItem::Gap(gap) => gap.resumes,
                PacketItem::Packet { .. } => None,
            })
            .collect();
        assert_eq!(gaps, [2, psb], "{junk:x?}");
    }
}

#[test]
fn code_that_is_not_there_is_named() {
    let mut out = PLAIN.begun();
    out.outcome(false);
    out.tip(BASE + 0x5000);
    out.tip(BASE + 0x12);
    let psb = out.position() as u64;
    out.psb_plus(BASE + 0x20);
    out.tip(BASE + 0x17);
    out.tip_pgd(None);
    let items = decode(&out.finish(), &program(1));
    assert_eq!(items[..2], [block(0, 7, 4), block(9, 0x10, 2)]);
    let ExecutionItem::Gap(missing) = &items[2] else {
        panic!("{items:?}");
    };
    let at = RuntimeAddress(BASE + 0x5000);
    assert_eq!(missing.reason, GapReason::NoCode { at });
    assert_eq!(missing.resumes, Some(psb));
    assert_eq!(items[3..], true_path(1)[4..]);
}

#[test]
fn a_trace_of_other_code_contradicts_or_ends() {
    let trace = record(5, PLAIN);
    let mut other = CodeImage::new();
    // jmp -2: runs for ever without a branch that a trace would mention.
    other.add(RuntimeAddress(BASE), [0xeb, 0xfe]).unwrap();
    let items = decode(&trace, &other);
    let from = RuntimeAddress(BASE);
    let Some(ExecutionItem::Gap(endless)) = items.last() else {
        panic!("no gap at the end");
    };
    assert_eq!(endless.reason, GapReason::Endless { from });
    assert!(items.len() < 20_000, "{}", items.len());

    let mut other = CodeImage::new();
    // ret at once, where the trace has branches that were not taken.
    other.add(RuntimeAddress(BASE), [0xc3]).unwrap();
    assert!(matches!(
        &decode(&record(1, PLAIN), &other)[..],
        [ExecutionItem::Gap(TraceGap {
            reason: GapReason::Contradiction(_),
            ..
        })]
    ));
}

#[test]
fn of_a_longer_run_the_last_sixteen_bytes_are_the_psb() {
    let run = [0x02u8, 0x82].repeat(11);
    assert_eq!(next_psb(&run, 0), Some(6));
    assert_eq!(next_psb(&run, 6), Some(6));
    assert_eq!(next_psb(&run, 7), None);
    let mut odd = vec![0x82, 0x02];
    odd.extend(&run[..16]);
    assert_eq!(next_psb(&odd, 0), Some(2));
    assert_eq!(next_psb(&run[..15], 0), None);
    assert_eq!(next_psb(&run, u64::MAX), None);
}
