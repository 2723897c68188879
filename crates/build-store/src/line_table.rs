//! Which line each instruction is of, as debug info says; for comparing two builds. Pure.
//!
//! Equal code is not enough of a proof: a module whose line numbers are wrong compiles to
//! the same code, and every sketch of it would point at wrong statements. So the line
//! table of an object that was compiled again must agree with the binary's.
//!
//! Objects are not linked: their addresses are relocations. They are resolved here into
//! addresses that exist nowhere, one range for each section, see [`address_in_object`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use gimli::{EndianSlice, LittleEndian, SectionId};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SectionKind};

/// A row: address, line, column and file.
type Row = (u64, u64, u64, Arc<str>);

/// The rows of a file, sorted.
#[derive(Debug, Default)]
pub struct LineTable {
    rows: Vec<Row>,
}

impl LineTable {
    /// Of a linked file, whose compressed sections were checked for their size. What cannot
    /// be read has no rows.
    pub fn of_linked(file: &ElfFile64<'_>) -> Self {
        Self::load(|id| {
            let section = file.section_by_name(id.name())?;
            section.uncompressed_data().ok()
        })
    }

    /// Of an object file, with addresses as [`address_in_object`] gives them.
    pub fn of_object(file: &ElfFile64<'_>) -> Self {
        Self::load(|id| {
            let section = file.section_by_name(id.name())?;
            let data = section.data().ok()?.to_vec();
            Some(Cow::Owned(relocated(file, section.index(), data)))
        })
    }

    fn load<'d>(section: impl Fn(SectionId) -> Option<Cow<'d, [u8]>>) -> Self {
        let load =
            |id| -> Result<Cow<'d, [u8]>, gimli::Error> { Ok(section(id).unwrap_or_default()) };
        let Ok(sections) = gimli::DwarfSections::load(load) else {
            return LineTable::default();
        };
        let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
        let mut rows = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if let Ok(unit) = dwarf.unit(header) {
                add_unit(&dwarf, &unit, &mut rows);
            }
        }
        rows.sort_unstable();
        rows.dedup();
        LineTable { rows }
    }

    /// Are the rows of `length` bytes at `at` also those at `other_at` of `other`? That one
    /// may have more: the linker lays equal functions over each other.
    pub fn is_within(&self, at: u64, length: u64, other: &LineTable, other_at: u64) -> bool {
        let first = self.rows.partition_point(|row| row.0 < at);
        self.rows[first..]
            .iter()
            .take_while(|row| row.0 - at < length)
            .all(|(address, line, column, file)| {
                let there = other_at.wrapping_add(address - at);
                let row = (there, *line, *column, Arc::clone(file));
                other.rows.binary_search(&row).is_ok()
            })
    }
}

type Slice<'d> = EndianSlice<'d, LittleEndian>;

fn add_unit<'d>(
    dwarf: &gimli::Dwarf<Slice<'d>>,
    unit: &gimli::Unit<Slice<'d>>,
    rows: &mut Vec<Row>,
) {
    let Some(program) = unit.line_program.clone() else {
        return;
    };
    let mut names: HashMap<u64, Arc<str>> = HashMap::new();
    let mut steps = program.rows();
    while let Ok(Some((header, row))) = steps.next_row() {
        if row.end_sequence() {
            continue;
        }
        let file = names.entry(row.file_index()).or_insert_with(|| {
            let text = |value| {
                let slice = dwarf.attr_string(unit, value).ok()?;
                Some(slice.to_string_lossy().into_owned())
            };
            let Some(file) = header.file(row.file_index()) else {
                return Arc::from("");
            };
            let folder = file.directory(header).and_then(text).unwrap_or_default();
            let name = text(file.path_name()).unwrap_or_default();
            Arc::from(format!("{folder}/{name}"))
        });
        let column = match row.column() {
            gimli::ColumnType::LeftEdge => 0,
            gimli::ColumnType::Column(column) => column.get(),
        };
        let line = row.line().map_or(0, |line| line.get());
        rows.push((row.address(), line, column, Arc::clone(file)));
    }
}

/// The address that stands for `offset` in a section of code of an object file.
pub fn address_in_object(section: SectionIndex, offset: u64) -> u64 {
    ((section.0 as u64 + 1) << 40).wrapping_add(offset)
}

/// Writes into `data`, the section `index`, what its relocations say.
fn relocated(file: &ElfFile64<'_>, index: SectionIndex, mut data: Vec<u8>) -> Vec<u8> {
    let Ok(section) = file.section_by_index(index) else {
        return data;
    };
    for (offset, relocation) in section.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            continue;
        };
        let Ok(symbol) = file.symbol_by_index(symbol) else {
            continue;
        };
        let plain = symbol.address().wrapping_add_signed(relocation.addend());
        let target = symbol.section_index();
        let code = target.filter(|index| {
            let section = file.section_by_index(*index);
            section.is_ok_and(|section| section.kind() == SectionKind::Text)
        });
        let value = match code {
            Some(section) => address_in_object(section, plain),
            None => plain,
        };
        let bytes = usize::from(relocation.size() / 8);
        let place = usize::try_from(offset).ok();
        let place = place.and_then(|start| data.get_mut(start..start.checked_add(bytes)?));
        if let Some(place) = place.filter(|_| bytes <= 8) {
            place.copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
    }
    data
}
