//! The table through which the preloaded object serves the runtime of a tracked build.

use crate::WATCH_SLOTS;

/// What the preloaded object does for the runtime of a tracked build. Lies in
/// the process's own memory.
#[repr(C)]
pub struct Interposed {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Not zero: some slot is aimed.
    pub watching: u32,
    /// The address that each slot watches; zero for none.
    pub watched: [u64; WATCH_SLOTS],
    /// `extern "C" fn(slot: u32)`: the memory that a slot watches is about to be
    /// given back. Zero until there is a runtime.
    pub given_back: usize,
    /// `extern "C" fn(signal: i32)`: the program is about to look at or to set
    /// its handler; it has done so.
    pub step_aside: usize,
    pub step_in_front: usize,
    /// `extern "C" fn(block: u64, size: u64, stack: *const u64, frame: u64)`: a block is about
    /// to be freed by who has this stack. Zero while nobody keeps lifetimes.
    pub freed: usize,
    /// `extern "C" fn(block: u64, size: u64)`: a block was handed out.
    pub allocated: usize,
    /// One of the `LIFETIMES_` constants: whether these two tell of all blocks.
    pub lifetimes: u32,
    pub padding: u32,
}
