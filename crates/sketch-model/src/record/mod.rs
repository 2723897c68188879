//! One run as an agent records it: outcome, threads, hits, and what was lost.

pub(crate) mod freed;
pub(crate) mod run;
pub(crate) mod tracking;
