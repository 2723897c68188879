//! `perf.data`: real files that others recorded, and files of our own writer.
//! A second reader (crate `linux-perf-data`) must see what ours sees.

use flate2::read::GzDecoder;
use linux_perf_data::{
    PerfFileReader, PerfFileRecord, UserRecord, linux_perf_event_reader::EventRecord,
};
use pt_decoder::{
    CodeSource, CpuModel, ExecutionItem, GapReason, Packet, PacketItem, Packets, PerfDataError,
    ThreadId, decode_recording, read_perf_data,
};
use sketch_model::{
    BuildId, Gap, MappedCode, PtBuffer, PtFrequency, PtRecord, SidebandEvent, SidebandKind,
};
use std::{
    collections::BTreeSet,
    io::{Cursor, Read},
    sync::Arc,
};
use test_support::intel_pt::{
    InMemory,
    second_decoder::read_by_second,
    tracer::{
        children::compile,
        perf_file::PerfFile,
        programs,
        ptrace::{CLOCK, Plan, Recorded, record},
        truth::assert_same,
        writer::USUAL,
    },
};

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

fn real_file() -> Vec<u8> {
    unpacked(include_bytes!("../data/perf.data.intel_pt-4.14.gz"))
}

fn real_pipe() -> Vec<u8> {
    unpacked(include_bytes!("../data/perf.data.piped.intel_pt-4.14.gz"))
}

/// What the second reader sees: bytes of trace, mapped code, switches.
fn by_second_reader<R: Read>(
    reader: PerfFileReader<R>,
) -> (Vec<u8>, BTreeSet<(u64, String)>, usize) {
    let PerfFileReader {
        mut perf_file,
        mut record_iter,
    } = reader;
    let (mut trace, mut mapped, mut switches) = (Vec::new(), BTreeSet::new(), 0);
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        match record {
            PerfFileRecord::UserRecord(record) => {
                if let UserRecord::Auxtrace(piece) = record.parse().unwrap() {
                    trace.extend_from_slice(&piece.aux_data.as_slice());
                }
            }
            PerfFileRecord::EventRecord { record, .. } => match record.parse().unwrap() {
                EventRecord::Mmap2(it) if it.protection & 4 != 0 => {
                    let path = String::from_utf8_lossy(&it.path.as_slice()).into_owned();
                    mapped.insert((it.address, path));
                }
                EventRecord::ContextSwitch(_) => switches += 1,
                _ => {}
            },
        }
    }
    (trace, mapped, switches)
}

fn by_us(record: &PtRecord) -> (Vec<u8>, BTreeSet<(u64, String)>, usize) {
    let trace = record.buffers.iter().flat_map(|it| it.bytes.clone());
    let (mut mapped, mut switches) = (BTreeSet::new(), 0);
    for event in &record.sideband {
        match &event.kind {
            SidebandKind::Mapped(it) => {
                mapped.insert((it.start.0, it.path.clone()));
            }
            SidebandKind::SwitchIn | SidebandKind::SwitchOut => switches += 1,
            _ => {}
        }
    }
    (trace.collect(), mapped, switches)
}

#[test]
fn a_real_file_and_the_same_as_a_pipe() {
    let (file, pipe) = (real_file(), real_pipe());
    let from_file = read_perf_data(&file).unwrap();
    let from_pipe = read_perf_data(&pipe).unwrap();
    let second = by_second_reader(PerfFileReader::parse_file(Cursor::new(&file)).unwrap());
    assert_eq!(by_us(&from_file.record), second);
    assert_eq!(from_file.record.buffers.len(), 2);
    let record = &from_file.record;
    assert_eq!(
        record.cpu,
        Some(CpuModel {
            family: 6,
            model: 78,
            stepping: 3
        })
    );
    assert_eq!(from_file.command[..2], ["/usr/bin/perf", "record"]);
    assert!(from_file.with_kernel);
    assert!(from_file.gaps.is_empty(), "{:?}", from_file.gaps);
    let clock = record.clock.unwrap();
    assert!(clock.mult > 0 && clock.shift < 64);
    assert!(record.frequency.unwrap().counter > 0);
    let ids = record
        .sideband
        .iter()
        .filter_map(|event| match &event.kind {
            SidebandKind::Mapped(it) => it.build_id.clone(),
            _ => None,
        });
    assert!(ids.count() > 0);
    // Recorded twice, so not the same bytes; the same machine and command.
    assert_eq!(from_pipe.record.buffers.len(), 2);
    assert_eq!(from_pipe.record.frequency, record.frequency);
    assert!(from_pipe.with_kernel);
}

/// The packets of real recordings, by two decoders that share no code.
#[test]
fn two_decoders_read_the_same_packets() {
    for bytes in [real_file(), real_pipe()] {
        for buffer in read_perf_data(&bytes).unwrap().record.buffers {
            let packets: Vec<Packet> = Packets::new(&buffer.bytes)
                .filter_map(|item| match item {
                    PacketItem::Packet { packet, .. } => Some(packet),
                    PacketItem::Gap(gap) => {
                        assert_eq!(gap.reason, GapReason::NoSync);
                        None
                    }
                })
                .collect();
            let (second, whole) = read_by_second(&buffer.bytes, true);
            assert!(whole && packets.len() > 1000, "{}", packets.len());
            assert_eq!(packets, second);
        }
    }
}

struct NoFiles;

impl CodeSource for NoFiles {
    fn code(&self, _: &MappedCode) -> Result<Arc<[u8]>, String> {
        Err("not here".to_owned())
    }
}

/// Without the binaries: everything that is missing has a name.
#[test]
fn what_is_missing_is_named() {
    let recording = read_perf_data(&real_file()).unwrap();
    let decoded = decode_recording(&recording.record, &NoFiles, usize::MAX);
    let paths: Vec<_> = decoded.missing.iter().map(|it| it.path.as_str()).collect();
    assert!(paths.contains(&"/usr/bin/coreutils"), "{paths:?}");
    assert!(paths.contains(&"[vdso]"), "{paths:?}");
    let with_id = decoded.missing.iter().filter(|it| it.build_id.is_some());
    assert!(with_id.count() >= 2, "{:?}", decoded.missing);
    let mut gaps = decoded.threads.values().flatten().flat_map(|it| &it.items);
    assert!(gaps.all(|item| !matches!(item, ExecutionItem::Block(_))));
}

fn event(recorded: &Recorded, time_ns: Option<u64>, kind: SidebandKind) -> SidebandEvent {
    SidebandEvent {
        time_ns,
        cpu: Some(0),
        pid: recorded.pid,
        tid: recorded.pid,
        kind,
    }
}

/// A run of threads as an agent would have it.
fn written() -> (Recorded, PtRecord) {
    let folder = tempfile::tempdir().unwrap();
    let program = programs::THREADS;
    let file = compile(
        folder.path(),
        program.name,
        program.source,
        program.compiler,
    );
    let mut plan = Plan::new(&[USUAL]);
    (plan.processors, plan.quantum) = (2, 60);
    let recorded = record(&file, program.from, &plan);
    let mut sideband = recorded.sideband.clone();
    for event in &mut sideband {
        if let SidebandKind::Mapped(mapped) = &mut event.kind {
            let own = mapped.path.ends_with("threads");
            mapped.build_id =
                own.then(|| BuildId("00112233445566778899aabbccddeeff00112233".into()));
        }
    }
    sideband.push(event(
        &recorded,
        Some(u64::MAX - 9),
        SidebandKind::ItraceStart,
    ));
    sideband.push(event(&recorded, Some(u64::MAX - 8), SidebandKind::Exit));
    let buffers = recorded.traces[0].iter().enumerate();
    let record = PtRecord {
        cpu: Some(CpuModel {
            family: 6,
            model: 158,
            stepping: 10,
        }),
        frequency: Some(PtFrequency {
            mtc: 3,
            nominal: 36,
            crystal: 2,
            counter: 1,
        }),
        clock: Some(CLOCK),
        buffers: buffers
            .map(|(cpu, bytes)| PtBuffer {
                cpu: Some(cpu as u32),
                tid: None,
                bytes: bytes.clone(),
            })
            .collect(),
        sideband,
        ..PtRecord::default()
    };
    (recorded, record)
}

#[test]
fn what_was_written_comes_back_and_decodes() {
    let (recorded, record) = written();
    let vdso = ("[vdso]".to_owned(), "aabbccdd".to_owned());
    let file = PerfFile::new(&record, &[vdso], &["perf", "record", "-e", "intel_pt//u"]);
    for bytes in [file.file(), file.pipe()] {
        let mut read = read_perf_data(&bytes).unwrap();
        assert_eq!(
            (read.host.as_deref(), read.with_kernel),
            (Some("intel-machine"), false)
        );
        assert_eq!(read.command[2..], ["-e", "intel_pt//u"]);
        let decoded = decode_recording(&read.record, &InMemory(&recorded.image), usize::MAX);
        assert_eq!(decoded.unassigned, 0);
        for (tid, truth) in &recorded.truth {
            let (pid, tid) = (recorded.pid, *tid);
            let items: Vec<_> = decoded.items(ThreadId { pid, tid }).cloned().collect();
            assert_same(truth, &items, &recorded.image, &format!("thread {tid}"));
        }
        for event in &mut read.record.sideband {
            let SidebandKind::Mapped(mapped) = &mut event.kind else {
                continue;
            };
            event.cpu = None;
            if mapped.path == "[vdso]" {
                assert_eq!(mapped.build_id.take(), Some(BuildId("aabbccdd".into())));
            }
        }
        assert_eq!(read.record, record);
    }
    let second = by_second_reader(PerfFileReader::parse_file(Cursor::new(file.file())).unwrap());
    assert_eq!(by_us(&record), second);
    let second = by_second_reader(PerfFileReader::parse_pipe(Cursor::new(file.pipe())).unwrap());
    assert_eq!(by_us(&record), second);
}

#[test]
fn where_the_buffer_was_full_the_trace_is_cut() {
    let (recorded, mut record) = written();
    let half = record.buffers[0].bytes.len() as u64 / 3;
    let full = SidebandKind::Aux {
        offset: 0,
        size: half,
        truncated: true,
        overwritten: false,
        partial: false,
    };
    record
        .sideband
        .push(event(&recorded, Some(u64::MAX - 7), full));
    let file = PerfFile::new(&record, &[], &["perf"]);
    let read = read_perf_data(&file.file()).unwrap().record;
    let lengths: Vec<_> = read
        .buffers
        .iter()
        .map(|it| it.bytes.len() as u64)
        .collect();
    let whole = record.buffers[0].bytes.len() as u64;
    assert_eq!(lengths[..2], [half, whole - half]);
    let decoded = decode_recording(&read, &InMemory(&recorded.image), usize::MAX);
    assert_eq!(decoded.losses, [Gap::TraceBufferFull { count: 1 }]);
}

#[test]
fn other_files_are_refused_with_the_remedy() {
    let refusal = |bytes: &[u8]| read_perf_data(bytes).unwrap_err();
    assert_eq!(refusal(b"\x7fELF and so on"), PerfDataError::NotPerfData);
    assert_eq!(refusal(b"2ELIFREP"), PerfDataError::OtherEndian);
    let (_, mut record) = written();
    record.buffers.clear();
    let file = PerfFile::new(&record, &[], &[]).file();
    assert_eq!(refusal(&file), PerfDataError::NoTrace);
    assert_eq!(
        refusal(&file).to_string(),
        "the file holds no Intel PT; record with `perf record -e intel_pt//u`"
    );
    // A compressed record in place of the first one.
    let mut compressed = real_file();
    let data = u64::from_le_bytes(compressed[40..48].try_into().unwrap()) as usize;
    compressed[data] = 81;
    assert_eq!(refusal(&compressed), PerfDataError::Compressed);
}

/// Killed, or out of disk: what is there is read, and the rest is said to be
/// missing.
#[test]
fn a_file_that_ends_early_gives_what_it_has() {
    let bytes = real_pipe();
    let whole = read_perf_data(&bytes).unwrap();
    let cut = read_perf_data(&bytes[..bytes.len() * 2 / 3]).unwrap();
    assert!(cut.gaps.contains(&Gap::PerfFileCut), "{:?}", cut.gaps);
    let length = |it: &PtRecord| it.buffers.iter().map(|it| it.bytes.len()).sum::<usize>();
    assert!(length(&cut.record) > 0 && length(&cut.record) < length(&whole.record));
}
