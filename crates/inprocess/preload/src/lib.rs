//! The object that the agent preloads. Into untouched programs, where it captures crashes;
//! and into tracked builds, where it records nothing: it starts the runtime inside, before
//! any library runs, and stands in front of a few functions of the C library for it.
//!
//! No crate links it: its functions would take the place of the C library's there.
#![no_std]

mod allocator;
mod constructor;
mod interposed_functions;
mod panic_handler;
