//! The objects that the appended segment is made of, and which of their sections it takes.
//!
//! Code and its unwind entries are taken, and whatever they refer to within the
//! object: jump tables, constants of the code, exception tables. Constants of
//! the program are not: references to them lead to P's own, but for those that P's
//! code does not give away and whose address means nothing (string literals): hooks may
//! make the compiler refer to one that it did without. Debug info is taken for the
//! server's copy.

use super::bind::Bindings;
use crate::clones::refusal::Refusal;
use object::elf::*;
use object::read::elf::ElfFile64;
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags,
    SectionIndex, SymbolIndex,
};
use std::collections::BTreeSet;

/// Where a section goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Code,
    Constant,
    Unwind,
    Data,
    Zero,
    ThreadLocal,
    Debug,
}

/// A section that is taken.
pub struct Section<'d> {
    pub index: SectionIndex,
    pub name: &'d str,
    pub part: Part,
    /// Linkers may merge what is in it with equal constants: the compiler has promised
    /// that nobody compares addresses (LLVM's `unnamed_addr`).
    pub merges: bool,
    pub bytes: &'d [u8],
    pub size: u64,
    pub align: u64,
    pub relocations: Vec<Relocation>,
}

#[derive(Clone, Copy, Debug)]
pub struct Relocation {
    pub offset: u64,
    pub kind: RelocationType,
    pub symbol: SymbolIndex,
    pub addend: i64,
}

/// One object.
pub struct Input<'d> {
    pub file: ElfFile64<'d>,
    /// What its names mean in P; the runtime has none there.
    pub bindings: Option<&'d Bindings>,
    pub sections: Vec<Section<'d>>,
}

impl<'d> Input<'d> {
    pub fn read(bytes: &'d [u8], bindings: Option<&'d Bindings>) -> Result<Input<'d>, Refusal> {
        let file: ElfFile64<'d> = ElfFile64::parse(bytes)?;
        let mut known = Vec::new();
        for section in file.sections() {
            known.extend(read_section(&section)?);
        }
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        let mut reached: Vec<usize> = (0..known.len())
            .filter(|at| is_root(&known[*at], bindings.is_none()))
            .collect();
        while let Some(at) = reached.pop() {
            if !taken.insert(at) || known[at].part == Part::Debug {
                continue;
            }
            for relocation in &known[at].relocations {
                let symbol = file.symbol_by_index(relocation.symbol)?;
                let target = symbol.section_index();
                let target = known.iter().position(|s| Some(s.index) == target);
                // Names that others can see lead to P, except the runtime's.
                if !symbol.is_local()
                    && let Some(bindings) = bindings
                    && (bindings.know(symbol.name()?) || target.is_none_or(|t| !known[t].merges))
                {
                    continue;
                }
                reached.extend(target);
            }
        }
        let mut number = 0;
        known.retain(|_| {
            number += 1;
            taken.contains(&(number - 1))
        });
        Ok(Input {
            file,
            bindings,
            sections: known,
        })
    }

    pub fn section(&self, index: SectionIndex) -> Option<usize> {
        self.sections.iter().position(|s| s.index == index)
    }
}

fn is_root(section: &Section<'_>, is_runtime: bool) -> bool {
    match section.part {
        Part::Code | Part::Unwind | Part::Debug => true,
        Part::Constant | Part::Data | Part::Zero | Part::ThreadLocal => is_runtime,
    }
}

fn read_section<'d>(section: &impl ObjectSection<'d>) -> Result<Option<Section<'d>>, Refusal> {
    let name = section.name()?;
    let SectionFlags::Elf { sh_flags, sh_type } = section.flags() else {
        return Ok(None);
    };
    let has = |flag: object::elf::SectionFlags| sh_flags.0 & flag.0 != 0;
    let part = if !has(SHF_ALLOC) {
        match name.starts_with(".debug_") {
            true => Part::Debug,
            false => return Ok(None),
        }
    } else if sh_type == SHT_INIT_ARRAY || name.starts_with(".init_array") {
        // The appended segment is entered by a jump of our own.
        return Ok(None);
    } else if has(SHF_TLS) {
        Part::ThreadLocal
    } else if name == ".eh_frame" {
        Part::Unwind
    } else if has(SHF_EXECINSTR) {
        Part::Code
    } else if !has(SHF_WRITE) {
        Part::Constant
    } else if sh_type == SHT_NOBITS {
        Part::Zero
    } else {
        Part::Data
    };
    let mut relocations = Vec::new();
    for (offset, relocation) in section.relocations() {
        let (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(symbol)) =
            (relocation.flags(), relocation.target())
        else {
            continue;
        };
        relocations.push(Relocation {
            offset,
            kind: r_type,
            symbol,
            addend: relocation.addend(),
        });
    }
    Ok(Some(Section {
        index: section.index(),
        name,
        part,
        merges: part == Part::Constant && has(SHF_MERGE),
        bytes: section.data()?,
        size: section.size(),
        align: section.align().max(1),
        relocations,
    }))
}
