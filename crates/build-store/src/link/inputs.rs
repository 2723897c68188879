//! Reading what a link line's inputs hold: our bitcode, foreign code, or both.

use std::ffi::OsString;
use std::path::Path;

use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{Object, ObjectKind};

use crate::own_files::{LeftOut, read_regular};
use crate::register::embedded::{BITCODE_SECTIONS, embedded_modules};
use crate::register::foreign_code::ForeignInput;
use crate::sandbox::{Limits, Reach};
use crate::tools::{ToolError, Tools, read_made};

/// An input of the linker.
pub enum LinkInput {
    Missing,
    /// Or all inputs are, together.
    TooLarge,
    /// Neither an object nor an archive: a linker script, or a file that is no input at all.
    NoCode,
    SharedObject,
    Files {
        /// Object files that carry bitcode.
        with_bitcode: Vec<Vec<u8>>,
        foreign: Vec<ForeignInput>,
        /// What must be linked besides the modules: a foreign object as it is,
        /// or an archive of the foreign members.
        kept: Option<Vec<u8>>,
    },
}

/// What may still be read of all inputs of one program.
pub struct Reading {
    left: u64,
}

impl Default for Reading {
    fn default() -> Self {
        const MOST: u64 = 64 << 30;
        Reading { left: MOST }
    }
}

impl Reading {
    /// The bytes of an input; it may be a link, as libraries are.
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, LeftOut> {
        const MOST_OF_ONE: u64 = 2 << 30;
        let real = std::fs::canonicalize(path).map_err(|_| LeftOut::Missing)?;
        let bytes = read_regular(&real, MOST_OF_ONE.min(self.left))?;
        self.left -= bytes.len() as u64;
        Ok(bytes)
    }
}

/// Reads the input at `path`.
pub fn read(path: &Path, reading: &mut Reading, tools: &Tools) -> Result<LinkInput, ToolError> {
    let bytes = match reading.read(path) {
        Ok(bytes) => bytes,
        Err(LeftOut::TooLarge) => return Ok(LinkInput::TooLarge),
        Err(_) => return Ok(LinkInput::Missing),
    };
    if let Ok(archive) = ArchiveFile::parse(&*bytes) {
        return read_archive(path, &bytes, &archive, reading, tools);
    }
    let elf: Option<ElfFile64<'_>> = ElfFile64::parse(&*bytes).ok();
    match elf.map(|file| file.kind()) {
        Some(ObjectKind::Relocatable) => {}
        Some(ObjectKind::Dynamic) => return Ok(LinkInput::SharedObject),
        // The line may name any file of this machine, and what is kept of it can be read
        // by whoever reads the store.
        _ => return Ok(LinkInput::NoCode),
    }
    Ok(if carries_bitcode(&bytes) {
        LinkInput::Files {
            with_bitcode: vec![bytes],
            foreign: Vec::new(),
            kept: None,
        }
    } else {
        LinkInput::Files {
            with_bitcode: Vec::new(),
            foreign: vec![ForeignInput::from_object(
                path.display().to_string(),
                &bytes,
            )],
            kept: Some(bytes),
        }
    })
}

fn carries_bitcode(bytes: &[u8]) -> bool {
    embedded_modules(bytes).is_ok_and(|modules| !modules.is_empty())
}

/// Is this an archive with members that carry our bitcode?
pub fn is_own_archive(path: &Path, reading: &mut Reading) -> bool {
    let Ok(bytes) = reading.read(path) else {
        return false;
    };
    let Ok(archive) = ArchiveFile::parse(&*bytes) else {
        return false;
    };
    members(path, &bytes, &archive, reading)
        .iter()
        .any(|(_, member)| has_bitcode_section(member))
}

fn has_bitcode_section(bytes: &[u8]) -> bool {
    let file: Option<ElfFile64<'_>> = ElfFile64::parse(bytes).ok();
    file.is_some_and(|file| {
        BITCODE_SECTIONS
            .iter()
            .any(|name| file.section_by_name(name).is_some())
    })
}

/// The members of an archive; those of a thin one are read from where it says.
fn members(
    path: &Path,
    bytes: &[u8],
    archive: &ArchiveFile<'_>,
    reading: &mut Reading,
) -> Vec<(String, Vec<u8>)> {
    let folder = path.parent().unwrap_or(Path::new("."));
    archive
        .members()
        .filter_map(Result::ok)
        .filter_map(|member| {
            let name = String::from_utf8_lossy(member.name()).into_owned();
            let data = if member.is_thin() {
                let bytes = reading.read(&folder.join(&name)).ok()?;
                let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).ok()?;
                (file.kind() == ObjectKind::Relocatable).then_some(())?;
                bytes
            } else {
                member.data(bytes).ok()?.to_vec()
            };
            Some((name, data))
        })
        .collect()
}

fn read_archive(
    path: &Path,
    bytes: &[u8],
    archive: &ArchiveFile<'_>,
    reading: &mut Reading,
    tools: &Tools,
) -> Result<LinkInput, ToolError> {
    let (own, others): (Vec<_>, Vec<_>) = members(path, bytes, archive, reading)
        .into_iter()
        .partition(|(_, member)| carries_bitcode(member));
    let foreign = others
        .iter()
        .map(|(name, member)| {
            ForeignInput::from_object(format!("{}({name})", path.display()), member)
        })
        .collect();
    let kept = if others.is_empty() {
        None
    } else if own.is_empty() && !archive.is_thin() {
        Some(bytes.to_vec())
    } else {
        Some(archive_of(&others, tools)?)
    };
    Ok(LinkInput::Files {
        with_bitcode: own.into_iter().map(|(_, member)| member).collect(),
        foreign,
        kept,
    })
}

/// A new archive of `members`, with a symbol index.
fn archive_of(members: &[(String, Vec<u8>)], tools: &Tools) -> Result<Vec<u8>, ToolError> {
    let not_writable = |source| ToolError::NotRunnable {
        program: "llvm-ar-19".to_string(),
        source,
    };
    let folder = tempfile::tempdir().map_err(not_writable)?;
    let archive = folder.path().join("kept.a");
    let mut words: Vec<OsString> = vec!["qcsD".into(), archive.clone().into()];
    for (index, (name, bytes)) in members.iter().enumerate() {
        // Members may share a name, so each gets a folder of its own.
        let place = folder.path().join(index.to_string());
        std::fs::create_dir(&place).map_err(not_writable)?;
        let file = place.join(Path::new(name).file_name().unwrap_or("member.o".as_ref()));
        std::fs::write(&file, bytes).map_err(not_writable)?;
        words.push(file.into());
    }
    let mut reach = Reach::new(folder.path(), &[]);
    reach.limits = Limits::WHOLE_PROGRAM;
    tools.run("llvm-ar-19".as_ref(), &words, "llvm-19", &reach)?;
    read_made(&archive, reach.limits).map_err(not_writable)
}
