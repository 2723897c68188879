//! From this machine to the server and back: connection, outbox, and the spool for hours without a server.

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod local_http;
pub(crate) mod outbox;
pub(crate) mod spool;
