//! From a command to a process that runs it: [`Prepared`] → [`Suspended`] → [`Running`],
//! whose end `supervise.rs` waits for.
//!
//! Fork and execute, with exactly the descriptors, signal mask and dispositions
//! that the command would have without us. Between the two the child waits, so that
//! what follows a process by its number can be attached before the command's first
//! instruction.
//!
//! The standard library's `Command` can execute paths only; a tracked build is
//! executed by the very descriptor that was verified (`execveat`), so that no
//! file on disk can be swapped in between.

use super::{clock, error::ProcessError, inherited::Inherited, sys};
use sketch_model::Pid;
use std::{
    ffi::{CStr, CString},
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    path::Path,
    time::Instant,
};

/// What to execute.
#[derive(Clone, Copy, Debug)]
pub enum Executable<'a> {
    Path(&'a Path),
    /// A sealed file in memory; the path is the original's, for messages.
    Sealed(BorrowedFd<'a>, &'a Path),
}

/// A command that can be started.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub executable: Executable<'a>,
    pub arguments: &'a [CString],
    pub environment: &'a [CString],
    /// Descriptors that the command inherits beside its own.
    pub inherited: &'a [RawFd],
}

/// A command that was not started, and why. It can be started again, as it is or changed.
#[derive(Debug)]
pub struct NotStarted<'a> {
    pub prepared: Prepared<'a>,
    pub because: ProcessError,
}

/// A process that waits to become the command. Dropped, it ends without having been it.
#[derive(Debug)]
pub struct Suspended<'a> {
    prepared: Prepared<'a>,
    child: WaitingChild,
    pidfd: Option<OwnedFd>,
}

/// A process that is the command, and whose end nobody has waited for yet.
#[derive(Debug)]
pub struct Running {
    pub(crate) pid: Pid,
    /// None before Linux 5.3.
    pub(crate) pidfd: Option<OwnedFd>,
    start: Start,
}

/// When a command was started.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub at: Instant,
    pub clock: clock::Reading,
}

impl<'a> Prepared<'a> {
    fn path(&self) -> &'a Path {
        match self.executable {
            Executable::Path(path) | Executable::Sealed(_, path) => path,
        }
    }

    /// Makes the process that is to become the command.
    pub fn fork(self, inherited: &Inherited) -> Result<Suspended<'a>, NotStarted<'a>> {
        match self.child(inherited) {
            Ok(child) => Ok(Suspended {
                pidfd: sys::pidfd_open(child.pid).ok(),
                prepared: self,
                child,
            }),
            Err(because) => Err(NotStarted {
                prepared: self,
                because,
            }),
        }
    }

    fn child(&self, inherited: &Inherited) -> Result<WaitingChild, ProcessError> {
        let path = CString::new(self.path().as_os_str().as_bytes())
            .map_err(|e| cannot_run(self.path(), io::Error::other(e)))?;
        let (directory, name, flags) = match self.executable {
            Executable::Path(_) => (libc::AT_FDCWD, path.as_c_str(), 0),
            Executable::Sealed(fd, _) => (fd.as_raw_fd(), c"", libc::AT_EMPTY_PATH),
        };
        let arguments = pointers(self.arguments);
        let environment = pointers(self.environment);
        let (line, childs_end) =
            UnixStream::pair().map_err(|e| ProcessError::call("socketpair", e))?;
        // SAFETY: between fork and exec the child makes system calls only, on
        // memory that was prepared before.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(ProcessError::call("fork", io::Error::last_os_error()));
        }
        if pid == 0 {
            // SAFETY: as above; all pointers stay valid, the arrays end in null.
            unsafe {
                // Or we would not see that nobody is left to let us go on.
                libc::close(line.as_raw_fd());
                let mut word = 0u8;
                if libc::read(childs_end.as_raw_fd(), (&raw mut word).cast(), 1) != 1 {
                    libc::_exit(127)
                }
                for fd in self.inherited {
                    libc::fcntl(*fd, libc::F_SETFD, 0);
                }
                inherited.restore();
                libc::syscall(
                    libc::SYS_execveat,
                    directory,
                    name.as_ptr(),
                    arguments.as_ptr(),
                    environment.as_ptr(),
                    flags,
                );
                let errno = (*libc::__errno_location()).to_ne_bytes();
                libc::write(childs_end.as_raw_fd(), errno.as_ptr().cast(), errno.len());
                libc::_exit(127)
            }
        }
        Ok(WaitingChild {
            pid: Pid(pid),
            line: Some(line),
        })
    }
}

impl<'a> Suspended<'a> {
    pub fn pid(&self) -> Pid {
        self.child.pid
    }

    /// Executes the command, or says why the kernel does not.
    pub fn resume(mut self) -> Result<Running, NotStarted<'a>> {
        let start = Start {
            at: Instant::now(),
            clock: clock::read(),
        };
        match self.child.let_go() {
            None => Ok(Running {
                pid: self.child.pid,
                pidfd: self.pidfd,
                start,
            }),
            Some(error) => Err(NotStarted {
                because: cannot_run(self.prepared.path(), error),
                prepared: self.prepared,
            }),
        }
    }
}

impl Running {
    /// A process of ours whose value was lost, to a panic for example.
    pub fn found_again(pid: Pid, start: Start) -> Running {
        Running {
            pid,
            pidfd: sys::pidfd_open(pid).ok(),
            start,
        }
    }

    pub fn pid(&self) -> Pid {
        self.pid
    }

    pub fn start(&self) -> Start {
        self.start
    }
}

/// A child that executes nothing before it is told to.
#[derive(Debug)]
struct WaitingChild {
    pid: Pid,
    /// Its end closes when the command is executed; before that it can carry the reason
    /// why it is not.
    line: Option<UnixStream>,
}

impl WaitingChild {
    /// The error with which the kernel refuses to execute the command, if it does.
    fn let_go(&mut self) -> Option<io::Error> {
        let mut line = self.line.take()?;
        // One that was killed meanwhile need not be told.
        let _ = line.write_all(b"!");
        let mut errno = [0; 4];
        // Closed without a word: the command runs, or was killed before it did.
        line.read_exact(&mut errno).ok()?;
        reap(self.pid);
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(errno)))
    }
}

impl Drop for WaitingChild {
    fn drop(&mut self) {
        // It ends when nobody is left to let it go on.
        if self.line.take().is_some() {
            reap(self.pid);
        }
    }
}

fn reap(pid: Pid) {
    // SAFETY: waits for a child of ours that is about to exit.
    unsafe { libc::waitpid(pid.0, std::ptr::null_mut(), 0) };
}

fn cannot_run(path: &Path, reason: io::Error) -> ProcessError {
    ProcessError::CannotRun {
        path: path.to_path_buf(),
        reason,
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| CStr::as_ptr(string))
        .chain([std::ptr::null()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::{Ending, Unwatched};
    use std::fs;

    fn words(text: &[&str]) -> Vec<CString> {
        let words = text.iter().map(|word| CString::new(*word).expect("text"));
        words.collect()
    }

    fn shell(arguments: &[CString]) -> Prepared<'_> {
        Prepared {
            executable: Executable::Path(Path::new("/bin/sh")),
            arguments,
            environment: &[],
            inherited: &[],
        }
    }

    fn inherited() -> Inherited {
        Inherited::take().expect("a mask")
    }

    fn executes(pid: Pid) -> std::path::PathBuf {
        fs::read_link(format!("/proc/{pid}/exe")).expect("it lives")
    }

    #[test]
    fn a_suspended_process_is_the_command_once_it_is_resumed() {
        let arguments = words(&["sh", "-c", "exit 7"]);
        let suspended = shell(&arguments).fork(&inherited()).expect("forks");
        let pid = suspended.pid();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let own = fs::read_link("/proc/self/exe").expect("we live");
        assert_eq!(executes(pid), own, "it is not the command yet");
        let running = suspended.resume().expect("there is a shell");
        assert_eq!(running.pid(), pid);
        let ended = running.wait(None, &mut Unwatched).expect("ends");
        assert_eq!(ended.ending, Ending::Exit(7));
    }

    #[test]
    fn a_resume_that_fails_gives_the_command_back() {
        let arguments = words(&["sh", "-c", "exit 5"]);
        let missing = Prepared {
            executable: Executable::Path(Path::new("/nowhere/at/all")),
            ..shell(&arguments)
        };
        let suspended = missing.fork(&inherited()).expect("forks");
        let pid = suspended.pid();
        let refused = suspended.resume().expect_err("there is no such file");
        let said = refused.because.to_string();
        assert!(said.starts_with("cannot run /nowhere/at/all: "), "{said}");
        let left = fs::exists(format!("/proc/{pid}")).expect("/proc is there");
        assert!(!left, "nothing is left of it");
        let again = Prepared {
            executable: Executable::Path(Path::new("/bin/sh")),
            ..refused.prepared
        };
        let running = again.fork(&inherited()).and_then(Suspended::resume);
        let ended = running
            .expect("there is a shell")
            .wait(None, &mut Unwatched)
            .expect("ends");
        assert_eq!(ended.ending, Ending::Exit(5));
    }

    #[test]
    fn a_suspended_process_that_is_dropped_never_was_the_command() {
        let folder = std::env::temp_dir().join(format!("suspended-{}", sys::unique_u64()));
        let path = folder.to_str().expect("text");
        let arguments = words(&["sh", "-c", "mkdir \"$0\"", path]);
        let suspended = shell(&arguments).fork(&inherited()).expect("forks");
        let pid = suspended.pid();
        drop(suspended);
        assert!(!fs::exists(format!("/proc/{pid}")).expect("/proc is there"));
        assert!(!folder.exists(), "it did run");
    }
}
