//! What the agent was started with, and the command must be started with too.
//!
//! Rust's start-up code ignores SIGPIPE and opens `/dev/null` in place of closed
//! standard streams, and the agent itself must wait for its child; so these are
//! looked at before `main` and put back in the child.

use std::{
    io,
    mem::{MaybeUninit, zeroed},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

/// Bit n: signal n was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Bit n: descriptor n, of the standard streams, was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);

const LAST_SIGNAL: i32 = 63;

extern "C" fn remember() {
    let mut ignored = 0;
    let mut closed = 0;
    // SAFETY: fills a whole sigaction and asks about descriptors; runs before
    // main, on the only thread.
    unsafe {
        for signal in 1..=LAST_SIGNAL {
            let mut action: libc::sigaction = zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
            {
                ignored |= 1 << signal;
            }
        }
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) < 0 {
                closed |= 1 << fd;
            }
        }
    }
    IGNORED.store(ignored, Ordering::Relaxed);
    CLOSED.store(closed, Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

/// The mask, dispositions and closed streams that the command is to start with.
#[derive(Clone, Copy)]
pub struct Inherited {
    mask: libc::sigset_t,
    ignored: u64,
    closed: u32,
}

impl Inherited {
    /// As they were before `main`; the mask as it is in the calling thread. From
    /// here on children can be waited for, even if our parent ignored SIGCHLD.
    pub fn take() -> io::Result<Inherited> {
        let mut mask = MaybeUninit::uninit();
        // SAFETY: with a null set nothing changes and the old mask is stored; the
        // default action of SIGCHLD runs no code.
        let error = unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr())
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(Inherited {
            // SAFETY: the call has succeeded and filled it.
            mask: unsafe { mask.assume_init() },
            ignored: IGNORED.load(Ordering::Relaxed),
            closed: CLOSED.load(Ordering::Relaxed),
        })
    }

    fn ignores(&self, signal: i32) -> bool {
        self.ignored >> signal & 1 != 0
    }

    /// Whether `signal` would have had no effect on the process we stand for.
    pub fn holds_off(&self, signal: i32) -> bool {
        // SAFETY: the mask is initialised.
        let blocked = unsafe { libc::sigismember(&raw const self.mask, signal) } == 1;
        blocked || (1..=LAST_SIGNAL).contains(&signal) && self.ignores(signal)
    }

    /// Puts everything back, in a forked child. Async-signal-safe.
    pub(super) fn restore(&self) {
        // SAFETY: sets default actions and a whole mask, and closes descriptors
        // that nothing between fork and exec uses.
        unsafe {
            for signal in [libc::SIGPIPE, libc::SIGCHLD] {
                let action = if self.ignores(signal) {
                    libc::SIG_IGN
                } else {
                    libc::SIG_DFL
                };
                libc::signal(signal, action);
            }
            for fd in 0..3 {
                if self.closed >> fd & 1 != 0 {
                    libc::close(fd);
                }
            }
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            );
        }
    }
}
