//! The file that production runs: same code and symbols, no debug info, nothing of ours.
//!
//! P and every P′ pass through the same function, so that a patch between
//! their deployed forms is a patch between like and like.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use crate::error::RegisterError;
use crate::tools;

/// Strips a linked program for deployment.
pub fn strip_for_deployment(full: &[u8]) -> Result<Vec<u8>, RegisterError> {
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
    objcopy(full, workspace.path(), &arguments)
}

/// Runs llvm-objcopy from bytes to bytes.
pub(crate) fn objcopy(
    bytes: &[u8],
    workspace: &Path,
    arguments: &[String],
) -> Result<Vec<u8>, RegisterError> {
    let (input, output) = (workspace.join("full"), workspace.join("copied"));
    std::fs::write(&input, bytes).map_err(RegisterError::Workspace)?;
    let mut command = Command::new("llvm-objcopy-19");
    command.args(arguments).arg(&input).arg(&output);
    tools::run(&mut command, "llvm-19")?;
    std::fs::read(&output).map_err(RegisterError::Workspace)
}
