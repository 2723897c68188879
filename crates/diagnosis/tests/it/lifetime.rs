//! Predictors about freed memory: when they hold, and which runs may deny them.

use crate::support::*;
use diagnosis::evidence::freed::FreedMemory;
use diagnosis::predictors::sentence;
use diagnosis::sketch::sentences::Names;
use diagnosis::{Answer, Observations, observe};
use proptest::prelude::*;
use sketch_model::{Predictor, RuntimeAddress, StatementId, ThreadIndex, Tsc};

/// Statement 9 of thread A frees the eight bytes at `start`.
fn freed(start: u64, at: u64, until: Option<u64>) -> FreedMemory {
    FreedMemory {
        freed_by: StatementId(9),
        thread: ThreadIndex(0),
        at: Tsc(at),
        until: until.map(Tsc),
        start: RuntimeAddress(start),
        size: 8,
        failed_at: None,
    }
}

fn seen(failed: bool, script: &str, freed: Option<Vec<FreedMemory>>) -> Observations {
    let mut run = run("r", failed, script);
    run.freed = freed;
    observe(&run, &plan(&[1, 2, 3]), &everything_placed())
}

fn lifetime(used_by: u32, other_thread: bool, at_failure: bool) -> Predictor {
    Predictor::Lifetime {
        statements: [StatementId(9), StatementId(used_by)],
        other_thread,
        at_failure,
    }
}

fn lifetimes(observed: &Observations) -> Vec<&Predictor> {
    let held = observed.held.iter().chain(&observed.open);
    held.filter(|p| matches!(p, Predictor::Lifetime { .. }))
        .collect()
}

#[test]
fn an_access_after_the_free_holds_with_who_made_it() {
    let by_other = seen(
        false,
        "A:W1@10 B:R2@30",
        Some(vec![freed(0x1000, 20, None)]),
    );
    assert_eq!(lifetimes(&by_other), [&lifetime(2, true, false)]);
    let by_same = seen(
        false,
        "A:W1@10 A:R2@30",
        Some(vec![freed(0x1000, 20, None)]),
    );
    assert_eq!(lifetimes(&by_same), [&lifetime(2, false, false)]);
}

#[test]
fn a_crash_with_freed_memory_holds_at_the_failing_statement() {
    let mut with = freed(0x7000, 20, None);
    with.failed_at = Some(StatementId(3));
    let failed = seen(true, "A:W1@10 B:R2@30", Some(vec![with]));
    assert_eq!(lifetimes(&failed), [&lifetime(3, true, true)]);
    // It is known with what it failed, so not with something else.
    assert_eq!(failed.answer(&lifetime(1, true, true)), Answer::NotHeld);
}

#[test]
fn only_runs_that_could_show_it_deny_it() {
    let asked = [lifetime(2, true, false), lifetime(2, true, true)];
    let answers = |failed, script, freed| {
        let observed = seen(failed, script, freed);
        asked.clone().map(|p| observed.answer(&p))
    };
    use Answer::{NotHeld, Unobserved};
    let script = "A:W1@10 B:R2@30";
    assert_eq!(answers(false, script, Some(vec![])), [NotHeld, NotHeld]);
    // Nothing tells why it failed.
    assert_eq!(answers(true, script, Some(vec![])), [NotHeld, Unobserved]);
    assert_eq!(answers(false, script, None), [Unobserved, Unobserved]);
    // Accesses were lost; that it ended well is known all the same.
    let lost = "A:W1@10 B:R2@30 B:-@40-50";
    assert_eq!(answers(false, lost, Some(vec![])), [Unobserved, NotHeld]);
}

#[test]
fn the_sentence_says_who_freed_and_who_used() {
    let mut names = Names::default();
    names
        .statements
        .insert(StatementId(9), statement(9, "delete entry;"));
    names
        .statements
        .insert(StatementId(2), statement(2, "sum += entry->n;"));
    assert_eq!(
        sentence(&lifetime(2, true, true), &names),
        "`delete entry;` (pbzip2.c:9) freed the memory that `sum += entry->n;` (pbzip2.c:2), in \
         another thread, then used"
    );
}

proptest! {
    #[test]
    fn memory_that_was_handed_out_again_is_never_used_after_its_free(
        at in 1u64..100, free_for in 1u64..100, access in 1u64..300, offset in 0u64..16
    ) {
        let until = at + free_for;
        // The access is at 0x1000; the block begins up to 16 bytes before it.
        let block = freed(0x1000 - offset, at, Some(until));
        let observed = seen(false, &format!("B:R2@{access}"), Some(vec![block]));
        let was_free = at < access && access < until && offset < 8;
        prop_assert_eq!(lifetimes(&observed).len(), usize::from(was_free));
    }
}
