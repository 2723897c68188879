//! The agent: a transparent supervisor of one command.
//!
//! It chooses between P and a tracked build, prepares the shared memory that
//! outlives the process, stands in front of the command without being noticed,
//! collects what the process left, and sends it to the server. Whatever goes
//! wrong on the way, the command runs and ends as it would without us.
//!
//! Never links LLVM, nor a decoder of Intel PT: traces are sent as they are.

pub mod cli;
mod daemon;
mod delivery;
mod doctor;
mod error;
mod governor;
mod intel_pt;
mod patches;
mod policy;
mod preload;
mod record;
mod run;
mod stderr_log;
mod watchpoints;

pub use error::AgentError;
use process_control as process;
