//! Signals of the supervisor: what it passes on, and dying of one.

use super::{descriptors, inherited::Inherited, sys};
use sketch_model::Pid;
use std::{
    io,
    mem::{MaybeUninit, size_of},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    thread,
};

/// Signals that are not held back: those that cannot be, and faults, which cannot
/// wait.
const NOT_HELD_BACK: [i32; 8] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];
const LAST_SIGNAL: i32 = 64;

/// A signal that was sent to the supervisor.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub signal: i32,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Another process, or a timer that was set before we were executed.
    Sent,
    /// The kernel, for the whole process group or for each process that is over
    /// its limit: the command has had its own.
    Shared,
    /// Ourselves: a pipe that nobody reads, a file that is too large.
    Own,
}

impl Received {
    /// Passes it on. What our child does means us, and whether to go on is up to
    /// `job_control`.
    pub fn forward(self, pid: Pid) {
        let ours = matches!(self.signal, libc::SIGCHLD | libc::SIGCONT);
        if self.origin == Origin::Sent && !ours {
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

    /// Whether it would have ended a command that has only just been executed.
    fn ends(self, inherited: &Inherited) -> bool {
        let harmless = matches!(
            self.signal,
            libc::SIGURG
                | libc::SIGWINCH
                | libc::SIGCHLD
                | libc::SIGCONT
                | libc::SIGTSTP
                | libc::SIGTTIN
                | libc::SIGTTOU
        );
        self.origin != Origin::Own && !harmless && !inherited.holds_off(self.signal)
    }
}

/// The signals sent to this process, held back from it and readable instead.
#[derive(Debug)]
pub struct SignalQueue(OwnedFd);

impl SignalQueue {
    /// Call on the main thread before any other thread starts.
    pub fn open() -> io::Result<SignalQueue> {
        // SAFETY: the set is initialised before use; the descriptor is new. The C
        // library refuses to add the two signals that it keeps for itself.
        unsafe {
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            for signal in (1..=LAST_SIGNAL).filter(|s| !NOT_HELD_BACK.contains(s)) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                let error = io::Error::last_os_error();
                libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
                return Err(error);
            }
            Ok(SignalQueue(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// The next signal, if there is one.
    pub fn next(&self) -> Option<Received> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the buffer is as long as said, and whole after a full read.
        let info = unsafe {
            let got = libc::read(self.0.as_raw_fd(), info.as_mut_ptr().cast(), size);
            if got != size as isize {
                return None;
            }
            info.assume_init()
        };
        let signal = info.ssi_signo as i32;
        Some(Received {
            signal,
            origin: origin(signal, info.ssi_code, info.ssi_pid),
        })
    }

    /// While no command runs, a deadly signal is meant for us: dies of it.
    pub fn die_if_asked(&self, inherited: &Inherited) {
        while let Some(received) = self.next() {
            if received.ends(inherited) {
                die_of(received.signal);
            }
        }
    }

    /// Does `work`, for which no command runs; a deadly signal need not wait for
    /// its end.
    pub fn mortal<T>(&self, inherited: &Inherited, work: impl FnOnce() -> T) -> T {
        let Ok((done, working)) = io::pipe() else {
            return work();
        };
        thread::scope(|scope| {
            // Without the thread a signal waits until the command is started.
            let _ = thread::Builder::new().spawn_scoped(scope, move || {
                loop {
                    let mut waiting = [
                        descriptors::readable(done.as_raw_fd()),
                        descriptors::readable(self.as_raw_fd()),
                    ];
                    if descriptors::poll(&mut waiting, -1).is_err() {
                        return;
                    }
                    self.die_if_asked(inherited);
                    if waiting[0].revents != 0 {
                        return;
                    }
                }
            });
            let result = work();
            drop(working);
            result
        })
    }
}

fn origin(signal: i32, code: i32, pid: u32) -> Origin {
    const SI_USER: i32 = 0;
    const SI_KERNEL: i32 = 0x80;
    if code == SI_USER && pid == std::process::id() {
        return Origin::Own;
    }
    // SAFETY: takes no pointers.
    let leads_session = || unsafe { libc::getsid(0) == libc::getpid() };
    let shared = match signal {
        libc::SIGINT | libc::SIGQUIT | libc::SIGWINCH | libc::SIGXCPU => true,
        libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => true,
        // A terminal that goes away tells the leader, and only the leader.
        libc::SIGHUP => !leads_session(),
        _ => false,
    };
    if code == SI_KERNEL && shared {
        Origin::Shared
    } else {
        Origin::Sent
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
        // A program that receives cores through a pipe is not bound by the limit.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
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
