//! Crash capture, inside the program: in both forms of the runtime, the one that is
//! preloaded into untouched programs and the one that is linked into tracked builds.
//!
//! What the forms do beyond it they say by [`activate::Form`].
#![no_std]

pub mod abort_message;
pub mod activate;
pub mod crash;
pub mod signal_chain;
pub mod signal_stacks;
pub mod state;
