//! Which blocks of the heap are free now, and who freed them.
//!
//! A table by address: each free enters its block, each allocation takes out the blocks
//! that begin in what it hands out. So a pointer into a block that the table still has is
//! a pointer into freed memory, whoever holds it. A block that was handed out again keeps
//! its entry until another one needs the place, with the time at which its memory was
//! used again: what came in between came after the free, too.
//!
//! The table is made of sets of [`FREED_WAYS`] entries. A granule of the address space,
//! half a kilobyte, has one set: no more blocks than that begin in it, and an allocation
//! looks into as many sets as it covers granules. Blocks too large for that have entries
//! of their own, because the kernel may hand out any part of their memory again.

/// A power of two.
pub const FREED_SETS: usize = 256;
pub const FREED_WAYS: usize = 16;
/// Logarithm of the bytes of a granule.
pub const FREED_GRANULE: u32 = 9;
/// Blocks above this are kept apart.
pub const LARGE_BLOCK: u64 = 32 * 1024;
pub const LARGE_BLOCKS: usize = 16;
pub const FREED_BLOCKS: usize = FREED_SETS * FREED_WAYS;
/// Words of the stack that are kept of a free, from its return address upward.
pub const FREED_STACK_WORDS: usize = 24;

/// Values of [`Lifetimes::observed`]: nobody has looked, as in a program without the
/// preloaded object.
pub const LIFETIMES_UNSEEN: u32 = 0;
/// Every allocation and every free is seen.
pub const LIFETIMES_OBSERVED: u32 = 1;
/// Another allocator than the C library's serves the program.
pub const LIFETIMES_OWN_ALLOCATOR: u32 = 2;

/// A block that was freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Freed {
    /// The counter just before the free.
    pub at: u64,
    /// The counter when its memory was handed out again; zero if it was not.
    pub until: u64,
    pub address: u64,
    pub size: u64,
    pub tid: u32,
    /// Not zero while it is being written.
    pub busy: u32,
    /// Words of `stack` that were kept.
    pub words: u64,
    /// The registers at the entry of the function that freed.
    pub stack_pointer: u64,
    pub frame_pointer: u64,
    /// From `stack_pointer` upward; the first one is the return address.
    pub stack: [u64; FREED_STACK_WORDS],
}

/// The table.
#[repr(C, align(4096))]
pub struct Lifetimes {
    pub observed: u32,
    /// Bit n: `large_starts[n]` is in use.
    pub large: u32,
    /// How often a block that was still free gave way to another one.
    pub replaced: u64,
    /// Where the next search for a place begins, by set; the last one is that of large
    /// blocks.
    pub next: [u32; FREED_SETS + 1],
    /// What an entry's block is known by while it is free; zero for none.
    pub keys: [[u32; FREED_WAYS]; FREED_SETS],
    pub large_starts: [u64; LARGE_BLOCKS],
    pub large_ends: [u64; LARGE_BLOCKS],
    /// By set and way, then the large ones.
    pub blocks: [Freed; FREED_BLOCKS + LARGE_BLOCKS],
}

/// What a block is known by: no two in 64 GiB share it, and one that does counts as
/// handed out too early, which loses it and states nothing wrong.
pub const fn key_of(address: u64) -> u32 {
    (address >> 4) as u32
}

/// The set of the blocks that begin where `address` lies.
pub const fn set_of(address: u64) -> usize {
    (address >> FREED_GRANULE) as usize % FREED_SETS
}
