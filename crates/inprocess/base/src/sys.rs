//! Raw Linux system calls for x86-64.
//!
//! Not through the C library: its wrappers set `errno`, may be interposed by the
//! program, and are not all safe in signal handlers. Results are what the kernel
//! returns: negative values are `-errno`.

use core::{arch::asm, ffi::CStr};

pub const EINTR: isize = -4;
pub const ENODEV: isize = -19;
pub const EINVAL: isize = -22;

pub const PROT_NONE: usize = 0;
pub const PROT_READ_WRITE: usize = 3;
pub const MAP_SHARED: usize = 1;
pub const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
pub const MADV_WIPEONFORK: usize = 18;
pub const F_DUPFD_CLOEXEC: usize = 1030;
pub const F_GET_SEALS: usize = 1034;
pub const F_SEAL_SHRINK: isize = 2;

/// Numbers of system calls (`arch/x86/entry/syscalls/syscall_64.tbl` of the kernel). Not
/// from a crate: what is compiled into programs is compiled without cargo.
mod number {
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const POLL: usize = 7;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGACTION: usize = 13;
    pub const IOCTL: usize = 16;
    pub const PREAD64: usize = 17;
    pub const MADVISE: usize = 28;
    pub const NANOSLEEP: usize = 35;
    pub const GETPID: usize = 39;
    pub const SENDMSG: usize = 46;
    pub const FCNTL: usize = 72;
    pub const SIGALTSTACK: usize = 131;
    pub const PRCTL: usize = 157;
    pub const GETTID: usize = 186;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const TGKILL: usize = 234;
    pub const OPENAT: usize = 257;
    pub const PERF_EVENT_OPEN: usize = 298;
    pub const PROCESS_VM_READV: usize = 310;
}

/// `syscall!(READ, fd, into, length)`: one system call, its arguments as the kernel's words.
macro_rules! syscall {
    ($number:ident $(, $argument:expr)*) => {
        call(number::$number, [$($argument as usize),*])
    };
}

/// One system call.
///
/// # Safety
/// The arguments must be what the call expects: pointers valid for what the
/// kernel does with them.
#[inline(always)]
unsafe fn call<const N: usize>(number: usize, arguments: [usize; N]) -> isize {
    let result: isize;
    let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; what the
    // call does to memory is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") argument(0), in("rsi") argument(1), in("rdx") argument(2),
            in("r10") argument(3), in("r8") argument(4), in("r9") argument(5),
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// # Safety
/// `into` must be writable for `length` bytes.
pub unsafe fn read(fd: i32, into: *mut u8, length: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { syscall!(READ, fd, into, length) }
}

/// # Safety
/// `into` must be writable for `length` bytes.
pub unsafe fn read_at(fd: i32, into: *mut u8, length: usize, offset: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { syscall!(PREAD64, fd, into, length, offset) }
}

pub fn close(fd: i32) {
    // SAFETY: takes no pointers.
    unsafe { syscall!(CLOSE, fd) };
}

/// The size that `fstat` reports, or a negative errno.
pub fn file_size(fd: i32) -> isize {
    // struct stat is 144 bytes; st_size is at 48.
    let mut stat = [0u64; 18];
    // SAFETY: the buffer has the size the kernel fills.
    let result = unsafe { syscall!(FSTAT, fd, stat.as_mut_ptr()) };
    if result < 0 {
        return result;
    }
    stat[6] as isize
}

/// Waits until `fd` is readable; at most `milliseconds`.
pub fn poll_readable(fd: i32, milliseconds: usize) -> isize {
    // struct pollfd { int fd; short events; short revents; } with POLLIN = 1.
    let mut entry = [fd as u32, 1u32];
    // SAFETY: one entry of eight bytes is passed, as counted.
    unsafe { syscall!(POLL, entry.as_mut_ptr(), 1, milliseconds) }
}

/// Maps memory at an address of the kernel's choice; null on refusal.
pub fn map(length: usize, protection: usize, flags: usize, fd: i32) -> *mut u8 {
    // SAFETY: without MAP_FIXED no existing mapping is touched.
    let at = unsafe { syscall!(MMAP, 0, length, protection, flags, fd) };
    if at < 0 && at > -4096 {
        return core::ptr::null_mut();
    }
    at as *mut u8
}

/// Maps readable and writable memory over what is at `at`.
///
/// # Safety
/// `at` must be page-aligned memory of ours of at least `length` bytes.
pub unsafe fn map_over(at: *mut u8, length: usize, flags: usize, fd: i32, offset: usize) -> bool {
    const MAP_FIXED: usize = 0x10;
    // SAFETY: the caller gives up what was there.
    let got = unsafe {
        syscall!(
            MMAP,
            at,
            length,
            PROT_READ_WRITE,
            flags | MAP_FIXED,
            fd,
            offset
        )
    };
    got == at as isize
}

/// # Safety
/// Nothing may use the mapping afterwards.
pub unsafe fn unmap(at: *mut u8, length: usize) {
    // SAFETY: the caller gives the mapping up.
    unsafe { syscall!(MUNMAP, at, length) };
}

/// # Safety
/// The mapping must be ours, and what the advice does to it wanted.
pub unsafe fn advise(at: *mut u8, length: usize, advice: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { syscall!(MADVISE, at, length, advice) }
}

pub fn sleep_a_millisecond() {
    let request = [0u64, 1_000_000];
    // SAFETY: a timespec is two words.
    unsafe { syscall!(NANOSLEEP, request.as_ptr()) };
}

/// Processor time that this thread has used.
pub fn thread_cpu_ns() -> u64 {
    const CLOCK_THREAD_CPUTIME_ID: usize = 3;
    let mut time = [0u64; 2];
    let into = &raw mut time as usize;
    // SAFETY: a timespec is two words.
    unsafe { syscall!(CLOCK_GETTIME, CLOCK_THREAD_CPUTIME_ID, into) };
    let [seconds, nanoseconds] = time;
    seconds * 1_000_000_000 + nanoseconds
}

pub fn getpid() -> u32 {
    // SAFETY: takes no arguments.
    unsafe { syscall!(GETPID) as u32 }
}

pub fn gettid() -> u32 {
    // SAFETY: takes no arguments.
    unsafe { syscall!(GETTID) as u32 }
}

/// The word that the kernel clears when this thread ends; zero if it does not tell.
pub fn tid_address() -> usize {
    const PR_GET_TID_ADDRESS: usize = 40;
    let mut address = 0usize;
    // SAFETY: the kernel writes one word.
    unsafe { syscall!(PRCTL, PR_GET_TID_ADDRESS, &raw mut address) };
    address
}

/// Whether a thread of this process has not ended yet.
pub fn thread_lives(tid: u32) -> bool {
    const ESRCH: isize = -3;
    // SAFETY: signal 0 is not sent; takes no pointers.
    unsafe { syscall!(TGKILL, getpid(), tid) != ESRCH }
}

pub fn fcntl(fd: i32, command: usize, argument: usize) -> isize {
    // SAFETY: only commands that take integers are used.
    unsafe { syscall!(FCNTL, fd, command, argument) }
}

/// Sends `signal` to the calling thread.
pub fn raise(signal: i32) {
    // SAFETY: takes no pointers.
    unsafe { syscall!(TGKILL, getpid(), gettid(), signal) };
}

/// Opens a file for reading, close-on-exec.
pub fn open(path: &CStr) -> i32 {
    const AT_FDCWD: isize = -100;
    const O_CLOEXEC: usize = 0o2000000;
    // SAFETY: the path ends in a zero byte.
    unsafe { syscall!(OPENAT, AT_FDCWD, path.as_ptr(), O_CLOEXEC) as i32 }
}

/// Copies our own memory through the kernel, which refuses instead of faulting.
/// Returns the bytes copied or a negative errno.
///
/// # Safety
/// `into` must be writable for `length` bytes.
pub unsafe fn copy_without_faulting(into: *mut u8, from: u64, length: usize) -> isize {
    let local = [into as usize, length];
    let remote = [from as usize, length];
    // SAFETY: one vector of two words on each side.
    unsafe {
        syscall!(
            PROCESS_VM_READV,
            getpid(),
            local.as_ptr(),
            1,
            remote.as_ptr(),
            1
        )
    }
}

/// The kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SignalAction {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: u64,
}

/// # Safety
/// A new action's handler and restorer must be code fit for the purpose.
pub unsafe fn sigaction(signal: i32, new: *const SignalAction, old: *mut SignalAction) -> isize {
    // SAFETY: both are null or a whole SignalAction; the mask is eight bytes.
    unsafe { syscall!(RT_SIGACTION, signal, new, old, 8) }
}

/// The kernel's `stack_t`.
#[repr(C)]
pub struct AlternateStack {
    pub base: usize,
    pub flags: i32,
    pub padding: i32,
    pub size: usize,
}

/// # Safety
/// A new stack must stay mapped for the thread's life.
pub unsafe fn sigaltstack(new: *const AlternateStack, old: *mut AlternateStack) -> isize {
    // SAFETY: both are null or a whole AlternateStack.
    unsafe { syscall!(SIGALTSTACK, new, old) }
}

/// # Safety
/// `argument` must be what `request` expects.
pub unsafe fn ioctl(fd: i32, request: usize, argument: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { syscall!(IOCTL, fd, request, argument) }
}

/// # Safety
/// `message` must be a valid `struct msghdr`.
pub unsafe fn sendmsg(fd: i32, message: *const u8) -> isize {
    const MSG_NOSIGNAL: usize = 0x4000;
    // SAFETY: the caller's promise.
    unsafe { syscall!(SENDMSG, fd, message, MSG_NOSIGNAL) }
}

/// Opens an event of this process on one processor, close-on-exec.
///
/// # Safety
/// `attr` must be a `struct perf_event_attr` of the size it states.
pub unsafe fn perf_event_open(attr: *const u8, cpu: usize) -> isize {
    const PERF_FLAG_FD_CLOEXEC: usize = 8;
    const NO_GROUP: usize = usize::MAX;
    // SAFETY: the caller's promise.
    unsafe {
        syscall!(
            PERF_EVENT_OPEN,
            attr,
            0,
            cpu,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC
        )
    }
}

pub fn exit_group(status: usize) -> ! {
    // SAFETY: ends the process.
    unsafe { syscall!(EXIT_GROUP, status) };
    loop {
        core::hint::spin_loop();
    }
}

/// The time-stamp counter; zero if the program has just forbidden reading it.
///
/// The prefix has no effect but to mark the instruction as ours: a program in
/// strict seccomp mode, or after `PR_SET_TSC`, gets a fault for it, which
/// `signal_chain.rs` of the crate `capture` then answers.
#[inline(always)]
pub fn tsc() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: every x86-64 processor has it; reads no memory.
    unsafe {
        asm!(
            ".byte 0x3e",
            "rdtsc",
            out("rax") low,
            out("rdx") high,
            options(nomem, nostack, preserves_flags)
        );
    }
    high << 32 | low
}
