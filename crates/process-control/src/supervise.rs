//! Waiting for the command while passing signals on.

use super::{
    descriptors,
    error::ProcessError,
    job_control::JobControl,
    launch::Running,
    signals::{self, SignalQueue},
    sys,
};
use sketch_model::Pid;
use std::{io, mem::MaybeUninit, os::fd::AsRawFd, time::Duration};

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

/// What is looked at while a process is waited for.
pub trait Watch {
    /// How long nothing must happen before the next look; `None` for no more looks.
    fn pause(&self) -> Option<Duration>;
    /// Looks at the process, which has not ended.
    fn look(&mut self) -> Verdict;
}

/// What is to become of a process that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    GoesOn,
    IsKilled,
}

/// Nothing is looked at.
#[derive(Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn pause(&self) -> Option<Duration> {
        None
    }

    fn look(&mut self) -> Verdict {
        Verdict::GoesOn
    }
}

impl Running {
    /// Waits for its end; without a queue no signals are passed on.
    pub fn wait(
        self,
        queue: Option<&SignalQueue>,
        watch: &mut dyn Watch,
    ) -> Result<Ended, ProcessError> {
        let pid = self.pid;
        let mut asked_to_end = false;
        let mut job = JobControl::new(pid);
        // Without pidfd the command still runs and is waited for; only signals are not
        // passed on, and nothing is looked at.
        if let (Some(queue), Some(pidfd)) = (queue, &self.pidfd) {
            loop {
                let mut waiting = [
                    descriptors::readable(pidfd.as_raw_fd()),
                    descriptors::readable(queue.as_raw_fd()),
                ];
                let pause = watch.pause().map_or(-1, |pause| pause.as_millis() as i32);
                if descriptors::poll(&mut waiting, pause).is_err() {
                    break;
                }
                let idle = waiting.iter().all(|entry| entry.revents == 0);
                if idle && watch.look() == Verdict::IsKilled {
                    sys::send_signal(pid, libc::SIGKILL);
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
        buried(pid, asked_to_end)
    }
}

/// Waits for the end of a process without doing anything beside.
fn buried(pid: Pid, asked_to_end: bool) -> Result<Ended, ProcessError> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    loop {
        // SAFETY: both results are whole structures.
        let got = unsafe { libc::wait4(pid.0, &raw mut status, 0, usage.as_mut_ptr()) };
        if got == pid.0 && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
            break;
        }
        if got == pid.0 {
            // A traced process stopped: that is no end.
            continue;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(ProcessError::call("wait4", error));
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
