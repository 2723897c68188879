//! How often the threads of a process have given up their processors, as far as it
//! can be seen while they live.
//!
//! A thread that has watchpoints pays for them at every switch, hit or not
//! ([`SWITCH_NS`]), so a service that sleeps after each request pays most. The kernel
//! tells the whole number only when the process has ended, and the account needs it
//! before: a service may run for months. What threads did that came and went between
//! two looks is missing here; the record's account gets it at the end.

use crate::clock;
use std::fs;

/// What it costs a thread with watchpoints to give up its processor and get it back:
/// the kernel has a list of events to put away and to fetch, and debug registers to
/// load if they are aimed. Measured on a service that answers one request after the
/// other (`docs/overhead.md`). Turning watchpoints off saves a part of it, closing them
/// all.
pub const SWITCH_NS: u64 = 1_300;

/// Counting takes some microseconds a thread; one part in so many of the agent's time
/// may go into it.
const SELDOM: u64 = 200;

#[derive(Debug, Default)]
pub struct Switches {
    /// Of the threads that lived when they were last counted.
    living: u64,
    /// Ever seen.
    seen: u64,
    not_before: u64,
}

impl Switches {
    /// How many more there are since the last time, unless it is too soon to ask.
    pub fn more(&mut self, pid: i32) -> u64 {
        let began = clock::counter();
        if began < self.not_before {
            return 0;
        }
        let living = of_living_threads(pid).unwrap_or(self.living);
        let ended = clock::counter();
        self.not_before = ended + SELDOM * ended.saturating_sub(began);
        let more = living.saturating_sub(self.living);
        self.living = living;
        self.seen += more;
        more
    }

    /// All that were seen.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

/// `None` if the kernel does not tell (built without `CONFIG_SCHED_INFO`), or the
/// process is gone.
fn of_living_threads(pid: i32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_one = |thread: fs::DirEntry| {
        let said = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times_scheduled(&said)
    };
    Some(threads.flatten().filter_map(of_one).sum())
}

/// "run time, time spent waiting, times scheduled" (`Documentation/scheduler/sched-stats`).
fn times_scheduled(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(2)?.parse().ok()
}
