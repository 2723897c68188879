//! Writes P′: P's loaded bytes with a few of them changed, the appended segment,
//! and behind it whatever of the file is not loaded.
//!
//! Done twice with the same edits, for the deployed file and for the server's
//! full one; both have the same addresses. The full one gets the clones' debug
//! info behind P's own and their names in the symbol table; embedded bitcode is
//! left out, the build store has it.

use super::headers::{Moved, PT_GNU_PROPERTY};
use crate::clones::image::Image;
use crate::clones::refusal::Refusal;
use formats::cursor::{u16_at, u32_at, u64_at};
use formats::segments::*;
use object::elf::{
    SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS, SHT_PROGBITS, SHT_SYMTAB, STB_GLOBAL, STT_FUNC,
};
use std::collections::BTreeMap;

/// Everything that changes in P, by address.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// Overwritten bytes: jumps to gates, entries of the dynamic section.
    pub bytes: Vec<(u64, Vec<u8>)>,
    pub unwind_table: Option<(u64, u64)>,
    pub thread_locals: Option<Segment>,
    pub moved: Moved,
}

/// P′ from the bytes of P, full or deployed.
pub fn append(
    file: &[u8],
    image: &Image,
    edits: &Edits,
    with_debug_info: bool,
) -> Result<Vec<u8>, Refusal> {
    let before = segments(file)?;
    let loads = before.iter().filter(|s| s.kind == PT_LOAD);
    let loaded = loads.map(|s| s.offset + s.file_size).max();
    let loaded = usize::try_from(loaded.unwrap_or_default()).unwrap_or(usize::MAX);
    let damaged = || Refusal::unusual("segments out of its file");
    let mut out = file.get(..loaded).ok_or_else(damaged)?.to_vec();

    pad(&mut out, PAGE);
    let code = Segment {
        kind: PT_LOAD,
        flags: PF_R | PF_X,
        offset: out.len() as u64,
        address: image.code.address,
        file_size: image.code.bytes.len() as u64,
        memory_size: image.code.bytes.len() as u64,
        align: PAGE,
    };
    out.extend_from_slice(&image.code.bytes);
    pad(&mut out, PAGE);
    let data = Segment {
        kind: PT_LOAD,
        flags: PF_R | PF_W,
        offset: out.len() as u64,
        address: image.data.address,
        file_size: image.data.bytes.len() as u64,
        memory_size: image.data.bytes.len() as u64 + image.zero,
        align: PAGE,
    };
    out.extend_from_slice(&image.data.bytes);

    for (address, bytes) in &edits.bytes {
        let place = offset_in(&before, *address).ok_or_else(damaged)?;
        put(&mut out, place, bytes)?;
    }
    let after = new_headers(&before, code, data, edits);
    let table: Vec<u8> = after.iter().flat_map(Segment::write).collect();
    put(&mut out, 64, &table)?;
    put(
        &mut out,
        E_PHNUM as u64,
        &(after.len() as u16).to_le_bytes(),
    )?;
    append_sections(file, &mut out, image, edits, &after, with_debug_info)?;
    Ok(out)
}

/// The file offset of an address.
pub fn offset_in(segments: &[Segment], address: u64) -> Option<u64> {
    let mut loads = segments.iter().filter(|s| s.kind == PT_LOAD);
    loads.find_map(|s| s.offset_of(address))
}

fn new_headers(before: &[Segment], code: Segment, data: Segment, edits: &Edits) -> Vec<Segment> {
    let place = |address: u64| {
        let within = address.wrapping_sub(code.address);
        match within < code.file_size {
            true => code.offset + within,
            false => data.offset + address.wrapping_sub(data.address),
        }
    };
    let mut after = Vec::new();
    let last_load = before.iter().rposition(|s| s.kind == PT_LOAD);
    for (number, segment) in before.iter().enumerate() {
        let mut segment = *segment;
        if Moved::is_movable(segment.kind)
            && edits.moved.contains(segment.address, segment.file_size)
        {
            segment.address = segment.address - edits.moved.from + edits.moved.to;
            segment.offset = place(segment.address);
        }
        if let (PT_GNU_EH_FRAME, Some((address, size))) = (segment.kind, edits.unwind_table) {
            segment.address = address;
            segment.offset = place(address);
            segment.file_size = size;
            segment.memory_size = size;
        }
        if let (PT_TLS, Some(thread_locals)) = (segment.kind, edits.thread_locals) {
            segment = thread_locals;
            segment.offset = place(segment.address);
        }
        if segment.kind != PT_GNU_PROPERTY || !edits.moved.without_property {
            after.push(segment);
        }
        if Some(number) == last_load {
            after.extend([code, data]);
        }
    }
    if let Some(mut thread_locals) = edits.thread_locals
        && !before.iter().any(|s| s.kind == PT_TLS)
    {
        thread_locals.offset = place(thread_locals.address);
        after.push(thread_locals);
    }
    let size = (after.len() * PROGRAM_HEADER) as u64;
    for table in after.iter_mut().filter(|s| s.kind == PT_PHDR) {
        table.file_size = size;
        table.memory_size = size;
    }
    after
}

/// A section header as it is in the file.
struct Header(Vec<u8>);

impl Header {
    fn word(&self, at: usize) -> u32 {
        u32_at(&self.0, at).unwrap_or_default()
    }

    fn field(&self, at: usize) -> u64 {
        u64_at(&self.0, at).unwrap_or_default()
    }

    fn set(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn set_word(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

// Offsets in a section header.
const NAME: usize = 0;
const KIND: usize = 4;
const FLAGS: usize = 8;
const ADDRESS: usize = 16;
const OFFSET: usize = 24;
const SIZE: usize = 32;
const LINK: usize = 40;
const ALIGN: usize = 48;

fn append_sections(
    file: &[u8],
    out: &mut Vec<u8>,
    image: &Image,
    edits: &Edits,
    segments: &[Segment],
    with_debug_info: bool,
) -> Result<(), Refusal> {
    let damaged = || Refusal::unusual("section headers that cannot be read");
    let start =
        usize::try_from(u64_at(file, E_SHOFF).ok_or_else(damaged)?).map_err(|_| damaged())?;
    let count = usize::from(u16_at(file, E_SHNUM).ok_or_else(damaged)?);
    let names = usize::from(u16_at(file, E_SHSTRNDX).ok_or_else(damaged)?);
    let end = count
        .checked_mul(SECTION_HEADER)
        .and_then(|n| n.checked_add(start));
    let table = end
        .and_then(|end| file.get(start..end))
        .ok_or_else(damaged)?;
    let mut headers: Vec<Header> = table
        .chunks_exact(SECTION_HEADER)
        .map(|h| Header(h.to_vec()))
        .collect();
    let content = |header: &Header| {
        let start = usize::try_from(header.field(OFFSET)).ok()?;
        file.get(start..start.checked_add(usize::try_from(header.field(SIZE)).ok()?)?)
    };
    let all_names = headers.get(names).and_then(content).ok_or_else(damaged)?;

    // What the sections without addresses hold from now on.
    let mut contents: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    for (number, header) in headers.iter_mut().enumerate().skip(1) {
        if header.field(FLAGS) & SHF_ALLOC.0 != 0 {
            let (address, size) = (header.field(ADDRESS), header.field(SIZE));
            if size > 0 && edits.moved.contains(address, size) {
                let address = address - edits.moved.from + edits.moved.to;
                header.set(ADDRESS, address);
                header.set(OFFSET, offset_in(segments, address).ok_or_else(damaged)?);
            }
            continue;
        }
        let rest = all_names
            .get(header.word(NAME) as usize..)
            .unwrap_or_default();
        let name = rest.split(|b| *b == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        if name.starts_with(".failsketch.") || header.word(KIND) == SHT_NOBITS.0 {
            header.set(SIZE, 0);
            contents.insert(number, Vec::new());
            continue;
        }
        contents.insert(number, content(header).ok_or_else(damaged)?.to_vec());
        by_name.insert(name, number);
    }
    let add_name = |contents: &mut BTreeMap<usize, Vec<u8>>, name: &str| {
        let text = contents.entry(names).or_default();
        let at = text.len() as u32;
        text.extend_from_slice(name.as_bytes());
        text.push(0);
        at
    };
    let code_section = (count..)
        .zip(&image.sections)
        .find(|(_, (name, ..))| *name == CODE_SECTION)
        .map_or(0, |(number, _)| number);
    for (name, address, size) in &image.sections {
        let mut header = Header(vec![0; SECTION_HEADER]);
        let at = add_name(&mut contents, name);
        header.set_word(NAME, at);
        header.set_word(KIND, SHT_PROGBITS.0);
        let more = match *name {
            CODE_SECTION => SHF_EXECINSTR.0,
            DATA_SECTION => SHF_WRITE.0,
            _ => 0,
        };
        header.set(FLAGS, SHF_ALLOC.0 | more);
        header.set(ADDRESS, *address);
        header.set(OFFSET, offset_in(segments, *address).unwrap_or_default());
        header.set(SIZE, *size);
        header.set(ALIGN, 1);
        headers.push(header);
    }
    if with_debug_info {
        for (name, bytes) in &image.debug {
            let number = match by_name.get(name) {
                Some(number) => *number,
                None => {
                    let mut header = Header(vec![0; SECTION_HEADER]);
                    let at = add_name(&mut contents, name);
                    header.set_word(NAME, at);
                    header.set_word(KIND, SHT_PROGBITS.0);
                    header.set(ALIGN, 1);
                    headers.push(header);
                    headers.len() - 1
                }
            };
            contents.entry(number).or_default().extend_from_slice(bytes);
        }
        let symbols = headers.iter().position(|h| h.word(KIND) == SHT_SYMTAB.0);
        if let Some(symbols) = symbols {
            let strings = headers[symbols].word(LINK) as usize;
            add_symbols(&mut contents, symbols, strings, code_section as u16, image);
        }
    }
    for (number, bytes) in &contents {
        let Some(header) = headers.get_mut(*number) else {
            return Err(damaged());
        };
        pad(out, header.field(ALIGN).clamp(1, PAGE));
        header.set(OFFSET, out.len() as u64);
        header.set(SIZE, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
    pad(out, 8);
    let at = out.len() as u64;
    put(out, E_SHOFF as u64, &at.to_le_bytes())?;
    put(out, E_SHNUM as u64, &(headers.len() as u16).to_le_bytes())?;
    out.extend(headers.into_iter().flat_map(|h| h.0));
    Ok(())
}

pub const CODE_SECTION: &str = ".tracked.text";
pub const DATA_SECTION: &str = ".tracked.data";

/// Global symbols go behind all others, so the table's order stays right.
fn add_symbols(
    contents: &mut BTreeMap<usize, Vec<u8>>,
    symbols: usize,
    strings: usize,
    section: u16,
    image: &Image,
) {
    for code in &image.names {
        let text = contents.entry(strings).or_default();
        let name = text.len() as u32;
        text.extend_from_slice(code.name.as_bytes());
        text.push(0);
        let table = contents.entry(symbols).or_default();
        table.extend_from_slice(&name.to_le_bytes());
        table.push(STB_GLOBAL.0 << 4 | STT_FUNC.0);
        table.push(0);
        table.extend_from_slice(&section.to_le_bytes());
        table.extend_from_slice(&code.address.to_le_bytes());
        table.extend_from_slice(&code.size.to_le_bytes());
    }
}
