//! What can keep a process from being started, watched or read.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The kernel does not execute it.
    #[error("cannot run {}: {reason}", path.display())]
    CannotRun { path: PathBuf, reason: io::Error },
    #[error("{call} was refused: {reason}")]
    Call {
        call: &'static str,
        reason: io::Error,
    },
}

impl ProcessError {
    pub fn call(call: &'static str, reason: io::Error) -> ProcessError {
        ProcessError::Call { call, reason }
    }
}
