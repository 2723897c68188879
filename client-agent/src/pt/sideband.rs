//! Bytes of an event's ring → what happened beside the trace. Pure; any bytes
//! give an answer.
//!
//! Layouts: `enum perf_event_type` of `linux/perf_event.h`. Each record ends with
//! the identification that the event's sample type asks for. `pt-decoder` reads
//! the same records from files, with code of its own: it must not be linked here.
//!
//! Deliberately absent: mappings of data and of the kernel.

use sketch_model::{BuildId, MappedCode, RuntimeAddress, SidebandEvent, SidebandKind};
use std::fmt::Write;

const HAS_TID: u64 = 1 << 1;
const HAS_TIME: u64 = 1 << 2;
const HAS_CPU: u64 = 1 << 7;
/// The event's number, last: perf asks for it, the agent does not need it.
const HAS_IDENTIFIER: u64 = 1 << 16;
/// What each record says of itself.
pub const SAMPLE_TYPE: u64 = HAS_TID | HAS_TIME | HAS_CPU;

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

const MISC_CPU_MODE: u16 = 7;
const MISC_USER: u16 = 2;
/// Of a name: by an exec. Of a switch: away from the processor.
const MISC_EXEC_OR_OUT: u16 = 1 << 13;
const MISC_BUILD_ID: u16 = 1 << 14;
const PROT_EXEC: u32 = 4;
const HEADER: usize = 8;

/// What a stretch of ring held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub events: Vec<SidebandEvent>,
    /// Records that could not be understood.
    pub unreadable: u64,
}

/// Reads fields from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(first)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn id(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }

    /// Text up to a null byte.
    fn text(&self) -> String {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Parses whole records, oldest first.
pub fn parse(mut bytes: &[u8], sample_type: u64) -> Contents {
    let mut contents = Contents::default();
    while !bytes.is_empty() {
        let mut header = Fields(bytes);
        let (Some(kind), Some(misc), Some(size)) = (header.u32(), header.take(), header.take())
        else {
            contents.unreadable += 1;
            break;
        };
        let misc = u16::from_le_bytes(*misc);
        let size = usize::from(u16::from_le_bytes(*size));
        let Some(body) = bytes.get(HEADER..size) else {
            // A length that leads nowhere: the rest cannot be found again.
            contents.unreadable += 1;
            break;
        };
        match record(kind, misc, body, sample_type) {
            Some(event) => contents.events.extend(event),
            None => contents.unreadable += 1,
        }
        bytes = &bytes[size..];
    }
    contents
}

/// `None` if its fields are not there, `Some(None)` if it is of no interest.
fn record(kind: u32, misc: u16, body: &[u8], sample_type: u64) -> Option<Option<SidebandEvent>> {
    let known = [
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
    if !known.contains(&kind) {
        return Some(None);
    }
    let tail = 8 * (sample_type & (SAMPLE_TYPE | HAS_IDENTIFIER)).count_ones() as usize;
    let (own, tail) = body.split_at_checked(body.len().checked_sub(tail)?)?;
    let mut event = identified(tail, sample_type)?;
    let mut own = Fields(own);
    event.kind = match kind {
        MMAP2 => {
            (event.pid, event.tid) = (own.id()?, own.id()?);
            match mapping(&mut own, misc)? {
                Some(mapped) => SidebandKind::Mapped(mapped),
                None => return Some(None),
            }
        }
        COMM => {
            (event.pid, event.tid) = (own.id()?, own.id()?);
            SidebandKind::Comm {
                name: own.text(),
                exec: misc & MISC_EXEC_OR_OUT != 0,
            }
        }
        EXIT | FORK => {
            // Who, whose child, which thread, whose thread's child.
            let (pid, parent_pid) = (own.id()?, own.id()?);
            let (tid, parent_tid) = (own.id()?, own.id()?);
            (event.pid, event.tid) = (pid, tid);
            match kind {
                EXIT => SidebandKind::Exit,
                _ => SidebandKind::Fork {
                    parent_pid,
                    parent_tid,
                },
            }
        }
        ITRACE_START => {
            (event.pid, event.tid) = (own.id()?, own.id()?);
            SidebandKind::ItraceStart
        }
        LOST => {
            own.u64()?;
            SidebandKind::Lost(own.u64()?)
        }
        LOST_SAMPLES => SidebandKind::Lost(own.u64()?),
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
        _ if misc & MISC_EXEC_OR_OUT != 0 => SidebandKind::SwitchOut,
        _ => SidebandKind::SwitchIn,
    };
    Some(Some(event))
}

/// Who, when and where, from a record's end.
fn identified(tail: &[u8], sample_type: u64) -> Option<SidebandEvent> {
    let mut tail = Fields(tail);
    let mut event = SidebandEvent {
        time_ns: None,
        cpu: None,
        pid: -1,
        tid: -1,
        kind: SidebandKind::Exit,
    };
    if sample_type & HAS_TID != 0 {
        (event.pid, event.tid) = (tail.id()?, tail.id()?);
    }
    if sample_type & HAS_TIME != 0 {
        event.time_ns = Some(tail.u64()?);
    }
    if sample_type & HAS_CPU != 0 {
        event.cpu = Some(tail.u32()?);
    }
    Some(event)
}

/// As [`record`]: `Some(None)` for what is no code of a user's.
fn mapping(own: &mut Fields<'_>, misc: u16) -> Option<Option<MappedCode>> {
    let (start, length, file_offset) = (own.u64()?, own.u64()?, own.u64()?);
    // Either the build-id, or device and inode.
    let file = own.take::<24>()?;
    let build_id = (misc & MISC_BUILD_ID != 0).then(|| {
        let length = usize::from(file[0]).min(20);
        let mut text = String::new();
        for byte in &file[4..4 + length] {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        BuildId(text)
    });
    let executable = own.u32()? & PROT_EXEC != 0;
    own.u32()?;
    let user = misc & MISC_CPU_MODE == MISC_USER;
    Some((user && executable && length > 0).then(|| MappedCode {
        start: RuntimeAddress(start),
        length,
        file_offset,
        path: own.text(),
        build_id,
    }))
}

#[cfg(test)]
#[path = "sideband_tests.rs"]
mod tests;
