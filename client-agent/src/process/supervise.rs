//! Waiting for the command while passing signals on.

use super::{
    descriptors,
    job_control::JobControl,
    signals::{self, SignalQueue},
    sys,
};
use crate::error::AgentError;
use crate::process::hang::{Hang, HangPolicy, HangWatch};
use crate::run::barrier::guarded;
use sketch_model::Gap;
use std::{io, mem::MaybeUninit, os::fd::AsRawFd};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exit(i32),
    Signal(i32),
}

/// What is known of a process that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub ending: Ending,
    /// User and system time, the command's waited-for children included.
    pub cpu_us: u64,
    /// How often its threads, and those children, gave up a processor.
    pub switches: u64,
    /// A signal asked for the end while it ran.
    pub asked_to_end: bool,
}

impl Ending {
    /// Ends this process the same way.
    pub fn imitate(self) -> ! {
        match self {
            Ending::Exit(code) => std::process::exit(code),
            Ending::Signal(signal) => signals::die_of(signal),
        }
    }
}

/// Waits for `pid` to end; without a queue no signals are passed on.
pub fn wait(pid: i32, queue: Option<&SignalQueue>) -> Result<Ended, AgentError> {
    wait_watching(pid, queue, None, &mut |_| {})
}

/// The same; calls `on_hang` while the process hangs, with what was found, or when a
/// defect of ours has ended the looking. That is once at most.
pub fn wait_watching(
    pid: i32,
    queue: Option<&SignalQueue>,
    policy: Option<HangPolicy>,
    on_hang: &mut dyn FnMut(Result<Hang, Gap>),
) -> Result<Ended, AgentError> {
    let mut asked_to_end = false;
    let mut watch = policy.map(|policy| HangWatch::new(pid, policy));
    let mut job = JobControl::new(pid);
    // Without pidfd (before Linux 5.3) the command still runs and is waited
    // for; only signals are not passed on, and hangs not seen.
    if let (Some(queue), Ok(pidfd)) = (queue, sys::pidfd_open(pid)) {
        loop {
            let mut waiting = [
                descriptors::readable(pidfd.as_raw_fd()),
                descriptors::readable(queue.as_raw_fd()),
            ];
            let pause = watch
                .as_ref()
                .map_or(-1, |watch| watch.pause().as_millis() as i32);
            if descriptors::poll(&mut waiting, pause).is_err() {
                break;
            }
            if waiting.iter().all(|entry| entry.revents == 0)
                && let Some(mut watching) = watch.take()
            {
                // Whatever goes wrong here, the command is waited for to its end.
                match guarded("looking whether the program hangs", || watching.hangs()) {
                    Ok(false) => watch = Some(watching),
                    Ok(true) => {
                        let described = guarded("describing a hang", || watching.describe());
                        // It hangs, whether we can say how or not.
                        if policy.is_some_and(|policy| policy.end_it) {
                            sys::send_signal(pid, libc::SIGKILL);
                        }
                        on_hang(Ok(described.unwrap_or_else(Hang::not_described)));
                    }
                    Err(defect) => on_hang(Err(defect)),
                }
            }
            while let Some(received) = queue.next() {
                asked_to_end |= received.asks_to_end();
                received.forward(pid);
                job.heard(received.signal);
            }
            if waiting[0].revents != 0 {
                break;
            }
        }
    }
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    loop {
        // SAFETY: both results are whole structures.
        let got = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if got == pid && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
            break;
        }
        if got == pid {
            // A traced process stopped: that is no end.
            continue;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(AgentError::call("wait4", error));
        }
    }
    // SAFETY: wait4 has succeeded and filled it.
    let usage = unsafe { usage.assume_init() };
    let microseconds = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000
            + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    let ending = if libc::WIFSIGNALED(status) {
        Ending::Signal(libc::WTERMSIG(status))
    } else {
        Ending::Exit(libc::WEXITSTATUS(status))
    };
    Ok(Ended {
        ending,
        cpu_us: microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
        switches: u64::try_from(usage.ru_nvcsw + usage.ru_nivcsw).unwrap_or(0),
        asked_to_end,
    })
}
