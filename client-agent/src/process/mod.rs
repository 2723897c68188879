//! Starting the command, standing in front of it, and seeing how it ends.

pub mod descriptors;
pub mod environment;
pub mod inherited;
pub mod job_control;
pub mod launch;
pub mod signals;
pub mod supervise;
pub mod sys;
