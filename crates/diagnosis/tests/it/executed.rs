//! Which statements ran, with and without hooks of their own.

use crate::support::*;
use diagnosis::evidence::executed::add_implied;
use diagnosis::evidence::trace::Timeline;
use diagnosis::executed;
use diagnosis::{Proof, RunThread};
use sketch_model::*;
use std::collections::BTreeMap;

/// Statements 1 and 2 have hooks; 7, 8 and 9 have witnesses only.
fn plan_with(implied: &[(u32, Witness)]) -> TrackingPlan {
    let mut plan = plan(&[1, 2]);
    for (id, witness) in implied {
        plan.statements.push(statement(*id, ""));
        plan.implied.push(Implied {
            statement: StatementId(*id),
            by: vec![*witness],
        });
    }
    plan
}

/// The load of statement 1; the stores are one higher.
const LOAD_1: SiteId = SiteId(3);
const STORE_2: SiteId = SiteId(7);

fn proofs(failed: bool, script: &str, plan: &TrackingPlan) -> BTreeMap<u32, Proof> {
    let found = executed(&run("r", failed, script), plan);
    found.into_iter().map(|(id, proof)| (id.0, proof)).collect()
}

#[test]
fn a_hook_tells_of_its_statement_and_of_what_dominates_it() {
    let plan = plan_with(&[(7, Witness::Before(LOAD_1)), (8, Witness::Before(STORE_2))]);
    assert_eq!(
        proofs(true, "A:R1@10=5", &plan),
        BTreeMap::from([(1, Proof::Recorded), (7, Proof::Implied)])
    );
    assert_eq!(proofs(true, "", &plan), BTreeMap::new());
}

#[test]
fn what_comes_after_a_record_is_expected_only_of_runs_that_went_well() {
    let plan = plan_with(&[(9, Witness::After(LOAD_1))]);
    let script = "A:R1@10=5";
    assert_eq!(proofs(false, script, &plan)[&9], Proof::Expected);
    assert_eq!(proofs(true, script, &plan).get(&9), None);
}

#[test]
fn a_watchpoint_tells_too_and_untracked_statements_do_not_count() {
    let plan = plan_with(&[(7, Witness::Before(LOAD_1))]);
    // 5 is not in the plan; a hit is no record of a hook.
    assert_eq!(
        proofs(true, "A:R1@10=5! A:W5@20=6!", &plan),
        BTreeMap::from([(1, Proof::Recorded)])
    );
}

#[test]
fn the_best_of_several_proofs_counts() {
    let mut plan = plan_with(&[(7, Witness::After(LOAD_1))]);
    plan.implied[0].by.push(Witness::Before(STORE_2));
    assert_eq!(proofs(false, "A:R1@1=5", &plan)[&7], Proof::Expected);
    assert_eq!(
        proofs(false, "A:R1@1=5 A:W2@2=6", &plan)[&7],
        Proof::Implied
    );
}

#[test]
fn a_pruned_call_stands_in_the_trace_where_its_hook_would_have() {
    let plan = plan_with(&[(7, Witness::JustBefore(STORE_2))]);
    let script = "A:R1@10=5 A:W2@20-25=6 A:W2@40-45=7";
    let mut timeline = Timeline {
        thread: RunThread {
            index: ThreadIndex(0),
            tid: 100,
        },
        events: run("r", true, script).trace.events,
        holes: Default::default(),
    };
    add_implied(&mut timeline, &plan);
    let events = timeline.events.iter();
    let order: Vec<(u32, u64, u64)> = events
        .map(|e| (e.candidates[0].0, e.when.earliest.0, e.when.latest.0))
        .collect();
    assert_eq!(
        order,
        [
            (1, 10, 10),
            (7, 10, 20),
            (2, 20, 25),
            (7, 20, 40),
            (2, 40, 45)
        ]
    );
    let implied = &timeline.events[1];
    assert_eq!(
        (implied.kind, implied.source),
        (EventKind::Call, Source::Implied(STORE_2))
    );
    assert_eq!((implied.address, implied.value), (None, None));
}
