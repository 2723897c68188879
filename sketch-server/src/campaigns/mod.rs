//! Campaigns at work: runs are filed, agents are assigned plans, one engine thread owns it all.

pub(crate) mod assignment;
pub(crate) mod assignment_feed;
pub(crate) mod engine;
pub(crate) mod fleet;
pub mod plans;
pub(crate) mod run_filing;
