//! Stopping and going on with the command, so that a shell that waits for us sees
//! what it would see of the command; and, as a container's first process, burying
//! the orphans that end up with us.
//!
//! A terminal's Ctrl-Z reaches the command and us alike, but only the command may
//! decide what it means: an editor puts the screen in order before it stops, and
//! some programs do not stop at all. So we stop when the command has stopped, by
//! the same signal, and never before it.
//!
//! A shell continues a whole process group, so the command goes on without us;
//! whoever continues only us means the command, and gets it continued. Not told
//! apart: a SIGCONT to us alone while the command runs, which it does not get.

use super::sys;
use sketch_model::Pid;
use std::{fs, mem::MaybeUninit, ptr};

/// The command's side of job control.
#[derive(Debug)]
pub struct JobControl {
    pid: Pid,
}

impl JobControl {
    pub fn new(pid: Pid) -> JobControl {
        JobControl { pid }
    }

    /// Called for every signal that reached us.
    pub fn heard(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => {
                if std::process::id() == 1 {
                    self.bury_orphans();
                }
                if let Some(signal) = self.stopped_by() {
                    stop_of(signal);
                    self.go_on();
                }
            }
            libc::SIGCONT => self.go_on(),
            _ => {}
        }
    }

    /// Waits for processes that have ended and that nobody else will wait for. The
    /// command itself is left to whoever wants to know how it ended.
    fn bury_orphans(&self) {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            // SAFETY: fills a whole siginfo_t, which zeros are, too; waits for a
            // child that has ended.
            unsafe {
                let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
                let asked = libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags);
                let pid = info.assume_init().si_pid();
                if asked != 0 || pid == 0 || pid == self.pid.0 {
                    return;
                }
                libc::waitpid(pid, ptr::null_mut(), libc::WNOHANG);
            }
        }
    }

    /// The signal that has stopped the command since we last asked, if it is
    /// still stopped: it may have been continued before we got to look.
    fn stopped_by(&self) -> Option<i32> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: fills a whole siginfo_t, which zeros are, too.
        let (code, status) = unsafe {
            let asked = libc::waitid(
                libc::P_PID,
                self.pid.0 as libc::id_t,
                info.as_mut_ptr(),
                libc::WSTOPPED | libc::WNOHANG,
            );
            let info = info.assume_init();
            if asked != 0 || info.si_pid() != self.pid.0 {
                return None;
            }
            (info.si_code, info.si_status())
        };
        (code == libc::CLD_STOPPED && self.is_stopped()).then_some(status)
    }

    fn is_stopped(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        // The name before it is in parentheses and may contain anything.
        let state = stat.as_deref().map(|stat| stat.rsplit_once(") "));
        matches!(state, Ok(Some((_, rest))) if rest.starts_with('T'))
    }

    fn go_on(&self) {
        if self.is_stopped() {
            sys::send_signal(self.pid, libc::SIGCONT);
        }
    }
}

/// Stops this process by `signal`; returns when it is continued. In a process
/// group that nobody could continue, the kernel does not stop us, nor did it stop
/// the command by one of those signals.
fn stop_of(signal: i32) {
    // SAFETY: the set holds one valid signal; its action becomes the default and
    // the mask is put back.
    unsafe {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        let action = libc::signal(signal, libc::SIG_DFL);
        // Sent while it is blocked: should the terminal's own, sent to both of us,
        // still wait there, the two are one, and we stop only once.
        libc::kill(libc::getpid(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
        libc::signal(signal, action);
    }
}
