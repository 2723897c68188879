//! Why a tracked build could not be made.

use build_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum InstrumentError {
    #[error("none of the plan's {sites} hooks has a place in the optimised program")]
    NothingToHook { sites: usize },
    #[error(
        "the optimised bitcode of {module} cannot be read: {reason}; register the program again"
    )]
    Bitcode { module: String, reason: String },
    #[error("hooks for {module} could not be inserted: {reason}")]
    Insert { module: String, reason: String },
    #[error("hooks made {module} invalid: {reason}")]
    Invalid { module: String, reason: String },
    #[error("{module} with hooks cannot be compiled: {reason}")]
    Lower { module: String, reason: String },
    #[error(transparent)]
    Relink(#[from] build_store::RelinkError),
    #[error("the tracked build cannot be stripped: {0}")]
    Strip(#[from] build_store::RegisterError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{what}: {source}")]
    Io {
        what: &'static str,
        source: std::io::Error,
    },
}
