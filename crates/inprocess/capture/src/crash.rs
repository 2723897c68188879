//! Crash capture: registers, stack and mappings of the first thread that dies of
//! a signal, written where they outlive the process.
//!
//! A later capture replaces one that the program took over by a handler of its own
//! (`signal_chain.rs`), unless it only sends the same signal again.
//!
//! A program under a seccomp filter of its own may be killed for a system call
//! that it does not make itself, so under one the handler makes none: it writes
//! registers and stack, bounded by what is known of the stack, and leaves the
//! mappings out.

use crate::{
    abort_message,
    signal_chain::{SIGABRT, SIGSEGV},
    state,
};
use core::sync::atomic::{AtomicU32, Ordering};
use inprocess_base::{maps, sys};
use inprocess_layout::{
    CRASH_COMPLETE, CRASH_NONE, CRASH_WRITING, MAPS_BYTES, RED_ZONE, Region, STACK_BYTES,
};

/// A larger distance is no stack.
const LARGEST_STACK: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// How long a second crashing thread waits for the first one's capture.
const PATIENCE_MS: u32 = 1000;

/// # Safety
/// The arguments are a signal handler's; `region` is active.
pub unsafe fn capture(
    region: *mut Region,
    signal: i32,
    code: i32,
    info: *const u8,
    context: *mut u8,
    taken_over: bool,
) {
    let calls_allowed = !state::sandboxed();
    // SAFETY: as the caller promises; the state word makes the area ours.
    unsafe {
        let crash = &raw mut (*region).crash;
        let word = AtomicU32::from_ptr(&raw mut (*crash).state);
        let begin = |from: u32| {
            word.compare_exchange(from, CRASH_WRITING, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        };
        // One that the program took over may not have been its end. But a fault tells
        // more than the same signal sent again, by a handler that has seen enough.
        let tells_more = signal != (*crash).signal || code > 0 || (*crash).code <= 0;
        let replaces = (*crash).taken_over != 0 && tells_more;
        let first = begin(CRASH_NONE) || (replaces && begin(CRASH_COMPLETE));
        if first {
            (*crash).signal = signal;
            (*crash).code = code;
            (*crash).taken_over = taken_over as u32;
            // Only faults of this thread carry an address; a sent signal has its
            // sender there.
            (*crash).fault_address = if code > 0 {
                info.add(16).cast::<u64>().read()
            } else {
                0
            };
            capture_registers(region, context);
            if calls_allowed {
                (*crash).tid = sys::gettid();
                capture_stack(region);
                let copied = maps::copy_own_maps((&raw mut (*crash).maps).cast(), MAPS_BYTES);
                (*crash).maps_length = copied.length;
                (*crash).maps_truncated = copied.truncated;
                if signal == SIGABRT {
                    abort_message::take_down(crash);
                }
            } else {
                (*crash).sandboxed = 1;
                (*crash).tid = state::known_tid();
                capture_stack_directly(region);
            }
            word.store(CRASH_COMPLETE, Ordering::Release);
        } else if calls_allowed && (*crash).tid != sys::gettid() {
            let mut waited = 0;
            while word.load(Ordering::Acquire) == CRASH_WRITING && waited < PATIENCE_MS {
                sys::sleep_a_millisecond();
                waited += 1;
            }
        }
    }
}

/// # Safety
/// `context` must be the kernel's ucontext, `region` mapped and ours to write.
unsafe fn capture_registers(region: *mut Region, context: *mut u8) {
    // struct ucontext: flags, link and stack take 40 bytes; then the sigcontext:
    // r8 … r15, di, si, bp, bx, dx, ax, cx, sp, ip, flags.
    // SAFETY: all 18 words lie within the structure; writes are in bounds.
    unsafe {
        let word = |index: usize| context.add(40).cast::<u64>().add(index).read();
        let crash = &raw mut (*region).crash;
        let into = (&raw mut (*crash).registers).cast::<u64>();
        into.add(0).write(word(13));
        into.add(1).write(word(11));
        into.add(2).write(word(14));
        into.add(3).write(word(12));
        into.add(4).write(word(9));
        into.add(5).write(word(8));
        into.add(6).write(word(10));
        into.add(7).write(word(15));
        let mut extended = 0;
        while extended < 8 {
            into.add(8 + extended).write(word(extended));
            extended += 1;
        }
        (*crash).rip = word(16);
        (*crash).rflags = word(17);
    }
}

/// Copies the stack from the red zone upward, page by page, through the kernel:
/// where `rsp` points is not to be trusted after a crash. Unreadable pages below
/// the first readable one (a stack overflow's guard) are skipped.
///
/// # Safety
/// `region` must be mapped and its crash area ours to write.
unsafe fn capture_stack(region: *mut Region) {
    // SAFETY: as above; `length` never exceeds the area.
    unsafe {
        let crash = &raw mut (*region).crash;
        let rsp = (&raw const (*crash).registers).cast::<u64>().add(7).read();
        let into = (&raw mut (*crash).stack).cast::<u8>();
        let mut start = rsp.wrapping_sub(RED_ZONE);
        let limit = start.wrapping_add(STACK_BYTES as u64);
        let mut at = start;
        let mut length = 0usize;
        while at < limit {
            let to_page_end = PAGE - at % PAGE;
            let want = to_page_end.min(limit - at);
            let got = sys::copy_without_faulting(into.add(length), at, want as usize);
            at += want;
            if got == want as isize {
                length += want as usize;
            } else if length == 0 {
                start = at;
            } else {
                break;
            }
        }
        (*crash).stack_start = start;
        (*crash).stack_length = length as u32;
    }
}

/// As [`capture_stack`] without system calls: from the stack pointer to where this
/// thread's stack is known to end, or else to the end of the page.
///
/// # Safety
/// As [`capture_stack`].
unsafe fn capture_stack_directly(region: *mut Region) {
    // SAFETY: as above; should the stack pointer itself be wrong, the fault kills
    // with the signal blocked, as a fault in a handler does.
    unsafe {
        let crash = &raw mut (*region).crash;
        let rsp = (&raw const (*crash).registers).cast::<u64>().add(7).read();
        let into = (&raw mut (*crash).stack).cast::<u8>();
        let known_end = |end: u64| end > rsp && end - rsp < LARGEST_STACK;
        let main_end = (*state::state()).main_stack_end;
        let own_end = state::thread_pointer();
        let end = if known_end(own_end) {
            own_end
        } else if known_end(main_end) {
            main_end
        } else {
            rsp - rsp % PAGE + PAGE
        };
        let overflowed = (*crash).fault_address.abs_diff(rsp) < PAGE && (*crash).signal == SIGSEGV;
        let start = if overflowed {
            rsp - rsp % PAGE + PAGE
        } else {
            rsp
        };
        let mut length = 0;
        while length < STACK_BYTES && start + (length as u64) < end {
            let from = (start + length as u64) as *const u8;
            into.add(length).write_volatile(from.read_volatile());
            length += 1;
        }
        (*crash).stack_start = start;
        (*crash).stack_length = length as u32;
    }
}
