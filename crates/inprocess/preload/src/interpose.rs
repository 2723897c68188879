//! The C library's functions that we stand in front of: what frees memory, and
//! what installs signal handlers.
//!
//! * A watch on heap memory must end when the memory is given back: afterwards it
//!   would report what another object does. `free`, `realloc` and `munmap` ask
//!   whether a watched word lies in what they are about to give up; that is a
//!   comparison where nothing is watched, and a few where something is.
//! * A program that installs its own handler for a crash signal replaces ours in
//!   the kernel. Around each such call ours steps aside, so that the C library
//!   sees and returns exactly what the program had set, and takes its place
//!   again afterwards, in front of the new handler (`crash.rs`).
//!
//! All of them then do what the next definition does; nothing is allocated and
//! `errno` is not touched. They live in the preloaded object, which the loader
//! searches before the C library, and serve the runtime of a tracked build, too:
//! that one finds [`TABLE`] through the shared memory and fills it.
//!
//! Deliberately absent: allocation. And what never comes here: a program that is
//! static or brings its own allocator in its own file, handlers installed by
//! raw system calls.

use crate::{
    layout::{Interposed, VERSION, WATCH_SLOTS},
    next_symbol::{Found, next},
};
use core::{
    mem::transmute,
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

/// An object that reaches further from its beginning is not looked at: asking
/// for the size of every freed block would cost more than it tells.
const LARGEST_OBJECT: u64 = 1 << 24;
/// Looked for, and not there.
const NONE: usize = 1;

pub static mut TABLE: Interposed = Interposed {
    version: VERSION,
    watching: 0,
    watched: [0; WATCH_SLOTS],
    given_back: 0,
    step_aside: 0,
    step_in_front: 0,
};

/// The next definition of `name`, found once; zero if there is none.
fn found(cache: &AtomicUsize, name: &[u8]) -> usize {
    match cache.load(Ordering::Relaxed) {
        0 => {
            let address = next(name).map_or(NONE, |found| found.address);
            cache.store(address, Ordering::Relaxed);
            if address == NONE { 0 } else { address }
        }
        NONE => 0,
        address => address,
    }
}

/// How many bytes the block at `at` has, by the allocator that will free it; zero
/// if that cannot be asked.
fn block_size(at: *mut u8) -> u64 {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    if SIZE.load(Ordering::Relaxed) == 0 {
        // Two allocators in one program must not be asked about each other's.
        let same = |a: Found, b: Found| a.object == b.object;
        let address = match (next(b"malloc_usable_size"), next(b"free")) {
            (Some(size), Some(free)) if same(size, free) => size.address,
            _ => NONE,
        };
        SIZE.store(address, Ordering::Relaxed);
    }
    match SIZE.load(Ordering::Relaxed) {
        NONE => 0,
        address => {
            // SAFETY: the allocator's own function, for a block of its own.
            unsafe {
                let size = transmute::<usize, extern "C" fn(*mut u8) -> usize>(address);
                size(at) as u64
            }
        }
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

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut u8) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if block.is_null() {
        return;
    }
    gives_back(block as u64, || block_size(block));
    let address = found(&NEXT, b"free");
    if address != 0 {
        // SAFETY: the caller's promise, passed on.
        unsafe { transmute::<usize, extern "C" fn(*mut u8)>(address)(block) }
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if !block.is_null() {
        gives_back(block as u64, || block_size(block));
    }
    match found(&NEXT, b"realloc") {
        0 => core::ptr::null_mut(),
        // SAFETY: the caller's promise, passed on.
        address => unsafe {
            transmute::<usize, extern "C" fn(*mut u8, usize) -> *mut u8>(address)(block, size)
        },
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: *mut u8, length: usize) -> i32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    gives_back(at as u64, || length as u64);
    match found(&NEXT, b"munmap") {
        0 => -1,
        // SAFETY: the caller's promise, passed on.
        address => unsafe {
            transmute::<usize, extern "C" fn(*mut u8, usize) -> i32>(address)(at, length)
        },
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

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: i32, new: *const u8, old: *mut u8) -> i32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let address = found(&NEXT, b"sigaction");
    if address == 0 {
        return -1;
    }
    tell_before(signal);
    // SAFETY: the caller's promise, passed on.
    let result = unsafe {
        transmute::<usize, extern "C" fn(i32, *const u8, *mut u8) -> i32>(address)(signal, new, old)
    };
    tell_after(signal);
    result
}

/// The older functions: each takes a signal and a handler and returns a handler.
macro_rules! older {
    ($($name:ident = $text:literal),*) => {$(
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: i32, handler: usize) -> usize {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            const SIG_ERR: usize = usize::MAX;
            let address = found(&NEXT, $text);
            if address == 0 {
                return SIG_ERR;
            }
            tell_before(signal);
            // SAFETY: the caller's promise, passed on.
            let result = unsafe {
                transmute::<usize, extern "C" fn(i32, usize) -> usize>(address)(signal, handler)
            };
            tell_after(signal);
            result
        }
    )*};
}

older!(
    signal = b"signal",
    bsd_signal = b"bsd_signal",
    sysv_signal = b"sysv_signal",
    __sysv_signal = b"__sysv_signal",
    sigset = b"sigset"
);
