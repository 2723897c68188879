//! A thread of the program that stands still while it is read, and surely goes on
//! afterwards.
//!
//! Three rules of ptrace(2) and wait(2) make that sure:
//!
//! - What a thread traces is let go by the kernel when that thread ends, in whatever
//!   state it is: stopped, about to stop, or dead. So threads are stopped on a thread
//!   of ours that ends right afterwards ([`on_a_tracing_thread`]). One that would not
//!   stop in time, because it sleeps uninterruptibly, is let go with the others.
//! - A wait with `WNOWAIT` takes nothing: not the end of the program, which the
//!   supervisor waits for, and not the signal that a thread may have stopped for.
//! - A traced thread stops for each signal it gets, before it gets it. Whoever lets
//!   go of it says whether it gets the signal, so it is given back.

use crate::sys;
use sketch_model::Tid;
use std::{
    io,
    mem::MaybeUninit,
    panic,
    sync::atomic::{AtomicI32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// A thread that has only to end does so at once, but may have to wait for a processor.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Does `work`, which may stop threads of another process, and returns when the kernel
/// has let go of all of them. A panic in it goes on in the caller, after that.
pub fn on_a_tracing_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let tracer = AtomicI32::new(0);
    let done = thread::scope(|scope| {
        let spawned = thread::Builder::new().spawn_scoped(scope, || {
            tracer.store(sys::own_tid().0, Ordering::Relaxed);
            work()
        });
        spawned.map(thread::ScopedJoinHandle::join)
    })?;
    // Joined is not ended: the kernel lets go of threads a little later.
    let until = Instant::now() + ENDS_WITHIN;
    let (own, tracer) = (sys::own_pid(), Tid(tracer.into_inner()));
    while sys::thread_lives(own, tracer) && Instant::now() < until {
        thread::sleep(Duration::from_micros(50));
    }
    Ok(done.unwrap_or_else(|payload| panic::resume_unwind(payload)))
}

/// A stopped thread; goes on when dropped.
#[derive(Debug)]
pub struct StoppedThread {
    tid: Tid,
    /// The signal that it was about to get; 0 for none.
    signal: i32,
}

impl StoppedThread {
    /// Stops a thread, which takes until `until` at most. To be called on a tracing
    /// thread alone: a thread that does not stop in time stays traced until that ends.
    pub fn stop(tid: Tid, until: Instant) -> io::Result<StoppedThread> {
        request(libc::PTRACE_SEIZE, tid, 0)?;
        request(libc::PTRACE_INTERRUPT, tid, 0)?;
        StoppedThread::once_it_stops(tid, until)
    }

    fn once_it_stops(tid: Tid, until: Instant) -> io::Result<StoppedThread> {
        loop {
            match seen(tid)? {
                Seen::Stopped { signal } => return Ok(StoppedThread { tid, signal }),
                Seen::Ended => return Err(io::Error::other("it ended")),
                Seen::Running if Instant::now() >= until => {
                    return Err(io::Error::other("it did not stop"));
                }
                Seen::Running => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    pub fn registers(&self) -> io::Result<libc::user_regs_struct> {
        let mut registers = MaybeUninit::<libc::user_regs_struct>::uninit();
        request(
            libc::PTRACE_GETREGS,
            self.tid,
            registers.as_mut_ptr() as usize,
        )?;
        // SAFETY: the call has succeeded and filled it.
        Ok(unsafe { registers.assume_init() })
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        // Refused only for a thread that was killed meanwhile.
        let _ = request(libc::PTRACE_DETACH, self.tid, self.signal as usize);
    }
}

/// What a traced thread does.
enum Seen {
    Running,
    /// It stands still, for a signal or (0) because we wanted it to.
    Stopped {
        signal: i32,
    },
    Ended,
}

fn seen(tid: Tid) -> io::Result<Seen> {
    let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: fills a whole siginfo_t, which zeros are, too; what is asked for are
    // changes of a child, of which it has the fields that are read.
    let (found, code, status) = unsafe {
        let asked = libc::waitid(libc::P_PID, tid.0 as libc::id_t, info.as_mut_ptr(), flags);
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        let info = info.assume_init();
        (info.si_pid(), info.si_code, info.si_status())
    };
    Ok(match code {
        _ if found != tid.0 => Seen::Running,
        // ptrace(2): above the signal is the event for which it stopped; there is none
        // if it stopped because it gets that signal.
        libc::CLD_TRAPPED if status >> 8 == 0 => Seen::Stopped { signal: status },
        libc::CLD_TRAPPED => Seen::Stopped { signal: 0 },
        libc::CLD_STOPPED => Seen::Running,
        _ => Seen::Ended,
    })
}

fn request(what: libc::c_uint, tid: Tid, data: usize) -> io::Result<()> {
    // SAFETY: `data` is a number or points to room for what the request returns.
    match unsafe { libc::ptrace(what, tid.0, 0usize, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::Pid;
    use std::{
        io::Read,
        os::fd::{AsRawFd, OwnedFd},
    };

    const ENOUGH: Duration = Duration::from_secs(10);

    /// A child that waits for SIGUSR1 and then exits with 7.
    struct Waiter(Pid);

    impl Waiter {
        fn start() -> Waiter {
            extern "C" fn leave(_: i32) {
                // SAFETY: ends this process, and nothing else.
                unsafe { libc::_exit(7) }
            }
            let (mut ready, tell) = io::pipe().expect("a pipe");
            let tell = OwnedFd::from(tell);
            // SAFETY: the child makes system calls only.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: as above; the handler is a function of that type.
                unsafe {
                    libc::signal(libc::SIGUSR1, leave as *const () as usize);
                    libc::write(tell.as_raw_fd(), b"x".as_ptr().cast(), 1);
                    loop {
                        libc::pause();
                    }
                }
            }
            drop(tell);
            ready.read_exact(&mut [0]).expect("it is ready");
            Waiter(Pid(pid))
        }

        /// Its only thread.
        fn tid(&self) -> Tid {
            Tid(self.0.0)
        }

        /// How it ends within ten seconds; one that does not is killed.
        fn end(self) -> i32 {
            let until = Instant::now() + ENOUGH;
            let mut status = 0;
            // SAFETY: waits for our own child.
            while unsafe { libc::waitpid(self.0.0, &raw mut status, libc::WNOHANG) } == 0 {
                if Instant::now() >= until {
                    sys::send_signal(self.0, libc::SIGKILL);
                }
                thread::sleep(Duration::from_millis(1));
            }
            status
        }

        /// Traces it, and has it stop for the signal that it waits for.
        fn seize_and_signal(&self) {
            request(libc::PTRACE_SEIZE, self.tid(), 0).expect("it can be traced");
            sys::send_signal(self.0, libc::SIGUSR1);
            let until = Instant::now() + ENOUGH;
            while !matches!(seen(self.tid()), Ok(Seen::Stopped { signal }) if signal == libc::SIGUSR1)
            {
                assert!(Instant::now() < until, "it does not stop");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn exited_with(status: i32, code: i32) -> bool {
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == code
    }

    #[test]
    fn a_signal_that_comes_while_a_thread_is_read_reaches_it() {
        let waiter = Waiter::start();
        let tid = waiter.tid();
        on_a_tracing_thread(|| {
            waiter.seize_and_signal();
            request(libc::PTRACE_INTERRUPT, tid, 0).expect("it is traced");
            let stopped =
                StoppedThread::once_it_stops(tid, Instant::now() + ENOUGH).expect("stops");
            assert_eq!(stopped.signal, libc::SIGUSR1);
            assert_ne!(stopped.registers().expect("it stands").rsp, 0);
        })
        .expect("a thread");
        let status = waiter.end();
        assert!(exited_with(status, 7), "{status:#x}");
    }

    #[test]
    fn a_thread_that_was_not_seen_to_stop_goes_on_and_gets_its_signal() {
        let waiter = Waiter::start();
        on_a_tracing_thread(|| waiter.seize_and_signal()).expect("a thread");
        let status = waiter.end();
        assert!(exited_with(status, 7), "{status:#x}");
    }

    #[test]
    fn a_panic_lets_go_of_threads_too() {
        let waiter = Waiter::start();
        let tid = waiter.tid();
        let caught = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            on_a_tracing_thread(|| {
                let stopped = StoppedThread::stop(tid, Instant::now() + ENOUGH).expect("stops");
                // As if the unwinding itself did not get to it.
                std::mem::forget(stopped);
                panic!("a defect");
            })
        }));
        assert!(caught.is_err());
        sys::send_signal(waiter.0, libc::SIGUSR1);
        let status = waiter.end();
        assert!(exited_with(status, 7), "{status:#x}");
    }

    #[test]
    fn the_end_of_the_program_is_left_to_whoever_waits_for_it() {
        let waiter = Waiter::start();
        let tid = waiter.tid();
        on_a_tracing_thread(|| {
            request(libc::PTRACE_SEIZE, tid, 0).expect("it can be traced");
            sys::send_signal(waiter.0, libc::SIGKILL);
            let stopped = StoppedThread::once_it_stops(tid, Instant::now() + ENOUGH);
            assert_eq!(stopped.expect_err("it is dead").to_string(), "it ended");
        })
        .expect("a thread");
        let status = waiter.end();
        assert!(
            libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL,
            "{status:#x}"
        );
    }
}
