//! Keeps which blocks of the heap are free now, and who freed them.
//!
//! The preloaded object, which stands in front of the allocator, tells of each block that
//! is about to be freed and of each that was handed out. A free is entered while recording
//! is on; an allocation takes blocks out always, because one that went unseen would leave
//! memory that is in use again as "free". The table lies in the shared memory and outlives
//! a crash as it is.
//!
//! It may be called anywhere: in a signal handler, in the middle of itself, in a child that
//! was forked (which has no region). An entry is written by whoever claims it; a thread
//! that finds it claimed leaves its block out. Nothing waits, nothing is allocated.
//!
//! Of the stack so much is kept as lies on the page of the return address: what follows
//! may not be mapped.
//!
//! Deliberately absent: unwinding. The agent does that, after death, for the few blocks
//! that matter.

use crate::governor;
use core::{
    arch::asm,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
use inprocess_base::sys;
use inprocess_capture::state;
use inprocess_layout::{
    FREED_BLOCKS, FREED_GRANULE, FREED_SETS, FREED_STACK_WORDS, FREED_WAYS, Freed, LARGE_BLOCK,
    LARGE_BLOCKS, Lifetimes, key_of, set_of,
};

const PAGE: u64 = 4096;
/// What a free costs the account, in ticks: it is settled once in [`FREED_WAYS`].
const TICKS: u64 = 200;

fn table() -> Option<*mut Lifetimes> {
    let region = state::region();
    // SAFETY: a region that is not null is mapped whole.
    (!region.is_null()).then(|| unsafe { &raw mut (*region).lifetimes })
}

/// `block` is about to be freed by a function that was entered with `stack` as its stack
/// pointer and `frame` in `rbp`.
pub extern "C" fn freed(block: u64, size: u64, stack: *const u64, frame: u64) {
    let Some(table) = table().filter(|_| state::enabled()) else {
        return;
    };
    let key = key_of(block);
    if key == 0 || size == 0 {
        return;
    }
    // SAFETY: the table is mapped; the stack is the caller's.
    unsafe {
        if size > LARGE_BLOCK {
            enter_large(table, (block, size), stack, frame);
        } else {
            enter(table, (block, size), stack, frame);
        }
    }
}

/// # Safety
/// `table` must be mapped, and `stack` where a return address lies.
unsafe fn enter(table: *mut Lifetimes, block: (u64, u64), stack: *const u64, frame: u64) {
    let (set, key) = (set_of(block.0), key_of(block.0));
    // SAFETY: set and way are in bounds; shared words are atomic.
    unsafe {
        let turn = next_turn(table, set);
        let keys = keys_of(table, set);
        let mut way = turn % FREED_WAYS;
        let mut tried = 0;
        // A block that is in the table already keeps its place; or else an empty one is
        // taken; or else that of the oldest.
        let mut empty = FREED_WAYS;
        while tried < FREED_WAYS {
            let candidate = (turn + tried) % FREED_WAYS;
            let there = (*keys.add(candidate)).load(Ordering::Relaxed);
            if there == key {
                empty = candidate;
                break;
            }
            if there == 0 && empty == FREED_WAYS {
                empty = candidate;
            }
            tried += 1;
        }
        if empty != FREED_WAYS {
            way = empty;
        }
        let entry = entry(table, set * FREED_WAYS + way);
        if !claim(entry) {
            return;
        }
        let key_word = &*keys.add(way);
        let before = key_word.swap(0, Ordering::Relaxed);
        if before != 0 && before != key {
            AtomicU64::from_ptr(&raw mut (*table).replaced).fetch_add(1, Ordering::Relaxed);
        }
        write(entry, block, stack, frame);
        key_word.store(key, Ordering::Release);
        release(entry);
    }
}

/// # Safety
/// As [`enter`].
unsafe fn enter_large(table: *mut Lifetimes, block: (u64, u64), stack: *const u64, frame: u64) {
    // SAFETY: the place is in bounds; shared words are atomic.
    unsafe {
        let place = next_turn(table, FREED_SETS) % LARGE_BLOCKS;
        let entry = entry(table, FREED_BLOCKS + place);
        if !claim(entry) {
            return;
        }
        let (starts, ends) = large(table);
        let used = AtomicU32::from_ptr(&raw mut (*table).large);
        if used.fetch_and(!(1 << place), Ordering::Relaxed) & 1 << place != 0 {
            AtomicU64::from_ptr(&raw mut (*table).replaced).fetch_add(1, Ordering::Relaxed);
        }
        write(entry, block, stack, frame);
        (*starts.add(place)).store(block.0, Ordering::Relaxed);
        (*ends.add(place)).store(block.0.wrapping_add(block.1), Ordering::Relaxed);
        used.fetch_or(1 << place, Ordering::Release);
        release(entry);
    }
}

/// `block` was handed out: whatever was free in it is so no more.
pub extern "C" fn allocated(block: u64, size: u64) {
    let Some(table) = table() else {
        return;
    };
    let size = size.max(1);
    // SAFETY: the table is mapped; sets and ways are in bounds; shared words are atomic.
    unsafe {
        if AtomicU32::from_ptr(&raw mut (*table).large).load(Ordering::Relaxed) != 0 {
            take_large(table, block, block.wrapping_add(size));
        }
        let first = block >> FREED_GRANULE;
        let last = block.wrapping_add(size - 1) >> FREED_GRANULE;
        let granules = last.wrapping_sub(first).wrapping_add(1);
        let mut left = if granules < FREED_SETS as u64 {
            granules as usize
        } else {
            FREED_SETS
        };
        let steps = size.min(1 << 35).div_ceil(16) as u32;
        let from = key_of(block);
        let mut set = set_of(block);
        while left != 0 {
            take_from(table, set, from, steps);
            set = (set + 1) % FREED_SETS;
            left -= 1;
        }
    }
}

/// Takes the blocks out of a set that begin in `steps` times sixteen bytes from `from` on.
///
/// # Safety
/// `table` must be mapped and `set` in bounds.
#[inline(always)]
unsafe fn take_from(table: *mut Lifetimes, set: usize, from: u32, steps: u32) {
    // SAFETY: the ways are in bounds; shared words are atomic.
    unsafe {
        let keys = keys_of(table, set);
        let mut way = 0;
        while way < FREED_WAYS {
            let word = &*keys.add(way);
            let key = word.load(Ordering::Relaxed);
            if key != 0
                && key.wrapping_sub(from) < steps
                && word
                    .compare_exchange(key, 0, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                ended(entry(table, set * FREED_WAYS + way));
            }
            way += 1;
        }
    }
}

/// # Safety
/// `table` must be mapped.
#[cold]
#[inline(never)]
unsafe fn take_large(table: *mut Lifetimes, from: u64, to: u64) {
    // SAFETY: places are in bounds; shared words are atomic.
    unsafe {
        let (starts, ends) = large(table);
        let used = AtomicU32::from_ptr(&raw mut (*table).large);
        let mut place = 0;
        while place < LARGE_BLOCKS {
            let bit = 1 << place;
            let start = (*starts.add(place)).load(Ordering::Relaxed);
            let end = (*ends.add(place)).load(Ordering::Relaxed);
            if used.load(Ordering::Relaxed) & bit != 0
                && from < end
                && start < to
                && used.fetch_and(!bit, Ordering::Relaxed) & bit != 0
            {
                ended(entry(table, FREED_BLOCKS + place));
            }
            place += 1;
        }
    }
}

/// Its memory is in use again.
///
/// # Safety
/// `entry` must be one of the table's.
unsafe fn ended(entry: *mut Freed) {
    if state::enabled() {
        // SAFETY: the caller's promise; the word is atomic.
        unsafe {
            AtomicU64::from_ptr(&raw mut (*entry).until).store(sys::tsc(), Ordering::Relaxed)
        };
    }
}

/// Whose turn it is in a set; settles what frees cost now and then.
///
/// # Safety
/// `table` must be mapped and `set` at most [`FREED_SETS`].
unsafe fn next_turn(table: *mut Lifetimes, set: usize) -> usize {
    // SAFETY: the caller's promise. Two threads that take the same turn are told apart
    // by the claim.
    unsafe {
        let next = AtomicU32::from_ptr((&raw mut (*table).next).cast::<u32>().add(set));
        let turn = next.load(Ordering::Relaxed);
        next.store(turn.wrapping_add(1), Ordering::Relaxed);
        if turn % FREED_WAYS as u32 == FREED_WAYS as u32 - 1 {
            governor::spend(TICKS * FREED_WAYS as u64);
        }
        turn as usize
    }
}

/// # Safety
/// `table` must be mapped and `set` in bounds.
#[inline(always)]
unsafe fn keys_of(table: *mut Lifetimes, set: usize) -> *const AtomicU32 {
    // SAFETY: the caller's promise.
    unsafe {
        (&raw mut (*table).keys)
            .cast::<AtomicU32>()
            .add(set * FREED_WAYS)
    }
}

/// # Safety
/// `table` must be mapped.
unsafe fn large(table: *mut Lifetimes) -> (*const AtomicU64, *const AtomicU64) {
    // SAFETY: the caller's promise.
    unsafe {
        (
            (&raw mut (*table).large_starts).cast(),
            (&raw mut (*table).large_ends).cast(),
        )
    }
}

/// # Safety
/// `table` must be mapped and `number` in bounds.
#[inline(always)]
unsafe fn entry(table: *mut Lifetimes, number: usize) -> *mut Freed {
    // SAFETY: the caller's promise.
    unsafe { (&raw mut (*table).blocks).cast::<Freed>().add(number) }
}

/// # Safety
/// `entry` must be one of the table's.
unsafe fn claim(entry: *mut Freed) -> bool {
    // SAFETY: the caller's promise.
    let busy = unsafe { AtomicU32::from_ptr(&raw mut (*entry).busy) };
    busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

/// # Safety
/// The caller must have claimed it.
unsafe fn release(entry: *mut Freed) {
    // SAFETY: the caller's promise.
    unsafe { AtomicU32::from_ptr(&raw mut (*entry).busy).store(0, Ordering::Release) };
}

/// # Safety
/// The caller must have claimed the entry; `stack` is where a return address lies.
unsafe fn write(entry: *mut Freed, block: (u64, u64), stack: *const u64, frame: u64) {
    fence(Ordering::Release);
    // SAFETY: nobody else writes a claimed entry but its `until`. The words read lie on
    // one page with the return address.
    unsafe {
        (*entry).until = 0;
        (*entry).address = block.0;
        (*entry).size = block.1;
        (*entry).tid = state::known_tid();
        (*entry).stack_pointer = stack as u64;
        (*entry).frame_pointer = frame;
        let on_page = (PAGE - stack as u64 % PAGE) / 8;
        let words = if on_page < FREED_STACK_WORDS as u64 {
            on_page as usize
        } else {
            FREED_STACK_WORDS
        };
        (*entry).words = words as u64;
        let kept = (&raw mut (*entry).stack).cast::<u64>();
        let mut word = 0;
        while word < words {
            kept.add(word)
                .write_volatile(stack.add(word).read_volatile());
            word += 1;
        }
        // After what came before it in the program, hooks' readings among it.
        asm!("lfence", options(nostack, preserves_flags));
        (*entry).at = sys::tsc();
    }
}
