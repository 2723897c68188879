//! `perf.data` with Intel PT to a record like an agent's.
//!
//! What `perf record -e intel_pt//u` wrote on any machine: trace bytes, sideband,
//! the processor's model and clock rates, and build-ids. Pure: from bytes to
//! values. Pieces of a buffer are joined where they follow each other and kept
//! apart where the kernel says that trace is missing in between.

mod container;

use container::{AUXTRACE, AUXTRACE_INFO, Container, HEADER_BUILD_ID, Record};
use formats::cursor::{text_of, u16_at, u32_at, u64_at};
use formats::perf_records::{RecordError, parse_record};
use sketch_model::{
    BuildId, CpuModel, Gap, PerfClock, PtBuffer, PtFrequency, PtRecord, SidebandEvent, SidebandKind,
};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

const FEATURE_BUILD_ID: u32 = 2;
const FEATURE_HOSTNAME: u32 = 3;
const FEATURE_CPUID: u32 = 9;
const FEATURE_CMDLINE: u32 = 11;
/// The first record type that is perf's own and not the kernel's.
const FIRST_USER_TYPE: u32 = 64;
const AUXTRACE_INTEL_PT: u32 = 1;
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// A file that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PerfDataError {
    #[error("this is not a perf.data file; make one with `perf record -e intel_pt//u`")]
    NotPerfData,
    #[error("the file was written on a big-endian machine, which has no Intel PT")]
    OtherEndian,
    #[error("the file is compressed; record again without -z")]
    Compressed,
    #[error("the file is damaged: {0}; record again")]
    Damaged(&'static str),
    #[error("the file holds no Intel PT; record with `perf record -e intel_pt//u`")]
    NoTrace,
    #[error(transparent)]
    Sideband(#[from] RecordError),
}

/// What a `perf.data` file tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfRecording {
    pub record: PtRecord,
    pub host: Option<String>,
    /// The command line of perf.
    pub command: Vec<String>,
    /// The kernel was traced as well.
    pub with_kernel: bool,
    /// What is missing or odd.
    pub gaps: Vec<Gap>,
}

/// Reads a whole file.
pub fn read_perf_data(file: &[u8]) -> Result<PerfRecording, PerfDataError> {
    let container = Container::read(file)?;
    let mut recording = PerfRecording {
        host: feature_text(&container, FEATURE_HOSTNAME),
        command: command(&container),
        ..Default::default()
    };
    if container.truncated {
        recording.gaps.push(Gap::PerfFileCut);
    }
    recording.record.cpu = cpu(&container);
    if recording.record.cpu.is_none() {
        recording.gaps.push(Gap::ProcessorUnknown);
    }
    let mut sideband = Vec::new();
    let mut pieces: BTreeMap<u32, Vec<Piece>> = BTreeMap::new();
    let mut build_ids = BTreeMap::new();
    let features = container.features.get(&FEATURE_BUILD_ID);
    let mut rest = features.copied().unwrap_or_default();
    while let Some(size) = u16_at(rest, 6).map(usize::from).filter(|size| *size >= 8) {
        let Some(body) = rest.get(8..size) else { break };
        let misc = u16_at(rest, 4).unwrap_or(0);
        build_ids.extend(build_id(misc, body));
        rest = &rest[size..];
    }
    for record in &container.records {
        match record.kind {
            AUXTRACE_INFO => read_info(record, &container, &mut recording),
            AUXTRACE => {
                if let Some((index, piece)) = Piece::read(record) {
                    pieces.entry(index).or_default().push(piece);
                }
            }
            HEADER_BUILD_ID => build_ids.extend(build_id(record.misc, record.body)),
            kind if kind >= FIRST_USER_TYPE => {}
            kind => {
                let sample_id = container.sample_id(record.body);
                sideband.extend(parse_record(kind, record.misc, record.body, sample_id)?);
            }
        }
    }
    if pieces.is_empty() {
        return Err(PerfDataError::NoTrace);
    }
    for event in &mut sideband {
        if let SidebandKind::Mapped(mapped) = &mut event.kind
            && mapped.build_id.is_none()
        {
            mapped.build_id = build_ids.get(&mapped.path).cloned();
        }
    }
    // Stable: what perf wrote for the time before comes first, in its order.
    sideband.sort_by_key(|event| event.time_ns);
    recording.record.buffers = buffers(pieces, &sideband);
    recording.record.sideband = sideband;
    Ok(recording)
}

/// A piece of a buffer (`struct perf_record_auxtrace`).
struct Piece<'b> {
    offset: u64,
    tid: Option<i32>,
    cpu: Option<u32>,
    bytes: &'b [u8],
}

impl<'b> Piece<'b> {
    fn read(record: &Record<'b>) -> Option<(u32, Self)> {
        let body = record.body;
        let index = u32_at(body, 24)?;
        let tid = u32_at(body, 28)?.cast_signed();
        let cpu = u32_at(body, 32)?;
        let piece = Self {
            offset: u64_at(body, 8)?,
            tid: (tid > 0).then_some(tid),
            cpu: (cpu != u32::MAX).then_some(cpu),
            bytes: record.data,
        };
        Some((index, piece))
    }
}

fn buffers(pieces: BTreeMap<u32, Vec<Piece<'_>>>, sideband: &[SidebandEvent]) -> Vec<PtBuffer> {
    // Behind these places of a CPU's buffer trace is missing.
    let cuts: BTreeSet<(Option<u32>, u64)> = sideband
        .iter()
        .filter_map(|event| match event.kind {
            SidebandKind::Aux {
                offset,
                size,
                truncated: true,
                ..
            } => Some((event.cpu, offset.saturating_add(size))),
            _ => None,
        })
        .collect();
    let mut buffers: Vec<PtBuffer> = Vec::new();
    for mut of_buffer in pieces.into_values() {
        of_buffer.sort_by_key(|piece| piece.offset);
        let mut expected = None;
        for piece in of_buffer {
            let mut from = piece.offset;
            let end = piece.offset.saturating_add(piece.bytes.len() as u64);
            let inside = cuts
                .iter()
                .filter(|(cpu, at)| *cpu == piece.cpu && *at > piece.offset && *at < end);
            for until in inside.map(|(_, at)| *at).chain([end]) {
                let slice = (from - piece.offset) as usize..(until - piece.offset) as usize;
                let bytes = piece.bytes.get(slice).unwrap_or_default();
                let follows = expected == Some(from) && !cuts.contains(&(piece.cpu, from));
                match buffers.last_mut().filter(|_| follows) {
                    Some(buffer) => buffer.bytes.extend_from_slice(bytes),
                    None => buffers.push(PtBuffer {
                        cpu: piece.cpu,
                        tid: piece.tid.filter(|_| piece.cpu.is_none()),
                        bytes: bytes.to_vec(),
                    }),
                }
                from = until;
                expected = Some(until);
            }
        }
    }
    buffers.retain(|buffer| !buffer.bytes.is_empty());
    buffers
}

/// `struct perf_record_auxtrace_info` of Intel PT: the private fields are those
/// of `tools/perf/util/intel-pt.h`, in its order.
fn read_info(record: &Record<'_>, container: &Container<'_>, recording: &mut PerfRecording) {
    if u32_at(record.body, 0) != Some(AUXTRACE_INTEL_PT) {
        return;
    }
    let field = |number: usize| u64_at(record.body, 8 + 8 * number);
    if let (Some(shift), Some(mult), Some(zero), Some(1)) = (field(1), field(2), field(3), field(4))
    {
        recording.record.clock = Some(PerfClock {
            shift: shift as u16,
            mult: mult as u32,
            zero,
        });
    } else {
        recording.gaps.push(Gap::ClockUnknown);
    }
    let pmu = field(0).unwrap_or(0) as u32;
    let traced = container.attributes.iter().find(|it| it.pmu == pmu);
    if let (Some(mtc_bits), Some(counter), Some(crystal), Some(traced)) =
        (field(11), field(12), field(13), traced)
    {
        let mtc = match mtc_bits {
            0 => 0,
            bits => (traced.config & bits) >> bits.trailing_zeros(),
        };
        let nominal = field(15).unwrap_or(0);
        recording.record.frequency = Some(PtFrequency {
            mtc: mtc as u8,
            nominal: nominal as u8,
            crystal: crystal as u32,
            counter: counter as u32,
        });
    }
    recording.with_kernel = traced.is_some_and(|it| !it.without_kernel);
}

fn feature_text(container: &Container<'_>, feature: u32) -> Option<String> {
    let section = container.features.get(&feature)?;
    string_at(section, 0).map(|(text, _)| text)
}

fn command(container: &Container<'_>) -> Vec<String> {
    let section = container.features.get(&FEATURE_CMDLINE);
    let section = section.copied().unwrap_or_default();
    let (mut words, mut at) = (Vec::new(), 4);
    while let Some((word, length)) = string_at(section, at) {
        words.push(word);
        at += length;
    }
    words
}

/// `GenuineIntel,6,78,3`
fn cpu(container: &Container<'_>) -> Option<CpuModel> {
    let text = feature_text(container, FEATURE_CPUID)?;
    let mut parts = text.split(',');
    if parts.next() != Some("GenuineIntel") {
        return None;
    }
    Some(CpuModel {
        family: parts.next()?.parse().ok()?,
        model: parts.next()?.parse().ok()?,
        stepping: parts.next()?.parse().ok()?,
    })
}

/// `struct perf_record_header_build_id`: process, 24 bytes of id, path.
fn build_id(misc: u16, body: &[u8]) -> Option<(String, BuildId)> {
    let id = body.get(4..24)?;
    let length = if misc & MISC_BUILD_ID_SIZE != 0 {
        usize::from(*body.get(24)?).min(id.len())
    } else {
        // Shorter ids are filled up with nulls, in words of four.
        let last = id.iter().rposition(|byte| *byte != 0)?;
        (last + 1).next_multiple_of(4)
    };
    let path = text_of(body.get(28..)?);
    Some((path, BuildId(hex::encode(&id[..length]))))
}

/// A string of perf's headers: a length, then text filled up with nulls; and
/// how many bytes it takes.
fn string_at(bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let length = u32_at(bytes, at)? as usize;
    let from = at.checked_add(4)?;
    let text = bytes.get(from..from.checked_add(length)?)?;
    Some((text_of(text), length.checked_add(4)?))
}
