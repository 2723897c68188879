//! The agent: a transparent supervisor of one command.
//!
//! It chooses between P and a tracked build, prepares the shared memory that
//! outlives the process, stands in front of the command without being noticed,
//! collects what the process left, and sends it to the server. Whatever goes
//! wrong on the way, the command runs and ends as it would without us.
//!
//! Never links LLVM. Deliberately absent so far: the daemon, the spool, hangs,
//! canaries, privacy levels, Intel PT.

pub mod cli;
mod clock;
mod doctor;
mod dynamic;
mod elf;
mod error;
mod failure;
mod governor;
mod maps;
mod modules;
mod perf;
mod preload;
mod process;
mod program;
mod record;
mod repeat;
mod run;
mod say;
mod server;
mod shared_memory;
mod tracked;
mod unwind;

pub use error::AgentError;
