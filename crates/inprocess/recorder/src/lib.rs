//! What a tracked build carries: hooks that record what the tracked statements did, and
//! watchpoints.
//!
//! Linked into the program as one object. Without an activation by the agent every hook
//! is one comparison and a return.
#![no_std]

mod constructor;
mod governor;
mod hooks;
mod kept;
mod lifetimes;
mod perf_attr;
mod recorder;
mod recorder_state;
mod served;
mod string_values;
mod threads;
mod tiring;
mod watch;
