//! The functions that allocate and free, with ours in front of them.
//!
//! A free is told before it is done: afterwards another thread may have the block. An
//! allocation is told when it is done. `realloc` is both, and takes the free back where the
//! block stayed where it was or nothing was done. What frees is entered through a few
//! instructions that note the stack pointer and `rbp` of the caller, so that the agent can
//! unwind from there.
//!
//! Where another allocator than the C library's serves the program, nothing is told: it may
//! hand memory out in ways that the table of free blocks does not understand.

use crate::interposed_functions::{TABLE, block_size, gives_block_back};
use core::{
    arch::naked_asm,
    mem::transmute,
    ptr::null_mut,
    sync::atomic::{AtomicUsize, Ordering},
};
use inprocess_base::{
    interpose::Next,
    next_symbol::{is_defined_before_us, next},
};
use inprocess_layout::{LIFETIMES_OBSERVED, LIFETIMES_OWN_ALLOCATOR};

/// What a function that frees answers if there is none after it.
const ENOMEM: i32 = 12;

/// Whether the C library's allocator serves the whole program: one of the `LIFETIMES_`
/// constants.
pub fn who_allocates() -> u32 {
    let its = next("__libc_start_main", None).map(|found| found.object);
    let names = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "aligned_alloc",
        "posix_memalign",
        "memalign",
    ];
    let mut all = its.is_some();
    let mut at = 0;
    while at < names.len() {
        let found = next(names[at], None).map(|found| found.object);
        all &= found == its && !is_defined_before_us(names[at]);
        at += 1;
    }
    if all {
        LIFETIMES_OBSERVED
    } else {
        LIFETIMES_OWN_ALLOCATOR
    }
}

inprocess_base::interpose! {
    fn malloc(size: usize) -> *mut u8, or { null_mut() }
    after(block) { handed_out(block, size) }

    fn calloc(count: usize, size: usize) -> *mut u8, or { null_mut() }
    after(block) { handed_out(block, count.wrapping_mul(size)) }

    fn aligned_alloc(alignment: usize, size: usize) -> *mut u8, or { null_mut() }
    after(block) { handed_out(block, size) }

    fn memalign(alignment: usize, size: usize) -> *mut u8, or { null_mut() }
    after(block) { handed_out(block, size) }

    fn valloc(size: usize) -> *mut u8, or { null_mut() }
    after(block) { handed_out(block, size) }

    fn pvalloc(size: usize) -> *mut u8, or { null_mut() }
    after(block) { handed_out(block, size) }

    fn posix_memalign(into: *mut *mut u8, alignment: usize, size: usize) -> i32, or { ENOMEM }
    after(status) {
        if status == 0 {
            // SAFETY: the function has just written it.
            handed_out(unsafe { *into }, size);
        }
    }
}

/// # Safety
/// As the function of this name that comes next.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn free(block: *mut u8) {
    naked_asm!("mov rsi, rsp", "mov rdx, rbp", "jmp {}", sym free_from)
}

/// # Safety
/// As the function of this name that comes next.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    naked_asm!("mov rdx, rsp", "mov rcx, rbp", "jmp {}", sym realloc_from)
}

/// # Safety
/// As the function of this name that comes next.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn reallocarray(block: *mut u8, count: usize, size: usize) -> *mut u8 {
    naked_asm!("mov rcx, rsp", "mov r8, rbp", "jmp {}", sym reallocarray_from)
}

type Free = unsafe extern "C" fn(*mut u8);
type Realloc = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type ReallocArray = unsafe extern "C" fn(*mut u8, usize, usize) -> *mut u8;

unsafe extern "C" fn free_from(block: *mut u8, stack: *const u64, frame: u64) {
    static NEXT: Next = Next::new();
    let Some(address) = NEXT.named("free", None) else {
        return;
    };
    is_freed(block, stack, frame);
    // SAFETY: a function of this name has this signature; the promise is the caller's.
    unsafe { transmute::<usize, Free>(address)(block) }
}

unsafe extern "C" fn realloc_from(
    block: *mut u8,
    size: usize,
    stack: *const u64,
    frame: u64,
) -> *mut u8 {
    static NEXT: Next = Next::new();
    let Some(address) = NEXT.named("realloc", None) else {
        return null_mut();
    };
    is_freed(block, stack, frame);
    // SAFETY: as in `free_from`.
    let result = unsafe { transmute::<usize, Realloc>(address)(block, size) };
    was_reallocated(block, result, size);
    result
}

unsafe extern "C" fn reallocarray_from(
    block: *mut u8,
    count: usize,
    size: usize,
    stack: *const u64,
    frame: u64,
) -> *mut u8 {
    static NEXT: Next = Next::new();
    let Some(address) = NEXT.named("reallocarray", None) else {
        return null_mut();
    };
    is_freed(block, stack, frame);
    // SAFETY: as in `free_from`.
    let result = unsafe { transmute::<usize, ReallocArray>(address)(block, count, size) };
    was_reallocated(block, result, count.wrapping_mul(size));
    result
}

/// A block of the heap, or nothing, is about to be freed.
#[inline(always)]
fn is_freed(block: *mut u8, stack: *const u64, frame: u64) {
    if block.is_null() {
        return;
    }
    gives_block_back(block);
    // SAFETY: a word of the table; the function is the runtime's.
    unsafe {
        let freed = AtomicUsize::from_ptr(&raw mut TABLE.freed).load(Ordering::Acquire);
        if freed != 0 {
            transmute::<usize, extern "C" fn(u64, u64, *const u64, u64)>(freed)(
                block as u64,
                block_size(block),
                stack,
                frame,
            );
        }
    }
}

fn was_reallocated(block: *mut u8, result: *mut u8, size: usize) {
    if !result.is_null() {
        handed_out(result, size);
    } else if size != 0 {
        // Nothing was done: the block is as it was.
        handed_out(block, 1);
    }
}

/// The program has a block, or nothing.
#[inline(always)]
fn handed_out(block: *mut u8, size: usize) {
    // SAFETY: a word of the table; the function is the runtime's.
    unsafe {
        let allocated = AtomicUsize::from_ptr(&raw mut TABLE.allocated).load(Ordering::Acquire);
        if allocated != 0 && !block.is_null() {
            transmute::<usize, extern "C" fn(u64, u64)>(allocated)(block as u64, size as u64);
        }
    }
}
