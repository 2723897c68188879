//! What strangers may cost: time, memory, connections. One place for all of it,
//! so that an operator's question "what can one client do to us" has one answer.

use std::time::Duration;

/// Bounds on what requests may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// From the opening of a connection, or its last answer, to the end of the
    /// next request's head; also for the TLS handshake.
    pub head: Duration,
    /// A body may always take this long …
    pub body_grace: Duration,
    /// … and beyond that as long as it keeps coming at this rate, in bytes a
    /// second, on average from its start.
    pub body_rate: u64,
    /// Bytes of one body.
    pub body: usize,
    /// Bytes of all bodies that are held at the same time.
    pub bodies: usize,
    /// Connections at the same time; no single address gets more than a quarter.
    pub connections: usize,
    /// What requests under way get when the server is told to end.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head: Duration::from_secs(30),
            body_grace: Duration::from_secs(10),
            body_rate: 32 << 10,
            body: 16 << 20,
            bodies: 256 << 20,
            connections: 8192,
            drain: Duration::from_secs(10),
        }
    }
}
