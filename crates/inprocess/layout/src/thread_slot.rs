//! What one thread records: its first and last events, and its account of edges.

use crate::{DOORS, TIRING_SITES};

/// Threads that record at the same time; further ones are counted. The agent
/// empties and frees the slots of threads that have ended.
pub const THREAD_SLOTS: usize = 64;
/// A thread's first events, never overwritten.
pub const HEAD_EVENTS: usize = 256;
/// A thread's last events. A power of two.
pub const RING_EVENTS: usize = 4096;
/// Edges a thread keeps an account of. A power of two.
pub const EDGES: usize = 512;
/// How often one thread writes the same edge or access down as an event; after
/// that it is only counted, and of accesses the latest is kept, so that a hot
/// loop does not push out what came before it.
pub const EDGE_SATURATION: u64 = 512;

/// The same for a slot that holds `count` events already: the fuller it is, the
/// sooner what is frequent gives way to what is rare, so that nothing is lost but
/// repetitions.
pub const fn edge_saturation(count: u64) -> u64 {
    const ALL: u64 = (HEAD_EVENTS + RING_EVENTS) as u64;
    if count < ALL / 2 {
        EDGE_SATURATION
    } else if count < ALL / 4 * 3 {
        EDGE_SATURATION / 8
    } else if count < ALL / 8 * 7 {
        EDGE_SATURATION / 64
    } else {
        EDGE_SATURATION / 256
    }
}

/// [`Edge::successor`] of a point that is merely reached, of an access, and of the
/// beginning and the end of a synchronisation call.
pub const REACHED: u32 = u32::MAX;
pub const ACCESSED: u32 = u32::MAX - 1;
pub const SYNC_BEGUN: u32 = u32::MAX - 2;
pub const SYNC_ENDED: u32 = u32::MAX - 3;
/// Of an access whose first clock reading was left out, because its thread is tired of it.
pub const ACCESSED_UNTIMED: u32 = u32::MAX - 4;
/// Bits of [`Edge::shapes`].
pub const SAW_ZERO: u64 = 1;
pub const SAW_NON_ZERO: u64 = 2;
pub const SAW_NEGATIVE: u64 = 4;
/// The thread has tired of it: from then on not all is counted.
pub const TIRED: u64 = 8;

/// How many events of a saturated edge go into its account before the thread tires of it,
/// at first and each time that it was woken. A power of two.
pub const TIRED_AFTER: u64 = 32;

/// Low byte of [`Event::kind`].
pub const KIND_READ: u16 = 1;
pub const KIND_WRITE: u16 = 2;
/// `value` is the successor's number.
pub const KIND_BRANCH: u16 = 3;
pub const KIND_CALL: u16 = 4;
pub const KIND_SYNC_BEGIN: u16 = 5;
pub const KIND_SYNC_END: u16 = 6;
/// An argument of the call that was just reached: `address` is its number, from 1.
pub const KIND_ARGUMENT: u16 = 7;
/// What the call returned.
pub const KIND_RESULT: u16 = 8;
/// The string that the value before it points to: its bytes are in `after`,
/// `address` and `value`, their number in `size`.
pub const KIND_TEXT: u16 = 9;
/// Bytes of a string that are kept.
pub const TEXT_BYTES: usize = 24;
/// In [`Event::size`]: of an argument or result, it is a pointer; of a text,
/// there is more of it.
pub const SIZE_FLAG: u16 = 1 << 15;

/// One record of a hook.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    pub site: u32,
    /// Low byte: one of the `KIND_` constants. High byte: the lap of the ring,
    /// modulo 256, so that a reader can tell an event that was still being
    /// written when the process died from the one it was about to replace.
    /// Written last.
    pub kind: u16,
    pub size: u16,
    pub before: u64,
    pub after: u64,
    pub address: u64,
    pub value: u64,
}

/// One way that a branch went, or one point or access that was reached, in one
/// thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Edge {
    /// The site's number plus one; zero where there is no edge.
    pub site: u32,
    pub successor: u32,
    /// Of one that the thread has tired of: those that went into the account.
    pub count: u64,
    pub first: u64,
    /// Exact while all are events; then a lower bound.
    pub last: u64,
    /// Of an access: how many are no events.
    pub missed: u64,
    /// What the values of an access looked like, all of them.
    pub shapes: u64,
    /// The latest event of a saturated access; its `kind` is zero while it is
    /// being written.
    pub latest: Event,
}

/// States of [`ThreadSlot::state`]. A free slot is all zeros.
pub const SLOT_FREE: u32 = 0;
/// Somebody claims it or clears it.
pub const SLOT_BUSY: u32 = 1;
pub const SLOT_USED: u32 = 2;

/// What one thread recorded.
#[repr(C)]
pub struct ThreadSlot {
    pub state: u32,
    /// With `claimed_at` and the region's process, the thread's identity.
    pub tid: u32,
    /// The counter when the slot was claimed.
    pub claimed_at: u64,
    /// Events ever recorded: index `i` lives in `head[i]`, later ones in
    /// `ring[(i - HEAD_EVENTS) % RING_EVENTS]`.
    pub count: u64,
    /// Ticks that its hooks have cost and that are not in the account yet.
    pub due: u64,
    /// Events that were only counted, in `edges`, or replaced there.
    pub saturated: u64,
    /// Events of edges that found no room in `edges`.
    pub edges_full: u64,
    /// Not zero: the thread found no slot at first, and what it did until then is lost.
    pub late: u64,
    /// The last reading of the counter for an event.
    pub last_reading: u64,
    /// By site and door: the mark of the waking since which the thread is tired of it.
    pub tired: [u8; TIRING_SITES * DOORS],
    pub edges: [Edge; EDGES],
    pub head: [Event; HEAD_EVENTS],
    pub ring: [Event; RING_EVENTS],
}
