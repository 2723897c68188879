//! Is the tracked build as good as the original, on this machine?
//!
//! A tracked build starts on probation: it runs in a share of runs only, until
//! it has run often enough. It is withdrawn for good if it fails in ways in
//! which the original does not, if even the failure under diagnosis takes over,
//! or if it is much slower. The counts lie in a small file beside the patch, so
//! that every run on the machine sees them; two runs that end in the same
//! instant may lose a count, which delays a verdict and never makes a wrong one.

use private_files::write_private_unsynced;
use serde::{Deserialize, Serialize};
use sketch_model::{FailureKind, Outcome, RunRecord, Withdrawal};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Runs after which a tracked build is no longer on probation.
const PROBATION: u64 = 20;
/// Failures of a new kind that are no accident.
const TOO_MANY: u64 = 3;
/// The failure under diagnosis may come this often, after probation's half.
const MOST_OWN_FAILURES: f64 = 0.9;
/// Successful runs of both builds before their times are compared.
const TIMED: u64 = 10;

/// Runs of one build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Tally {
    runs: u64,
    successes: u64,
    /// Of successful runs.
    cpu_us: u64,
    own_failures: u64,
    other_failures: u64,
}

impl Tally {
    fn add(&mut self, record: &RunRecord, expected: Option<&FailureKind>) {
        self.runs += 1;
        match &record.outcome {
            Outcome::Success => {
                self.successes += 1;
                self.cpu_us = self.cpu_us.saturating_add(record.cpu_us);
            }
            Outcome::Failure(report) if Some(&report.kind) == expected => self.own_failures += 1,
            Outcome::Failure(_) => self.other_failures += 1,
        }
    }

    fn mean_cpu_us(&self) -> f64 {
        self.cpu_us as f64 / self.successes.max(1) as f64
    }
}

/// What is known of a tracked build and of the original beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Canary {
    original: Tally,
    tracked: Tally,
    /// Why it is withdrawn, if it is.
    withdrawn: Option<Withdrawal>,
}

impl Canary {
    /// The counts of a build; a file that cannot be read begins anew.
    pub fn load(path: &Path) -> Canary {
        fs::read(path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    pub fn withdrawn(&self) -> Option<&Withdrawal> {
        self.withdrawn.as_ref()
    }

    /// The share of runs that may run the tracked build now.
    pub fn share(&self, on_probation: f64) -> f64 {
        match (&self.withdrawn, self.tracked.runs) {
            (Some(_), _) => 0.0,
            (None, runs) if runs < PROBATION => on_probation,
            (None, _) => 1.0,
        }
    }

    /// Counts a run and judges. `slowdown` is the most that the tracked build
    /// may use of the original's CPU time, as a factor.
    pub fn add(&mut self, record: &RunRecord, expected: Option<&FailureKind>, slowdown: f64) {
        let tally = match record.execution.is_original() {
            false => &mut self.tracked,
            true => &mut self.original,
        };
        tally.add(record, expected);
        if self.withdrawn.is_none() {
            self.withdrawn = self.fault(slowdown);
        }
    }

    fn fault(&self, slowdown: f64) -> Option<Withdrawal> {
        let (tracked, original) = (&self.tracked, &self.original);
        let rate = |failures: u64, runs: u64| failures as f64 / runs.max(1) as f64;
        let other = rate(tracked.other_failures, tracked.runs);
        if tracked.other_failures >= TOO_MANY
            && other > 3.0 * rate(original.other_failures, original.runs)
        {
            return Some(Withdrawal::FailsOtherwise {
                failures: tracked.other_failures,
                runs: tracked.runs,
                original_failures: original.other_failures,
                original_runs: original.runs,
            });
        }
        if tracked.runs >= PROBATION / 2
            && rate(tracked.own_failures, tracked.runs) > MOST_OWN_FAILURES
            && rate(original.own_failures, original.runs) <= MOST_OWN_FAILURES
        {
            return Some(Withdrawal::FailsTooOften {
                failures: tracked.own_failures,
                runs: tracked.runs,
            });
        }
        let factor = tracked.mean_cpu_us() / original.mean_cpu_us().max(1.0);
        if tracked.successes >= TIMED && original.successes >= TIMED && factor > slowdown {
            return Some(Withdrawal::TooSlow {
                percent: (factor * 100.0).round() as u64,
                runs: tracked.successes,
            });
        }
        None
    }

    pub fn save(&self, path: &Path) {
        // Without the file the next run begins anew, on probation.
        if let Ok(bytes) = serde_json::to_vec(self) {
            let _ = write_private_unsynced(path, &bytes);
        }
    }
}

/// Where the counts of a patch are kept.
pub fn beside(patch: &Path) -> PathBuf {
    patch.with_extension("canary")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(successes: u64, own_failures: u64, other_failures: u64, mean_us: u64) -> Tally {
        Tally {
            runs: successes + own_failures + other_failures,
            successes,
            cpu_us: successes * mean_us,
            own_failures,
            other_failures,
        }
    }

    fn fault(tracked: Tally, original: Tally) -> Option<Withdrawal> {
        let canary = Canary {
            original,
            tracked,
            withdrawn: None,
        };
        canary.fault(2.0)
    }

    #[test]
    fn only_what_the_original_does_not_do_is_held_against_it() {
        // Fails in a new way; fails no more often than the original does.
        let new = fault(tally(20, 0, 3, 100), tally(50, 1, 0, 100));
        assert_eq!(
            new,
            Some(Withdrawal::FailsOtherwise {
                failures: 3,
                runs: 23,
                original_failures: 0,
                original_runs: 51
            })
        );
        assert_eq!(fault(tally(20, 0, 3, 100), tally(50, 0, 5, 100)), None);
        assert_eq!(
            fault(tally(20, 0, 2, 100), tally(50, 0, 0, 100)),
            None,
            "an accident"
        );
    }

    #[test]
    fn the_failure_under_diagnosis_is_welcome_until_it_is_all_there_is() {
        assert_eq!(fault(tally(5, 25, 0, 100), tally(50, 1, 0, 100)), None);
        let all = fault(tally(1, 29, 0, 100), tally(50, 1, 0, 100));
        let often = Withdrawal::FailsTooOften {
            failures: 29,
            runs: 30,
        };
        assert_eq!(all, Some(often));
        assert_eq!(
            fault(tally(1, 29, 0, 100), tally(1, 49, 0, 100)),
            None,
            "as before"
        );
    }

    #[test]
    fn one_that_is_too_slow_goes() {
        let slow = fault(tally(10, 0, 0, 210), tally(10, 0, 0, 100));
        let too_slow = Withdrawal::TooSlow {
            percent: 210,
            runs: 10,
        };
        assert_eq!(slow, Some(too_slow));
        assert_eq!(fault(tally(10, 0, 0, 190), tally(10, 0, 0, 100)), None);
        assert_eq!(
            fault(tally(9, 0, 0, 900), tally(10, 0, 0, 100)),
            None,
            "too early to say"
        );
    }

    #[test]
    fn probation_ends_and_withdrawal_does_not() {
        let mut canary = Canary::default();
        assert_eq!(canary.share(0.25), 0.25);
        canary.tracked = tally(20, 0, 0, 100);
        assert_eq!(canary.share(0.25), 1.0);
        // As earlier releases kept it.
        canary.withdrawn = Some(Withdrawal::Words("it failed".into()));
        assert_eq!(canary.share(0.25), 0.0);
    }
}
