//! The few kilobytes inside the process, as artefacts for the host side.
//!
//! `build.rs` compiles `crates/inprocess/` into two files; this crate carries their
//! bytes and the layout of the shared memory they write. The instrumenter links
//! [`LINKABLE`] into tracked builds, the agent preloads [`PRELOAD`] into both
//! untouched and tracked ones, and reads what either left behind.
//!
//! Deliberately absent: any use of the in-process code by the host side.

pub use inprocess_layout as layout;

/// One relocatable object with the hooks, crash capture and watchpoints. Pass it
/// to the linker like any other object, no flags needed: it has no undefined
/// symbols, and its constructor keeps it from being discarded.
pub const LINKABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/failsketch-runtime.o"));

/// The name that [`LINKABLE`] should have on disk.
pub const LINKABLE_FILE_NAME: &str = "failsketch-runtime.o";

/// A shared object for `LD_PRELOAD`: crash capture, the early start of a tracked build's
/// runtime, and the functions that it stands in front of.
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/failsketch-preload.so"));
