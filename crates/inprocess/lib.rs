//! The part of Failsketch that lives inside the program under diagnosis.
//!
//! Compiled by `crates/runtime/build.rs` twice: as one relocatable object linked into tracked
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

#[path = "layout/src/lib.rs"]
#[allow(dead_code)]
mod layout;

#[path = "capture/src/activate.rs"]
mod activate;
#[path = "capture/src/crash.rs"]
mod crash;
#[path = "base/src/environment.rs"]
mod environment;
#[cfg(not(failsketch_preload))]
#[path = "recorder/src/governor.rs"]
mod governor;
#[cfg(not(failsketch_preload))]
#[path = "recorder/src/hooks.rs"]
mod hooks;
#[cfg(failsketch_preload)]
#[path = "preload/src/interpose.rs"]
mod interpose;
#[path = "capture/src/abort_message.rs"]
mod last_words;
#[path = "base/src/maps.rs"]
mod maps;
#[cfg(failsketch_preload)]
#[path = "base/src/next_symbol.rs"]
mod next_symbol;
#[cfg(not(failsketch_preload))]
#[path = "recorder/src/perf_attr.rs"]
mod perf_attr;
#[cfg(not(failsketch_preload))]
#[path = "recorder/src/recorder.rs"]
mod recorder;
#[path = "preload/src/served.rs"]
mod served;
#[path = "capture/src/state.rs"]
mod state;
#[path = "base/src/sys.rs"]
mod sys;
#[cfg(not(failsketch_preload))]
#[path = "recorder/src/text.rs"]
mod text;
#[cfg(not(failsketch_preload))]
#[path = "recorder/src/threads.rs"]
mod threads;
#[cfg(not(failsketch_preload))]
#[path = "recorder/src/watch/mod.rs"]
mod watch;

/// A shared object must have a panic handler even where nothing panics.
#[cfg(failsketch_preload)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    sys::exit_group(127)
}
