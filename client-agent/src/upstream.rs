//! Whom the agent asks and tells: the machine's daemon, or the server itself.

use crate::{
    daemon::client::DaemonClient,
    delivery::{Delivered, Delivery},
    error::AgentError,
    say::say,
    spool::{Folder, Worth},
};
use sketch_model::{Assignment, AssignmentRequest, VariantRef};
use std::time::Duration;

#[derive(Debug)]
pub enum Upstream {
    /// The daemon, and how long it may take to make a record safe.
    Daemon(DaemonClient, Duration),
    Server(Delivery<Folder>),
}

impl Upstream {
    /// Tells patches of different origins apart in the cache.
    pub fn origin(&self) -> String {
        match self {
            Upstream::Daemon(daemon, _) => daemon.socket().display().to_string(),
            Upstream::Server(delivery) => delivery.server.url().to_string(),
        }
    }

    pub fn assignment(&self, request: &AssignmentRequest) -> Result<Assignment, AgentError> {
        match self {
            Upstream::Daemon(daemon, _) => daemon.assignment(request),
            Upstream::Server(delivery) => delivery.server.assignment(request),
        }
    }

    pub fn patch(&self, variant: VariantRef) -> Result<Vec<u8>, AgentError> {
        match self {
            Upstream::Daemon(daemon, _) => daemon.patch(variant),
            Upstream::Server(delivery) => delivery.server.patch(variant),
        }
    }

    /// Gets a record on its way; failing to is said, and changes nothing.
    pub fn keep(&mut self, record: &[u8], worth: Worth) -> Delivered {
        match self {
            Upstream::Server(delivery) => delivery.deliver(record, worth),
            Upstream::Daemon(daemon, limit) => match daemon.keep(record, worth, *limit) {
                Ok(()) => Delivered::ToTheSpool,
                Err(error) => {
                    say(format_args!("the record is lost: {error}"));
                    Delivered::Nowhere
                }
            },
        }
    }
}
