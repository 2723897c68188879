//! The file that production runs: same code and symbols, no debug info, nothing of ours.
//!
//! P and every P′ pass through the same function, so that a patch between
//! their deployed forms is a patch between like and like.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use object::elf::{SHF_ALLOC, SHT_RELA};
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{Object, ObjectSection};

use crate::error::RegisterError;
use crate::sandbox::{Limits, Reach};
use crate::tools::{Tools, read_made};

/// Strips a linked program for deployment.
pub fn strip_for_deployment(full: &[u8], tools: &Tools) -> Result<Vec<u8>, RegisterError> {
    let file: ElfFile64<'_> = ElfFile64::parse(full).map_err(|error| RegisterError::Damaged {
        path: "the linked program".into(),
        message: error.to_string(),
    })?;
    let own: BTreeSet<&str> = file
        .sections()
        .filter_map(|section| section.name().ok())
        .filter(|name| name.starts_with(".failsketch.") || [".llvmbc", ".llvmcmd"].contains(name))
        .collect();
    let mut arguments = vec!["--strip-debug".to_string()];
    arguments.extend(own.iter().map(|name| format!("--remove-section={name}")));
    let workspace = tempfile::tempdir().map_err(RegisterError::Workspace)?;
    objcopy(
        &with_strippable_relocations(full, &file),
        workspace.path(),
        &arguments,
        tools,
    )
}

/// Static programs have relocations for the functions that choose an
/// implementation, without any symbol, and GNU ld says that their symbols are in
/// the symbol table; llvm-objcopy accepts only a dynamic one there, or none.
fn with_strippable_relocations(full: &[u8], file: &ElfFile64<'_>) -> Vec<u8> {
    const LINK: usize = 40;
    let endian = file.endian();
    let mut bytes = full.to_vec();
    if file.dynamic_symbols().next().is_some() {
        return bytes;
    }
    let header = file.elf_header();
    let start = header.e_shoff(endian) as usize;
    let size = usize::from(header.e_shentsize(endian));
    for (number, section) in file.elf_section_table().iter().enumerate() {
        let is_loaded = section.sh_flags(endian).0 & SHF_ALLOC.0 != 0;
        if section.sh_type(endian) != SHT_RELA || !is_loaded {
            continue;
        }
        let at = start + number * size + LINK;
        if let Some(link) = bytes.get_mut(at..at + 4) {
            link.fill(0);
        }
    }
    bytes
}

/// Runs llvm-objcopy from bytes to bytes.
pub(crate) fn objcopy(
    bytes: &[u8],
    workspace: &Path,
    arguments: &[String],
    tools: &Tools,
) -> Result<Vec<u8>, RegisterError> {
    let (input, output) = (workspace.join("full"), workspace.join("copied"));
    std::fs::write(&input, bytes).map_err(RegisterError::Workspace)?;
    let mut words: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    words.extend([input.into(), output.clone().into()]);
    let mut reach = Reach::new(workspace, &[]);
    reach.limits = Limits::WHOLE_PROGRAM;
    tools.run("llvm-objcopy-19".as_ref(), &words, "llvm-19", &reach)?;
    read_made(&output, reach.limits).map_err(RegisterError::Workspace)
}
