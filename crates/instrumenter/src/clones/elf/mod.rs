//! P's own ELF file: what it holds, and the segment that a tracked build appends to it.

pub(crate) mod append;
pub(crate) mod debug_frame;
pub(crate) mod headers;
pub(crate) mod loader;
pub(crate) mod original;
pub(crate) mod unwind_table;
