//! What can keep the agent from its work. None of these may change how the
//! supervised command runs or ends, except that it cannot be started at all.

use crate::process::error::ProcessError;
use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("{command}: command not found; give a path or check PATH")]
    CommandNotFound { command: String },
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{call} was refused: {reason}")]
    Call {
        call: &'static str,
        reason: io::Error,
    },
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        reason: io::Error,
    },
    #[error(
        "this machine has no list of trusted certificate authorities; install ca-certificates, \
         or name one with --ca"
    )]
    NoAuthorities,
    #[error("the server at {url} cannot be reached: {reason}")]
    ServerUnreachable { url: String, reason: String },
    /// It did not answer a moment ago, and is not asked again yet.
    #[error("{0}")]
    ServerSilent(String),
    #[error("the server refused {what} with status {status}: {answer}")]
    ServerRefused {
        what: &'static str,
        status: u16,
        answer: String,
    },
    #[error("the server's answer to {what} cannot be read: {reason}")]
    ServerAnswer { what: &'static str, reason: String },
    #[error(
        "a tracked build is assigned, but no public key is known to verify it with; give \
             --key"
    )]
    NoKey,
    #[error("the key in {origin} cannot be used: {reason}")]
    BadKey { origin: String, reason: String },
    #[error("the configuration {} cannot be used: {reason}", path.display())]
    BadConfig { path: PathBuf, reason: String },
    #[error("the configuration names no server; add server = \"http://HOST:PORT\"")]
    NoServer,
    #[error("the daemon at {} does not answer: {reason}", socket.display())]
    DaemonUnreachable { socket: PathBuf, reason: String },
    #[error("the daemon refused: {0}")]
    DaemonRefused(String),
    #[error("the patch was refused: {0}")]
    PatchRefused(String),
}

impl AgentError {
    pub fn call(call: &'static str, reason: io::Error) -> AgentError {
        AgentError::Call { call, reason }
    }

    /// The exit status that shells use for a command that could not be started.
    pub fn exit_code(&self) -> u8 {
        match self {
            AgentError::CommandNotFound { .. } => 127,
            AgentError::Process(ProcessError::CannotRun { reason, .. }) => match reason.kind() {
                io::ErrorKind::NotFound => 127,
                _ => 126,
            },
            _ => 1,
        }
    }
}
