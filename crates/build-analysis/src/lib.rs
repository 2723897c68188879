//! A registered build as server and command work with it: one loaded program, from
//! which slices, plans and tracked builds are made, and addresses become statements.
//!
//! [`LoadedBuild`] is the program with its statements. Its graph comes from the build
//! store; where that has none, a child process with limits reads the bitcode
//! ([`bitcode_child`]). [`BuildTools`] is what a campaign asks of all builds of a
//! store, [`StoredBuilds`] answers it.
//!
//! Deliberately absent: campaigns, storage, HTTP. Nothing here knows of runs but where
//! a failure's stack lies ([`locate`]).

pub mod bitcode_child;
mod build_tools;
mod loaded_build;
mod locate;
mod stored_builds;
mod trace_map;

pub use bitcode_child::BitcodeReader;
pub use build_tools::{BuildError, BuildTools, TrackedBinary};
pub use loaded_build::{LoadedBuild, find_build};
pub use locate::{Unlocated, locate};
pub use stored_builds::StoredBuilds;
pub use trace_map::{TraceMap, TraceMapError};
