//! Records made by hand, and records that a real kernel wrote.

use flate2::read::GzDecoder;
use formats::perf_records::{Contents, RecordError, SampleId, parse_ring};
use proptest::prelude::*;
use sketch_model::{BuildId, MappedCode, RuntimeAddress, SidebandEvent, SidebandKind};
use std::io::Read;

// `enum perf_event_type`.
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const AUX: u32 = 11;
const ITRACE_START: u32 = 12;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;

const MISC_USER: u16 = 2;
const MISC_BUILD_ID: u16 = 1 << 14;

/// What the agent asks for.
const LAYOUT: SampleId = SampleId(SampleId::TID | SampleId::TIME | SampleId::CPU);

/// The identification that [`LAYOUT`] asks for: 7/8, time 99, processor 3.
const TAIL: [u64; 3] = [7 | 8 << 32, 99, 3];

fn bytes_of(kind: u32, misc: u16, body: &[u64], text: &[u8]) -> Vec<u8> {
    let size = (8 + 8 * body.len() + text.len() + 24) as u32;
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((u32::from(misc) | size << 16).to_le_bytes());
    bytes.extend(body.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(text);
    bytes.extend(TAIL.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

fn one(kind: u32, misc: u16, body: &[u64], text: &[u8]) -> SidebandEvent {
    let contents = parse_ring(&bytes_of(kind, misc, body, text), LAYOUT);
    assert_eq!((contents.unreadable, contents.events.len()), (0, 1));
    contents.events.into_iter().next().unwrap()
}

fn event(pid: i32, tid: i32, kind: SidebandKind) -> SidebandEvent {
    SidebandEvent {
        time_ns: Some(99),
        cpu: Some(3),
        pid,
        tid,
        kind,
    }
}

/// 20 bytes of build-id, then a page of code and its path.
fn mapped_words() -> [u64; 8] {
    let id = [0x0807_0605_0403_0201u64, 0x100f_0e0d_0c0b_0a09];
    let words = [20 | (id[0] & 0xffff_ffff) << 32, id[0] >> 32 | id[1] << 32];
    let last = id[1] >> 32 | 0x1413_1211 << 32;
    [
        11 | 12 << 32,
        0x40_0000,
        0x1000,
        0x2000,
        words[0],
        words[1],
        last,
        5 | 2 << 32,
    ]
}

#[test]
fn each_kind_of_record_is_read_field_by_field() {
    let mapped = MappedCode {
        start: RuntimeAddress(0x40_0000),
        length: 0x1000,
        file_offset: 0x2000,
        path: "/bin/a".into(),
        build_id: Some(BuildId("0102030405060708090a0b0c0d0e0f1011121314".into())),
    };
    let path = b"/bin/a\0\0";
    assert_eq!(
        one(MMAP2, MISC_USER | MISC_BUILD_ID, &mapped_words(), path),
        event(11, 12, SidebandKind::Mapped(mapped.clone()))
    );
    let build_id = None;
    assert_eq!(
        one(MMAP2, MISC_USER, &mapped_words(), path).kind,
        SidebandKind::Mapped(MappedCode { build_id, ..mapped })
    );
    let name = "sort".into();
    assert_eq!(
        one(COMM, 1 << 13, &[11 | 12 << 32], b"sort\0\0\0\0"),
        event(11, 12, SidebandKind::Comm { name, exec: true })
    );
    let words = [11 | 21 << 32, 12 | 22 << 32, 5];
    assert_eq!(one(EXIT, 0, &words, b""), event(11, 12, SidebandKind::Exit));
    let (parent_pid, parent_tid) = (21, 22);
    let fork = SidebandKind::Fork {
        parent_pid,
        parent_tid,
    };
    assert_eq!(one(FORK, 0, &words, b""), event(11, 12, fork));
    assert_eq!(
        one(ITRACE_START, 0, &[11 | 12 << 32], b""),
        event(11, 12, SidebandKind::ItraceStart)
    );
    assert_eq!(one(LOST, 0, &[1, 42], b"").kind, SidebandKind::Lost(42));
    assert_eq!(
        one(LOST_SAMPLES, 0, &[42], b"").kind,
        SidebandKind::Lost(42)
    );
    assert_eq!(
        one(AUX, 0, &[64, 32, 1 | 4], b"").kind,
        SidebandKind::Aux {
            offset: 64,
            size: 32,
            truncated: true,
            overwritten: false,
            partial: true,
        }
    );
    assert_eq!(
        one(SWITCH, 1 << 13, &[], b""),
        event(7, 8, SidebandKind::SwitchOut)
    );
    assert_eq!(
        one(SWITCH, 0, &[], b""),
        event(7, 8, SidebandKind::SwitchIn)
    );
}

#[test]
fn what_is_no_code_of_a_user_is_left_out() {
    let mut data = mapped_words();
    data[7] = 3 | 2 << 32;
    let kernel = 1;
    let mut bytes = bytes_of(MMAP2, MISC_USER, &data, b"/a\0\0\0\0\0\0");
    bytes.extend(bytes_of(MMAP2, kernel, &mapped_words(), b"/a\0\0\0\0\0\0"));
    // A kind of record that is not known, shorter than any identification.
    bytes.extend([77, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(parse_ring(&bytes, LAYOUT), Contents::default());
}

#[test]
fn records_that_are_too_short_are_counted() {
    let mut bytes = bytes_of(AUX, 0, &[64], b"");
    bytes.extend(bytes_of(SWITCH, 0, &[], b""));
    // A size that leads nowhere.
    bytes.extend([14, 0, 0, 0, 0, 0, 4, 0]);
    let contents = parse_ring(&bytes, LAYOUT);
    assert_eq!((contents.events.len(), contents.unreadable), (1, 2));
    let (kind, length) = (AUX, 32);
    let first = RecordError::TooShort { kind, length };
    assert_eq!(contents.error, Some(first));
}

/// The switches of a real processor: see `pt-decoder/tests/data/README.md`.
#[test]
fn switches_of_a_real_processor() {
    let recorded = include_bytes!("../../../../pt-decoder/tests/data/core45.switches");
    let contents = parse_ring(recorded, SampleId(SampleId::TID | SampleId::TIME));
    assert_eq!(contents.unreadable, 0);
    // 32 bytes each.
    assert_eq!(contents.events.len(), recorded.len() / 32);
    let first = &contents.events[0];
    // By hexdump: 752f0100, bbeba7d09be01800.
    assert_eq!((first.pid, first.tid), (0, 0));
    assert_eq!(first.time_ns, Some(0x0018_e09b_d0a7_ebbb));
    assert_eq!(first.kind, SidebandKind::SwitchOut);
    let second = &contents.events[1];
    assert_eq!((second.pid, second.tid), (0x1_2f16, 0x1_2f75));
    assert_eq!(second.kind, SidebandKind::SwitchIn);
    let times: Vec<_> = contents.events.iter().map(|it| it.time_ns).collect();
    assert!(times.is_sorted());
}

/// The records of a `perf.data` that perf made with a real trace unit, one after
/// the other as in a ring; perf's own kinds of record are not the kernel's.
fn real_records() -> Vec<u8> {
    let packed = include_bytes!("../../../../pt-decoder/tests/data/perf.data.intel_pt-4.14.gz");
    let mut file = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut file).unwrap();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (mut at, mut records) = (word(40), Vec::new());
    let end = at + word(48);
    while at < end {
        let kind = word(at) as u32;
        let size = word(at) >> 48;
        if kind < 64 {
            records.extend(&file[at..at + size]);
        }
        // Trace bytes follow the record that announces them.
        at += size + if kind == 71 { word(at + 8) } else { 0 };
    }
    records
}

#[test]
fn records_beside_a_real_trace() {
    let contents = parse_ring(&real_records(), SampleId(LAYOUT.0 | SampleId::IDENTIFIER));
    assert_eq!(contents.unreadable, 0);
    let events = &contents.events;
    let count = |wanted: fn(&SidebandKind) -> bool| {
        events.iter().filter(|event| wanted(&event.kind)).count()
    };
    // Counted by another program that looks at headers only.
    assert_eq!(count(|it| matches!(it, SidebandKind::Comm { .. })), 3);
    assert_eq!(count(|it| *it == SidebandKind::Exit), 1);
    let switch = |it: &SidebandKind| matches!(it, SidebandKind::SwitchIn | SidebandKind::SwitchOut);
    assert_eq!(count(switch), 152);
    // By hexdump of the first and the last of each.
    let started = events
        .iter()
        .filter(|it| it.kind == SidebandKind::ItraceStart);
    let started: Vec<_> = started
        .map(|it| (it.pid, it.tid, it.time_ns, it.cpu))
        .collect();
    let first = (0xc66, 0xc66, Some(0x95_4df3_70f5), Some(0));
    let second = (0xc66, 0xc66, Some(0x95_4de2_eb63), Some(3));
    assert!(started.contains(&first) && started.contains(&second));
    assert_eq!(started.len(), 2);
    let handed_over = SidebandKind::Aux {
        offset: 0,
        size: 0x2fd0,
        truncated: false,
        overwritten: false,
        partial: false,
    };
    assert_eq!(count(|it| matches!(it, SidebandKind::Aux { .. })), 10);
    assert!(events.iter().any(|it| it.kind == handed_over));
    let paths: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            SidebandKind::Mapped(mapped) => Some(mapped.path.as_str()),
            _ => None,
        })
        .collect();
    assert!(paths.contains(&"/usr/bin/coreutils"), "{paths:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse_ring(&bytes, LAYOUT);
    }

    #[test]
    fn a_damaged_record_is_parsed_without_panic(at in 0usize..200, to in any::<u8>()) {
        let mut bytes = bytes_of(MMAP2, MISC_USER | MISC_BUILD_ID, &mapped_words(), b"/bin/a\0\0");
        bytes.extend(bytes_of(COMM, 0, &[1], b"a\0\0\0\0\0\0\0"));
        let at = at % bytes.len();
        bytes[at] = to;
        parse_ring(&bytes, LAYOUT);
    }
}
