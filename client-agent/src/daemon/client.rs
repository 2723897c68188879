//! `run`'s side of the socket. Every question has a time limit: a daemon that
//! is stuck must not hold up the command.

use super::wire::{self, Kind, LONGEST_ANSWER};
use crate::delivery::spool::Worth;
use crate::error::AgentError;
use crate::policy::Policy;
use sketch_model::{Assignment, AssignmentRequest, VariantRef};
use std::{
    io,
    os::unix::{ffi::OsStrExt, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

/// A daemon, by its socket.
#[derive(Clone, Debug)]
pub struct DaemonClient {
    socket: PathBuf,
}

impl DaemonClient {
    /// The daemon at a socket, if one answers there.
    pub fn at(socket: &Path) -> Result<DaemonClient, AgentError> {
        let client = DaemonClient {
            socket: socket.to_owned(),
        };
        UnixStream::connect(socket).map_err(|e| client.unreachable(e))?;
        Ok(client)
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    fn unreachable(&self, error: io::Error) -> AgentError {
        AgentError::DaemonUnreachable {
            socket: self.socket.clone(),
            reason: error.to_string(),
        }
    }

    fn ask(&self, kind: Kind, body: &[u8], limit: Duration) -> Result<Vec<u8>, AgentError> {
        let answer = UnixStream::connect(&self.socket).and_then(|mut socket| {
            socket.set_read_timeout(Some(limit))?;
            socket.set_write_timeout(Some(limit))?;
            wire::send(&mut socket, kind, body)?;
            wire::receive(&mut socket, LONGEST_ANSWER)
        });
        match answer.map_err(|e| self.unreachable(e))? {
            Some((answered, body)) if answered == kind => Ok(body),
            Some((Kind::Refused, why)) => Err(AgentError::DaemonRefused(
                String::from_utf8_lossy(&why).into_owned(),
            )),
            _ => Err(self.unreachable(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    fn ask_json<Q: serde::Serialize, A: serde::de::DeserializeOwned>(
        &self,
        kind: Kind,
        question: &Q,
        limit: Duration,
    ) -> Result<A, AgentError> {
        let unreadable = |e: serde_json::Error| self.unreachable(e.into());
        let question = serde_json::to_vec(question).map_err(unreadable)?;
        serde_json::from_slice(&self.ask(kind, &question, limit)?).map_err(unreadable)
    }

    pub fn policy(&self, program: &Path) -> Result<Policy, AgentError> {
        let body = self.ask(
            Kind::Policy,
            program.as_os_str().as_bytes(),
            Duration::from_secs(1),
        )?;
        serde_json::from_slice(&body).map_err(|e| self.unreachable(e.into()))
    }

    /// The machine's secret for disguised values.
    pub fn secret(&self) -> Result<Vec<u8>, AgentError> {
        self.ask(Kind::Secret, &[], Duration::from_secs(1))
    }

    pub fn assignment(&self, request: &AssignmentRequest) -> Result<Assignment, AgentError> {
        self.ask_json(Kind::Assignment, request, Duration::from_secs(3))
    }

    pub fn patch(&self, variant: VariantRef) -> Result<Vec<u8>, AgentError> {
        let unreadable = |e: serde_json::Error| self.unreachable(e.into());
        let question = serde_json::to_vec(&variant).map_err(unreadable)?;
        self.ask(Kind::Patch, &question, Duration::from_secs(6))
    }

    /// Hands a record over; when this returns, it is safe on disk.
    pub fn keep(&self, record: &[u8], worth: Worth, limit: Duration) -> Result<(), AgentError> {
        let kind = match worth {
            Worth::Success => Kind::Success,
            Worth::Failure => Kind::Failure,
        };
        self.ask(kind, record, limit).map(|_| ())
    }
}
