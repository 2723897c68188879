//! The bodies of the HTTP API that agents, commands and pages share.

pub(crate) mod assignments;
pub(crate) mod campaigns;
