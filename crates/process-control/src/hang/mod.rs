//! Noticing that the command hangs, and describing it while it still does.
//!
//! A watcher looks at `/proc` a few times within the operator's patience; an
//! idle or busy program costs it a handful of small reads each time, and the
//! program nothing. Only when a hang is certain are its threads stopped, for
//! the milliseconds that reading their registers and stacks takes.

mod capture;
pub mod progress;
mod stopped_thread;

pub use capture::Hang;

use progress::{Look, Rule, ThreadLook, Waiting, stands_still, ticks, waiting};
use sketch_model::{Pid, Tid};
use std::{
    fs,
    time::{Duration, Instant},
};

/// When to call it a hang, and what to do then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HangPolicy {
    pub patience: Duration,
    pub rule: Rule,
    /// Kill the program once it is described, so that whoever restarts services
    /// can.
    pub end_it: bool,
}

/// Watches one process.
#[derive(Debug)]
pub struct HangWatch {
    policy: HangPolicy,
    pid: Pid,
    last: Look,
    unmoved_since: Instant,
}

impl HangWatch {
    pub fn new(pid: Pid, policy: HangPolicy) -> HangWatch {
        HangWatch {
            policy,
            pid,
            last: Look::new(),
            unmoved_since: Instant::now(),
        }
    }

    /// How long until the next look.
    pub fn pause(&self) -> Duration {
        (self.policy.patience / 5).clamp(Duration::from_millis(20), Duration::from_secs(5))
    }

    /// Looks once; true if the process has not moved for the whole patience.
    pub fn hangs(&mut self) -> bool {
        let now = look(self.pid);
        let still = stands_still(&self.last, &now, self.policy.rule);
        self.last = now;
        if !still {
            self.unmoved_since = Instant::now();
        }
        still && self.unmoved_since.elapsed() >= self.policy.patience
    }

    /// Describes the hang that was just seen; the watch is over then.
    pub fn describe(self) -> Hang {
        capture::capture(self.pid, &self.last)
    }
}

/// All threads of a process, as far as they can be seen.
fn look(pid: Pid) -> Look {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Look::new();
    };
    let tids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Tid);
    tids.map(|tid| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}"));
        let waiting = read("syscall").map_or(Waiting::Unknown, |text| waiting(&text));
        let ticks = read("stat").ok().and_then(|text| ticks(&text)).unwrap_or(0);
        (tid, ThreadLook { ticks, waiting })
    })
    .collect()
}
