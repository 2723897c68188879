//! How often the threads of a process have given up their processors, as far as it
//! can be seen while they live.
//!
//! A thread that has watchpoints pays for them at every switch, hit or not
//! ([`SWITCH_NS`]), so a service that sleeps after each request pays most. The kernel
//! tells the whole number only when the process has ended, and the account needs it
//! before: a service may run for months. What a thread did after the last look before its
//! end is missing here; if the watchpoints are open to the end, the record's account
//! gets it then.

use crate::process::sys::thread_cpu_ns;
use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

/// What it costs a thread with watchpoints to give up its processor and get it back:
/// the kernel has a list of events to put away and to fetch, and debug registers to
/// load if they are aimed. Measured on a service that answers one request after the
/// other (`docs/overhead.md`). Turning watchpoints off saves a part of it, closing them
/// all.
pub const SWITCH_NS: u64 = 1_300;

/// Counting takes some microseconds a thread; one part in so many of the agent's time
/// may go into it.
const SELDOM: u32 = 200;
const LONGEST: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub struct Switches {
    /// By thread, of those that lived when they were last counted.
    living: HashMap<u32, u64>,
    /// Ever seen.
    seen: u64,
    not_before: Option<Instant>,
}

impl Switches {
    /// How many more there are since the last time, unless it is too soon to ask.
    pub fn more(&mut self, pid: i32) -> u64 {
        let now = Instant::now();
        if self.not_before.is_some_and(|then| now < then) {
            return 0;
        }
        let began = thread_cpu_ns();
        let more = match of_living_threads(pid) {
            Some(living) => self.note(living),
            None => 0,
        };
        let took = Duration::from_nanos(thread_cpu_ns().saturating_sub(began));
        self.not_before = Some(now + (took * SELDOM).min(LONGEST));
        more
    }

    fn note(&mut self, living: HashMap<u32, u64>) -> u64 {
        let before = |tid: &u32| self.living.get(tid).copied().unwrap_or(0);
        let increases = living.iter().map(|(tid, n)| n.saturating_sub(before(tid)));
        let more = increases.fold(0, u64::saturating_add);
        self.living = living;
        self.seen = self.seen.saturating_add(more);
        more
    }

    /// All that were seen.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

/// `None` if the kernel does not tell (built without `CONFIG_SCHED_INFO`), or the
/// process is gone.
fn of_living_threads(pid: i32) -> Option<HashMap<u32, u64>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_one = |thread: fs::DirEntry| {
        let tid = thread.file_name().to_str()?.parse().ok()?;
        let said = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        Some((tid, times_scheduled(&said)?))
    };
    Some(threads.flatten().filter_map(of_one).collect())
}

/// "run time, time spent waiting, times scheduled" (`Documentation/scheduler/sched-stats`).
fn times_scheduled(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_end_take_nothing_away_and_new_ones_count_whole() {
        let mut switches = Switches::default();
        assert_eq!(switches.note(HashMap::from([(1, 10), (2, 100)])), 110);
        assert_eq!(switches.note(HashMap::from([(1, 15), (3, 7)])), 12);
        assert_eq!(switches.note(HashMap::from([(1, 15)])), 0);
        assert_eq!(switches.seen(), 122);
    }

    #[test]
    fn the_third_number_is_taken_and_nonsense_is_none() {
        assert_eq!(times_scheduled("914699 3298415 3\n"), Some(3));
        assert_eq!(times_scheduled("914699 3298415"), None);
        assert_eq!(times_scheduled("a b c"), None);
    }
}
