//! The part of Failsketch that lives inside the program under diagnosis.
//!
//! Compiled by `build.rs` twice: as one relocatable object linked into tracked
//! builds, and (with `--cfg failsketch_preload`) as a shared object preloaded
//! into untouched ones, for crash capture only.
//!
//! It uses no library, not even the C library: raw system calls, no allocation,
//! no panics (the object must not refer to any symbol but its own; a test checks
//! it), no thread-local storage, nothing that is unsafe in a signal handler.
//! Without an activation by the agent every hook is one comparison and a return.
//!
//! The preloaded form also goes with tracked builds, where it records nothing: it
//! stands in front of a few functions of the C library (`interpose.rs`).
#![no_std]
#![no_builtins]
#![deny(unsafe_op_in_unsafe_fn)]

#[path = "../src/layout.rs"]
#[allow(dead_code)]
mod layout;

mod activate;
mod crash;
mod environment;
#[cfg(not(failsketch_preload))]
mod governor;
#[cfg(not(failsketch_preload))]
mod hooks;
#[cfg(failsketch_preload)]
mod interpose;
mod last_words;
mod maps;
#[cfg(failsketch_preload)]
mod next_symbol;
#[cfg(not(failsketch_preload))]
mod perf_attr;
#[cfg(not(failsketch_preload))]
mod recorder;
mod served;
mod state;
mod sys;
#[cfg(not(failsketch_preload))]
mod text;
#[cfg(not(failsketch_preload))]
mod threads;
#[cfg(not(failsketch_preload))]
mod watch;

/// A shared object must have a panic handler even where nothing panics.
#[cfg(failsketch_preload)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    sys::exit_group(127)
}
