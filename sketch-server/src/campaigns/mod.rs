//! Campaigns at work: runs are filed, agents are assigned plans, one engine thread owns it all.

pub(crate) mod assignment;
pub(crate) mod assignment_feed;
pub(crate) mod campaign;
pub(crate) mod diagnose;
pub(crate) mod engine;
pub(crate) mod fleet;
pub mod plans;
pub(crate) mod promotion;
pub(crate) mod run_filing;
pub(crate) mod traced_runs;
