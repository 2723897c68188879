//! Reading what a link line's inputs hold: our bitcode, foreign code, or both.

use std::path::Path;
use std::process::Command;

use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{Object, ObjectKind};

use crate::register::embedded::{BITCODE_SECTIONS, embedded_modules};
use crate::register::foreign_code::ForeignInput;
use crate::tools::{self, ToolError};

/// An input of the linker.
pub enum LinkInput {
    Missing,
    SharedObject,
    Files {
        /// Object files that carry bitcode.
        with_bitcode: Vec<Vec<u8>>,
        foreign: Vec<ForeignInput>,
        /// What must be linked besides the modules: a foreign object or script
        /// as it is, or an archive of the foreign members.
        kept: Option<Vec<u8>>,
    },
}

/// Reads the input at `path`.
pub fn read(path: &Path) -> Result<LinkInput, ToolError> {
    let Ok(bytes) = std::fs::read(path) else {
        return Ok(LinkInput::Missing);
    };
    if let Ok(archive) = ArchiveFile::parse(&*bytes) {
        return read_archive(path, &bytes, &archive);
    }
    let elf: Option<ElfFile64<'_>> = ElfFile64::parse(&*bytes).ok();
    if elf.is_some_and(|file| file.kind() == ObjectKind::Dynamic) {
        return Ok(LinkInput::SharedObject);
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
pub fn is_own_archive(path: &Path) -> bool {
    let Ok(bytes) = std::fs::read(path) else {
        return false;
    };
    let Ok(archive) = ArchiveFile::parse(&*bytes) else {
        return false;
    };
    members(path, &bytes, &archive)
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
fn members(path: &Path, bytes: &[u8], archive: &ArchiveFile<'_>) -> Vec<(String, Vec<u8>)> {
    let folder = path.parent().unwrap_or(Path::new("."));
    archive
        .members()
        .filter_map(Result::ok)
        .filter_map(|member| {
            let name = String::from_utf8_lossy(member.name()).into_owned();
            let data = if member.is_thin() {
                std::fs::read(folder.join(&name)).ok()?
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
) -> Result<LinkInput, ToolError> {
    let (own, others): (Vec<_>, Vec<_>) = members(path, bytes, archive)
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
        Some(archive_of(&others)?)
    };
    Ok(LinkInput::Files {
        with_bitcode: own.into_iter().map(|(_, member)| member).collect(),
        foreign,
        kept,
    })
}

/// A new archive of `members`, with a symbol index.
fn archive_of(members: &[(String, Vec<u8>)]) -> Result<Vec<u8>, ToolError> {
    let not_writable = |source| ToolError::NotRunnable {
        program: "llvm-ar-19".to_string(),
        source,
    };
    let folder = tempfile::tempdir().map_err(not_writable)?;
    let archive = folder.path().join("kept.a");
    let mut command = Command::new("llvm-ar-19");
    command.arg("qcsD").arg(&archive);
    for (index, (name, bytes)) in members.iter().enumerate() {
        // Members may share a name, so each gets a folder of its own.
        let place = folder.path().join(index.to_string());
        std::fs::create_dir(&place).map_err(not_writable)?;
        let file = place.join(Path::new(name).file_name().unwrap_or("member.o".as_ref()));
        std::fs::write(&file, bytes).map_err(not_writable)?;
        command.arg(file);
    }
    tools::run(&mut command, "llvm-19")?;
    std::fs::read(&archive).map_err(not_writable)
}
