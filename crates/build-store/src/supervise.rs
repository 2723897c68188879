//! Waiting for a tool that may never end by itself.
//!
//! A limit on CPU time does not end a tool that waits, and what waits may be a child of
//! the tool: the linker below the compiler's driver. So each tool leads a process group
//! of its own, and a thread watches the tool's process descriptor (`pidfd_open`, Linux
//! 5.3). When the tool has ended, or its time is over, the whole group is ended. What
//! holds the other end of a pipe is then gone, so nobody waits at a pipe for longer.
//!
//! A group can be ended safely only as long as its leader was not waited for: until then
//! no other process can get its number. That is why the leader is waited for last.
//!
//! A group is not reached by Ctrl-C either, so a tool also dies with the thread that
//! started it (`sandbox.rs`), which is the one that waits here.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How a tool ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// It was ended because its time was over.
    pub late: bool,
    pub took: Duration,
}

/// Runs `command` for at most `most`. Meanwhile `talk` may read and write its pipes; it
/// does not wait for it. `over` is called when all of the group is ended.
pub fn supervise<T>(
    command: &mut Command,
    most: Duration,
    talk: impl FnOnce(&mut Child) -> T,
    over: impl FnOnce() + Send,
) -> io::Result<(Ended, T)> {
    command.process_group(0);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let group = Group(child.id() as libc::pid_t);
    let watched = thread::scope(|scope| {
        let watch = move || {
            let on_time = group.ends_within(most);
            group.end();
            over();
            on_time
        };
        let thread = thread::Builder::new().spawn_scoped(scope, watch);
        let thread = thread.inspect_err(|_| group.end())?;
        let answer = talk(&mut child);
        let on_time = thread.join().unwrap_or(Ok(false))?;
        Ok::<_, io::Error>((on_time, answer))
    });
    let status = child.wait()?;
    let (on_time, answer) = watched?;
    let ended = Ended {
        status,
        late: !on_time,
        took: start.elapsed(),
    };
    Ok((ended, answer))
}

/// A process group by the number of its leader, which is a child that was not waited for.
#[derive(Clone, Copy)]
struct Group(libc::pid_t);

impl Group {
    /// Whether the leader ends in this time. An error ends the wait at once.
    fn ends_within(self, most: Duration) -> io::Result<bool> {
        // SAFETY: the call takes two numbers and returns one.
        let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, self.0, 0) };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, for us alone.
        let process = unsafe { OwnedFd::from_raw_fd(opened as i32) };
        let end = Instant::now() + most;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut asked = libc::pollfd {
                fd: process.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // Up to the next millisecond, so that the last wait is not an empty one.
            let wait = i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX);
            // SAFETY: the kernel reads and writes one structure, which is ours.
            match unsafe { libc::poll(&raw mut asked, 1, wait) } {
                1.. => return Ok(true),
                0 if Instant::now() >= end => return Ok(false),
                0 => {}
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn end(self) {
        // SAFETY: the call takes two numbers. The leader is there, if only as what is left
        // to be waited for, so the number means this group and no other.
        unsafe { libc::kill(-self.0, libc::SIGKILL) };
    }
}
