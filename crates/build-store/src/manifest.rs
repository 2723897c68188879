//! What the store knows about one registered build: the manifest, as it is on disk.
//!
//! Everything large is a blob named by its hash; the manifest is small enough
//! to read whenever a build is listed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sketch_model::BuildId;

use crate::link::record::Driver;
use crate::sandbox::Sandbox;

/// The SHA-256 of a blob, in lower-case hex: its name in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub String);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One registered build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildManifest {
    /// The version of this format; see [`BuildManifest::FORMAT`].
    pub format: u32,
    pub build_id: BuildId,
    /// The program's file name.
    pub program: String,
    /// Where the binary was when it was registered.
    pub original_path: PathBuf,
    /// The binary with its debug info.
    pub binary: BlobId,
    /// The binary without debug info and without `.failsketch` sections.
    pub deployed: BlobId,
    pub modules: Vec<ModuleEntry>,
    /// Code of the binary that no module accounts for.
    pub foreign_code: Vec<ForeignCode>,
    /// Source files by their path as debug info states it.
    pub sources: BTreeMap<String, BlobId>,
    /// All files that debug info names, kept or not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, SourceFile>,
    /// How to link the program again; absent when the link line was not recorded.
    pub link: Option<LinkPlan>,
    /// Why a link line that was recorded is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_refused: Option<String>,
    /// Whether tools that read the file ran without a sandbox, because somebody said so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_sandbox: bool,
}

impl BuildManifest {
    pub const FORMAT: u32 = 2;
    /// The oldest format that is read. Format 1 also listed the shared libraries
    /// that the program needs; nothing used them.
    pub const OLDEST: u32 = 1;

    /// Whether tools that read this build's bitcode run in a sandbox.
    pub fn sandbox(&self) -> Sandbox {
        match self.without_sandbox {
            true => Sandbox::Without,
            false => Sandbox::Required,
        }
    }

    /// Whether a source file is the program's own or a library's; unknown for a file that
    /// debug info does not name.
    pub fn is_own(&self, file: &str) -> Option<bool> {
        self.files.get(file).map(|file| file.own)
    }

    /// Files of which no text is kept though they are no library's, with the reason.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.files.iter();
        all.filter_map(|(path, file)| Some((path.as_str(), file.left_out.as_deref()?)))
    }

    pub fn trackable_modules(&self) -> usize {
        self.modules
            .iter()
            .filter(|module| module.status == ModuleStatus::Trackable)
            .count()
    }
}

/// A source file that debug info names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// The program's own, and not a library's; `own_files.rs` decides.
    pub own: bool,
    /// Why its text is not kept; absent for libraries, whose text never is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// One translation unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleEntry {
    /// The source file, absolute where debug info allows.
    pub source: String,
    pub bitcode: BlobId,
    /// Absent when the module did not compile again.
    pub optimised: Option<BlobId>,
    /// The `-cc1` flags as recorded, unfiltered; [`crate::compile`] takes them so.
    pub flags: Vec<String>,
    pub status: ModuleStatus,
    pub functions: usize,
    /// Of `functions`, those that the linker dropped or took from another module.
    pub functions_not_in_binary: usize,
}

/// Whether hooks may go into a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum ModuleStatus {
    /// Compiled again, it gave the binary's code.
    Trackable,
    Untrackable {
        reason: String,
    },
}

/// Code without bitcode: assembly, link-time optimised or foreign objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignCode {
    /// The input file it came from, or the source file its symbols name, if known.
    pub origin: Option<String>,
    /// Why it cannot be tracked.
    pub reason: String,
    /// Its functions, the first [`ForeignCode::NAMED`] of them.
    pub functions: Vec<String>,
    pub function_count: usize,
}

impl ForeignCode {
    pub const NAMED: usize = 20;
}

/// The link line, with its inputs replaced by what the store holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPlan {
    pub driver: Driver,
    pub directory: PathBuf,
    pub items: Vec<LinkItem>,
}

/// One element of the link line, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkItem {
    /// A word for the driver, as it is.
    Word(String),
    /// A word for the linker (`-Xlinker`): text, then perhaps the path of a kept file.
    LinkerWord {
        text: String,
        file: Option<KeptFile>,
    },
    /// An input without bitcode: a foreign object or archive, assembly, a script.
    Input {
        file: KeptFile,
        /// The `-x` in force, for source inputs.
        language: Option<String>,
    },
    /// Here go the objects of these modules.
    Modules(Vec<usize>),
}

/// A file of the link line, kept in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFile {
    pub name: String,
    pub blob: BlobId,
}
