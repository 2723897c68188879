//! The whole region, and how each side knows it for its own.

use crate::{Control, Crash, Fatigue, Header, Lifetimes, THREAD_SLOTS, ThreadSlot};

/// "FSKETCH" and a byte that no text has.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FSKETCH\x01");
/// Grows with every change of this crate.
pub const VERSION: u32 = 16;

/// Stands right before the constructor of the runtime inside a tracked build, at a
/// multiple of its own length: so the agent finds it in a file without symbols.
pub const START_MARK: [u64; 2] = [
    u64::from_le_bytes(*b"failsket"),
    u64::from_le_bytes(*b"ch-start"),
];

/// The variable that activates the runtime: `<fd>:<nonce in 16 hex digits>`.
pub const ACTIVATION_VARIABLE: &str = "FAILSKETCH_FD";
/// What LD_PRELOAD was before the agent prepended the runtime; absent if it was unset.
pub const PRELOAD_WAS_VARIABLE: &str = "FAILSKETCH_PRELOAD_WAS";

/// Bytes of `/proc/self/maps` kept.
pub const MAPS_BYTES: usize = 128 * 1024;

/// The whole region.
#[repr(C, align(4096))]
pub struct Region {
    pub header: Header,
    pub control: Control,
    pub crash: Crash,
    /// `/proc/self/maps` at activation.
    pub maps: [u8; MAPS_BYTES],
    pub fatigue: Fatigue,
    pub threads: [ThreadSlot; THREAD_SLOTS],
    pub lifetimes: Lifetimes,
}

/// The exact size of the memfd of a tracked build.
pub const REGION_SIZE: usize = size_of::<Region>();
/// The exact size of the memfd of a program that only has its crash captured: the
/// region up to what only hooks use, which is most of it, and whose pages would
/// cost every start milliseconds.
pub const CAPTURE_SIZE: usize = core::mem::offset_of!(Region, fatigue);
