//! Turns a tracking plan into a tracked build P′.
//!
//! Hooks go in at the *end* of optimisation, into the optimised bitcode that
//! registration kept: what the optimiser decided for P stays decided for P′.
//! Only the functions concerned are compiled; P gets them as an appended segment
//! (`clones/`). Where that is refused, whole modules are lowered with P's own
//! flags and linked again with the runtime (`tracked_build.rs`).

mod atomics;
mod bypass;
mod call_values;
mod clones;
mod error;
mod flow;
mod hooks;
mod hosts;
mod locate;
mod marks;
mod merged;
mod outcomes;
mod place;
mod source_branches;
mod source_stores;
mod tracked_build;
mod vanished;

pub use clones::Refusal;
pub use error::InstrumentError;
pub use place::place;
pub use source_branches::SourceBranches;
pub use tracked_build::{TrackedBuild, Way, track, track_by_relinking};
