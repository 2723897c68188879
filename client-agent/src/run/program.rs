//! The command: found as a shell would find it, and looked at before it runs.

use crate::error::AgentError;
use crate::process::modules::MainModule;
use crate::process::sys;
use crate::run::barrier::guarded;
use formats::elf::ElfFacts;
use sketch_model::BuildId;
use std::{
    ffi::{CString, OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A command that can be run.
#[derive(Debug)]
pub struct Program {
    /// What is executed.
    pub path: PathBuf,
    pub kind: ProgramKind,
}

#[derive(Debug)]
pub enum ProgramKind {
    /// Runs are recorded.
    Known(KnownProgram),
    /// Runs are left alone, for this reason.
    LeftAlone(String),
}

/// A program whose runs are recorded.
#[derive(Debug)]
pub struct KnownProgram {
    pub build: BuildId,
    pub bytes: Vec<u8>,
    pub facts: Arc<ElfFacts>,
    /// The path without symbolic links: how the kernel shows it, and what
    /// records call it.
    pub real_path: PathBuf,
}

impl KnownProgram {
    pub fn file_name(&self) -> &OsStr {
        self.real_path.file_name().unwrap_or(OsStr::new("program"))
    }

    /// The program's own file as its module.
    pub fn main_module(&self) -> MainModule {
        let path = self.real_path.to_string_lossy().into_owned();
        MainModule {
            mapped_as: path.clone(),
            path,
            facts: self.facts.clone(),
        }
    }
}

impl Program {
    /// Finds `command` in `search` (the value of PATH), unless it is a path itself.
    pub fn find(command: &OsStr, search: Option<OsString>) -> Result<Program, AgentError> {
        let path = if command.as_bytes().contains(&b'/') {
            PathBuf::from(command)
        } else {
            std::env::split_paths(&search.unwrap_or_default())
                .map(|folder| folder.join(command))
                .find(|candidate| is_executable(candidate))
                .ok_or_else(|| AgentError::CommandNotFound {
                    command: command.to_string_lossy().into_owned(),
                })?
        };
        let kind = guarded("looking at the program's file", || examine(&path))
            .unwrap_or_else(|defect| ProgramKind::LeftAlone(defect.to_string()));
        Ok(Program { path, kind })
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn examine(path: &Path) -> ProgramKind {
    let left_alone = |reason: String| ProgramKind::LeftAlone(reason);
    match fs::metadata(path) {
        Ok(about) if about.permissions().mode() & 0o6000 != 0 => {
            return left_alone("it is setuid or setgid".into());
        }
        Ok(about) if about.is_file() => {}
        Ok(_) => return left_alone("it is not a regular file".into()),
        Err(e) => return left_alone(format!("it cannot be inspected: {e}")),
    }
    // As with setuid, the loader would ignore LD_PRELOAD, and a tracked build in
    // memory would lack the capabilities.
    if CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| sys::has_capabilities(&path)) {
        return left_alone("it has file capabilities".into());
    }
    let (bytes, real_path) = match (fs::read(path), fs::canonicalize(path)) {
        (Ok(bytes), Ok(real_path)) => (bytes, real_path),
        (Err(e), _) | (_, Err(e)) => return left_alone(format!("it cannot be read: {e}")),
    };
    let Some(facts) = ElfFacts::read(&bytes) else {
        return left_alone("it is not a 64-bit ELF file".into());
    };
    let Some(build) = facts.build_id.clone() else {
        return left_alone("it has no GNU build-id; link it with -Wl,--build-id".into());
    };
    ProgramKind::Known(KnownProgram {
        build,
        bytes,
        facts: Arc::new(facts),
        real_path,
    })
}
