//! Any bytes as trace and any bytes as code: both readings end, without a
//! panic, after a number of items that the length of the trace bounds.

use proptest::{collection::vec, prelude::*};
use pt_decoder::{Blocks, CodeImage, CpuModel, ExecutionItem, PacketItem, Packets, psb_offsets};
use sketch_model::RuntimeAddress;
use test_support::intel_pt::BASE;

/// Bytes that get further than random ones: openings of every packet, and
/// addresses near the code.
fn trace_piece() -> impl Strategy<Value = Vec<u8>> {
    let psb = [0x02u8, 0x82].repeat(8);
    let mut psb_plus = psb.clone();
    psb_plus.extend([0x99, 0x01, 0x7d]);
    psb_plus.extend(&BASE.to_le_bytes()[..6]);
    psb_plus.extend([0x02, 0x23]);
    prop_oneof![
        1 => Just(psb),
        3 => Just(psb_plus),
        2 => vec(any::<u8>(), 0..12),
        4 => any::<u8>().prop_map(|tnt| vec![tnt & 0xfe]),
        2 => vec(any::<u8>(), 6).prop_map(|bits| [vec![0x02, 0xa3], bits].concat()),
        4 => (prop::sample::select(vec![0x0du8, 0x11, 0x01, 0x1d]), any::<u8>())
            .prop_map(|(opcode, low)| vec![0x20 | opcode, low & 0x3f, 0x70]),
        2 => prop::sample::select(vec![
                0x03u8, 0x83, 0x43, 0xc8, 0x73, 0xf3, 0xc3, 0x62, 0xe2, 0xc2, 0x22, 0xa2, 0x12,
                0x13, 0x53, 0x63, 0x33, 0xb3,
            ])
            .prop_map(|extension| vec![0x02, extension]),
        1 => prop::sample::select(vec![0x19u8, 0x59, 0x99, 0xd9, 0x03, 0x07, 0x00, 0x05])
            .prop_map(|opcode| vec![opcode]),
    ]
}

fn trace() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => vec(any::<u8>(), 0..400),
        9 => vec(trace_piece(), 0..60).prop_map(|pieces| pieces.concat()),
    ]
}

/// Branches, calls and jumps among random bytes.
fn code() -> impl Strategy<Value = Vec<u8>> {
    let instruction = prop_oneof![
        2 => vec(any::<u8>(), 1..4),
        3 => any::<i8>().prop_map(|to| vec![0x75, (to / 4) as u8]),
        1 => any::<i8>().prop_map(|to| vec![0xeb, (to / 4) as u8]),
        1 => any::<i8>().prop_map(|to| [vec![0xe8], i32::from(to / 4).to_le_bytes().to_vec()].concat()),
        4 => prop::sample::select(vec![
                vec![0x90u8],
                vec![0xc3],
                vec![0xff, 0xd0],
                vec![0xff, 0xe0],
                vec![0x0f, 0x05],
                vec![0x0f, 0x22, 0xd8],
                vec![0x48, 0xcf],
            ]),
    ];
    vec(instruction, 1..40).prop_map(|instructions| instructions.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 2_000,
        ..Default::default()
    })]

    #[test]
    fn packets_end(trace in trace()) {
        let psbs = psb_offsets(&trace).len();
        let items: Vec<_> = Packets::new(&trace).take(20 * trace.len() + 2).collect();
        let gaps = items.iter().filter(|item| matches!(item, PacketItem::Gap(_))).count();
        // Misread remains of a PSB, at most 16, may precede each return to it.
        prop_assert!(items.len() <= trace.len() + 17 * psbs + 1, "{} items", items.len());
        prop_assert!(gaps <= psbs + 2, "{gaps} gaps at {psbs} PSBs");
    }

    #[test]
    fn blocks_end(trace in trace(), code in code(), with_errata: bool) {
        let mut image = CodeImage::new();
        image.add(RuntimeAddress(BASE), code).unwrap();
        let cpu = with_errata.then_some(CpuModel { family: 6, model: 0x4f, stepping: 1 });
        let (mut items, mut gaps) = (0usize, 0usize);
        let bound = (trace.len() + 2) * 20_000;
        for item in Blocks::new(&trace, &image, cpu).take(bound) {
            items += 1;
            gaps += usize::from(matches!(item, ExecutionItem::Gap(_)));
        }
        prop_assert!(items < bound);
        // Each PSB can be the end of one gap; each OVF packet is one, too.
        let overflows = trace.windows(2).filter(|pair| *pair == [0x02, 0xf3]).count();
        prop_assert!(gaps <= psb_offsets(&trace).len() + overflows + 2, "{gaps} gaps");
    }
}

/// Every PSB leads straight into an error: one gap each, in bounded stack.
#[test]
fn broken_psbs_do_not_pile_up() {
    let piece = [[0x02u8, 0x82].repeat(8), vec![0x05]].concat();
    let trace = piece.repeat(50_000);
    let gaps = Blocks::new(&trace, &CodeImage::new(), None).count();
    assert_eq!(gaps, 50_000);
    let items = Packets::new(&trace).count();
    assert_eq!(items, 2 * 50_000);
}
