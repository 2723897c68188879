//! Alternate stacks for signal handlers, so that stack overflows are captured.
//!
//! Threads that record get one if they have none. A thread that never ran a hook uses its
//! own stack: an overflow there kills as it would without us, uncaptured.

use crate::state;
use core::ptr::{null, null_mut};
use inprocess_base::sys;
use inprocess_layout::THREAD_SLOTS;

const SS_DISABLE: i32 = 2;
const ALTERNATE_STACK_BYTES: usize = 32 * 1024;

pub fn give_main_thread_its_own() {
    let base = map_alternate_stacks(1);
    if !base.is_null() {
        // SAFETY: the mapping is never removed.
        unsafe { give_alternate_stack(base) };
    }
}

/// Has one ready for each thread that records.
pub fn prepare_for_threads() {
    let stacks = map_alternate_stacks(THREAD_SLOTS);
    // SAFETY: the state pages are always mapped.
    unsafe { (*state::state()).alternate_stacks = stacks as usize };
}

/// No guard pages: the handler's depth is known, and nothing else runs here.
fn map_alternate_stacks(count: usize) -> *mut u8 {
    sys::map(
        count * ALTERNATE_STACK_BYTES,
        sys::PROT_READ_WRITE,
        sys::MAP_PRIVATE_ANONYMOUS,
        -1,
    )
}

/// The calling thread has claimed slot `number`.
pub fn give_thread_its_alternate_stack(number: usize) {
    // SAFETY: the state pages are always mapped; the number is a slot's, and a
    // slot has one thread at a time.
    unsafe {
        let stacks = (*state::state()).alternate_stacks as *mut u8;
        if !stacks.is_null() && !state::sandboxed() {
            give_alternate_stack(stacks.add(number * ALTERNATE_STACK_BYTES));
        }
    }
}

/// Unless the thread has one.
///
/// # Safety
/// There must be as many bytes as an alternate stack has, for the thread's life.
unsafe fn give_alternate_stack(base: *mut u8) {
    let mut old = sys::AlternateStack {
        base: 0,
        flags: 0,
        padding: 0,
        size: 0,
    };
    let new = sys::AlternateStack {
        base: base as usize,
        flags: 0,
        padding: 0,
        size: ALTERNATE_STACK_BYTES,
    };
    // SAFETY: whole structures; the stack is the caller's promise.
    unsafe {
        if sys::sigaltstack(null(), &raw mut old) == 0 && old.flags & SS_DISABLE != 0 {
            sys::sigaltstack(&raw const new, null_mut());
        }
    }
}
