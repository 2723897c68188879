//! Linking a registered program again, from objects made of its modules.
//!
//! The recorded link line, as far as `link_flags.rs` allows it, is run with the
//! same driver. Where inputs with bitcode stood, the given objects go; inputs
//! without bitcode come from the store. Libraries named by `-l`, and shared
//! objects named by path, are those of the machine, as they were for the
//! original link.
//!
//! The linker runs in the box of `sandbox.rs`: of the folders that the line names
//! by `-L` it can read what is called like a library, and nothing else.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::link_flags;
use crate::manifest::{KeptFile, LinkItem};
use crate::own_files::open_regular;
use crate::sandbox::{Limits, Reach};
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
    let made = workspace.path().join("made");
    std::fs::create_dir(&made).map_err(RelinkError::Workspace)?;
    let mut reach = Reach::new(&made, &[]);
    reach.starts_linker = true;
    reach.limits = Limits::WHOLE_PROGRAM;
    let mut kept = KeptFiles {
        build,
        folder: workspace.path(),
        count: 0,
    };
    let mut words: Vec<OsString> = Vec::new();
    for item in &plan.items {
        match item {
            LinkItem::Word(word) => {
                reach.inputs.extend(files_of_word(word));
                words.push(word.into());
            }
            LinkItem::LinkerWord { text, file } => {
                let mut word = text.clone();
                if let Some(file) = file {
                    let path = kept.write(file)?;
                    word.push_str(&path.to_string_lossy());
                    reach.inputs.push(path);
                }
                words.extend(["-Xlinker".into(), word.into()]);
            }
            LinkItem::Input { file, language } => {
                let path = kept.write(file)?;
                reach.inputs.push(path.clone());
                match language {
                    Some(language) => words.extend([
                        "-x".into(),
                        language.into(),
                        path.into(),
                        "-x".into(),
                        "none".into(),
                    ]),
                    None => words.push(path.into()),
                };
            }
            LinkItem::Modules(indices) => {
                let chosen = indices.iter().filter_map(|index| objects.get(*index));
                words.extend(chosen.map(|path| absolute(path).into()));
            }
        }
    }
    words.extend(extra.iter().map(|path| absolute(path).into()));
    let given = objects.iter().chain(extra).map(|path| absolute(path));
    reach.inputs.extend(given);
    // The line's compiler flags have nothing to compile now.
    words.extend(["-Qunused-arguments", "--no-default-config"].map(OsString::from));
    let linked = made.join("linked");
    words.extend(["-o".into(), linked.clone().into()]);
    let driver = tools::driver_program(plan.driver);
    let ran = build.tools().run(&driver, &words, "clang-19", &reach);
    ran.map_err(|source| RelinkError::Link {
        program: program(),
        source,
    })?;
    copy_made(&linked, output).map_err(RelinkError::Workspace)
}

/// Copies what the linker made, if that is a file and not a link to another one.
fn copy_made(linked: &Path, output: &Path) -> std::io::Result<()> {
    let opened = open_regular(linked);
    let mut made = opened.map_err(|why| std::io::Error::other(why.to_string()))?;
    std::io::copy(&mut made, &mut std::fs::File::create(output)?)?;
    std::fs::set_permissions(output, std::fs::Permissions::from_mode(0o755))
}

/// The files that the linker may read because of a word: a shared object named by its
/// path, or what is called like a library in a folder named by `-L`.
fn files_of_word(word: &str) -> Vec<PathBuf> {
    const MOST: usize = 10_000;
    let Some(folder) = word.strip_prefix("-L") else {
        return match word.starts_with('/') {
            true => vec![word.into()],
            false => Vec::new(),
        };
    };
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("lib") && (name.ends_with(".a") || name.contains(".so"))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.take(MOST).map(|entry| entry.path());
    files
        .filter(is_library)
        .filter(|path| path.is_file())
        .collect()
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
