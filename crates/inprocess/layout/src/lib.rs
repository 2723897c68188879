//! The shared memory between an agent and the process it supervises.
//!
//! One crate for both sides, so that they cannot disagree. Everything is `repr(C)`
//! and made of integers: any bytes are a value of these types, which lets the agent
//! read what a crashed process left without trusting it.
//!
//! The region is a memfd of exactly [`REGION_SIZE`] bytes, sealed against
//! resizing and with all pages allocated by the agent: a hole or a truncation
//! would be a SIGBUS in the program under diagnosis.
//!
//! Deliberately absent: behaviour. The writers are the crates beside this one, the
//! reader is `crates/process-control/src/region/`.
#![no_std]

mod control;
mod crash_area;
mod fatigue;
mod freed_blocks;
mod header;
mod interposed;
mod region;
mod thread_slot;
mod watchpoints;

pub use control::*;
pub use crash_area::*;
pub use fatigue::*;
pub use freed_blocks::*;
pub use header::*;
pub use interposed::*;
pub use region::*;
pub use thread_slot::*;
pub use watchpoints::*;
