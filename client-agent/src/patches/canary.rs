//! Is the tracked build as good as the original, on this machine?
//!
//! The first tracked build of a program starts on probation: it runs in a share of runs
//! only, until it has run often enough. Later ones are clones made in the same way of
//! more functions, and need no probation of their own. Each is withdrawn for good if it
//! fails in ways in which the original does not, if even the failure under diagnosis
//! takes over, or if it is much slower. What it costs short of that is the ledger's
//! matter, which asks here what tracked runs were seen to use beyond untracked ones. The counts lie in a small file beside the patch, so
//! that every run on the machine sees them; two runs that end in the same
//! instant may lose a count, which delays a verdict and never makes a wrong one.

use private_files::write_private_unsynced;
use serde::{Deserialize, Serialize};
use sketch_model::{BuildId, FailureKind, Outcome, RunRecord, VariantRef, Withdrawal};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Runs after which tracked builds of a program are no longer on probation.
const PROBATION: u64 = 8;
/// Tracked runs before it can be said that the failure under diagnosis takes over.
const ENOUGH_TO_SAY: u64 = 10;
/// Runs that the original is taken to have ended well before it was first counted: a
/// tracked build that fails at once is not given the time until there are some.
const TAKEN_FOR_GOOD: u64 = 20;
/// A difference that is due to chance less often than this is none.
const CHANCE: f64 = 0.01;
/// Failures of a new kind that are no accident.
const TOO_MANY: u64 = 3;
/// The failure under diagnosis may come this often.
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

/// What is known of one tracked build and of the original beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Trial {
    tracked: Tally,
    /// Why it is withdrawn, if it is.
    withdrawn: Option<Withdrawal>,
}

/// What is known of a program's tracked builds and of the original.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Canary {
    original: Tally,
    /// By campaign, iteration and plan.
    trials: BTreeMap<String, Trial>,
}

/// Tracked builds of a program that are remembered, those of the latest campaigns.
const MOST_TRIALS: usize = 64;

fn named(variant: VariantRef) -> String {
    // So that the order of names is the order of time.
    format!(
        "{:010}-{:06}-{:06}",
        variant.campaign.0, variant.iteration, variant.plan
    )
}

impl Trial {
    /// Its runs, unless it did harm.
    fn harmless(&self) -> u64 {
        match self.withdrawn {
            Some(_) => 0,
            None => self.tracked.runs - self.tracked.other_failures.min(self.tracked.runs),
        }
    }

    fn fault(&self, original: &Tally, slowdown: f64) -> Option<Withdrawal> {
        let tracked = &self.tracked;
        let chance = chance_of_so_many(
            (tracked.other_failures, tracked.runs),
            (original.other_failures, original.runs + TAKEN_FOR_GOOD),
        );
        if tracked.other_failures >= TOO_MANY && chance < CHANCE {
            return Some(Withdrawal::FailsOtherwise {
                failures: tracked.other_failures,
                runs: tracked.runs,
                original_failures: original.other_failures,
                original_runs: original.runs,
            });
        }
        let rate = |failures: u64, runs: u64| failures as f64 / runs.max(1) as f64;
        if tracked.runs >= ENOUGH_TO_SAY
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
}

impl Canary {
    /// The counts of a build; a file that cannot be read begins anew.
    pub fn load(path: &Path) -> Canary {
        fs::read(path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    fn trial(&self, variant: VariantRef) -> Option<&Trial> {
        self.trials.get(&named(variant))
    }

    pub fn withdrawn(&self, variant: VariantRef) -> Option<&Withdrawal> {
        self.trial(variant)?.withdrawn.as_ref()
    }

    /// The share of runs that may run this tracked build now.
    pub fn share(&self, variant: VariantRef, on_probation: f64) -> f64 {
        if self.withdrawn(variant).is_some() {
            return 0.0;
        }
        match self.trials.values().map(Trial::harmless).sum::<u64>() {
            runs if runs < PROBATION => on_probation,
            _ => 1.0,
        }
    }

    /// What a run of this tracked build was seen to use beyond an untracked one, in
    /// nanoseconds; 0 until there are enough of both.
    pub fn seen_cost_ns(&self, variant: VariantRef) -> u64 {
        let original = &self.original;
        let tracked = self.trial(variant).map(|trial| &trial.tracked);
        match tracked {
            Some(tracked) if tracked.successes >= TIMED && original.successes >= TIMED => {
                let more_us = tracked.mean_cpu_us() - original.mean_cpu_us();
                (more_us.max(0.0) * 1e3) as u64
            }
            _ => 0,
        }
    }

    /// Counts a run and judges. `slowdown` is the most that the tracked build
    /// may use of the original's CPU time, as a factor.
    pub fn add(&mut self, record: &RunRecord, expected: Option<&FailureKind>, slowdown: f64) {
        let Some(variant) = record.execution.tracked() else {
            self.original.add(record, expected);
            return;
        };
        let original = self.original.clone();
        let trial = self.trial_of(variant);
        trial.tracked.add(record, expected);
        if trial.withdrawn.is_none() {
            trial.withdrawn = trial.fault(&original, slowdown);
        }
    }

    fn trial_of(&mut self, variant: VariantRef) -> &mut Trial {
        let name = named(variant);
        if !self.trials.contains_key(&name) && self.trials.len() == MOST_TRIALS {
            self.trials.pop_first();
        }
        self.trials.entry(name).or_default()
    }

    pub fn save(&self, path: &Path) {
        // Without the file the next run begins anew, on probation.
        if let Ok(bytes) = serde_json::to_vec(self) {
            let _ = write_private_unsynced(path, &bytes);
        }
    }
}

/// How likely it is that of so many failures in all at least `seen.0` fall on the runs of
/// `seen`, if both builds fail equally often: Fisher's exact test, one-sided.
fn chance_of_so_many(seen: (u64, u64), other: (u64, u64)) -> f64 {
    let (failures, runs) = (seen.0 + other.0, seen.1 + other.1);
    let ln_choose = |n: u64, k: u64| -> f64 {
        (1..=k.min(n - k))
            .map(|i| ((n - i + 1) as f64 / i as f64).ln())
            .sum()
    };
    let all = ln_choose(runs, failures);
    (seen.0..=failures.min(seen.1))
        .filter(|of_seen| failures - of_seen <= other.1)
        .map(|of_seen| {
            let ways = ln_choose(seen.1, of_seen) + ln_choose(other.1, failures - of_seen);
            (ways - all).exp()
        })
        .sum()
}

/// Where the counts of a build are kept: apart for each server, which number their
/// campaigns alike.
pub fn file(cache: &Path, origin: &str, build: &BuildId) -> PathBuf {
    let origin = code_patch::sha256_hex(origin.as_bytes());
    cache.join(format!("{}-{build}.canary", &origin[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::CampaignId;

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
        let trial = Trial {
            tracked,
            withdrawn: None,
        };
        trial.fault(&original, 2.0)
    }

    const ONE: VariantRef = VariantRef {
        campaign: CampaignId(1),
        iteration: 1,
        plan: 0,
    };
    const NEXT: VariantRef = VariantRef {
        iteration: 2,
        ..ONE
    };

    fn canary(tracked: Tally, original: Tally, withdrawn: Option<Withdrawal>) -> Canary {
        let trial = Trial { tracked, withdrawn };
        Canary {
            original,
            trials: BTreeMap::from([(named(ONE), trial)]),
        }
    }

    #[test]
    fn only_what_the_original_does_not_do_is_held_against_it() {
        // Fails in a new way; fails no more often than the original does.
        let new = fault(tally(20, 0, 3, 100), tally(99, 1, 0, 100));
        assert_eq!(
            new,
            Some(Withdrawal::FailsOtherwise {
                failures: 3,
                runs: 23,
                original_failures: 0,
                original_runs: 100
            })
        );
        assert_eq!(fault(tally(20, 0, 3, 100), tally(50, 0, 5, 100)), None);
        assert!(fault(tally(0, 0, 3, 100), Tally::default()).is_some());
        // Three of ten and three of forty: one in sixteen machines would see that.
        assert_eq!(fault(tally(7, 0, 3, 100), tally(37, 0, 3, 100)), None);
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
    fn probation_is_the_programs_and_withdrawal_the_builds() {
        let new = Canary::default();
        assert_eq!(new.share(ONE, 0.5), 0.5);
        let proved = canary(tally(8, 0, 0, 100), Tally::default(), None);
        assert_eq!(
            (proved.share(ONE, 0.5), proved.share(NEXT, 0.5)),
            (1.0, 1.0)
        );
        let words = Withdrawal::Words("it failed".into());
        let withdrawn = canary(tally(20, 0, 9, 100), Tally::default(), Some(words));
        assert_eq!(withdrawn.share(ONE, 0.5), 0.0);
        assert_eq!(withdrawn.share(NEXT, 0.5), 0.5);
    }

    #[test]
    fn only_so_many_tracked_builds_are_remembered() {
        let mut canary = Canary::default();
        for iteration in 0..100 {
            canary.trial_of(VariantRef { iteration, ..ONE });
        }
        assert_eq!(canary.trials.len(), MOST_TRIALS);
        assert_eq!(
            canary
                .trials
                .first_key_value()
                .map(|(name, _)| name.as_str()),
            Some("0000000001-000036-000000")
        );
    }

    #[test]
    fn what_tracked_runs_use_beyond_others_is_seen_once_there_are_enough() {
        let seen = |tracked, original| canary(tracked, original, None).seen_cost_ns(ONE);
        assert_eq!(seen(tally(9, 0, 0, 500), tally(50, 0, 0, 100)), 0);
        assert_eq!(seen(tally(10, 3, 0, 500), tally(50, 0, 0, 100)), 400_000);
        assert_eq!(seen(tally(10, 0, 0, 90), tally(50, 0, 0, 100)), 0);
    }

    #[test]
    fn chance_is_fishers_exact_test() {
        // Three of three and none of three: one in twenty.
        assert!((chance_of_so_many((3, 3), (0, 3)) - 0.05).abs() < 1e-9);
        assert!((chance_of_so_many((0, 10), (5, 10)) - 1.0).abs() < 1e-9);
    }
}
