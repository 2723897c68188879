//! Diagnosis campaigns: refinement, predictors, ranking, sketches, storage, HTTP.
//!
//! Two halves. [`diagnosis`] is pure: records in, sketches out, no IO and no
//! clock. [`service`] is what surrounds it: storage, the campaign state machine,
//! the jobs that slice and build, and the HTTP API.

pub mod diagnosis;
pub mod service;

pub use service::{ServerConfig, ServerError, serve};
