//! What a program may spend on tracking over all its runs on this machine.
//!
//! Within a run the governor keeps the account, and a run starts with some credit
//! so that a short program is recorded from end to end. For a program that lasts
//! milliseconds that credit is many times its share. So runs have an account of
//! their own, from one to the next: each run, tracked or not, pays in its share
//! of the processor time it used, each tracked one takes out what tracking cost,
//! and a tracked build runs only if the account covers what such runs usually
//! cost beyond their own share. Thus *whole runs* are sampled: a few are recorded
//! entirely and most not at all, instead of each being cut off after its first
//! milliseconds. A cut-off record misses what comes last, and a failure comes
//! last. Which runs are chosen depends on earlier runs alone, never on the run
//! itself, so failing and successful ones are sampled alike.
//!
//! Long runs pay for themselves as they go, and are never held back by this.
//!
//! The account starts with [`FIRST_NS`], once for each program and machine. In
//! the long run tracking costs at most the share, that first credit, and what
//! one run costs ([`Account`] has the proof as a property test).
//!
//! What is charged: hooks and watchpoint hits at measured prices, switches of threads
//! with watchpoints, aiming and turning these, and the processor time of the runtime's
//! start. Not
//! charged: gates, what the kernel does for dormant watchpoints at thread creation
//! (about 10 µs each), the cold caches of a tracked build's first calls.
//! `./dev bench overhead` measures those, too.

use super::token_bucket::BUCKET_NS;
use crate::patches::locked_file::Kept;
use serde::{Deserialize, Serialize};
use sketch_model::Gap;
use std::path::Path;

/// What a program may cost before it has earned anything on this machine.
pub const FIRST_NS: i64 = BUCKET_NS as i64;
/// A run's cost counts for this part of what runs usually cost.
const NEWS: u64 = 4;

/// The arithmetic: no clock, no files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    balance_ns: i64,
    /// What a tracked run usually costs beyond its own share.
    excess_ns: u64,
}

impl Default for Account {
    fn default() -> Account {
        Account {
            balance_ns: FIRST_NS,
            excess_ns: 0,
        }
    }
}

/// A tracked run that was let go, and what was set aside for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved(u64);

impl Account {
    /// Sets aside what a tracked run usually costs; `None` if that is not there.
    fn admit(&mut self) -> Option<Reserved> {
        let price = i64::try_from(self.excess_ns).unwrap_or(i64::MAX);
        if self.balance_ns < price.max(1) {
            return None;
        }
        self.balance_ns -= price;
        Some(Reserved(self.excess_ns))
    }

    /// A run has ended that used `cpu_ns`: what was set aside for it comes back,
    /// and what tracking cost, if it was tracked, goes out.
    fn settle(&mut self, share: f64, cpu_ns: u64, reserved: Reserved, cost: Option<u64>) {
        let cost_ns = cost.unwrap_or(0);
        let income = (share * cpu_ns.saturating_sub(cost_ns) as f64) as i64;
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let change = income
            .saturating_sub(signed(cost_ns))
            .saturating_add(signed(reserved.0));
        if cost.is_some() {
            let excess = cost_ns.saturating_sub(income.max(0) as u64);
            self.excess_ns = self.excess_ns / NEWS * (NEWS - 1) + excess / NEWS;
        }
        // More than a run needs is not saved up: it would be spent all at once.
        let most = self.excess_ns.saturating_mul(2).max(BUCKET_NS);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.balance_ns = self.balance_ns.saturating_add(change).min(most);
    }
}

/// The account of one program on this machine. If it cannot be kept, the machine pays
/// the first credit more often, which is little.
#[derive(Clone, Debug)]
pub struct Ledger {
    account: Kept<Account>,
    share: f64,
}

impl Ledger {
    pub fn of_build(cache: &Path, build: &str, share: f64) -> Ledger {
        // Build ids are hexadecimal; whatever else comes must not leave the folder.
        let name: String = build.chars().filter(char::is_ascii_alphanumeric).collect();
        Ledger {
            account: Kept::in_file(cache.join(format!("{name}.account"))),
            share,
        }
    }

    /// Whether a tracked build may run now; the sentence says why not.
    pub fn admit(&self) -> Result<Reserved, Gap> {
        let (admitted, account) = self.account.change(|account| (account.admit(), *account));
        admitted.ok_or(Gap::TrackedBuildTooCostly {
            excess_ns: account.excess_ns,
            limit_ppm: (self.share * 1e6).round() as u64,
        })
    }

    /// Takes note of a run.
    pub fn settle(&self, cpu_ns: u64, reserved: Reserved, cost_ns: Option<u64>) {
        self.account
            .change(|account| account.settle(self.share, cpu_ns, reserved, cost_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    const MS: u64 = 1_000_000;

    /// Runs a program `runs` times; how many were tracked, and what it all cost
    /// and used.
    fn simulate(share: f64, runs: impl Iterator<Item = (u64, u64)>) -> (u64, u64, u64) {
        let mut account = Account::default();
        let (mut tracked, mut cost_ns, mut cpu_ns) = (0, 0, 0);
        for (cpu, cost) in runs {
            let admitted = account.admit();
            let cost = admitted.map(|_| cost);
            tracked += u64::from(admitted.is_some());
            cost_ns += cost.unwrap_or(0);
            cpu_ns += cpu;
            let used = cpu + cost.unwrap_or(0);
            account.settle(share, used, admitted.unwrap_or_default(), cost);
        }
        (tracked, cost_ns, cpu_ns)
    }

    #[test]
    fn a_short_program_has_few_runs_tracked_and_those_whole() {
        // 6.5 ms a run, of which a watched one costs 3 ms more.
        let (tracked, cost, cpu) = simulate(0.01, (0..10_000).map(|_| (13 * MS / 2, 3 * MS)));
        assert!(
            cost <= cpu / 100 + FIRST_NS as u64 + 3 * MS,
            "{cost} of {cpu}"
        );
        assert!(
            cost * 10 > cpu / 100 * 9,
            "{cost} of {cpu}: the share is used"
        );
        assert!((190..=230).contains(&tracked), "{tracked}");
    }

    #[test]
    fn a_program_whose_tracking_became_cheap_is_tracked_more() {
        let dear = (0..1000).map(|_| (13 * MS / 2, 3 * MS));
        let cheap = (0..1000).map(|_| (13 * MS / 2, MS / 20));
        let (before, ..) = simulate(0.01, dear.clone());
        let (both, ..) = simulate(0.01, dear.chain(cheap));
        assert!(both - before > 900, "{before}, then {both}");
    }

    #[test]
    fn long_runs_pay_for_themselves() {
        // The governor inside holds an hour at its share.
        let hour = 3_600_000 * MS;
        let (tracked, ..) = simulate(0.01, (0..100).map(|_| (hour, hour / 100)));
        assert_eq!(tracked, 100);
    }

    #[test]
    fn runs_side_by_side_do_not_all_take_the_same_credit() {
        let mut account = Account {
            balance_ns: 10 * MS as i64,
            excess_ns: 3 * MS,
        };
        let admitted = (0..100).filter(|_| account.admit().is_some()).count();
        assert_eq!(admitted, 3);
    }

    #[test]
    fn a_damaged_file_begins_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = Ledger::of_build(folder.path(), "ab../12", 0.01);
        assert_eq!(ledger.account.file(), folder.path().join("ab12.account"));
        fs::write(ledger.account.file(), b"nonsense").expect("writable");
        let aside = ledger.admit().expect("the first credit");
        ledger.settle(6 * MS, aside, Some(30 * MS));
        let refused = ledger.admit().expect_err("in debt");
        let sentence = refused.to_string();
        assert!(sentence.contains("ms more than the 1%"), "{sentence}");
        let bytes = fs::read(ledger.account.file()).expect("kept");
        assert!(serde_json::from_slice::<Account>(&bytes).is_ok());
    }

    proptest! {
        #[test]
        fn tracking_never_costs_more_than_share_first_credit_and_one_run(
            runs in proptest::collection::vec((0..50 * MS, 0..20 * MS), 1..400),
            percent in 0.1..20.0f64,
        ) {
            let share = percent / 100.0;
            let dearest = runs.iter().map(|(_, cost)| *cost).max().unwrap_or(0);
            let (_, cost, cpu) = simulate(share, runs.iter().copied());
            let most = share * cpu as f64 + FIRST_NS as f64 + dearest as f64;
            prop_assert!(cost as f64 <= most + runs.len() as f64, "{cost} of {most}");
        }
    }
}
