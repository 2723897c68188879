//! A run that ended, as the record that is sent: assembled, limited in size, redacted.

pub(crate) mod assemble;
pub(crate) mod freed;
pub(crate) mod limits;
pub(crate) mod redaction;
pub(crate) mod secret;
pub(crate) mod watch_part;
