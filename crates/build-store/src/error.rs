//! What can go wrong with registered builds, said so that a user can act on it.

use std::path::PathBuf;

use sketch_model::BuildId;

use crate::register::embedded::EmbeddedError;
use crate::tools::ToolError;

/// A binary that cannot be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("{} could not be read: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not an ELF program for x86-64; only those can be registered", path.display())]
    NotAProgram { path: PathBuf },
    #[error(
        "{} carries no bitcode: build it with CC=failsketch-cc CXX=failsketch-c++ and register it before it is stripped",
        path.display()
    )]
    WithoutBitcode { path: PathBuf },
    #[error(
        "{} was stripped of its {what}: register the binary as the linker wrote it, and strip it afterwards or deploy what `failsketch register --deploy` writes",
        path.display()
    )]
    Stripped { path: PathBuf, what: &'static str },
    #[error(
        "{} has no build-id: link it without -Wl,--build-id=none, or with -Wl,--build-id",
        path.display()
    )]
    WithoutBuildId { path: PathBuf },
    #[error("{} cannot be registered: {source}", path.display())]
    Embedded {
        path: PathBuf,
        source: EmbeddedError,
    },
    #[error(
        "{} has compressed debug info of {megabytes} MiB when uncompressed, which is more than {limit}; link it without -gz, or register what `llvm-objcopy-19 --decompress-debug-sections` makes of it, if that is right",
        path.display()
    )]
    TooLarge {
        path: PathBuf,
        megabytes: u64,
        limit: &'static str,
    },
    #[error("{} is damaged: {message}", path.display())]
    Damaged { path: PathBuf, message: String },
    #[error("{} cannot be registered: {problem}", path.display())]
    NoGraph { path: PathBuf, problem: String },
    #[error("no temporary folder could be made for the proof: {0}")]
    Workspace(std::io::Error),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A store that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the build store {} could not be {action}: {source}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: std::io::Error,
    },
    #[error("no home for the build store: set FAILSKETCH_STORE, XDG_DATA_HOME or HOME")]
    NoHome,
    #[error(
        "build {build_id} is not in the store {}; register its binary with `failsketch register`",
        root.display()
    )]
    Unknown { build_id: BuildId, root: PathBuf },
    #[error("`{0}` is not a build-id, which is a row of hexadecimal digits")]
    NotABuildId(String),
    #[error(
        "the store entry {} is missing, truncated or damaged; run `failsketch register` on the binary again",
        entry.display()
    )]
    Damaged { entry: PathBuf },
    #[error(
        "the store entry {} was written by another version of failsketch (format {found}, this one reads {expected}); run `failsketch register` on the binary again",
        entry.display()
    )]
    OtherFormat {
        entry: PathBuf,
        found: u32,
        expected: u32,
    },
    #[error("build {build_id} has no module {index}")]
    NoSuchModule { build_id: BuildId, index: usize },
    #[error("module {module} did not compile again, so there is no optimised bitcode of it")]
    NotCompiled { module: String },
}
