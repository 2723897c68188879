//! Would watchpoint hits come by SIGTRAP, should rings be refused? As the runtime asks:
//! by the kernel's release, and then by trying. In a child, whose handlers are no
//! one else's.

use super::{Finding, Health};
use crate::watchpoints::sys;
use std::{
    ffi::CStr,
    io,
    sync::atomic::{AtomicU64, Ordering},
};

/// Before it a hit kills a process that blocks SIGTRAP.
const FIRST_KERNEL: (u32, u32) = (5, 19);
const EXPECTED: u64 = 3;
/// Exit statuses of the child: what it counted comes on top.
const COUNTED: i32 = 200;

#[repr(align(8))]
struct Word(AtomicU64);
static WATCHED: Word = Word(AtomicU64::new(0));
static FIRED: AtomicU64 = AtomicU64::new(0);

extern "C" fn fired(_: libc::c_int) {
    FIRED.fetch_add(1, Ordering::SeqCst);
}

pub fn by_sigtrap() -> Finding {
    let release = release();
    let (health, detail) = if release < FIRST_KERNEL {
        let (version, subversion) = release;
        (
            Health::Missing,
            format!(
                "Linux {version}.{subversion} may kill a program that blocks SIGTRAP when it is \
                 hit; from 5.19 on hits can come that way where rings are refused"
            ),
        )
    } else {
        match in_a_child() {
            Ok(EXPECTED) => (
                Health::Ok,
                "one fired at each access; hits can come that way where rings are refused".into(),
            ),
            Ok(counted) => (
                Health::Missing,
                format!("they are accepted but {counted} of {EXPECTED} signals came"),
            ),
            Err(reason) => (
                Health::Missing,
                format!("perf_event_open was refused ({reason}); without rings there are no hits"),
            ),
        }
    };
    Finding {
        health,
        what: "watchpoints by SIGTRAP",
        detail,
    }
}

/// Version and subversion of the kernel; zeros if it does not tell.
fn release() -> (u32, u32) {
    // SAFETY: zero bytes are a valid utsname, and the call fills it.
    let name = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut name);
        name
    };
    // SAFETY: the kernel ends the string within its field.
    let release = unsafe { CStr::from_ptr(name.release.as_ptr()) }.to_string_lossy();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn in_a_child() -> io::Result<u64> {
    // SAFETY: doctor has one thread; the child only probes and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let answer = match fire() {
            Ok(counted) => COUNTED + counted.min(9) as i32,
            Err(reason) => reason.raw_os_error().unwrap_or(libc::EIO),
        };
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(answer) }
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if got != pid || !libc::WIFEXITED(status) {
        return Err(io::Error::other("the child that tried it died"));
    }
    match libc::WEXITSTATUS(status) {
        counted @ COUNTED.. => Ok((counted - COUNTED) as u64),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn fire() -> io::Result<u64> {
    // SAFETY: the handler only adds to a counter; the set is initialised before use.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTRAP);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::signal(libc::SIGTRAP, fired as *const () as libc::sighandler_t);
    }
    let event = sys::open_own_signalling_watchpoint(&raw const WATCHED as u64)?;
    for value in 0..EXPECTED {
        WATCHED.0.store(value, Ordering::SeqCst);
    }
    drop(event);
    Ok(FIRED.load(Ordering::SeqCst))
}
