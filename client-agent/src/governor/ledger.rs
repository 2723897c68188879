//! What a program may spend on tracking over all its runs on this machine.
//!
//! Within a run the governor keeps the account. For a program that lasts milliseconds
//! what a run may cost is many times its share, so runs have an account of their own,
//! from one to the next: each run, tracked or not, pays in its share of the processor
//! time it used, each tracked one takes out what tracking cost, and a tracked build
//! runs only if the account covers what such runs usually cost beyond their own share.
//! Thus *whole runs* are sampled: a few are recorded from end to end and most not at
//! all. A record that is cut off misses what comes last, and a failure comes last: so a
//! run is given at least twice the usual price to spend, and where that was not enough
//! the price doubles. Which runs are chosen depends on earlier runs alone, never on the
//! run itself, so failing and successful ones are sampled alike.
//!
//! **The loan.** A program that has just failed has saved nothing yet, and failures that
//! pass unrecorded are what a diagnosis cannot get back. So it may go into debt: by at
//! most `loan_seconds` of processor time ([`LOAN_SECONDS`] by default; 0 forbids it),
//! and never by more than [`LOAN_SHARE`] of what the program has used since tracking was
//! first asked for. Its income pays the debt back, and no other campaign may borrow
//! before that. What is owed travels in the record.
//!
//! Long runs pay for themselves as they go, and are never held back by this.
//!
//! The account starts with [`FIRST_NS`], once for each program and machine. In
//! the long run tracking costs at most the share, that first credit, the loan, and what
//! one run costs ([`Account`] has the proof as a property test).
//!
//! What is charged: hooks and watchpoint hits at measured prices, switches of threads
//! with watchpoints, aiming and turning these, and the processor time of the runtime's
//! start; or, if that is more, what tracked runs were seen to use beyond untracked ones
//! (`crate::patches::canary`). `./dev bench overhead` measures what this leaves out.

use super::token_bucket::BUCKET_NS;
use crate::patches::locked_file::Kept;
use serde::{Deserialize, Serialize};
use sketch_model::{CampaignId, Gap};
use std::path::Path;

/// What a program may cost before it has earned anything on this machine.
pub const FIRST_NS: i64 = BUCKET_NS as i64;
/// A run's cost counts for this part of what runs usually cost.
const NEWS: u64 = 4;

/// A run this much longer than a short one is not recorded whole, whatever it may spend.
const LONG_RUN_NS: u64 = 10_000_000_000;

/// The most that a program may owe, by default.
pub const LOAN_SECONDS: f64 = 10.0;
/// The most that it may owe, as a share of what it has used.
pub const LOAN_SHARE: f64 = 0.3;

/// The arithmetic: no clock, no files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Below zero is debt.
    balance_ns: i64,
    /// What a tracked run usually costs beyond its own share.
    excess_ns: u64,
    /// Whose diagnosis the debt was made for.
    #[serde(default)]
    borrower: Option<CampaignId>,
    /// Processor time that the program used since this account was opened, which is
    /// when tracking was first asked for.
    #[serde(default)]
    used_ns: u64,
}

impl Default for Account {
    fn default() -> Account {
        Account {
            balance_ns: FIRST_NS,
            excess_ns: 0,
            borrower: None,
            used_ns: 0,
        }
    }
}

/// A tracked run that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// What was set aside for it.
    price_ns: u64,
    /// What it may spend before it is cut off.
    pub bucket_ns: u64,
}

impl Reserved {
    /// Of a run that is not tracked.
    pub fn none() -> Reserved {
        Reserved {
            price_ns: 0,
            bucket_ns: 0,
        }
    }
}

/// What tracking a run has cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub ns: u64,
    /// Recording was turned off before the run ended, because it cost too much.
    pub was_cut_off: bool,
}

impl Account {
    /// Sets aside what a tracked run usually costs, on credit if it is for a campaign and
    /// `loan_ns` allows it; `None` if that is not there.
    fn admit(&mut self, campaign: Option<CampaignId>, loan_ns: u64) -> Option<Reserved> {
        let price = i64::try_from(self.excess_ns).unwrap_or(i64::MAX);
        if self.balance_ns < price.max(1) {
            let campaign = campaign?;
            let of_another = self.borrower.is_some_and(|borrower| borrower != campaign);
            if self.balance_ns < 0 && of_another {
                return None;
            }
            let of_use = (self.used_ns as f64 * LOAN_SHARE) as u64;
            let most = i64::try_from(loan_ns.min(of_use)).unwrap_or(i64::MAX);
            if self.balance_ns.saturating_sub(price.max(1)) < most.saturating_neg() {
                return None;
            }
            self.borrower = Some(campaign);
        }
        self.balance_ns = self.balance_ns.saturating_sub(price);
        Some(Reserved {
            price_ns: self.excess_ns,
            bucket_ns: self.excess_ns.saturating_mul(2).max(BUCKET_NS),
        })
    }

    /// A run has ended that used `cpu_ns`: what was set aside for it comes back,
    /// and what tracking cost, if it was tracked, goes out.
    fn settle(&mut self, share: f64, cpu_ns: u64, reserved: Reserved, cost: Option<Cost>) {
        let cost_ns = cost.map_or(0, |cost| cost.ns);
        let own_ns = cpu_ns.saturating_sub(cost_ns);
        self.used_ns = self.used_ns.saturating_add(own_ns);
        let income = (share * own_ns as f64) as i64;
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let change = income
            .saturating_sub(signed(cost_ns))
            .saturating_add(signed(reserved.price_ns));
        if let Some(cost) = cost {
            let excess = cost_ns.saturating_sub(income.max(0) as u64);
            let usual = self.excess_ns / NEWS * (NEWS - 1) + excess / NEWS;
            self.excess_ns = match cost.was_cut_off && own_ns < LONG_RUN_NS {
                true => usual.max(excess.saturating_mul(2)),
                false => usual,
            };
        }
        // More than a run needs is not saved up: it would be spent all at once.
        let most = self.excess_ns.saturating_mul(2).max(BUCKET_NS);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.balance_ns = self.balance_ns.saturating_add(change).min(most);
        if self.balance_ns >= 0 {
            self.borrower = None;
        }
    }

    /// What is to be paid back.
    fn owed_ns(&self) -> u64 {
        self.balance_ns.min(0).unsigned_abs()
    }
}

/// The account of one program on this machine. If it cannot be kept, the machine pays
/// the first credit more often, which is little.
#[derive(Clone, Debug)]
pub struct Ledger {
    account: Kept<Account>,
    share: f64,
    loan_ns: u64,
}

impl Ledger {
    pub fn of_build(cache: &Path, build: &str, share: f64, loan_ns: u64) -> Ledger {
        // Build ids are hexadecimal; whatever else comes must not leave the folder.
        let name: String = build.chars().filter(char::is_ascii_alphanumeric).collect();
        Ledger {
            account: Kept::in_file(cache.join(format!("{name}.account"))),
            share,
            loan_ns,
        }
    }

    /// Whether a tracked build may run now; the sentence says why not.
    pub fn admit(&self, campaign: Option<CampaignId>) -> Result<Reserved, Gap> {
        let (admitted, account) = self
            .account
            .change(|account| (account.admit(campaign, self.loan_ns), *account));
        admitted.ok_or(Gap::TrackedBuildTooCostly {
            excess_ns: account.excess_ns,
            limit_ppm: (self.share * 1e6).round() as u64,
        })
    }

    /// Takes note of a run; answers what the program owes now.
    pub fn settle(&self, cpu_ns: u64, reserved: Reserved, cost: Option<Cost>) -> u64 {
        self.account.change(|account| {
            account.settle(self.share, cpu_ns, reserved, cost);
            account.owed_ns()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    const MS: u64 = 1_000_000;
    const ONE: Option<CampaignId> = Some(CampaignId(1));

    fn whole(ns: u64) -> Option<Cost> {
        Some(Cost {
            ns,
            was_cut_off: false,
        })
    }

    /// What came of many runs of a program.
    struct Outcome {
        tracked: u64,
        /// Of them, recorded to the end.
        whole: u64,
        cost_ns: u64,
        cpu_ns: u64,
        account: Account,
    }

    /// Runs a program, each run with its own processor time and what recording it
    /// whole would cost.
    fn simulate(share: f64, loan_ns: u64, runs: impl Iterator<Item = (u64, u64)>) -> Outcome {
        let mut out = Outcome {
            tracked: 0,
            whole: 0,
            cost_ns: 0,
            cpu_ns: 0,
            account: Account::default(),
        };
        for (cpu, cost) in runs {
            let admitted = out.account.admit(ONE, loan_ns);
            let cost = admitted.map(|reserved| {
                let most = reserved.bucket_ns + (share * cpu as f64) as u64;
                Cost {
                    ns: cost.min(most),
                    was_cut_off: cost > most,
                }
            });
            let cost_ns = cost.map_or(0, |cost| cost.ns);
            out.tracked += u64::from(admitted.is_some());
            out.whole += u64::from(cost.is_some_and(|cost| !cost.was_cut_off));
            out.cost_ns += cost_ns;
            out.cpu_ns += cpu;
            let reserved = admitted.unwrap_or(Reserved::none());
            out.account.settle(share, cpu + cost_ns, reserved, cost);
        }
        out
    }

    #[test]
    fn a_short_program_has_few_runs_tracked_and_those_whole() {
        // 6.5 ms a run, of which a watched one costs 3 ms more.
        let out = simulate(0.01, 0, (0..10_000).map(|_| (13 * MS / 2, 3 * MS)));
        let (cost, cpu) = (out.cost_ns, out.cpu_ns);
        assert!(
            cost <= cpu / 100 + FIRST_NS as u64 + 3 * MS,
            "{cost} of {cpu}"
        );
        assert!(
            cost * 10 > cpu / 100 * 9,
            "{cost} of {cpu}: the share is used"
        );
        assert!((190..=230).contains(&out.tracked), "{}", out.tracked);
        assert_eq!(out.whole, out.tracked);
    }

    #[test]
    fn a_dear_program_is_recorded_to_its_end_all_the_same() {
        // 15 ms a run, recorded whole 40 ms more: the first ones are cut off.
        let out = simulate(0.01, 0, (0..20_000).map(|_| (15 * MS, 40 * MS)));
        assert!(out.tracked >= 50, "{}", out.tracked);
        assert!(out.tracked - out.whole <= 3, "{}", out.tracked - out.whole);
    }

    #[test]
    fn a_loan_brings_the_first_runs_forward_and_is_paid_back() {
        let runs = |count| (0..count).map(|_| (15 * MS, 40 * MS));
        let loan = 10_000 * MS;
        let (without, with) = (
            simulate(0.01, 0, runs(400)),
            simulate(0.01, loan, runs(400)),
        );
        assert!(without.tracked <= 3, "{}", without.tracked);
        assert!(with.whole >= 30, "{}", with.whole);
        let most = (LOAN_SHARE * with.cpu_ns as f64) as u64;
        assert!(with.account.owed_ns() <= most, "{}", with.account.owed_ns());
        // Nothing is tracked any more: it is paid back.
        let mut account = with.account;
        let debt = account.owed_ns();
        assert!(debt > 0);
        for _ in 0..debt / (15 * MS / 100) + 1 {
            account.settle(0.01, 15 * MS, Reserved::none(), None);
        }
        assert_eq!((account.owed_ns(), account.borrower), (0, None));
    }

    #[test]
    fn a_debt_made_for_one_diagnosis_is_paid_before_another_borrows() {
        let mut account = simulate(0.01, 10_000 * MS, (0..400).map(|_| (15 * MS, 40 * MS))).account;
        account.used_ns = 3_600_000 * MS;
        assert!(account.admit(Some(CampaignId(2)), 10_000 * MS).is_none());
        assert!(account.admit(ONE, 10_000 * MS).is_some());
        let mut paid = Account {
            balance_ns: 0,
            borrower: None,
            ..account
        };
        assert!(paid.admit(Some(CampaignId(2)), 10_000 * MS).is_some());
    }

    #[test]
    fn a_program_whose_tracking_became_cheap_is_tracked_more() {
        let dear = (0..1000).map(|_| (13 * MS / 2, 3 * MS));
        let cheap = (0..1000).map(|_| (13 * MS / 2, MS / 20));
        let before = simulate(0.01, 0, dear.clone()).tracked;
        let both = simulate(0.01, 0, dear.chain(cheap)).tracked;
        assert!(both - before > 900, "{before}, then {both}");
    }

    #[test]
    fn long_runs_pay_for_themselves() {
        // The governor inside holds an hour at its share.
        let hour = 3_600_000 * MS;
        let out = simulate(0.01, 0, (0..100).map(|_| (hour, hour / 100)));
        assert_eq!(out.tracked, 100);
    }

    #[test]
    fn runs_side_by_side_do_not_all_take_the_same_credit() {
        let mut account = Account {
            balance_ns: 10 * MS as i64,
            excess_ns: 3 * MS,
            ..Account::default()
        };
        let admitted = (0..100).filter(|_| account.admit(ONE, 0).is_some()).count();
        assert_eq!(admitted, 3);
    }

    #[test]
    fn an_account_of_the_last_release_is_read() {
        let old: Account =
            serde_json::from_str(r#"{"balance_ns":-5,"excess_ns":7}"#).expect("read");
        assert_eq!((old.balance_ns, old.excess_ns, old.used_ns), (-5, 7, 0));
    }

    #[test]
    fn a_damaged_file_begins_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = Ledger::of_build(folder.path(), "ab../12", 0.01, 0);
        assert_eq!(ledger.account.file(), folder.path().join("ab12.account"));
        fs::write(ledger.account.file(), b"nonsense").expect("writable");
        let aside = ledger.admit(ONE).expect("the first credit");
        let owed = ledger.settle(6 * MS, aside, whole(30 * MS));
        assert!(owed > 0);
        let refused = ledger.admit(ONE).expect_err("in debt");
        let sentence = refused.to_string();
        assert!(sentence.contains("ms more than the 1%"), "{sentence}");
        let bytes = fs::read(ledger.account.file()).expect("kept");
        assert!(serde_json::from_slice::<Account>(&bytes).is_ok());
    }

    proptest! {
        #[test]
        fn tracking_never_costs_more_than_share_first_credit_loan_and_one_run(
            runs in proptest::collection::vec((0..50 * MS, 0..20 * MS), 1..400),
            percent in 0.1..20.0f64,
            loan in 0..200 * MS,
        ) {
            let share = percent / 100.0;
            let dearest = runs.iter().map(|(_, cost)| *cost).max().unwrap_or(0);
            let out = simulate(share, loan, runs.iter().copied());
            let of_use = LOAN_SHARE * out.cpu_ns as f64;
            let lent = of_use.min(loan as f64);
            let most = share * out.cpu_ns as f64 + FIRST_NS as f64 + lent + dearest as f64;
            prop_assert!(out.cost_ns as f64 <= most + runs.len() as f64, "{} of {most}", out.cost_ns);
        }
    }
}
