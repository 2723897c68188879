//! Fork and execute, with exactly the descriptors, signal mask and dispositions
//! that the command would have without us.
//!
//! The standard library's `Command` can execute paths only; a tracked build is
//! executed by the very descriptor that was verified (`execveat`), so that no
//! file on disk can be swapped in between.

use super::{error::ProcessError, inherited::Inherited};
use sketch_model::Pid;
use std::{
    ffi::{CStr, CString},
    io::{self, Read},
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// What to execute.
#[derive(Clone, Copy, Debug)]
pub enum Executable<'a> {
    Path(&'a Path),
    /// A sealed file in memory; the path is the original's, for messages.
    Sealed(BorrowedFd<'a>, &'a Path),
}

/// A command ready to start.
#[derive(Debug)]
pub struct Launch<'a> {
    pub executable: Executable<'a>,
    pub arguments: &'a [CString],
    pub environment: &'a [CString],
    /// Descriptors that the command inherits beside its own.
    pub inherited: &'a [RawFd],
}

impl Launch<'_> {
    fn path(&self) -> &Path {
        match self.executable {
            Executable::Path(path) | Executable::Sealed(_, path) => path,
        }
    }

    /// Starts the command and returns its process id, or the reason why the
    /// kernel would not execute it.
    pub fn start(&self, inherited: &Inherited) -> Result<Pid, ProcessError> {
        let cannot_run = |reason| ProcessError::CannotRun {
            path: self.path().to_path_buf(),
            reason,
        };
        let path = CString::new(self.path().as_os_str().as_bytes())
            .map_err(|e| cannot_run(io::Error::other(e)))?;
        let (directory, name, flags) = match self.executable {
            Executable::Path(_) => (libc::AT_FDCWD, path.as_c_str(), 0),
            Executable::Sealed(fd, _) => (fd.as_raw_fd(), c"", libc::AT_EMPTY_PATH),
        };
        let arguments = pointers(self.arguments);
        let environment = pointers(self.environment);
        // The child's end closes when the command is executed; before that it
        // can carry the reason why it is not.
        let (mut failure, failed) = io::pipe().map_err(|e| ProcessError::call("pipe", e))?;
        // SAFETY: between fork and exec the child makes system calls only, on
        // memory that was prepared before.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(ProcessError::call("fork", io::Error::last_os_error()));
        }
        if pid == 0 {
            // SAFETY: as above; all pointers stay valid, the arrays end in null.
            unsafe {
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
                libc::write(failed.as_raw_fd(), errno.as_ptr().cast(), errno.len());
                libc::_exit(127)
            }
        }
        drop(failed);
        let mut errno = [0; 4];
        match failure.read_exact(&mut errno) {
            // Closed without a word: the command runs.
            Err(_) => Ok(Pid(pid)),
            Ok(()) => {
                // SAFETY: reaps the child that is about to exit.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
                Err(cannot_run(io::Error::from_raw_os_error(
                    i32::from_ne_bytes(errno),
                )))
            }
        }
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| CStr::as_ptr(string))
        .chain([std::ptr::null()])
        .collect()
}
