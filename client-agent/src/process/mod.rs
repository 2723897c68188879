//! Starting the command, standing in front of it, and seeing how it ends.

pub(crate) mod clock;
pub mod descriptors;
pub mod environment;
pub mod error;
pub(crate) mod hang;
pub mod inherited;
pub mod job_control;
pub mod launch;
pub(crate) mod modules;
pub(crate) mod region;
pub mod signals;
pub mod supervise;
pub mod sys;
pub(crate) mod unwind;
