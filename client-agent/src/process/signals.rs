//! Signals of the supervisor: what it was started with, what it passes on, and
//! dying of one.

use super::sys;
use std::{
    io,
    mem::{MaybeUninit, size_of, zeroed},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// Signals that are passed on to the command.
const FORWARDED: [i32; 6] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Whether SIGPIPE was ignored when this process started. Rust's start-up code
/// ignores it always, and the command must inherit what we were given.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

extern "C" fn remember_pipe() {
    // SAFETY: fills a whole sigaction; runs before main, on the only thread.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0 {
            PIPE_WAS_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER_PIPE: extern "C" fn() = remember_pipe;

/// The mask and dispositions that the command is to start with.
#[derive(Clone, Copy)]
pub struct OriginalSignals {
    mask: libc::sigset_t,
    pipe_ignored: bool,
}

impl OriginalSignals {
    /// As they are in the calling thread.
    pub fn current() -> io::Result<OriginalSignals> {
        let mut mask = MaybeUninit::uninit();
        // SAFETY: with a null set nothing changes and the old mask is stored.
        let error =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(OriginalSignals {
            // SAFETY: the call has succeeded and filled it.
            mask: unsafe { mask.assume_init() },
            pipe_ignored: PIPE_WAS_IGNORED.load(Ordering::Relaxed),
        })
    }

    /// Puts them back, in a forked child. Async-signal-safe.
    pub(super) fn restore(&self) {
        let pipe = if self.pipe_ignored {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        // SAFETY: sets a default action and a whole mask.
        unsafe {
            libc::signal(libc::SIGPIPE, pipe);
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.mask,
                std::ptr::null_mut(),
            );
        }
    }
}

/// A signal that was sent to the supervisor.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub signal: i32,
    /// From the terminal: the command, in the same group, has had it already.
    from_terminal: bool,
}

impl Received {
    pub fn forward(self, pid: i32) {
        if !self.from_terminal {
            sys::send_signal(pid, self.signal);
        }
    }

    /// Whether somebody wants the whole thing to end.
    pub fn asks_to_end(self) -> bool {
        matches!(
            self.signal,
            libc::SIGTERM | libc::SIGINT | libc::SIGHUP | libc::SIGQUIT
        )
    }
}

/// The signals to forward, held back from this process and readable instead.
#[derive(Debug)]
pub struct SignalQueue(OwnedFd);

impl SignalQueue {
    /// Call on the main thread before any other thread starts.
    pub fn open() -> io::Result<SignalQueue> {
        // SAFETY: the set is initialised before use; the descriptor is new.
        unsafe {
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            for signal in FORWARDED {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(SignalQueue(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// The next signal, if there is one.
    pub fn next(&self) -> Option<Received> {
        const SI_KERNEL: i32 = 0x80;
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as long as said, and whole after a full read.
        unsafe {
            let got = libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size);
            if got != size as isize {
                return None;
            }
            let info = info.assume_init();
            Some(Received {
                signal: info.ssi_signo as i32,
                from_terminal: info.ssi_code == SI_KERNEL,
            })
        }
    }
}

/// Ends this process by `signal`, without a core file of its own.
pub fn die_of(signal: i32) -> ! {
    // SAFETY: default action, unblocked, sent to ourselves: nothing returns
    // from that but for signals whose default is not death.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
        libc::_exit(128 + signal)
    }
}

/// The name that people know a signal by.
pub fn name(signal: i32) -> String {
    let known = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    known.into()
}
