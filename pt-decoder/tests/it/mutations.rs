//! Damaged input of every kind: no panic, no endless loop, bounded results.
//!
//! Good inputs are damaged by a generator that depends on a number alone, so a
//! failure names the number that repeats it. A short run is part of the tests;
//! `FAILSKETCH_FUZZ_SECONDS=600` makes each kind run for that long with numbers
//! not tried before. On stable Rust and without instrumentation: coverage would
//! not reach into libipt's C in any case.

use flate2::read::GzDecoder;
use formats::address_map::AddressMap;
use formats::elf::build_id;
use formats::perf_records::{SampleId, parse_ring};
use pt_decoder::{
    Blocks, CodeImage, CodeSource, CpuModel, ExecutionItem, Packets, decode_recording,
    mapped_bytes, psb_offsets, read_perf_data,
};
use sketch_model::{
    BuildId, MappedCode, PtBuffer, PtRecord, RuntimeAddress, SidebandEvent, SidebandKind,
    StatementId,
};
use std::{
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};
use test_support::intel_pt::{
    BASE, PLAIN, Recording, program,
    tracer::{children::compile, perf_file::PerfFile, ptrace::CLOCK},
};

/// xorshift64 over a number that is not zero.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Says which number to try again.
struct Case(u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with number {}", self.0);
        }
    }
}

const INTERESTING: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

fn damaged(good: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = good[random.below(good.len())].clone();
    for _ in 0..=random.below(12) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            3 => bytes.truncate(at.max(bytes.len() / 4)),
            4 => {
                let end = (at + random.below(40)).min(bytes.len());
                bytes.drain(at..end);
            }
            5 => {
                let length = random.below(20);
                let new = (0..length).map(|_| random.next() as u8);
                bytes.splice(at..at, new.collect::<Vec<_>>());
            }
            6 => {
                // A number where the format may have one.
                let width = 1 << random.below(4);
                let at = at / width * width;
                let value = INTERESTING[random.below(INTERESTING.len())].to_le_bytes();
                if let Some(place) = bytes.get_mut(at..at + width) {
                    place.copy_from_slice(&value[..width]);
                }
            }
            _ => {
                let other = &good[random.below(good.len())];
                let from = random.below(other.len());
                let piece = &other[from..(from + random.below(200)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
    bytes
}

/// `count` cases, or as many as fit into the time that was asked for.
fn try_many(count: u64, mut case: impl FnMut(&mut Random)) {
    let seconds = std::env::var("FAILSKETCH_FUZZ_SECONDS").ok();
    let seconds = seconds.and_then(|it| it.parse::<u64>().ok());
    let until = seconds.map(|it| Instant::now() + Duration::from_secs(it));
    let mut number = 1;
    while match until {
        Some(until) => Instant::now() < until,
        None => number <= count,
    } {
        let _case = Case(number);
        case(&mut Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1));
        number += 1;
    }
    if until.is_some() {
        eprintln!("{} cases", number - 1);
    }
}

fn traces() -> Vec<Vec<u8>> {
    let mut good = vec![
        include_bytes!("../data/single-thread.ptraw").to_vec(),
        include_bytes!("../data/core45.ptraw").to_vec(),
    ];
    for (tnt_capacity, psb_every) in [(6, 7), (47, 3), (1, 50)] {
        let how = Recording {
            compressed_returns: tnt_capacity == 6,
            tnt_capacity,
            psb_every,
            ..PLAIN
        };
        good.push(test_support::intel_pt::record(40, how));
    }
    good
}

#[test]
fn traces_end() {
    let good = traces();
    let image = program(40);
    let errata = CpuModel {
        family: 6,
        model: 0x4f,
        stepping: 1,
    };
    try_many(4_000, |random| {
        let trace = damaged(&good, random);
        let psbs = psb_offsets(&trace).len();
        let packets = Packets::new(&trace).take(20 * trace.len() + 2).count();
        assert!(packets <= trace.len() + 17 * psbs + 1);
        let cpu = (random.below(2) == 0).then_some(errata);
        let bound = (trace.len() + 2) * 20_000;
        let items = Blocks::new(&trace, &image, cpu).take(bound).count();
        assert!(items < bound);
    });
}

#[test]
fn code_can_be_anything() {
    let how = Recording {
        psb_every: 5,
        ..PLAIN
    };
    let trace = test_support::intel_pt::record(40, how);
    let mut whole = [0; 35];
    program(40).read(RuntimeAddress(BASE), &mut whole);
    let good = [whole.to_vec()];
    try_many(8_000, |random| {
        let mut image = CodeImage::new();
        let code = damaged(&good, random);
        image.add(RuntimeAddress(BASE), code).unwrap();
        let bound = (trace.len() + 2) * 20_000;
        let items = Blocks::new(&trace, &image, None).take(bound);
        let blocks = items.filter(|it| matches!(it, ExecutionItem::Block(_)));
        assert!(blocks.count() < bound);
    });
}

#[test]
fn sideband_can_be_anything() {
    let good = [
        include_bytes!("../data/core45.switches").to_vec(),
        include_bytes!("../data/core51.switches").to_vec(),
        small_perf_file().file(),
    ];
    try_many(20_000, |random| {
        let ring = damaged(&good, random);
        let events = parse_ring(&ring, SampleId(random.next() & 0x1_ffff)).events;
        assert!(events.len() <= ring.len() / 8);
    });
}

struct SomeCode;

impl CodeSource for SomeCode {
    fn code(&self, mapped: &MappedCode) -> Result<Arc<[u8]>, String> {
        mapped_bytes(&[0x90; 4096], mapped)
    }
}

fn small_perf_file() -> PerfFile {
    let event = |time, kind| SidebandEvent {
        time_ns: Some(time),
        cpu: Some(1),
        pid: 7,
        tid: 8,
        kind,
    };
    let mapped = MappedCode {
        start: RuntimeAddress(BASE),
        length: 4096,
        file_offset: 0,
        path: "/usr/bin/program".to_owned(),
        build_id: Some(sketch_model::BuildId("00".repeat(20))),
    };
    let record = PtRecord {
        clock: Some(CLOCK),
        buffers: vec![PtBuffer {
            cpu: Some(1),
            tid: None,
            bytes: test_support::intel_pt::record(20, PLAIN),
        }],
        sideband: vec![
            event(1, SidebandKind::Mapped(mapped)),
            event(2, SidebandKind::SwitchIn),
            event(9, SidebandKind::SwitchOut),
        ],
        ..PtRecord::default()
    };
    PerfFile::new(&record, &[], &["perf", "record"])
}

#[test]
fn perf_data_can_be_anything() {
    let unpacked = |bytes: &[u8]| {
        let mut out = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
        out
    };
    let small = small_perf_file();
    let good = [
        unpacked(include_bytes!("../data/perf.data.intel_pt-4.14.gz")),
        small.file(),
        small.pipe(),
        small.file(),
        small.pipe(),
    ];
    let mut read = 0;
    try_many(4_000, |random| {
        let file = damaged(&good, random);
        if let Ok(recording) = read_perf_data(&file) {
            read += 1;
            let held: usize = recording
                .record
                .buffers
                .iter()
                .map(|it| it.bytes.len())
                .sum();
            assert!(held <= file.len());
            let decoded = decode_recording(&recording.record, &SomeCode, 10_000);
            let kept = decoded.threads.values().flatten().map(|it| it.items.len());
            assert!(kept.sum::<usize>() <= 10_000);
        }
    });
    // Most damage must not stop the reader, or little is tried.
    assert!(read > 500, "{read}");
}

#[test]
fn elf_files_can_be_anything() {
    let folder = tempfile::tempdir().unwrap();
    let source = "static int f(int x) { return x * 3; } int g(int x) { return f(x) + 1; }\n";
    let arguments = [
        "clang-19",
        "-O1",
        "-g",
        "-shared",
        "-fPIC",
        "-Wl,--build-id",
    ];
    let file = compile(folder.path(), "library", source, &arguments);
    let good = [std::fs::read(file).unwrap()];
    let line = |_: Option<&str>, _: &str, line: u32| Some(StatementId(line));
    let build = BuildId(String::new());
    assert!(AddressMap::read(&good[0], &build, line).is_ok());
    assert!(build_id(&good[0]).is_some());
    let mut built = 0;
    try_many(3_000, |random| {
        let file = damaged(&good, random);
        build_id(&file);
        if let Ok(map) = AddressMap::read(&file, &build, line) {
            let rows = map.statements().rows().len();
            built += u32::from(rows > 0);
            assert!(rows <= file.len());
        }
    });
    assert!(built > 100, "{built}");
}
