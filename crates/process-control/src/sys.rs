//! System calls that the standard library does not offer, except perf's.

use sketch_model::{Pid, Tid};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    time::{SystemTime, UNIX_EPOCH},
};

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The number of an error; one that has none of the kernel's is an I/O error.
pub fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn owned(fd: libc::c_long) -> OwnedFd {
    // SAFETY: callers pass a descriptor that the kernel has just made.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// A number for a name that no other has: random or, where the kernel has no
/// randomness for us, the time.
pub fn unique_u64() -> u64 {
    random_u64().unwrap_or_else(|_| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
    })
}

/// What a file in memory is for. Since Linux 6.3 an administrator may demand
/// that it be said (`vm.memfd_noexec`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    Data,
    Program,
}

/// An anonymous file in memory, close-on-exec, that can be sealed.
pub fn memfd(name: &CStr, purpose: MemoryUse) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let said = match purpose {
        MemoryUse::Data => libc::MFD_NOEXEC_SEAL,
        MemoryUse::Program => libc::MFD_EXEC,
    };
    // SAFETY: the name is zero-terminated.
    let create = |flags| check(unsafe { libc::memfd_create(name.as_ptr(), flags) }.into());
    match create(flags | said) {
        // An older kernel, which does not know the flag and does not need it.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => create(flags),
        made => made,
    }
    .map(owned)
}

/// Whether executing the file grants capabilities.
pub fn has_capabilities(path: &CStr) -> bool {
    let name = c"security.capability";
    // SAFETY: both strings are zero-terminated; without a buffer the kernel only
    // tells the length.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Gives every page of a file its memory now, so that no later write can fail.
pub fn allocate(file: BorrowedFd<'_>, length: u64) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length as i64) }.into())?;
    Ok(())
}

fn seal(file: BorrowedFd<'_>, seals: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }.into())?;
    Ok(())
}

/// The file keeps its size for ever.
pub fn seal_size(file: BorrowedFd<'_>) -> io::Result<()> {
    seal(
        file,
        libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL,
    )
}

/// The file keeps its content for ever.
pub fn seal_content(file: BorrowedFd<'_>) -> io::Result<()> {
    seal(
        file,
        libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL,
    )
}

/// A descriptor that becomes readable when the process ends.
pub fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) }).map(owned)
}

/// This process.
pub fn own_pid() -> Pid {
    // SAFETY: takes no pointers, cannot fail.
    Pid(unsafe { libc::getpid() })
}

/// The calling thread.
pub fn own_tid() -> Tid {
    // SAFETY: takes no pointers, cannot fail.
    Tid(unsafe { libc::gettid() })
}

pub fn send_signal(pid: Pid, signal: i32) {
    // A process that has just ended needs no signal.
    // SAFETY: takes no pointers.
    unsafe { libc::kill(pid.0, signal) };
}

/// Processor time that a process has used, its threads' and not its children's.
pub fn cpu_ns(pid: Pid) -> io::Result<u64> {
    let mut clock = 0;
    // SAFETY: fills one clock id.
    let refused = unsafe { libc::clock_getcpuclockid(pid.0, &raw mut clock) };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    clock_ns(clock)
}

fn clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills a whole timespec.
    check(unsafe { libc::clock_gettime(clock, &raw mut time) }.into())?;
    Ok(u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Whether a process still has this thread.
pub fn thread_lives(pid: Pid, tid: Tid) -> bool {
    // SAFETY: signal 0 is not sent; takes no pointers.
    let found = unsafe { libc::syscall(libc::SYS_tgkill, pid.0, tid.0, 0) };
    found == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Whether a process has seccomp filters beyond those that we have ourselves and
/// that it inherited.
pub fn has_seccomp_filter(pid: Pid) -> bool {
    let filters = |path: &str| -> (u64, u64) {
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        };
        // Since Linux 5.9 the filters are counted.
        (field("Seccomp_filters:"), field("Seccomp:"))
    };
    let (own, process) = (
        filters("/proc/self/status"),
        filters(&format!("/proc/{pid}/status")),
    );
    process.0 > own.0 || process.1 > own.1
}

/// The processors that the machine may ever have online.
pub fn processors() -> u32 {
    // SAFETY: takes no pointers.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(count).unwrap_or(1).max(1)
}

pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_string())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unnamed-host".into())
}

pub fn user_id() -> u32 {
    // SAFETY: takes no pointers, cannot fail.
    unsafe { libc::getuid() }
}

/// A file that may not grow further is an error to report, not a reason to die.
pub fn survive_large_files() {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
