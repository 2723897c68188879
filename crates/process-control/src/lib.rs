//! A process as what one may do with it: start it, stand in front of it, share memory
//! with it, notice that it hangs, and see how it ends.
//!
//! What for is up to whoever uses this crate: it has no policy and no files of its own,
//! speaks to nobody, and knows nothing of servers and patches.

pub mod clock;
pub mod descriptors;
pub mod environment;
pub mod error;
pub mod hang;
pub mod inherited;
pub mod job_control;
pub mod launch;
pub mod modules;
pub mod region;
pub mod signals;
pub mod supervise;
pub mod sys;
pub mod unwind;
