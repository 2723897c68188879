//! What the dynamic loader needs for the appended segment: relocations, the
//! thread-local block, and a build-id of its own.
//!
//! Thread-local variables of an executable lie below the thread pointer, at
//! offsets that P's code has as constants. The runtime's word goes *below* P's
//! block: the initial image is P's with a prefix, and no offset changes.
//!
//! A file with other code is another build, so its build-id is another: the hash
//! of the deployed file.

use super::original::{DynamicRelocation, Original};
use crate::clones::image::Image;
use crate::clones::image::link::Linker;
use crate::clones::refusal::Refusal;
use formats::cursor::{u32_at, u64_at};
use formats::segments::{PF_R, PT_NOTE, PT_TLS, Segment, put, segments};
use object::elf::{
    DT_RELA, DT_RELACOUNT, DT_RELASZ, NT_GNU_BUILD_ID, R_X86_64_DTPOFF64, R_X86_64_IRELATIVE,
    R_X86_64_RELATIVE, R_X86_64_TPOFF64,
};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use sha2::{Digest, Sha256};

const ENTRY: u64 = 24;

/// The relocation table's new place, if the program needs one.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    address: u64,
    capacity: u64,
}

/// Makes room for P's relocations and `pointers` more.
pub fn reserve(original: &Original<'_>, image: &mut Image, pointers: u64) -> Option<Table> {
    original.dynamic_entry(DT_RELA.0)?;
    let in_image = initialised_thread_locals(original).count() as u64;
    let capacity = original.relocations.len() as u64 + in_image + pointers;
    Some(Table {
        address: image.code.reserve(capacity * ENTRY, 8),
        capacity,
    })
}

/// P's relocations within the initial image of thread-local variables.
fn initialised_thread_locals<'o>(
    original: &'o Original<'_>,
) -> impl Iterator<Item = &'o DynamicRelocation> {
    let image = original.segment(PT_TLS).map_or(0..0, |tls| {
        tls.address..tls.address.saturating_add(tls.file_size)
    });
    original
        .relocations
        .iter()
        .filter(move |r| image.contains(&r.place))
}

/// Lays out the thread-local block with the runtime's part in front.
pub fn place_thread_locals(
    original: &Original<'_>,
    image: &mut Image,
    linker: &mut Linker<'_, '_>,
) -> Result<Option<Segment>, Refusal> {
    let (size, own_align) = linker.thread_local_size();
    if size == 0 {
        return Ok(None);
    }
    let before = original.segment(PT_TLS).copied();
    let align = before.map_or(own_align, |tls| tls.align.max(own_align));
    if let Some(tls) = before
        && tls.address % tls.align.max(1) != 0
    {
        return Err(Refusal::unusual(
            "a thread-local block of uncommon alignment",
        ));
    }
    // The whole block, which ends where P's ends, is a multiple of its alignment.
    let block = original.thread_block();
    let prefix = (block + size).next_multiple_of(align) - block;
    let bytes = before.and_then(|tls| original.bytes_at(tls.address, tls.file_size));
    let bytes = bytes.unwrap_or_default();
    let address = image.data.reserve(prefix + bytes.len() as u64, align);
    image.write(address + prefix, bytes)?;
    linker.place_thread_locals(-((block + prefix) as i64));
    Ok(Some(Segment {
        kind: PT_TLS,
        flags: PF_R,
        offset: 0,
        address,
        file_size: prefix + bytes.len() as u64,
        memory_size: prefix + before.map_or(0, |tls| tls.memory_size),
        align,
    }))
}

/// The slot of the program's first initialiser, and the function in it.
pub fn first_initialiser(full: &[u8], original: &Original<'_>) -> Result<(u64, u64), Refusal> {
    let none = || Refusal::unusual("no initialiser from which to start the runtime");
    let file: ElfFile64<'_> = ElfFile64::parse(full)?;
    let section = file.section_by_name(".init_array").ok_or_else(none)?;
    let slot = section.address();
    let relocated = original
        .relocations
        .iter()
        .find(|r| r.place == slot && r.kind == R_X86_64_RELATIVE.0)
        .map(|r| r.addend as u64);
    let stored = original
        .bytes_at(slot, 8)
        .and_then(|bytes| u64_at(bytes, 0));
    let function = relocated.or(stored).filter(|f| *f != 0).ok_or_else(none)?;
    Ok((slot, function))
}

/// Writes the relocation table and says what changes in the dynamic section.
pub fn write(
    original: &Original<'_>,
    image: &mut Image,
    table: Option<Table>,
    thread_locals: Option<Segment>,
    (slot, initialiser): (u64, u64),
) -> Result<Vec<(u64, Vec<u8>)>, Refusal> {
    let Some(table) = table else {
        if image.relocations.is_empty() {
            return Ok(Vec::new());
        }
        return Err(Refusal::unusual("no relocation table that could grow"));
    };
    let before = original.segment(PT_TLS);
    let size = before.map_or(0, |tls| tls.memory_size);
    let prefix = thread_locals.map_or(0, |new| new.memory_size - size);
    let mut all = original.relocations.clone();
    if let (Some(old), Some(new)) = (before, thread_locals) {
        all.extend(
            initialised_thread_locals(original).map(|relocation| DynamicRelocation {
                place: relocation.place - old.address + new.address + prefix,
                ..*relocation
            }),
        );
    }
    for relocation in &mut all {
        if relocation.place == slot && relocation.kind == R_X86_64_RELATIVE.0 {
            relocation.addend = initialiser as i64;
        }
        // Offsets within the program's own block, which now begins earlier.
        let within = [R_X86_64_DTPOFF64.0, R_X86_64_TPOFF64.0].contains(&relocation.kind);
        if within && relocation.symbol == 0 {
            relocation.addend += prefix as i64;
        }
    }
    all.extend(image.relocations.iter().copied());
    // The loader counts on plain ones to come first, and functions that choose
    // an implementation must find everything else done.
    all.sort_by_key(|r| match r.kind {
        kind if kind == R_X86_64_RELATIVE.0 => 0,
        kind if kind == R_X86_64_IRELATIVE.0 => 2,
        _ => 1,
    });
    if all.len() as u64 > table.capacity {
        return Err(Refusal::unusual("more relocations than were counted"));
    }
    for (number, relocation) in all.iter().enumerate() {
        let at = table.address + ENTRY * number as u64;
        let info = u64::from(relocation.symbol) << 32 | u64::from(relocation.kind);
        image.write(at, &relocation.place.to_le_bytes())?;
        image.write(at + 8, &info.to_le_bytes())?;
        image.write(at + 16, &relocation.addend.to_le_bytes())?;
    }
    let relative = all.iter().filter(|r| r.kind == R_X86_64_RELATIVE.0).count() as u64;
    let values = [
        (DT_RELA, table.address),
        (DT_RELASZ, ENTRY * all.len() as u64),
        (DT_RELACOUNT, relative),
    ];
    let mut edits = Vec::new();
    for (tag, value) in values {
        if let Some((entry, _)) = original.dynamic_entry(tag.0) {
            edits.push((entry + 8, value.to_le_bytes().to_vec()));
        }
    }
    Ok(edits)
}

/// Gives both forms of P′ the build-id that follows from the deployed one.
pub fn give_build_id(full: &mut [u8], deployed: &mut [u8]) -> Result<(), Refusal> {
    let hash = Sha256::digest(&*deployed);
    for file in [full, deployed] {
        let segments = segments(file)?;
        for note in segments.iter().filter(|s| s.kind == PT_NOTE) {
            let Some((at, size)) = build_id_in(file, note) else {
                continue;
            };
            let length = size.min(hash.len());
            put(file, at, &hash[..length])?;
        }
    }
    Ok(())
}

/// Where the build-id stands: offset in the file and size.
fn build_id_in(file: &[u8], note: &Segment) -> Option<(u64, usize)> {
    let mut at = usize::try_from(note.offset).ok()?;
    let end = at.checked_add(usize::try_from(note.file_size).ok()?)?;
    let align = if note.align == 8 { 8 } else { 4 };
    while at + 12 <= end {
        let name = u32_at(file, at)? as usize;
        let description = u32_at(file, at + 4)? as usize;
        let start = (at + 12 + name).next_multiple_of(align);
        if u32_at(file, at + 8)? == NT_GNU_BUILD_ID.0 && file.get(at + 12..at + 16)? == b"GNU\0" {
            return Some((start as u64, description));
        }
        at = start.checked_add(description)?.next_multiple_of(align);
    }
    None
}
