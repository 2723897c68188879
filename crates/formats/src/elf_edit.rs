//! Renaming and appending sections of an ELF file in place.
//!
//! Nothing that is in the file moves: a longer copy of the section names, new
//! section contents and a new section table go to the end of the file, and then
//! the few header fields that refer to them are overwritten. The file keeps its
//! inode and mode, and is valid at every moment, because what is referred to is
//! written before what refers to it. Field offsets: ELF-64 Object File Format,
//! "File Header" and "Sections".
//!
//! Deliberately absent: 32-bit and big-endian files, which are left as they are.

use crate::cursor;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Sizes and offsets of the ELF-64 file header and section header.
const FILE_HEADER: usize = 64;
const SECTION_HEADER: usize = 64;
const E_TYPE: usize = 16;
const E_SHOFF: usize = 40;
const E_SHENTSIZE: usize = 58;
const E_SHNUM: usize = 60;
const E_SHSTRNDX: usize = 62;
const SH_NAME: usize = 0;
const SH_TYPE: usize = 4;
const SH_OFFSET: usize = 24;
const SH_SIZE: usize = 32;
const SH_LINK: usize = 40;
const SH_ADDRALIGN: usize = 48;
const SHN_LORESERVE: u64 = 0xff00;
const SHN_XINDEX: u16 = 0xffff;
const SHT_PROGBITS: u32 = 1;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

#[derive(Debug)]
pub enum EditError {
    Io(io::Error),
    Malformed(&'static str),
}

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EditError::Io(error) => write!(f, "{error}"),
            EditError::Malformed(what) => write!(f, "its ELF headers are malformed ({what})"),
        }
    }
}

impl From<io::Error> for EditError {
    fn from(error: io::Error) -> Self {
        EditError::Io(error)
    }
}

/// Devices and pipes (`-o /dev/null`) are not ours to touch.
pub fn is_regular_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// A 64-bit little-endian ELF file, open for changes of its section table.
pub struct ElfEditor {
    file: File,
    header: [u8; FILE_HEADER],
    table_offset: u64,
    /// The section table, kept equal to what is on disk.
    table: Vec<u8>,
    names_index: usize,
    names: Vec<u8>,
}

impl ElfEditor {
    /// Opens `path`; `None` if it is no 64-bit little-endian ELF file with sections.
    pub fn open(path: &Path) -> Result<Option<Self>, EditError> {
        let mut header = [0; FILE_HEADER];
        let length = {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            if length < FILE_HEADER as u64 {
                return Ok(None);
            }
            file.read_exact_at(&mut header, 0)?;
            length
        };
        // Magic, ELFCLASS64, ELFDATA2LSB.
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return Ok(None);
        }
        let table_offset = u64_at(&header, E_SHOFF);
        if table_offset == 0 || u16_at(&header, E_SHENTSIZE) as usize != SECTION_HEADER {
            return Ok(None);
        }
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let first = read_range(&file, table_offset, SECTION_HEADER as u64, length)?;
        // Counts that do not fit into the header are in the first section header.
        let count = match u16_at(&header, E_SHNUM) {
            0 => u64_at(&first, SH_SIZE),
            count => u64::from(count),
        };
        let names_index = match u16_at(&header, E_SHSTRNDX) {
            SHN_XINDEX => u32_at(&first, SH_LINK) as usize,
            index => usize::from(index),
        };
        let size = count
            .checked_mul(SECTION_HEADER as u64)
            .ok_or(EditError::Malformed("section count"))?;
        let table = read_range(&file, table_offset, size, length)?;
        let names_header = table
            .chunks_exact(SECTION_HEADER)
            .nth(names_index)
            .ok_or(EditError::Malformed("index of the section names"))?;
        let (offset, size) = (
            u64_at(names_header, SH_OFFSET),
            u64_at(names_header, SH_SIZE),
        );
        let names = read_range(&file, offset, size, length)?;
        Ok(Some(ElfEditor {
            file,
            header,
            table_offset,
            table,
            names_index,
            names,
        }))
    }

    /// Is it a program or shared object (and not an object file)?
    pub fn is_linked(&self) -> bool {
        matches!(u16_at(&self.header, E_TYPE), ET_EXEC | ET_DYN)
    }

    pub fn has_section(&self, name: &str) -> bool {
        self.sections_named(name).next().is_some()
    }

    fn sections_named(&self, name: &str) -> impl Iterator<Item = usize> {
        self.table
            .chunks_exact(SECTION_HEADER)
            .enumerate()
            .filter(move |(_, section)| self.name_at(u32_at(section, SH_NAME)) == name.as_bytes())
            .map(|(index, _)| index)
    }

    fn name_at(&self, offset: u32) -> &[u8] {
        let rest = self.names.get(offset as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Renames sections; does nothing, not even write, if none has an old name.
    pub fn rename_sections(&mut self, renamings: &[(&str, &str)]) -> Result<(), EditError> {
        let mut changes = Vec::new();
        let mut names = self.names.clone();
        for (old, new) in renamings {
            let sections: Vec<usize> = self.sections_named(old).collect();
            if !sections.is_empty() {
                let name = add_name(&mut names, new)?;
                changes.extend(sections.into_iter().map(|section| (section, name)));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.write_names(names)?;
        for (section, name) in changes {
            let at = section * SECTION_HEADER + SH_NAME;
            self.table[at..at + 4].copy_from_slice(&name.to_le_bytes());
            self.write_table(at, 4)?;
        }
        Ok(())
    }

    /// Appends a section that is not loaded.
    pub fn append_section(&mut self, name: &str, content: &[u8]) -> Result<(), EditError> {
        let mut names = self.names.clone();
        let name = add_name(&mut names, name)?;
        self.write_names(names)?;

        let content_offset = self.append(content, 1)?;
        let mut section = [0; SECTION_HEADER];
        section[SH_NAME..][..4].copy_from_slice(&name.to_le_bytes());
        section[SH_TYPE..][..4].copy_from_slice(&SHT_PROGBITS.to_le_bytes());
        section[SH_OFFSET..][..8].copy_from_slice(&content_offset.to_le_bytes());
        section[SH_SIZE..][..8].copy_from_slice(&(content.len() as u64).to_le_bytes());
        section[SH_ADDRALIGN..][..8].copy_from_slice(&1_u64.to_le_bytes());

        let mut table = self.table.clone();
        table.extend(section);
        let count = (table.len() / SECTION_HEADER) as u64;
        let mut header = self.header;
        let short_count = if count < SHN_LORESERVE {
            count as u16
        } else {
            table[SH_SIZE..][..8].copy_from_slice(&count.to_le_bytes());
            0
        };
        let table_offset = self.append(&table, 8)?;
        header[E_SHOFF..][..8].copy_from_slice(&table_offset.to_le_bytes());
        header[E_SHNUM..][..2].copy_from_slice(&short_count.to_le_bytes());
        self.file.write_all_at(&header, 0)?;
        self.header = header;
        self.table = table;
        self.table_offset = table_offset;
        Ok(())
    }

    /// Puts a longer copy of the section names at the end of the file. It may
    /// be the symbols' string table too, as LLVM writes it: all old offsets hold.
    fn write_names(&mut self, names: Vec<u8>) -> Result<(), EditError> {
        let offset = self.append(&names, 1)?;
        let at = self.names_index * SECTION_HEADER;
        self.table[at + SH_OFFSET..][..8].copy_from_slice(&offset.to_le_bytes());
        self.table[at + SH_SIZE..][..8].copy_from_slice(&(names.len() as u64).to_le_bytes());
        // Offset and size are neighbours: one write changes both.
        self.write_table(at + SH_OFFSET, 16)?;
        self.names = names;
        Ok(())
    }

    fn append(&self, bytes: &[u8], align: u64) -> Result<u64, EditError> {
        let offset = self.file.metadata()?.len().next_multiple_of(align);
        self.file.write_all_at(bytes, offset)?;
        Ok(offset)
    }

    fn write_table(&self, at: usize, length: usize) -> Result<(), EditError> {
        let bytes = &self.table[at..at + length];
        self.file
            .write_all_at(bytes, self.table_offset + at as u64)?;
        Ok(())
    }
}

fn add_name(names: &mut Vec<u8>, name: &str) -> Result<u32, EditError> {
    let offset =
        u32::try_from(names.len()).map_err(|_| EditError::Malformed("section names too long"))?;
    names.extend(name.as_bytes());
    names.push(0);
    Ok(offset)
}

fn read_range(file: &File, offset: u64, size: u64, length: u64) -> Result<Vec<u8>, EditError> {
    let is_inside = offset.checked_add(size).is_some_and(|end| end <= length);
    if !is_inside || size == 0 {
        return Err(EditError::Malformed("a table lies outside of the file"));
    }
    let size = usize::try_from(size).map_err(|_| EditError::Malformed("a table is too large"))?;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Within a header whose length was checked.
fn u16_at(header: &[u8], at: usize) -> u16 {
    cursor::u16_at(header, at).unwrap_or(0)
}

fn u32_at(header: &[u8], at: usize) -> u32 {
    cursor::u32_at(header, at).unwrap_or(0)
}

fn u64_at(header: &[u8], at: usize) -> u64 {
    cursor::u64_at(header, at).unwrap_or(0)
}
