//! P as it was linked: its code, symbols and dynamic relocations, by name and address.
//!
//! Read from the full binary, because the deployed one may lack local symbols;
//! both have the same addresses.

use crate::clones::refusal::Refusal;
use formats::cursor::{i32_at, u32_at, u64_at};
use formats::segments::{PAGE, PT_DYNAMIC, PT_INTERP, PT_LOAD, PT_TLS, Segment, segments};
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use object::elf::{
    DF_1_PIE, DT_FLAGS_1, DT_RELA, DT_RELASZ, R_X86_64_GLOB_DAT, STT_FILE, STT_FUNC, STT_GNU_IFUNC,
    STT_TLS, STV_HIDDEN,
};
use object::read::elf::ElfFile64;
use object::{Object, ObjectKind, ObjectSection, ObjectSymbol};
use std::collections::HashMap;

/// A function's symbol.
#[derive(Clone, Copy, Debug)]
pub struct Function<'d> {
    pub address: u64,
    pub size: u64,
    /// The source file's name, for local functions.
    pub file: Option<&'d str>,
}

/// What a name means in P.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Address(u64),
    /// Its offset from the thread pointer.
    ThreadLocal(i64),
    /// The loader knows it, by this number in the dynamic symbol table.
    Imported(u32),
}

/// One entry of the dynamic relocation table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicRelocation {
    pub place: u64,
    pub kind: u32,
    pub symbol: u32,
    pub addend: i64,
}

pub struct Original<'d> {
    bytes: &'d [u8],
    pub segments: Vec<Segment>,
    /// Addresses slide: pointers in data need relocations.
    pub slides: bool,
    pub relocations: Vec<DynamicRelocation>,
    functions: HashMap<&'d str, Vec<Function<'d>>>,
    names_at: HashMap<u64, Vec<&'d str>>,
    /// With each meaning, whether it is local or hidden.
    meanings: HashMap<&'d str, Vec<(Meaning, bool)>>,
    /// Words that the loader fills with the address of a symbol.
    slots: HashMap<&'d str, u64>,
    /// Sizes of the sections without addresses.
    pub debug_sizes: HashMap<&'d str, u64>,
}

impl<'d> Original<'d> {
    pub fn read(bytes: &'d [u8]) -> Result<Original<'d>, Refusal> {
        let file: ElfFile64<'d> = ElfFile64::parse(bytes)?;
        let segments = segments(bytes)?;
        let slides = file.kind() == ObjectKind::Dynamic;
        let mut original = Original {
            bytes,
            segments,
            slides,
            relocations: Vec::new(),
            functions: HashMap::new(),
            names_at: HashMap::new(),
            meanings: HashMap::new(),
            slots: HashMap::new(),
            debug_sizes: HashMap::new(),
        };
        let is_program = original
            .dynamic(DT_FLAGS_1.0)
            .is_some_and(|v| v & DF_1_PIE.0 != 0)
            || original.segment(PT_INTERP).is_some();
        if slides && !is_program {
            return Err(Refusal::SharedObject);
        }
        for section in file.sections().filter(|s| s.address() == 0) {
            if section.compressed_file_range()?.format != object::CompressionFormat::None {
                return Err(Refusal::unusual("compressed debug info"));
            }
            if let Ok(name) = section.name() {
                original.debug_sizes.insert(name, section.size());
            }
        }
        original.read_dynamic_symbols(&file)?;
        original.read_symbols(&file);
        Ok(original)
    }

    fn read_symbols(&mut self, file: &ElfFile64<'d>) {
        let mut source_file = None;
        for symbol in file.symbols() {
            let Ok(name) = symbol.name() else { continue };
            let kind = symbol.elf_symbol().st_type();
            if kind == STT_FILE {
                source_file = Some(name).filter(|name| !name.is_empty());
                continue;
            }
            let name = name.split('@').next().unwrap_or(name);
            // An undefined function with an address has its entry in the PLT.
            if name.is_empty() || (symbol.is_undefined() && symbol.address() == 0) {
                continue;
            }
            let meaning = if kind == STT_TLS {
                Meaning::ThreadLocal(symbol.address() as i64 - self.thread_block() as i64)
            } else {
                Meaning::Address(symbol.address())
            };
            let hidden = symbol.elf_symbol().st_visibility() == STV_HIDDEN;
            let private = symbol.is_local() || hidden;
            let meanings = self.meanings.entry(name).or_default();
            if !meanings.contains(&(meaning, private)) {
                meanings.push((meaning, private));
            }
            if kind == STT_FUNC || kind == STT_GNU_IFUNC {
                self.names_at
                    .entry(symbol.address())
                    .or_default()
                    .push(name);
                self.functions.entry(name).or_default().push(Function {
                    address: symbol.address(),
                    size: symbol.size(),
                    file: source_file.filter(|_| symbol.is_local()),
                });
            }
        }
    }

    fn read_dynamic_symbols(&mut self, file: &ElfFile64<'d>) -> Result<(), Refusal> {
        let mut imported = HashMap::new();
        for symbol in file.dynamic_symbols() {
            let number = symbol.index().0 as u32;
            let Ok(name) = symbol.name() else { continue };
            if symbol.is_undefined() {
                imported.insert(number, name);
                if symbol.address() == 0 {
                    let meaning = (Meaning::Imported(number), false);
                    self.meanings.entry(name).or_default().push(meaning);
                }
            } else if symbol.elf_symbol().st_type() == STT_TLS {
                return Err(Refusal::unusual(
                    "thread-local variables that libraries may use",
                ));
            }
        }
        if let (Some(at), Some(size)) = (self.dynamic(DT_RELA.0), self.dynamic(DT_RELASZ.0)) {
            let table = self.bytes_at(at, size);
            let table = table.ok_or_else(|| Refusal::unusual("a relocation table out of place"))?;
            for entry in table.chunks_exact(24) {
                let field = |at| u64_at(entry, at).unwrap_or_default();
                let relocation = DynamicRelocation {
                    place: field(0),
                    kind: field(8) as u32,
                    symbol: (field(8) >> 32) as u32,
                    addend: field(16) as i64,
                };
                self.relocations.push(relocation);
                let name = imported.get(&relocation.symbol);
                if let Some(name) = name.filter(|_| relocation.kind == R_X86_64_GLOB_DAT.0) {
                    self.slots.insert(name, relocation.place);
                }
            }
        }
        Ok(())
    }

    pub fn segment(&self, kind: u32) -> Option<&Segment> {
        self.segments.iter().find(|s| s.kind == kind)
    }

    /// The place in memory and the value of an entry of the dynamic section.
    pub fn dynamic_entry(&self, tag: i64) -> Option<(u64, u64)> {
        let dynamic = self.segment(PT_DYNAMIC)?;
        let table = self.bytes_at(dynamic.address, dynamic.file_size)?;
        let mut entries = table.chunks_exact(16).enumerate();
        let (number, entry) = entries.find(|(_, e)| u64_at(e, 0) == Some(tag as u64))?;
        Some((dynamic.address + 16 * number as u64, u64_at(entry, 8)?))
    }

    fn dynamic(&self, tag: i64) -> Option<u64> {
        self.dynamic_entry(tag).map(|(_, value)| value)
    }

    /// The size of the thread-local block: the thread pointer points to its end.
    pub fn thread_block(&self) -> u64 {
        self.segment(PT_TLS)
            .map_or(0, |tls| tls.memory_size.next_multiple_of(tls.align.max(1)))
    }

    /// The first page behind everything.
    pub fn end(&self) -> u64 {
        let loads = self.segments.iter().filter(|s| s.kind == PT_LOAD);
        let end = loads.map(Segment::end).max().unwrap_or_default();
        end.next_multiple_of(PAGE)
    }

    /// File bytes by address.
    pub fn bytes_at(&self, address: u64, length: u64) -> Option<&'d [u8]> {
        let loads = self.segments.iter().filter(|s| s.kind == PT_LOAD);
        let start = loads.clone().find_map(|s| s.offset_of(address))?;
        let start = usize::try_from(start).ok()?;
        self.bytes
            .get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    /// A function's bytes and the padding behind it, which is never executed.
    pub fn with_padding(&self, address: u64, size: u64) -> Option<&'d [u8]> {
        const MOST: u64 = 16;
        let code = self.bytes_at(address, size)?;
        let end = address + size;
        let nothing_until = (end..end + MOST).find(|at| self.names_at.contains_key(at));
        let limit = nothing_until.unwrap_or(end + MOST);
        let Some(behind) = self.bytes_at(end, limit - end) else {
            return Some(code);
        };
        let mut decoder = Decoder::with_ip(64, behind, end, DecoderOptions::NONE);
        let mut padding = 0;
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if ![Mnemonic::Nop, Mnemonic::Int3].contains(&instruction.mnemonic()) {
                break;
            }
            padding += instruction.len() as u64;
        }
        self.bytes_at(address, size + padding)
    }

    pub fn word_at(&self, address: u64) -> Option<i32> {
        i32_at(self.bytes_at(address, 4)?, 0)
    }

    pub fn functions_named(&self, name: &str) -> &[Function<'d>] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// The functions that begin at `address`.
    pub fn names_at(&self, address: u64) -> &[&'d str] {
        self.names_at.get(&address).map_or(&[], Vec::as_slice)
    }

    /// What a name means, if it means one thing. A `hidden` name is never
    /// another module's visible one.
    pub fn meaning(&self, name: &str, hidden: bool) -> Option<Meaning> {
        let all = self.meanings.get(name)?;
        let visible = || all.iter().filter(|(_, private)| !private && !hidden);
        // A definition goes before the import of a symbol that was copied.
        let defined = visible().find(|m| !matches!(m.0, Meaning::Imported(_)));
        if let Some((meaning, _)) = defined.or_else(|| visible().next()) {
            return Some(*meaning);
        }
        let mut private = all.iter().filter(|(_, private)| *private);
        let (one, _) = private.next()?;
        private.next().is_none().then_some(*one)
    }

    pub fn slot(&self, name: &str) -> Option<u64> {
        self.slots.get(name).copied()
    }

    /// The table that finds unwind entries: its address and its pairs, both as addresses.
    pub fn unwind_table(&self, header: &Segment) -> Result<Vec<(u64, u64)>, Refusal> {
        let unusual = || Refusal::unusual("an unwind table of an uncommon form");
        let bytes = self.bytes_at(header.address, header.file_size);
        let bytes = bytes.ok_or_else(unusual)?;
        // Version 1; relative pointer, plain count, table relative to itself (LSB 10.6.2).
        if bytes.get(..4) != Some(&[1, 0x1b, 0x03, 0x3b]) {
            return Err(unusual());
        }
        let count = u32_at(bytes, 8).ok_or_else(unusual)? as usize;
        let table = bytes.get(12..12 + 8 * count).ok_or_else(unusual)?;
        let address = |entry: &[u8], at: usize| {
            let relative = i64::from(i32_at(entry, at).unwrap_or_default());
            header.address.wrapping_add_signed(relative)
        };
        Ok(table
            .chunks_exact(8)
            .map(|entry| (address(entry, 0), address(entry, 4)))
            .collect())
    }
}
