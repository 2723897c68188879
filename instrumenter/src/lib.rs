//! Turns a tracking plan into a tracked build P′.
//!
//! Hooks go in at the *end* of optimisation, into the optimised bitcode that
//! registration kept: what the optimiser decided for P stays decided for P′,
//! and functions without hooks come out as they were. The modules are then
//! lowered to objects with P's own flags and linked again with the runtime.
//!
//! Deliberately absent in this first form: tracked clones beside the original
//! functions, a governor, and producing P′ without a relink (DESIGN §4).

mod atomics;
mod error;
mod hooks;
mod locate;
mod place;
mod tracked_build;

pub use error::InstrumentError;
pub use place::place;
pub use tracked_build::{TrackedBuild, track};
