//! Room for more program headers.
//!
//! The table stays where it is, because old kernels and loaders compute its
//! address from there; what stands behind it (the interpreter's name and notes,
//! which only headers point to, and if need be tables that only the dynamic
//! section points to) moves into the appended segment. Where that
//! room is one header short, as in static programs, the header of
//! `.note.gnu.property` gives way: the program then no longer claims to be ready
//! for shadow stacks, which the loader takes for "no".

use super::original::Original;
use crate::clones::refusal::Refusal;
use formats::segments::{PROGRAM_HEADER, PT_INTERP, PT_LOAD, PT_NOTE, PT_TLS};
use object::elf::{DT_GNU_HASH, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_VERNEED, DT_VERSYM};

pub const PT_GNU_PROPERTY: u32 = 0x6474_e553;
/// One for code, one for data.
pub const NEW_LOADS: usize = 2;

/// Tables that the loader finds by the dynamic section alone.
const TABLES: [i64; 6] = [
    DT_HASH.0,
    DT_STRTAB.0,
    DT_SYMTAB.0,
    DT_GNU_HASH.0,
    DT_VERSYM.0,
    DT_VERNEED.0,
];

/// A stretch of P that moves: from where, how long, and where to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub from: u64,
    pub size: u64,
    pub to: u64,
    /// The header of `.note.gnu.property` gives way.
    pub without_property: bool,
}

impl Moved {
    pub fn contains(&self, address: u64, size: u64) -> bool {
        address >= self.from && address.saturating_add(size) <= self.from + self.size
    }

    pub fn is_movable(kind: u32) -> bool {
        [PT_INTERP, PT_NOTE, PT_GNU_PROPERTY].contains(&kind)
    }
}

/// What has to move for the new headers; `sections` are the loaded sections'
/// addresses and sizes.
pub fn to_move(original: &Original<'_>, sections: &[(u64, u64)]) -> Result<Moved, Refusal> {
    let has_property = original.segment(PT_GNU_PROPERTY).is_some();
    make_room(original, sections, false).or_else(|refusal| match has_property {
        true => make_room(original, sections, true),
        false => Err(refusal),
    })
}

fn make_room(
    original: &Original<'_>,
    sections: &[(u64, u64)],
    without_property: bool,
) -> Result<Moved, Refusal> {
    let no_room = || Refusal::unusual("no room behind its program headers");
    let first = original
        .segments
        .iter()
        .find(|s| s.offset == 0 && s.kind == PT_LOAD);
    let base = first.ok_or_else(no_room)?.address;
    let has_thread_locals = original.segment(PT_TLS).is_some();
    let added = NEW_LOADS + usize::from(!has_thread_locals) - usize::from(without_property);
    let count = original.segments.len();
    let start = base + (64 + PROGRAM_HEADER * count) as u64;
    let end = start + (PROGRAM_HEADER * added) as u64;
    let tables = TABLES.iter().filter_map(|tag| {
        let (_, address) = original.dynamic_entry(*tag)?;
        let (_, size) = sections.iter().find(|(start, _)| *start == address)?;
        Some((address, address + size))
    });
    let movable: Vec<(u64, u64)> = original
        .segments
        .iter()
        .filter(|s| Moved::is_movable(s.kind))
        .map(|s| (s.address, s.address + s.file_size))
        .chain(tables)
        .collect();
    // Segments that overlap move together.
    let (mut from, mut to) = (end, end);
    loop {
        let reached = movable
            .iter()
            .filter(|(a, b)| *a < to.max(end) && *b > start.min(from));
        let low = reached.clone().map(|(a, _)| *a).fold(from, u64::min);
        let high = reached.map(|(_, b)| *b).fold(to, u64::max);
        if (low, high) == (from, to) {
            break;
        }
        (from, to) = (low, high);
    }
    let moved = Moved {
        from,
        size: to - from,
        to: 0,
        without_property,
    };
    for (address, size) in sections {
        let in_the_way = *address < end && address + size > start;
        let (address, size) = (*address, *size);
        if in_the_way && !moved.contains(address, size) {
            return Err(no_room());
        }
        // A section must move whole or not at all.
        if address < to && address + size > from && !moved.contains(address, size) {
            return Err(no_room());
        }
    }
    Ok(moved)
}

/// What the dynamic section has to say about tables that moved.
pub fn moved_tables(original: &Original<'_>, moved: &Moved) -> Vec<(u64, Vec<u8>)> {
    let entries = TABLES.iter().filter_map(|tag| original.dynamic_entry(*tag));
    entries
        .filter(|(_, address)| moved.contains(*address, 1))
        .map(|(place, address)| {
            let address = address - moved.from + moved.to;
            (place + 8, address.to_le_bytes().to_vec())
        })
        .collect()
}
