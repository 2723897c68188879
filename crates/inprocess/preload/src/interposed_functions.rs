//! The C library's functions that we stand in front of: what frees memory or hands it
//! out, and what installs signal handlers.
//!
//! * In a tracked run it is kept which blocks of the heap are free, and who freed them.
//!   That needs all that allocate, too: one that goes unseen would leave memory that is
//!   in use again as free (`allocator.rs`).
//! * A watch on heap memory must end when the memory is given back: afterwards it
//!   would report what another object does. `free`, `realloc` and `munmap` ask
//!   whether a watched word lies in what they are about to give up; that is a
//!   comparison where nothing is watched, and a few where something is.
//! * A program that installs its own handler for a crash signal replaces ours in
//!   the kernel. Around each such call ours steps aside, so that the C library
//!   sees and returns exactly what the program had set, and takes its place
//!   again afterwards, in front of the new handler (`signal_chain.rs`).
//!
//! All of them then do what the next definition does; nothing is allocated and
//! `errno` is not touched. They live in the preloaded object, which the loader
//! searches before the C library, and serve the runtime of a tracked build, too:
//! that one finds [`TABLE`] through the shared memory and fills it.
//!
//! Deliberately absent: allocating. And what never comes here: a program that is
//! static or brings its own allocator in its own file, handlers installed by
//! raw system calls.

use core::{
    mem::transmute,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
use inprocess_base::{interpose::Next, next_symbol::next};
use inprocess_layout::{Interposed, LIFETIMES_UNSEEN, VERSION, WATCH_SLOTS};

/// An object that reaches further from its beginning is not looked at: asking
/// for the size of every freed block would cost more than it tells.
const LARGEST_OBJECT: u64 = 1 << 24;
const SIG_ERR: usize = usize::MAX;

pub static mut TABLE: Interposed = Interposed {
    version: VERSION,
    watching: 0,
    watched: [0; WATCH_SLOTS],
    given_back: 0,
    step_aside: 0,
    step_in_front: 0,
    freed: 0,
    allocated: 0,
    lifetimes: LIFETIMES_UNSEEN,
    padding: 0,
};

inprocess_base::interpose! {
    fn munmap(at: *mut u8, length: usize) -> i32, or { -1 }
    before { gives_back(at as u64, || length as u64) }

    fn sigaction(signal: i32, new: *const u8, old: *mut u8) -> i32, or { -1 }
    before { tell_before(signal) } after { tell_after(signal) }

    // The older functions: each takes a signal and a handler and returns a handler.
    fn signal(signal: i32, handler: usize) -> usize, or { SIG_ERR }
    before { tell_before(signal) } after { tell_after(signal) }

    fn bsd_signal(signal: i32, handler: usize) -> usize, or { SIG_ERR }
    before { tell_before(signal) } after { tell_after(signal) }

    fn sysv_signal(signal: i32, handler: usize) -> usize, or { SIG_ERR }
    before { tell_before(signal) } after { tell_after(signal) }

    fn __sysv_signal(signal: i32, handler: usize) -> usize, or { SIG_ERR }
    before { tell_before(signal) } after { tell_after(signal) }

    fn sigset(signal: i32, handler: usize) -> usize, or { SIG_ERR }
    before { tell_before(signal) } after { tell_after(signal) }
}

/// How many bytes the block at `at` has, by the allocator that will free it; zero
/// if that cannot be asked.
pub fn block_size(at: *mut u8) -> u64 {
    static SIZE: Next = Next::new();
    let address = SIZE.find(|| {
        // Two allocators in one program must not be asked about each other's.
        let (size, free) = (next("malloc_usable_size", None)?, next("free", None)?);
        (size.object == free.object).then_some(size.address)
    });
    let Some(address) = address else {
        return 0;
    };
    // SAFETY: the allocator's own function, for a block of its own.
    unsafe { transmute::<usize, unsafe extern "C" fn(*mut u8) -> usize>(address)(at) as u64 }
}

/// A block of the heap, or nothing, is about to be given back.
#[inline(always)]
pub fn gives_block_back(block: *mut u8) {
    if !block.is_null() {
        gives_back(block as u64, || block_size(block));
    }
}

/// Ends the watches in what is about to be given back. `size` is asked only where
/// a watched word comes after `from`.
#[inline(always)]
fn gives_back(from: u64, size: impl Fn() -> u64) {
    // SAFETY: the table is ours; both sides write its words atomically.
    unsafe {
        let watching = AtomicU32::from_ptr(&raw mut TABLE.watching);
        if watching.load(Ordering::Relaxed) != 0 {
            end_watches(from, size);
        }
    }
}

#[cold]
#[inline(never)]
fn end_watches(from: u64, size: impl Fn() -> u64) {
    let mut slot = 0;
    while slot < WATCH_SLOTS {
        // SAFETY: as above; the slot is in bounds; the function is the runtime's.
        unsafe {
            let words = (&raw mut TABLE.watched).cast::<u64>();
            let watched = AtomicU64::from_ptr(words.add(slot)).load(Ordering::Relaxed);
            let given_back = AtomicUsize::from_ptr(&raw mut TABLE.given_back);
            let given_back = given_back.load(Ordering::Acquire);
            let after = watched.wrapping_sub(from);
            if watched != 0 && given_back != 0 && after < LARGEST_OBJECT && after < size() {
                transmute::<usize, extern "C" fn(u32)>(given_back)(slot as u32);
            }
        }
        slot += 1;
    }
}

/// Tells the runtime that a handler is about to be looked at or changed.
fn tell_before(signal: i32) {
    // SAFETY: a word of the table.
    unsafe { tell(&raw mut TABLE.step_aside, signal) }
}

/// Tells it that this is over.
fn tell_after(signal: i32) {
    // SAFETY: a word of the table.
    unsafe { tell(&raw mut TABLE.step_in_front, signal) }
}

/// # Safety
/// `word` must be one of the table's for functions of a signal.
unsafe fn tell(word: *mut usize, signal: i32) {
    // SAFETY: the caller's promise; the function is the runtime's.
    unsafe {
        let address = AtomicUsize::from_ptr(word).load(Ordering::Acquire);
        if address != 0 {
            transmute::<usize, extern "C" fn(i32)>(address)(signal);
        }
    }
}
