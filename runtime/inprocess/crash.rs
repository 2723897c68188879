//! Crash capture: registers, stack and mappings of the first thread that dies of
//! a signal, written where they outlive the process.
//!
//! Handlers are installed only where the program has none. After the capture the
//! default action is put back and the fault happens again (or the signal is sent
//! again, where returning would not repeat it), so that exit status and core
//! file are those of the bare program.
//!
//! `SA_NODEFER` is not set: a fault inside the handler must kill at once, and
//! with the signal blocked the kernel does just that. All other signals are
//! blocked meanwhile, so that no handler of the program runs in the middle.
//!
//! The main thread gets an alternate stack if it has none, so that its stack
//! overflows are captured; other threads use their own stack (an overflow there
//! kills as it would without us, uncaptured).

use crate::{
    layout::{
        CRASH_COMPLETE, CRASH_NONE, CRASH_WRITING, MAPS_BYTES, RED_ZONE, Region, STACK_BYTES,
    },
    maps, state, sys,
};
use core::{
    arch::global_asm,
    ptr::{null, null_mut},
    sync::atomic::{AtomicU32, Ordering},
};

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGABRT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;
const SIGSYS: i32 = 31;

const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SS_DISABLE: i32 = 2;
const ALTERNATE_STACK_BYTES: usize = 64 * 1024;
const PAGE: u64 = 4096;
/// How long a second crashing thread waits for the first one's capture.
const PATIENCE_MS: u32 = 1000;

// x86-64 requires user space to provide the return path of a signal handler.
global_asm!(
    ".pushsection .text.__failsketch_restorer,\"ax\",@progbits",
    ".hidden __failsketch_restorer",
    ".globl __failsketch_restorer",
    ".type __failsketch_restorer,@function",
    "__failsketch_restorer:",
    "mov eax, 15",
    "syscall",
    ".size __failsketch_restorer, . - __failsketch_restorer",
    ".popsection",
);

unsafe extern "C" {
    fn __failsketch_restorer();
}

/// Installs the handlers.
///
/// # Safety
/// `region` must stay mapped.
pub unsafe fn install(region: *mut Region) {
    let mut handled = 0u32;
    let mut install_one = |signal: i32| {
        let mut old = default_action();
        let new = sys::SignalAction {
            handler: handler as *const () as usize,
            flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER,
            restorer: __failsketch_restorer as *const () as usize,
            mask: u64::MAX,
        };
        // SAFETY: both actions are whole, the handler has the right signature.
        unsafe {
            if sys::sigaction(signal, null(), &raw mut old) == 0
                && old.handler == 0
                && sys::sigaction(signal, &raw const new, null_mut()) == 0
            {
                handled |= 1 << signal;
            }
        }
    };
    install_one(SIGSEGV);
    install_one(SIGBUS);
    install_one(SIGILL);
    install_one(SIGFPE);
    install_one(SIGABRT);
    install_one(SIGSYS);
    install_one(SIGTRAP);
    // SAFETY: the caller's promise.
    unsafe { (*region).header.handled_signals = handled };
    give_alternate_stack();
}

fn default_action() -> sys::SignalAction {
    sys::SignalAction {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    }
}

fn give_alternate_stack() {
    let mut old = sys::AlternateStack {
        base: 0,
        flags: 0,
        padding: 0,
        size: 0,
    };
    // SAFETY: a whole structure is filled.
    let known = unsafe { sys::sigaltstack(null(), &raw mut old) } == 0;
    if !known || old.flags & SS_DISABLE == 0 {
        return;
    }
    // No guard page: the handler's depth is known, and nothing else runs here.
    let base = sys::map(
        ALTERNATE_STACK_BYTES,
        sys::PROT_READ_WRITE,
        sys::MAP_PRIVATE_ANONYMOUS,
        -1,
    );
    if base.is_null() {
        return;
    }
    let new = sys::AlternateStack {
        base: base as usize,
        flags: 0,
        padding: 0,
        size: ALTERNATE_STACK_BYTES,
    };
    // SAFETY: the mapping is never removed.
    unsafe { sys::sigaltstack(&raw const new, null_mut()) };
}

extern "C" fn handler(signal: i32, info: *const u8, context: *const u8) {
    // siginfo_t: si_code at 8, si_addr at 16.
    // SAFETY: the kernel passes a whole siginfo_t and ucontext_t.
    let code = unsafe { info.add(8).cast::<i32>().read() };
    let region = state::region();
    if !region.is_null() {
        // SAFETY: a region in use stays mapped; the state word decides which
        // thread may write the rest.
        unsafe {
            let crash = &raw mut (*region).crash;
            let word = AtomicU32::from_ptr(&raw mut (*crash).state);
            if word
                .compare_exchange(
                    CRASH_NONE,
                    CRASH_WRITING,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                )
                .is_ok()
            {
                (*crash).tid = sys::gettid();
                (*crash).signal = signal;
                (*crash).code = code;
                // Only faults of this thread carry an address; a sent signal
                // has its sender there.
                (*crash).fault_address = if code > 0 {
                    info.add(16).cast::<u64>().read()
                } else {
                    0
                };
                capture_registers(region, context);
                capture_stack(region);
                let copied = maps::copy_own_maps((&raw mut (*crash).maps).cast(), MAPS_BYTES);
                (*crash).maps_length = copied.length;
                (*crash).maps_truncated = copied.truncated;
                word.store(CRASH_COMPLETE, Ordering::Release);
            } else if (*crash).tid != sys::gettid() {
                let mut waited = 0;
                while word.load(Ordering::Acquire) == CRASH_WRITING && waited < PATIENCE_MS {
                    sys::sleep_a_millisecond();
                    waited += 1;
                }
            }
        }
    }
    let default = default_action();
    // SAFETY: restores the default action.
    unsafe { sys::sigaction(signal, &raw const default, null_mut()) };
    // A breakpoint instruction and a refused system call are already behind the
    // program counter, and a sent signal has no instruction at all.
    if code <= 0 || signal == SIGTRAP || signal == SIGSYS {
        sys::raise(signal);
    }
}

/// # Safety
/// `context` must be the kernel's ucontext, `region` mapped and ours to write.
unsafe fn capture_registers(region: *mut Region, context: *const u8) {
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
            let want = if limit - at < to_page_end {
                limit - at
            } else {
                to_page_end
            };
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
