//! The link line of a build: recorded, taken apart, and followed again for a tracked build.

pub mod driver_args;
pub(crate) mod inputs;
pub(crate) mod plan;
pub mod record;
pub mod relink;
