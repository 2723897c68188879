//! From a finished run to the server, now or later.
//!
//! The command has ended and somebody waits for its exit status, so the server
//! gets a limited time, the grace. What it does not take in that time goes into
//! the spool, and whoever delivers next (a later run, or the daemon) sends it. A daemon takes
//! the server's place: what it has acknowledged is its to send.
//! A record that the server has read and refused is not kept: it would be
//! refused again.

use crate::delivery::client::Server;
use crate::delivery::spool::{Disk, Spool, Taken, Worth};
use crate::error::AgentError;
use crate::stderr_log::say;
use std::time::{Duration, Instant};

/// A server that is being restarted may be back; one that is gone is not
/// waited for, nor is a daemon, whose place the spool takes at once.
const MOST_TRIES: u32 = 3;
/// Between two tries within the grace.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// Connection to the server, or to the daemon.
#[derive(Debug)]
pub struct Outbox<D> {
    pub server: Server,
    /// Missing if its folder cannot be used, which has been said.
    pub spool: Option<Spool<D>>,
    pub grace: Duration,
}

impl<D: Disk> Outbox<D> {
    /// Sends a record and, if the server is well, what was left from before; all within the
    /// grace. Failing to is said, and changes nothing.
    pub fn deliver(&mut self, record: &[u8], worth: Worth) {
        let until = Instant::now() + self.grace;
        match self.try_until(record, worth, until) {
            Ok(()) => self.send_leftovers(until),
            Err(error) if is_final(&error) => say(format_args!("the record is lost: {error}")),
            Err(error) => {
                let kept = match &mut self.spool {
                    Some(spool) => spool.append(record, worth).map_err(|e| e.to_string()),
                    None => Err("there is no spool".into()),
                };
                match kept {
                    Ok(()) => say(format_args!("the record will be sent later: {error}")),
                    Err(why) => say(format_args!("the record is lost: {error}, and {why}")),
                }
            }
        }
    }

    fn try_until(&self, record: &[u8], worth: Worth, until: Instant) -> Result<(), AgentError> {
        let most_tries = match self.server.is_daemon() {
            true => 1,
            false => MOST_TRIES,
        };
        let mut tries = 0;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let outcome = self.server.upload(record, worth, left.max(BETWEEN_TRIES));
            let Err(error) = outcome else {
                return Ok(());
            };
            tries += 1;
            if is_final(&error) || tries == most_tries || Instant::now() + BETWEEN_TRIES >= until {
                return Err(error);
            }
            std::thread::sleep(BETWEEN_TRIES);
        }
    }

    fn send_leftovers(&mut self, until: Instant) {
        let Outbox { server, spool, .. } = self;
        let Some(spool) = spool else {
            return;
        };
        let sent = spool.send(|record| {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Taken::NotNow;
            }
            // What it is worth is not kept.
            settled(server.upload(record, Worth::Failure, left))
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
