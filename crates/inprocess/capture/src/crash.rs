//! Crash capture: registers, stack and mappings of the first thread that dies of
//! a signal, written where they outlive the process.
//!
//! After the capture the program dies, or goes on, exactly as it would without
//! us. A fault simply happens again with its signal blocked, for which the kernel
//! kills with that signal (`signal(7)`). Where returning would not repeat the
//! signal, it is sent again under the default action.
//!
//! A program may have a handler of its own, from before us or, where we stand in
//! front of the C library's `sigaction`, from later. Ours is then installed with
//! the flags, mask and return path of that one, and after the capture goes on in
//! it by a jump: stack, signal mask and arguments are those that the kernel would
//! have given it. It is put back at the same time, so that only the first such
//! signal is captured: a program that lives by its faults (a collector's write
//! barrier) must not pay for each. A later capture replaces one that the program
//! took over, unless it only sends the same signal again.
//!
//! Without one, `SA_NODEFER` is not set: a fault inside the handler must kill at
//! once, and with the signal blocked the kernel does just that. All other signals
//! are blocked meanwhile, so that no handler of the program runs in the middle.
//!
//! A program under a seccomp filter of its own may be killed for a system call
//! that it does not make itself, so under one the handler makes none: it writes
//! registers and stack, bounded by what is known of the stack, and leaves the
//! mappings out.
//!
//! Threads that record get an alternate stack if they have none, so that stack
//! overflows are captured. A thread that never ran a hook uses its own stack: an
//! overflow there kills as it would without us, uncaptured.

use crate::{
    layout::{
        CRASH_COMPLETE, CRASH_NONE, CRASH_WRITING, MAPS_BYTES, RED_ZONE, Region, STACK_BYTES,
    },
    last_words, maps, state, sys,
};
use core::{
    arch::{asm, global_asm},
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
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SS_DISABLE: i32 = 2;
const ALTERNATE_STACK_BYTES: usize = 32 * 1024;
/// A larger distance is no stack.
const LARGEST_STACK: u64 = 1 << 30;
const SIGNALS: usize = 32;
const IGNORED: usize = 1;
/// `si_code` of a fault for which the kernel has no address.
const SI_KERNEL: i32 = 0x80;
const PAGE: u64 = 4096;
/// How long a second crashing thread waits for the first one's capture.
const PATIENCE_MS: u32 = 1000;

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
    let base = map_alternate_stacks(1);
    if !base.is_null() {
        // SAFETY: the mapping is never removed.
        unsafe { give_alternate_stack(base) };
    }
    #[cfg(not(failsketch_preload))]
    {
        let stacks = map_alternate_stacks(crate::layout::THREAD_SLOTS);
        // SAFETY: the state pages are always mapped.
        unsafe { (*state::state()).alternate_stacks = stacks as usize };
    }
}

fn bit(signal: i32) -> u32 {
    if (1..SIGNALS as i32).contains(&signal) { 1 << signal } else { 0 }
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
#[cfg(not(failsketch_preload))]
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
        unsafe { capture(region, signal, code, info, context, theirs.handler != 0) };
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

/// # Safety
/// The arguments are a signal handler's; `region` is active.
unsafe fn capture(
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
                    last_words::take_down(crash);
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
        let start = if overflowed { rsp - rsp % PAGE + PAGE } else { rsp };
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
