//! Tracked builds on this machine: fetched, verified, tried on few runs first, never older than what ran before.

pub(crate) mod backoff;
pub(crate) mod canary;
pub(crate) mod locked_file;
pub(crate) mod rollback_guard;
pub(crate) mod share;
pub(crate) mod tracked_build;
