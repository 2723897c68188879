//! Linking a registered program again, from objects made of its modules.
//!
//! The recorded link line is run with the same driver and in the same
//! directory. Where inputs with bitcode stood, the given objects go; inputs
//! without bitcode come from the store. Libraries named by `-l`, and shared
//! objects named by path, are those of the machine, as they were for the
//! original link.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::StoreError;
use crate::link_flags;
use crate::manifest::{KeptFile, LinkItem};
use crate::store::RegisteredBuild;
use crate::tools::{self, ToolError};

#[derive(Debug, thiserror::Error)]
pub enum RelinkError {
    #[error(
        "the link line of {program} was not recorded, so it cannot be linked again; link it with failsketch-cc or failsketch-c++ (without -flto) and register it again"
    )]
    NoLinkRecord { program: String },
    #[error("{program} cannot be linked again: of its link line, {reason}")]
    LinkLineRefused { program: String, reason: String },
    #[error("{program} has {modules} modules but {objects} objects were given to link")]
    WrongObjectCount {
        program: String,
        modules: usize,
        objects: usize,
    },
    #[error("no temporary folder could be made for linking: {0}")]
    Workspace(std::io::Error),
    #[error("{program} could not be linked again: {source}")]
    Link { program: String, source: ToolError },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Links `build` again into `output`: `objects` holds one object per module, in
/// module order; `extra` objects and archives are added at the end.
pub fn relink(
    build: &RegisteredBuild,
    objects: &[PathBuf],
    extra: &[PathBuf],
    output: &Path,
) -> Result<(), RelinkError> {
    let manifest = build.manifest();
    let program = || manifest.program.clone();
    let plan = match (&manifest.link, &manifest.link_refused) {
        (Some(plan), _) => plan,
        (None, Some(reason)) => {
            return Err(RelinkError::LinkLineRefused {
                program: program(),
                reason: reason.clone(),
            });
        }
        (None, None) => return Err(RelinkError::NoLinkRecord { program: program() }),
    };
    link_flags::check(&plan.items).map_err(|refused| RelinkError::LinkLineRefused {
        program: program(),
        reason: format!("{refused}; register the program again"),
    })?;
    if objects.len() != manifest.modules.len() {
        return Err(RelinkError::WrongObjectCount {
            program: program(),
            modules: manifest.modules.len(),
            objects: objects.len(),
        });
    }
    let workspace = tempfile::tempdir().map_err(RelinkError::Workspace)?;
    let mut kept = KeptFiles {
        build,
        folder: workspace.path(),
        count: 0,
    };
    let mut command = Command::new(tools::driver_program(plan.driver));
    for item in &plan.items {
        match item {
            LinkItem::Word(word) => {
                command.arg(word);
            }
            LinkItem::LinkerWord { text, file } => {
                let mut word = text.clone();
                if let Some(file) = file {
                    word.push_str(&kept.write(file)?.to_string_lossy());
                }
                command.arg("-Xlinker").arg(word);
            }
            LinkItem::Input { file, language } => {
                let path = kept.write(file)?;
                match language {
                    Some(language) => command
                        .args(["-x", language])
                        .arg(path)
                        .args(["-x", "none"]),
                    None => command.arg(path),
                };
            }
            LinkItem::Modules(indices) => {
                let chosen = indices.iter().filter_map(|index| objects.get(*index));
                command.args(chosen.map(|path| absolute(path)));
            }
        }
    }
    command.args(extra.iter().map(|path| absolute(path)));
    // The line's compiler flags have nothing to compile now.
    command.arg("-Qunused-arguments");
    command.arg("-o").arg(absolute(output));
    let directory = Some(plan.directory.as_path()).filter(|path| path.is_dir());
    command.current_dir(directory.unwrap_or(workspace.path()));
    tools::run(&mut command, "clang-19")
        .map(|_| ())
        .map_err(|source| RelinkError::Link {
            program: program(),
            source,
        })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Kept files, written out for the linker under names that cannot collide.
struct KeptFiles<'b> {
    build: &'b RegisteredBuild,
    folder: &'b Path,
    count: usize,
}

impl KeptFiles<'_> {
    fn write(&mut self, file: &KeptFile) -> Result<PathBuf, RelinkError> {
        self.count += 1;
        let folder = self.folder.join(self.count.to_string());
        let path = folder.join(&file.name);
        std::fs::create_dir(&folder).map_err(RelinkError::Workspace)?;
        std::fs::write(&path, self.build.kept_file(file)?).map_err(RelinkError::Workspace)?;
        Ok(path)
    }
}
