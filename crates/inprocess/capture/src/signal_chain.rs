//! The chain of signal handlers: ours in front of the program's, for the signals that
//! programs die of.
//!
//! After the capture (`crash.rs`) the program dies, or goes on, exactly as it would
//! without us. A fault simply happens again with its signal blocked, for which the kernel
//! kills with that signal (`signal(7)`). Where returning would not repeat the
//! signal, it is sent again under the default action.
//!
//! A program may have a handler of its own, from before us or, where we stand in
//! front of the C library's `sigaction`, from later. Ours is then installed with
//! the flags, mask and return path of that one, and after the capture goes on in
//! it by a jump: stack, signal mask and arguments are those that the kernel would
//! have given it. It is put back at the same time, so that only the first such
//! signal is captured: a program that lives by its faults (a collector's write
//! barrier) must not pay for each.
//!
//! Without one, `SA_NODEFER` is not set: a fault inside the handler must kill at
//! once, and with the signal blocked the kernel does just that. All other signals
//! are blocked meanwhile, so that no handler of the program runs in the middle.

use crate::{crash, signal_stacks, state};
use core::{
    arch::{asm, global_asm},
    ptr::{null, null_mut},
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};
use inprocess_base::sys;
use inprocess_layout::{Interposed, Region};

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
pub const SIGABRT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
pub const SIGSEGV: i32 = 11;
const SIGSYS: i32 = 31;

const SA_SIGINFO: u64 = 4;
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SIGNALS: usize = 32;
const IGNORED: usize = 1;
/// `si_code` of a fault for which the kernel has no address.
const SI_KERNEL: i32 = 0x80;

// x86-64 requires user space to provide the return path of a signal handler. The
// handler itself saves its arguments, lets `caught` capture, and then either
// returns or goes on in the program's own handler as if that had been called.
global_asm!(
    ".pushsection .text.__failsketch_restorer,\"ax\",@progbits",
    ".hidden __failsketch_restorer",
    ".globl __failsketch_restorer",
    ".type __failsketch_restorer,@function",
    "__failsketch_restorer:",
    "mov eax, 15",
    "syscall",
    ".size __failsketch_restorer, . - __failsketch_restorer",
    ".hidden __failsketch_handler",
    ".globl __failsketch_handler",
    ".type __failsketch_handler,@function",
    "__failsketch_handler:",
    "push rdi",
    "push rsi",
    "push rdx",
    "call {caught}",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test rax, rax",
    "jz 2f",
    "jmp rax",
    "2: ret",
    ".size __failsketch_handler, . - __failsketch_handler",
    ".popsection",
    caught = sym caught,
);

unsafe extern "C" {
    fn __failsketch_restorer();
    fn __failsketch_handler();
}

/// What there is beside our handlers, by signal: the program's own actions. Not in
/// the state pages: a forked child needs it, too.
static mut PREVIOUS: [sys::SignalAction; SIGNALS] = [const { default_action() }; SIGNALS];
/// Bit n: our handler is the one that the kernel has for signal n.
static HELD: AtomicU32 = AtomicU32::new(0);
/// Bit n: a handler of the program took signal n over, and it is left to it.
static LEFT: AtomicU32 = AtomicU32::new(0);

const CRASHES: u32 = 1 << SIGSEGV
    | 1 << SIGBUS
    | 1 << SIGILL
    | 1 << SIGFPE
    | 1 << SIGABRT
    | 1 << SIGSYS
    | 1 << SIGTRAP;

/// Installs the handlers. `stack_end` is an address near the end of the main
/// thread's stack.
///
/// # Safety
/// `region` must stay mapped; no other thread exists.
pub unsafe fn install(region: *mut Region, stack_end: u64) {
    let mut signal = 1;
    while signal < SIGNALS as i32 {
        step_in_front(signal);
        signal += 1;
    }
    // SAFETY: the caller's promise.
    unsafe {
        (*region).header.handled_signals = HELD.load(Ordering::Relaxed);
        (*state::state()).main_stack_end = stack_end;
    }
    signal_stacks::give_main_thread_its_own();
}

/// Has the functions that stand in front of the C library's tell us of handlers that the
/// program looks at or installs.
///
/// # Safety
/// `table` must be the preloaded object's.
pub unsafe fn join(table: *mut Interposed) {
    // SAFETY: the caller's promise; both sides write the table's words atomically.
    unsafe {
        AtomicUsize::from_ptr(&raw mut (*table).step_aside)
            .store(step_aside as *const () as usize, Ordering::Release);
        AtomicUsize::from_ptr(&raw mut (*table).step_in_front)
            .store(step_in_front as *const () as usize, Ordering::Release);
    }
}

fn bit(signal: i32) -> u32 {
    if (1..SIGNALS as i32).contains(&signal) {
        1 << signal
    } else {
        0
    }
}

/// Puts our handler in front of what the program has for a crash signal. An
/// ignored signal stays ignored, one that was left to a handler stays with handlers.
pub extern "C" fn step_in_front(signal: i32) {
    let bit = bit(signal) & CRASHES;
    if bit == 0 || state::sandboxed() {
        return;
    }
    let mut theirs = default_action();
    // SAFETY: whole actions; the handler has the right signature; the signal is a
    // valid index, and two threads that set one signal at once race without us, too.
    unsafe {
        if sys::sigaction(signal, null(), &raw mut theirs) != 0
            || theirs.handler == IGNORED
            || theirs.handler == __failsketch_handler as *const () as usize
            || (theirs.handler != 0 && LEFT.load(Ordering::Acquire) & bit != 0)
        {
            return;
        }
        LEFT.fetch_and(!bit, Ordering::Release);
        let ours = match theirs.handler {
            0 => sys::SignalAction {
                handler: __failsketch_handler as *const () as usize,
                flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER,
                restorer: __failsketch_restorer as *const () as usize,
                mask: u64::MAX,
            },
            // Without the flag the kernel leaves the siginfo unwritten; a handler that
            // did not ask for it does not look at it.
            _ => sys::SignalAction {
                handler: __failsketch_handler as *const () as usize,
                flags: theirs.flags | SA_SIGINFO,
                ..theirs
            },
        };
        previous(signal).write(theirs);
        HELD.fetch_or(bit, Ordering::Release);
        if sys::sigaction(signal, &raw const ours, null_mut()) != 0 {
            HELD.fetch_and(!bit, Ordering::Release);
        }
    }
}

/// Gives the kernel back what the program has for a signal.
pub extern "C" fn step_aside(signal: i32) {
    let bit = bit(signal) & CRASHES;
    if HELD.load(Ordering::Acquire) & bit == 0 || state::sandboxed() {
        return;
    }
    // SAFETY: the action is the program's own.
    unsafe { sys::sigaction(signal, previous(signal), null_mut()) };
    HELD.fetch_and(!bit, Ordering::Release);
}

fn previous(signal: i32) -> *mut sys::SignalAction {
    let at = signal as usize % SIGNALS;
    // SAFETY: in bounds.
    unsafe { (&raw mut PREVIOUS).cast::<sys::SignalAction>().add(at) }
}

const fn default_action() -> sys::SignalAction {
    sys::SignalAction {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    }
}

/// What to go on in: the address of the program's own handler, or zero to return.
extern "C" fn caught(signal: i32, info: *const u8, context: *mut u8) -> usize {
    // siginfo_t: si_code at 8, si_addr at 16.
    // SAFETY: the kernel passes a whole siginfo_t and ucontext_t.
    let code = unsafe { info.add(8).cast::<i32>().read() };
    // SAFETY: as above.
    if signal == SIGSEGV && code == SI_KERNEL && unsafe { answer_for_the_counter(context) } {
        return 0;
    }
    // SAFETY: the signal's own entry.
    let theirs = unsafe { previous(signal).read() };
    let region = state::region();
    if !region.is_null() {
        // SAFETY: a region in use stays mapped; the state word decides which
        // thread may write the rest.
        unsafe { crash::capture(region, signal, code, info, context, theirs.handler != 0) };
    }
    if theirs.handler != 0 {
        // Under a filter of the program's own it stays ours: no system call.
        if !state::sandboxed() {
            HELD.fetch_and(!bit(signal), Ordering::Release);
            if theirs.flags & SA_RESETHAND == 0 {
                LEFT.fetch_or(bit(signal), Ordering::Release);
                // SAFETY: the action is the program's own.
                unsafe { sys::sigaction(signal, &raw const theirs, null_mut()) };
            } else {
                // Its handler was for this one time: the default is back.
                step_in_front(signal);
            }
        }
        return theirs.handler;
    }
    // SAFETY: as above.
    unsafe { go_on(signal, code, context) };
    0
}

/// Whether the fault is our own reading of the time-stamp counter, in a program
/// that has forbidden it to itself (strict seccomp mode does). Then the reading
/// gives zero, and recording is off for good.
///
/// # Safety
/// `context` must be the kernel's ucontext of a fault without an address.
unsafe fn answer_for_the_counter(context: *mut u8) -> bool {
    const RDX: usize = 12;
    const RAX: usize = 13;
    const RIP: usize = 16;
    // SAFETY: the words lie within the structure. An instruction that faulted
    // without an address was fetched, so its first bytes are there; a short one at
    // the end of a mapping differs before the end is reached.
    unsafe {
        let word = |index: usize| context.add(40).cast::<u64>().add(index);
        let code = word(RIP).read() as *const u8;
        if code.read() != 0x3e || code.add(1).read() != 0x0f || code.add(2).read() != 0x31 {
            return false;
        }
        word(RAX).write(0);
        word(RDX).write(0);
        word(RIP).write(code as u64 + 3);
        let control = state::control();
        AtomicU32::from_ptr(&raw mut (*control).counter_forbidden).store(1, Ordering::Relaxed);
        AtomicU32::from_ptr(&raw mut (*control).enabled).store(0, Ordering::Release);
    }
    true
}

/// Lets happen what would have happened without us, by the default action.
///
/// # Safety
/// The arguments are a signal handler's.
unsafe fn go_on(signal: i32, code: i32, context: *mut u8) {
    // A breakpoint instruction and a refused system call are already behind the
    // program counter, and a sent signal has no instruction at all.
    let repeats = code > 0 && signal != SIGTRAP && signal != SIGSYS;
    // SAFETY: the signal is one of those installed; the context is the kernel's.
    unsafe {
        if repeats {
            block_afterwards(signal, context);
            return;
        }
        if state::sandboxed() {
            match signal {
                // abort() goes on to make sure by itself.
                SIGABRT => return,
                SIGSEGV => asm!("mov byte ptr [0], 0"),
                SIGILL => asm!("ud2"),
                SIGTRAP => asm!("int3"),
                _ => {}
            }
        }
        let default = default_action();
        sys::sigaction(signal, &raw const default, null_mut());
        sys::raise(signal);
    }
}

/// The thread will have the signal blocked when it returns from the handler.
///
/// # Safety
/// `context` must be the kernel's ucontext.
unsafe fn block_afterwards(signal: i32, context: *mut u8) {
    /// Before it: flags, link, stack, and the sigcontext's 256 bytes.
    const SIGNAL_MASK: usize = 8 + 8 + 24 + 256;
    // SAFETY: the mask is eight bytes within the structure.
    unsafe {
        let mask = context.add(SIGNAL_MASK).cast::<u64>();
        mask.write(mask.read() | 1 << (signal - 1));
    }
}
