//! Unwinding through the appended segment: its entries, and one table over all of them.
//!
//! Exceptions find a function's unwind entry by the sorted table of
//! `.eh_frame_hdr` (LSB, 10.6.2), one to a program. P's entries stay where they
//! are; a new table lists them and the segment's, and the program header points
//! to it instead. The segment lies behind P, so its entries sort behind P's.

use crate::clones::image::Image;
use crate::clones::image::entry::INITIALISER_FRAME;
use crate::clones::refusal::Refusal;
use formats::cursor::{i32_at, u32_at};

const COMMON_SIZE: u64 = 24;
const INITIALISER_ENTRY_SIZE: u64 = 40;
const GATE_ENTRY_SIZE: u64 = 24;

/// Unwind entries for the code that `entry.rs` writes: one for the initialiser and
/// one for each piece of gates, behind what they have in common.
pub fn entry_code_size(gates: usize) -> u64 {
    COMMON_SIZE + INITIALISER_ENTRY_SIZE + GATE_ENTRY_SIZE * gates as u64
}

pub fn write_entry_code(
    image: &mut Image,
    at: u64,
    initialiser: (u64, u64),
    gates: &[(u64, u64)],
) -> Result<(), Refusal> {
    const COMMON: [u8; COMMON_SIZE as usize] = [
        20, 0, 0, 0, 0, 0, 0, 0, // length, mark of a common entry
        1, b'z', b'R', 0, 1, 0x78, 16, 1,
        0x1b, // return address in column 16; relative pointers
        0x0c, 7, 8, 0x90, 1, // the frame begins above rsp + 8, where the return address is
        0, 0,
    ];
    image.write(at, &COMMON)?;
    let mut entry = at + COMMON_SIZE;
    let first = (INITIALISER_ENTRY_SIZE, initialiser, &INITIALISER_FRAME[..]);
    let gates = gates.iter().map(|gate| (GATE_ENTRY_SIZE, *gate, &[][..]));
    for (size, (start, length), rules) in std::iter::once(first).chain(gates) {
        image.write(entry, &(size as u32 - 4).to_le_bytes())?;
        image.write(entry + 4, &((entry + 4 - at) as u32).to_le_bytes())?;
        image.write_distance(entry + 8, entry + 8, start)?;
        image.write(entry + 12, &(length as u32).to_le_bytes())?;
        image.write(entry + 17, rules)?;
        entry += size;
    }
    Ok(())
}

/// Offsets of the function entries in a piece of `.eh_frame`.
pub fn entries(unwind: &[u8]) -> Result<Vec<usize>, Refusal> {
    let unusual = || Refusal::unusual("unwind entries of an uncommon form");
    let mut found = Vec::new();
    let mut at = 0;
    while at + 4 <= unwind.len() {
        let length = u32_at(unwind, at).ok_or_else(unusual)?;
        if length == 0 {
            at += 4;
            continue;
        }
        let id = u32_at(unwind, at + 4).ok_or_else(unusual)?;
        if length == u32::MAX || at + 4 + length as usize > unwind.len() {
            return Err(unusual());
        }
        if id != 0 {
            found.push(at);
        }
        at += 4 + length as usize;
    }
    Ok(found)
}

pub fn table_size(entries: usize) -> u64 {
    12 + 8 * entries as u64
}

/// Writes the table at `at`: P's pairs of function and entry, then those of the
/// relocated unwind entries in the image's memory at `unwind`.
pub fn write_table(
    image: &mut Image,
    at: u64,
    eh_frame: u64,
    before: &[(u64, u64)],
    unwind: (u64, u64),
) -> Result<(), Refusal> {
    let mut pairs = before.to_vec();
    let bytes = image.read(unwind.0, unwind.1 as usize).unwrap_or_default();
    let mut own = Vec::new();
    for offset in entries(bytes)? {
        let entry = unwind.0 + offset as u64;
        let relative = i32_at(bytes, offset + 8).unwrap_or_default();
        own.push(((entry + 8).wrapping_add_signed(relative.into()), entry));
    }
    own.sort_unstable();
    pairs.extend(own);
    image.write(at, &[1, 0x1b, 0x03, 0x3b])?;
    image.write_distance(at + 4, at + 4, eh_frame)?;
    image.write(at + 8, &(pairs.len() as u32).to_le_bytes())?;
    for (number, (function, entry)) in pairs.into_iter().enumerate() {
        let place = at + 12 + 8 * number as u64;
        image.write_distance(place, at, function)?;
        image.write_distance(place + 4, at, entry)?;
    }
    Ok(())
}
