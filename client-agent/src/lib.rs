//! The agent: a transparent supervisor of one command.
//!
//! It chooses between P and a tracked build, prepares the shared memory that
//! outlives the process, stands in front of the command without being noticed,
//! collects what the process left, and sends it to the server. Whatever goes
//! wrong on the way, the command runs and ends as it would without us.
//!
//! Never links LLVM, nor a decoder of Intel PT: traces are sent as they are.

mod access;
mod backoff;
mod barrier;
mod canary;
mod check;
pub mod cli;
mod clock;
mod config;
mod daemon;
mod delivery;
mod doctor;
mod dynamic;
mod elf;
mod error;
mod failure;
mod governor;
mod hang;
mod kept;
mod maps;
mod modules;
mod newest;
mod perf;
mod policy;
mod preload;
mod privacy;
mod private_files;
mod process;
mod program;
mod pt;
mod record;
mod recording;
mod repeat;
mod run;
mod say;
mod secret;
mod server;
mod session;
mod settings;
mod shared_memory;
mod spool;
mod tracked;
mod unwind;
mod upstream;

pub use error::AgentError;
