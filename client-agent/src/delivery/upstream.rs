//! Whom the agent asks and tells: the machine's daemon, or the server itself.

use crate::daemon::client::DaemonClient;
use crate::delivery::outbox::{Delivered, Delivery};
use crate::delivery::spool::{Folder, Spool, Taken, Worth};
use crate::error::AgentError;
use crate::stderr_log::say;
use sketch_model::{Assignment, AssignmentRequest, VariantRef};
use std::time::Duration;

#[derive(Debug)]
pub enum Upstream {
    Daemon(Handover),
    Server(Delivery<Folder>),
}

/// The way to the daemon, and what to do while it is gone.
#[derive(Debug)]
pub struct Handover {
    pub daemon: DaemonClient,
    /// How long it may take to make a record safe.
    pub limit: Duration,
    /// This user's own spool, for records that the daemon did not take.
    pub spool: Option<Spool<Folder>>,
}

impl Handover {
    fn keep(&mut self, record: &[u8], worth: Worth) -> Delivered {
        let Handover {
            daemon,
            limit,
            spool,
        } = self;
        let Err(error) = daemon.keep(record, worth, *limit) else {
            // What earlier runs could not hand over; their worth is not known.
            let hand_over = |record: &[u8]| match daemon.keep(record, Worth::Failure, *limit) {
                Ok(()) => Taken::Done,
                Err(_) => Taken::NotNow,
            };
            if let Some(Err(error)) = spool.as_mut().map(|spool| spool.send(hand_over)) {
                say(format_args!("the spool cannot be read: {error}"));
            }
            return Delivered::ToTheServer;
        };
        match spool.as_mut().map(|spool| spool.append(record, worth)) {
            Some(Ok(())) => {
                say(format_args!(
                    "the record will be given to the daemon later: {error}"
                ));
                Delivered::ToTheSpool
            }
            Some(Err(why)) => {
                say(format_args!("the record is lost: {error}, and {why}"));
                Delivered::Nowhere
            }
            None => {
                say(format_args!("the record is lost: {error}"));
                Delivered::Nowhere
            }
        }
    }
}

impl Upstream {
    /// Tells patches of different origins apart in the cache.
    pub fn origin(&self) -> String {
        match self {
            Upstream::Daemon(handover) => handover.daemon.socket().display().to_string(),
            Upstream::Server(delivery) => delivery.server.url().to_string(),
        }
    }

    pub fn assignment(&self, request: &AssignmentRequest) -> Result<Assignment, AgentError> {
        match self {
            Upstream::Daemon(handover) => handover.daemon.assignment(request),
            Upstream::Server(delivery) => delivery.server.assignment(request),
        }
    }

    pub fn patch(&self, variant: VariantRef) -> Result<Vec<u8>, AgentError> {
        match self {
            Upstream::Daemon(handover) => handover.daemon.patch(variant),
            Upstream::Server(delivery) => delivery.server.patch(variant),
        }
    }

    /// Sends or spools a record; an error is logged, and the run is not affected.
    pub fn keep(&mut self, record: &[u8], worth: Worth) -> Delivered {
        match self {
            Upstream::Server(delivery) => delivery.deliver(record, worth),
            Upstream::Daemon(handover) => handover.keep(record, worth),
        }
    }
}
