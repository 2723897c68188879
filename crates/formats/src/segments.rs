//! The program headers of a 64-bit little-endian ELF file as plain values, and
//! numbers that are changed where they stand.
//!
//! `object` reads ELF files but does not edit them in place, and writing one anew
//! would move what must stay where it is.

use crate::cursor::{u16_at, u32_at, u64_at};
use thiserror::Error;

/// A file whose headers are not laid out as linkers lay them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    #[error("program headers in an uncommon place")]
    ProgramHeaders,
    #[error("a header that points out of the file")]
    OutOfFile,
}

pub const PT_LOAD: u32 = 1;
pub const PT_DYNAMIC: u32 = 2;
pub const PT_INTERP: u32 = 3;
pub const PT_NOTE: u32 = 4;
pub const PT_PHDR: u32 = 6;
pub const PT_TLS: u32 = 7;
pub const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

pub const PF_X: u32 = 1;
pub const PF_W: u32 = 2;
pub const PF_R: u32 = 4;

/// Where the file header keeps what is edited.
const E_PHOFF: usize = 32;
pub const E_SHOFF: usize = 40;
const E_PHENTSIZE: usize = 54;
pub const E_PHNUM: usize = 56;
pub const E_SHNUM: usize = 60;
pub const E_SHSTRNDX: usize = 62;
pub const PROGRAM_HEADER: usize = 56;
pub const SECTION_HEADER: usize = 64;
pub const PAGE: u64 = 4096;

/// One program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub align: u64,
}

impl Segment {
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.memory_size)
    }

    /// The file offset of `address`, if it is one of the segment's file bytes.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let within = address.checked_sub(self.address)?;
        (within < self.file_size).then(|| self.offset.saturating_add(within))
    }

    pub fn write(&self) -> [u8; PROGRAM_HEADER] {
        let mut bytes = [0; PROGRAM_HEADER];
        bytes[..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.flags.to_le_bytes());
        let words = [
            self.offset,
            self.address,
            self.address,
            self.file_size,
            self.memory_size,
            self.align,
        ];
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// The program headers; they must begin where every linker puts them.
pub fn segments(file: &[u8]) -> Result<Vec<Segment>, HeaderError> {
    if u64_at(file, E_PHOFF) != Some(64) || u16_at(file, E_PHENTSIZE) != Some(PROGRAM_HEADER as u16)
    {
        return Err(HeaderError::ProgramHeaders);
    }
    let count = usize::from(u16_at(file, E_PHNUM).ok_or(HeaderError::ProgramHeaders)?);
    let table = file.get(64..64 + count * PROGRAM_HEADER);
    let table = table.ok_or(HeaderError::ProgramHeaders)?;
    let read = |header: &[u8]| {
        Some(Segment {
            kind: u32_at(header, 0)?,
            flags: u32_at(header, 4)?,
            offset: u64_at(header, 8)?,
            address: u64_at(header, 16)?,
            file_size: u64_at(header, 32)?,
            memory_size: u64_at(header, 40)?,
            align: u64_at(header, 48)?,
        })
    };
    let all: Option<Vec<_>> = table.chunks_exact(PROGRAM_HEADER).map(read).collect();
    all.ok_or(HeaderError::ProgramHeaders)
}

/// Writes `value` at `at`; a place outside of `bytes` is a damaged file.
pub fn put(bytes: &mut [u8], at: u64, value: &[u8]) -> Result<(), HeaderError> {
    let place = usize::try_from(at)
        .ok()
        .and_then(|at| bytes.get_mut(at..at.checked_add(value.len())?));
    let place = place.ok_or(HeaderError::OutOfFile)?;
    place.copy_from_slice(value);
    Ok(())
}

/// Appends zeros up to a multiple of `align`.
pub fn pad(bytes: &mut Vec<u8>, align: u64) {
    let length = (bytes.len() as u64).next_multiple_of(align.max(1));
    bytes.resize(length as usize, 0);
}
