//! perf records beside a trace, from the bytes of a ring buffer or a file. Pure;
//! any bytes give an answer.
//!
//! Layouts: `include/uapi/linux/perf_event.h`, `enum perf_event_type`. Each
//! record ends with the fields of `sample_id`, of which the event's attributes
//! say which are there. We parse bodies ourselves although crates read `perf.data`
//! files: their parser asserts on a build-id that is too long.
//!
//! Deliberately absent: samples, mappings of data and of the kernel, and
//! namespaces, none of which a user-space trace needs.

use crate::cursor::{Cursor, text_of, u16_at, u32_at};
use sketch_model::{BuildId, MappedCode, RuntimeAddress, SidebandEvent, SidebandKind};
use thiserror::Error;

const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const AUX: u32 = 11;
const ITRACE_START: u32 = 12;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;
const KNOWN: [u32; 11] = [
    MMAP,
    LOST,
    COMM,
    EXIT,
    FORK,
    MMAP2,
    AUX,
    ITRACE_START,
    LOST_SAMPLES,
    SWITCH,
    SWITCH_CPU_WIDE,
];

const MISC_CPU_MODE: u16 = 7;
const MISC_USER: u16 = 2;
/// MMAP: data; COMM: exec; SWITCH: out.
const MISC_13: u16 = 1 << 13;
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const PROT_EXEC: u32 = 4;
const LONGEST_BUILD_ID: usize = 20;
const HEADER: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    #[error("perf record {kind} has {length} bytes, too few for its fields; record again")]
    TooShort { kind: u32, length: usize },
    #[error("the record at byte {offset} says it has {size} bytes; the buffer is damaged there")]
    BadSize { offset: usize, size: u16 },
}

/// Which fields of `sample_id` records end with: bits of `perf_event_attr.sample_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleId(pub u64);

impl SampleId {
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const IDENTIFIER: u64 = 1 << 16;

    /// In the order in which they stand.
    const FIELDS: [u64; 6] = [
        Self::TID,
        Self::TIME,
        Self::ID,
        Self::STREAM_ID,
        Self::CPU,
        Self::IDENTIFIER,
    ];

    fn has(self, field: u64) -> bool {
        self.0 & field != 0
    }

    fn length(self) -> usize {
        8 * Self::FIELDS.iter().filter(|it| self.has(**it)).count()
    }

    /// Where a field stands, from the start of the fields.
    fn place(self, field: u64) -> Option<usize> {
        let before = Self::FIELDS.iter().take_while(|it| **it != field);
        self.has(field)
            .then(|| 8 * before.filter(|it| self.has(**it)).count())
    }
}

/// Reads the fields of one record from the front.
struct Fields<'b> {
    kind: u32,
    whole: usize,
    rest: Cursor<'b>,
}

impl<'b> Fields<'b> {
    fn or_short<T>(&self, read: Option<T>) -> Result<T, RecordError> {
        read.ok_or(RecordError::TooShort {
            kind: self.kind,
            length: self.whole,
        })
    }

    fn bytes(&mut self, count: usize) -> Result<&'b [u8], RecordError> {
        let read = self.rest.bytes(count);
        self.or_short(read)
    }

    fn u64(&mut self) -> Result<u64, RecordError> {
        let read = self.rest.u64();
        self.or_short(read)
    }

    fn u32(&mut self) -> Result<u32, RecordError> {
        let read = self.rest.u32();
        self.or_short(read)
    }

    fn id(&mut self) -> Result<i32, RecordError> {
        Ok(self.u32()?.cast_signed())
    }
}

/// A record: the fields of its header, and its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'b> {
    pub kind: u32,
    pub misc: u16,
    pub body: &'b [u8],
}

/// The records of a ring buffer or a file, one after the other. Ends at the first
/// damaged size: what lies behind it cannot be found again.
#[derive(Clone, Debug)]
pub struct Records<'b> {
    bytes: &'b [u8],
    offset: usize,
}

impl<'b> Records<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Records { bytes, offset: 0 }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'b [u8] {
        self.bytes.get(self.offset..).unwrap_or_default()
    }

    /// Passes over bytes that follow a record, up to the end.
    pub fn pass(&mut self, bytes: usize) {
        self.offset = self.offset.saturating_add(bytes).min(self.bytes.len());
    }
}

impl<'b> Iterator for Records<'b> {
    type Item = Result<Record<'b>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let size = u16_at(rest, 6).unwrap_or(0);
        let body = rest.get(HEADER..usize::from(size));
        let header = u32_at(rest, 0).zip(u16_at(rest, 4)).zip(body);
        let Some(((kind, misc), body)) = header else {
            let offset = std::mem::replace(&mut self.offset, self.bytes.len());
            return Some(Err(RecordError::BadSize { offset, size }));
        };
        self.offset += usize::from(size);
        Some(Ok(Record { kind, misc, body }))
    }
}

/// What one record says; `None` if it is of no interest here.
pub fn parse_record(
    kind: u32,
    misc: u16,
    body: &[u8],
    sample_id: SampleId,
) -> Result<Option<SidebandEvent>, RecordError> {
    if !KNOWN.contains(&kind) {
        return Ok(None);
    }
    let whole = body.len();
    let short = RecordError::TooShort {
        kind,
        length: whole,
    };
    let split = whole.checked_sub(sample_id.length());
    let (own, common) = split
        .and_then(|at| body.split_at_checked(at))
        .ok_or(short)?;
    let fields = |rest| Fields {
        kind,
        whole,
        rest: Cursor(rest),
    };
    let field = |which| {
        let place = sample_id.place(which)?;
        fields(common.get(place..)?).u64().ok()
    };
    let (mut pid, mut tid) = match field(SampleId::TID) {
        Some(both) => (both as u32 as i32, (both >> 32) as u32 as i32),
        None => (-1, -1),
    };
    let mut own = fields(own);
    let what = match kind {
        MMAP | MMAP2 => {
            (pid, tid) = (own.id()?, own.id()?);
            let Some(mapped) = mapping(&mut own, kind, misc)? else {
                return Ok(None);
            };
            SidebandKind::Mapped(mapped)
        }
        LOST => {
            own.u64()?;
            SidebandKind::Lost(own.u64()?)
        }
        LOST_SAMPLES => SidebandKind::Lost(own.u64()?),
        COMM => {
            (pid, tid) = (own.id()?, own.id()?);
            SidebandKind::Comm {
                name: text_of(own.rest.0),
                exec: misc & MISC_13 != 0,
            }
        }
        EXIT | FORK => {
            pid = own.id()?;
            let parent_pid = own.id()?;
            tid = own.id()?;
            let parent_tid = own.id()?;
            match kind {
                EXIT => SidebandKind::Exit,
                _ => SidebandKind::Fork {
                    parent_pid,
                    parent_tid,
                },
            }
        }
        AUX => {
            let (offset, size, flags) = (own.u64()?, own.u64()?, own.u64()?);
            SidebandKind::Aux {
                offset,
                size,
                truncated: flags & 1 != 0,
                overwritten: flags & 2 != 0,
                partial: flags & 4 != 0,
            }
        }
        ITRACE_START => {
            (pid, tid) = (own.id()?, own.id()?);
            SidebandKind::ItraceStart
        }
        SWITCH | SWITCH_CPU_WIDE if misc & MISC_13 != 0 => SidebandKind::SwitchOut,
        SWITCH | SWITCH_CPU_WIDE => SidebandKind::SwitchIn,
        _ => return Ok(None),
    };
    Ok(Some(SidebandEvent {
        // Records that perf made up for what was there before have time 0.
        time_ns: field(SampleId::TIME).filter(|time| *time > 0),
        cpu: field(SampleId::CPU).map(|both| both as u32),
        pid,
        tid,
        kind: what,
    }))
}

fn mapping(own: &mut Fields<'_>, kind: u32, misc: u16) -> Result<Option<MappedCode>, RecordError> {
    let (start, length, file_offset) = (own.u64()?, own.u64()?, own.u64()?);
    let (mut build_id, mut executable) = (None, misc & MISC_13 == 0);
    if kind == MMAP2 {
        let file = own.bytes(24)?;
        if misc & MISC_MMAP_BUILD_ID != 0 {
            // Length, three bytes of nothing, then the id.
            let length = usize::from(file[0]).min(LONGEST_BUILD_ID);
            build_id = Some(BuildId(hex::encode(&file[4..4 + length])));
        }
        executable = own.u32()? & PROT_EXEC != 0;
        own.u32()?;
    }
    let path = text_of(own.rest.0);
    let user = misc & MISC_CPU_MODE == MISC_USER;
    Ok((user && executable && length > 0).then_some(MappedCode {
        start: RuntimeAddress(start),
        length,
        file_offset,
        path,
        build_id,
    }))
}

/// What a stretch of ring held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub events: Vec<SidebandEvent>,
    /// Records that could not be understood.
    pub unreadable: u64,
    /// The first of them.
    pub error: Option<RecordError>,
}

/// What the records of a ring buffer say.
pub fn parse_ring(bytes: &[u8], sample_id: SampleId) -> Contents {
    let mut contents = Contents::default();
    for record in Records::new(bytes) {
        let event = record.and_then(|it| parse_record(it.kind, it.misc, it.body, sample_id));
        match event {
            Ok(event) => contents.events.extend(event),
            Err(error) => {
                contents.unreadable += 1;
                contents.error.get_or_insert(error);
            }
        }
    }
    contents
}
