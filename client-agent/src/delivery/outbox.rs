//! From a finished run to the server, now or later.
//!
//! The command has ended and somebody waits for its exit status, so the server
//! gets a limited time, the grace. What it does not take in that time goes into
//! the spool, and whoever delivers next (a later run, or the daemon) sends it.
//! A record that the server has read and refused is not kept: it would be
//! refused again.

use crate::delivery::client::Server;
use crate::delivery::spool::{Disk, Spool, Taken, Worth};
use crate::error::AgentError;
use crate::stderr_log::say;
use std::time::{Duration, Instant};

/// A server that is being restarted may be back; one that is gone is not
/// waited for.
const MOST_TRIES: u32 = 3;
/// Between two tries within the grace.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// Where a record ended up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Or to the daemon, which answers for it from then on.
    ToTheServer,
    ToTheSpool,
    Nowhere,
}

/// Connection to the server.
#[derive(Debug)]
pub struct Delivery<D> {
    pub server: Server,
    /// Missing if its folder cannot be used, which has been said.
    pub spool: Option<Spool<D>>,
    pub grace: Duration,
}

impl<D: Disk> Delivery<D> {
    /// Sends a record and, if the server is well, what was left from before;
    /// all within the grace.
    pub fn deliver(&mut self, record: &[u8], worth: Worth) -> Delivered {
        let until = Instant::now() + self.grace;
        match self.try_until(record, until) {
            Ok(()) => {
                self.send_leftovers(until);
                Delivered::ToTheServer
            }
            Err(error) if is_final(&error) => {
                say(format_args!("the record is lost: {error}"));
                Delivered::Nowhere
            }
            Err(error) => {
                let kept = match &mut self.spool {
                    Some(spool) => spool.append(record, worth).map_err(|e| e.to_string()),
                    None => Err("there is no spool".into()),
                };
                match kept {
                    Ok(()) => {
                        say(format_args!("the record will be sent later: {error}"));
                        Delivered::ToTheSpool
                    }
                    Err(why) => {
                        say(format_args!("the record is lost: {error}, and {why}"));
                        Delivered::Nowhere
                    }
                }
            }
        }
    }

    fn try_until(&self, record: &[u8], until: Instant) -> Result<(), AgentError> {
        let mut tries = 0;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let outcome = self.server.upload(record, left.max(BETWEEN_TRIES));
            let Err(error) = outcome else {
                return Ok(());
            };
            tries += 1;
            if is_final(&error) || tries == MOST_TRIES || Instant::now() + BETWEEN_TRIES >= until {
                return Err(error);
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
    }

    fn send_leftovers(&mut self, until: Instant) {
        let Delivery { server, spool, .. } = self;
        let Some(spool) = spool else {
            return;
        };
        let sent = spool.send(|record| {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Taken::NotNow;
            }
            settled(server.upload(record, left))
        });
        if let Err(error) = sent {
            say(format_args!("the spool cannot be read: {error}"));
        }
    }
}

/// Whether trying again would change nothing.
fn is_final(error: &AgentError) -> bool {
    // Too many requests and time-outs are about the moment, not the record.
    matches!(error, AgentError::ServerRefused { status, .. }
        if (400..500).contains(status) && !matches!(status, 401 | 403 | 408 | 429))
}

/// What an upload from the spool means for the record's segment.
pub fn settled(outcome: Result<(), AgentError>) -> Taken {
    match outcome {
        Ok(()) => Taken::Done,
        Err(error) if is_final(&error) => {
            say(format_args!("a record from the spool is lost: {error}"));
            Taken::Done
        }
        Err(_) => Taken::NotNow,
    }
}
