//! Turns a tracking plan into a tracked build P′.
//!
//! Hooks go in at the *end* of optimisation, into the optimised bitcode that
//! registration kept: what the optimiser decided for P stays decided for P′.
//! Only the functions concerned are compiled; P gets them as an appended segment
//! (`clones/`). Where that is refused, whole modules are lowered with P's own
//! flags and linked again with the runtime (`tracked_build.rs`).

mod branches;
mod clones;
mod error;
mod hooks;
mod sites;
mod tracked_build;

pub use branches::source_branches::SourceBranches;
pub use clones::Refusal;
pub use error::InstrumentError;
pub use sites::place::place;
pub use tracked_build::{TrackedBuild, Way, track, track_by_relinking};
