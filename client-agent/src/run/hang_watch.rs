//! Looks, while the program is waited for, whether it hangs; and reports that once.
//!
//! A defect of ours in looking or describing ends neither the program nor the waiting,
//! and does not keep a hang from being ended where the operator wants that.

use crate::process::hang::{Hang, HangPolicy, HangWatch};
use crate::process::supervise::{Verdict, Watch};
use crate::run::barrier::guarded;
use crate::stderr_log::say;
use sketch_model::{Gap, Pid};
use std::time::Duration;

/// Calls `report` while the program hangs, with what was found, or when a defect of ours
/// has ended the looking: once at most.
pub struct HangReporter<'a> {
    watch: Option<HangWatch>,
    end_it: bool,
    report: &'a mut dyn FnMut(Result<Hang, Gap>),
}

impl<'a> HangReporter<'a> {
    pub fn new(
        pid: Pid,
        policy: Option<HangPolicy>,
        report: &'a mut dyn FnMut(Result<Hang, Gap>),
    ) -> HangReporter<'a> {
        HangReporter {
            watch: policy.map(|policy| HangWatch::new(pid, policy)),
            end_it: policy.is_some_and(|policy| policy.end_it),
            report,
        }
    }

    fn tell(&mut self, found: Result<Hang, Gap>) {
        if let Err(defect) = guarded("reporting a hang", || (self.report)(found)) {
            say(defect);
        }
    }
}

impl Watch for HangReporter<'_> {
    fn pause(&self) -> Option<Duration> {
        self.watch.as_ref().map(HangWatch::pause)
    }

    fn look(&mut self) -> Verdict {
        let Some(mut watch) = self.watch.take() else {
            return Verdict::GoesOn;
        };
        match guarded("looking whether the program hangs", || watch.hangs()) {
            Ok(false) => self.watch = Some(watch),
            Ok(true) => {
                let described = guarded("describing a hang", || watch.describe());
                // It hangs, whether we can say how or not.
                self.tell(Ok(described.unwrap_or_else(Hang::not_described)));
                if self.end_it {
                    return Verdict::IsKilled;
                }
            }
            Err(defect) => self.tell(Err(defect)),
        }
        Verdict::GoesOn
    }
}
