//! The functions of an ELF file: name, place and bytes, from its symbol table. Pure.
//!
//! Used on both sides of the proof: for a re-compiled object an address is an
//! offset into the section; for a linked file it is a static address.

use object::elf::{STT_FILE, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SectionKind};

/// A defined function. Names of versioned symbols come without the version.
#[derive(Clone, Debug)]
pub struct Function<'d> {
    pub name: &'d str,
    pub section: SectionIndex,
    pub address: u64,
    /// Offset of the first byte in its section.
    pub offset: u64,
    pub bytes: &'d [u8],
    /// The source file's name, where the symbol table gives one (local functions).
    pub file: Option<&'d str>,
    /// Another file may define it as well, as an inline function: the linker takes one.
    pub weak: bool,
    /// False for a label without a type, as hand-written assembly has them.
    pub typed: bool,
}

/// All functions of `file`, and the typeless labels in its code.
pub fn functions<'d>(file: &ElfFile64<'d>) -> Vec<Function<'d>> {
    let mut found = Vec::new();
    let mut source_file = None;
    for symbol in file.symbols() {
        let kind = symbol.elf_symbol().st_type();
        if kind == STT_FILE {
            source_file = symbol.name().ok().filter(|name| !name.is_empty());
            continue;
        }
        let typed = kind == STT_FUNC || kind == STT_GNU_IFUNC;
        let (true, Some(index)) = (typed || kind == STT_NOTYPE, symbol.section_index()) else {
            continue;
        };
        let Ok(section) = file.section_by_index(index) else {
            continue;
        };
        if section.kind() != SectionKind::Text {
            continue;
        }
        let (Ok(name), Ok(data)) = (symbol.name(), section.data()) else {
            continue;
        };
        let Some(offset) = symbol.address().checked_sub(section.address()) else {
            continue;
        };
        let bytes = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(symbol.size()).ok())
            .and_then(|(start, size)| data.get(start..start.checked_add(size)?));
        let Some(bytes) = bytes.filter(|_| !name.is_empty()) else {
            continue;
        };
        found.push(Function {
            name: name.split('@').next().unwrap_or(name),
            section: index,
            address: symbol.address(),
            offset,
            bytes,
            file: source_file.filter(|_| symbol.is_local()),
            weak: symbol.is_weak(),
            typed,
        });
    }
    found
}
