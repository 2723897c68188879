//! The seven order patterns, and all that must not be taken for one: as tables
//! of one-line runs (see `support`).

use crate::support::*;
use diagnosis::evidence::decoded_run::ThinnedAccess;
use diagnosis::evidence::hot_accesses::END;
use diagnosis::evidence::order::Evidence;
use diagnosis::{Answer, Observations, observe};
use sketch_model::{
    Interval, OrderPattern, Placement, PointKind, Predictor, PredictorClass, SeenShapes, SiteId,
    StatementId, ThreadIndex, Tsc, ValueShape,
};

const ALL: &[u32] = &[1, 2, 3, 4, 5];

fn seen(script: &str) -> Observations {
    observe(&run("r", false, script), &plan(ALL), &everything_placed())
}

/// "WR 1 2, RW 2 3", sorted, of what held or is open.
fn orders<'a>(predictors: impl IntoIterator<Item = &'a Predictor>) -> String {
    let mut words: Vec<String> = predictors
        .into_iter()
        .filter_map(|p| match p {
            Predictor::Order {
                pattern,
                statements,
                ..
            } => {
                let ids: Vec<String> = statements.iter().map(|s| s.to_string()).collect();
                Some(format!("{pattern} {}", ids.join(" ")))
            }
            _ => None,
        })
        .collect();
    words.sort();
    words.join(", ")
}

#[test]
fn each_pattern_and_what_comes_with_it() {
    let table = [
        ("A:W1@10 B:R2@20", "WR 1 2"),
        ("A:R1@10 B:W2@20", "RW 1 2"),
        ("A:W1@10 B:W2@20", "WW 1 2"),
        ("A:R1@10 B:W2@20 A:R3@30", "RW 1 2, RWR 1 2 3, WR 2 3"),
        ("A:W1@10 B:W2@20 A:R3@30", "WR 2 3, WW 1 2, WWR 1 2 3"),
        ("A:R1@10 B:W2@20 A:W3@30", "RW 1 2, RWW 1 2 3, WW 2 3"),
        ("A:W1@10 B:R2@20 A:W3@30", "RW 2 3, WR 1 2, WRW 1 2 3"),
    ];
    for (script, held) in table {
        let observed = seen(script);
        assert_eq!(orders(&observed.held), held, "held in {script}");
        assert_eq!(orders(&observed.open), "", "open in {script}");
    }
}

#[test]
fn what_is_no_pattern() {
    let table = [
        // Reads do not conflict.
        ("A:R1@10 B:R2@20", ""),
        // One thread alone.
        ("A:W1@10 A:R2@20 A:W3@30", ""),
        // The write before is hidden by a later one.
        ("A:W1@10 A:W2@20 B:R3@30", "WR 2 3"),
        ("A:R1@10 A:W2@20 B:W3@30", "WW 2 3"),
        ("A:W1@10 B:W2@20 B:R3@30", "WW 1 2"),
        // Serialisable triples: RRW, WRR, WWW have no pattern of three.
        ("A:R1@10 B:R2@20 A:W3@30", "RW 2 3"),
        ("A:W1@10 B:R2@20 A:R3@30", "WR 1 2"),
        ("A:W1@10 B:W2@20 A:W3@30", "WW 1 2, WW 2 3"),
        // The accesses of A around B's are not consecutive.
        (
            "A:R1@10 A:R2@20 B:W3@30 A:R4@40",
            "RW 1 3, RW 2 3, RWR 2 3 4, WR 3 4",
        ),
        // Another location.
        ("A:W1@10 B:R100@20", ""),
    ];
    for (script, held) in table {
        assert_eq!(orders(&seen(script).held), held, "held in {script}");
    }
}

/// The thesis's Fig. 13: T1 reads, T2 writes, T1 reads twice.
#[test]
fn a_read_a_foreign_write_and_two_reads() {
    let observed = seen("A:R1@10 B:W2@20 A:R3@30 A:R4@40");
    assert_eq!(orders(&observed.held), "RW 1 2, RWR 1 2 3, WR 2 3, WR 2 4");
}

#[test]
fn without_evidence_nothing_holds_and_everything_possible_is_open() {
    let observed = seen("A:W1@10-30 B:R2@20-40");
    assert_eq!(orders(&observed.held), "");
    assert_eq!(orders(&observed.open), "RW 2 1, WR 1 2");
    let wr = order(OrderPattern::Wr, &[1, 2]);
    assert_eq!(observed.answer(&wr), Answer::Unobserved);
    // But what is not possible did not happen.
    let ww = order(OrderPattern::Ww, &[1, 2]);
    assert_eq!(observed.answer(&ww), Answer::NotHeld);
}

#[test]
fn an_unordered_write_that_may_lie_between_leaves_doubt() {
    let observed = seen("A:W1@10 C:W3@5-40 B:R2@30");
    let wr = order(OrderPattern::Wr, &[1, 2]);
    assert_eq!(observed.answer(&wr), Answer::Unobserved);
    // One that cannot, does not.
    let observed = seen("A:W1@10 C:W3@1-5 B:R2@30");
    assert_eq!(observed.answer(&wr), Answer::Held);
}

#[test]
fn a_library_call_that_touched_the_location_may_have_written_it() {
    let wr = order(OrderPattern::Wr, &[1, 2]);
    let observed = seen("A:W1@10 C:C3@20! B:R2@30");
    assert_eq!(observed.answer(&wr), Answer::Unobserved);
    let observed = seen("A:W1@10 C:C3@40! B:R2@30");
    assert_eq!(observed.answer(&wr), Answer::Held);
}

#[test]
fn program_order_carries_evidence_across_threads() {
    // 1 overlaps 2 in time, but precedes 3 in its thread, which precedes 2.
    let observed = seen("A:W1@10-90 A:W100@20 B:R2@30-95");
    assert_eq!(orders(&observed.held), "WR 1 2");
}

#[test]
fn a_successful_run_in_the_other_order_counts_against() {
    let observed = seen("B:R2@10 A:W1@20");
    assert_eq!(orders(&observed.held), "RW 2 1");
    let wr = order(OrderPattern::Wr, &[1, 2]);
    assert_eq!(observed.answer(&wr), Answer::NotHeld);
    // So does one in which the read never ran.
    let observed = seen("A:W1@20");
    assert_eq!(observed.answer(&wr), Answer::NotHeld);
}

#[test]
fn lost_events_make_unobserved_what_was_not_seen() {
    let wr = order(OrderPattern::Wr, &[1, 2]);
    for script in ["B:R2@10 A:W1@20 A:-@30", "A:-@30 A:W1@40"] {
        assert_eq!(seen(script).answer(&wr), Answer::Unobserved, "{script}");
        assert_eq!(seen(script).answer(&branch(1, 0)), Answer::Unobserved);
        assert_eq!(
            seen(script).answer(&value(3, ValueShape::Zero)),
            Answer::Unobserved
        );
    }
    // What was seen in spite of the hole, and cannot be changed by it, holds.
    let observed = seen("C:R3@1 C:-@2 C:R3@3 A:W1@10 B:R2@20");
    assert_eq!(observed.answer(&wr), Answer::Held);
    // A hole between the two may hide another write.
    let observed = seen("C:R3@1 C:-@2 C:R3@30 A:W1@10 B:R2@20");
    assert_eq!(observed.answer(&wr), Answer::Unobserved);
}

#[test]
fn a_hook_that_the_optimiser_removed_shows_nothing() {
    let mut placement = everything_placed();
    placement.places[3 * 2] = 0; // the load of statement 2
    let observed = observe(&run("r", false, "A:W1@20"), &plan(ALL), &placement);
    let wr = order(OrderPattern::Wr, &[1, 2]);
    assert_eq!(observed.answer(&wr), Answer::Unobserved);
    let ww = order(OrderPattern::Ww, &[1, 2]);
    assert_eq!(observed.answer(&ww), Answer::NotHeld);
    assert!(!placement.is_placed(SiteId(6)));
    let nothing = observe(&run("r", false, ""), &plan(ALL), &Placement::default());
    assert_eq!(nothing.answer(&branch(1, 0)), Answer::Unobserved);
}

#[test]
fn a_run_without_some_of_its_threads_shows_only_what_happened() {
    let mut partial = run("r", false, "A:W1@20 B:R2@30");
    partial.missing = true;
    let observed = observe(&partial, &plan(ALL), &everything_placed());
    let wr = order(OrderPattern::Wr, &[1, 2]);
    assert_eq!(observed.answer(&wr), Answer::Held);
    let ww = order(OrderPattern::Ww, &[1, 2]);
    assert_eq!(observed.answer(&ww), Answer::Unobserved);
}

#[test]
fn a_statement_known_from_watchpoints_counts_only_where_the_watch_saw_it() {
    let wr = order(OrderPattern::Wr, &[9, 2]); // 9 is not in the plan
    assert_eq!(seen("A:W9@10! B:R2@20").answer(&wr), Answer::Held);
    assert_eq!(seen("B:R2@10 A:W9@20!").answer(&wr), Answer::NotHeld);
    assert_eq!(seen("B:R2@10").answer(&wr), Answer::Unobserved);
    // A lost hit may have been it.
    let mut lossy = run("r", false, "B:R2@10 A:W9@20!");
    lossy.watch.complete.clear();
    let observed = observe(&lossy, &plan(ALL), &everything_placed());
    assert_eq!(observed.answer(&wr), Answer::Unobserved);
}

#[test]
fn a_hit_that_may_belong_to_several_statements_proves_nothing() {
    let observed = seen("A:W8|9@10! B:R2@20");
    assert_eq!(orders(&observed.held), "");
    assert_eq!(orders(&observed.open), "WR 8 2, WR 9 2");
}

#[test]
fn a_value_that_only_one_write_gives_orders_it_before_the_read() {
    // B saw 5, then 0; only A's write gives 0, though the intervals overlap.
    let observed = seen("B:R2@10=5 A:W1@15-60=0 B:R3@30-50=0");
    assert_eq!(orders(&observed.held), "RW 2 1, RWR 2 1 3, WR 1 3");
    // Without the 5 the 0 may have been there from the start.
    let observed = seen("A:W1@15-60=0 B:R3@30-50=0");
    assert_eq!(orders(&observed.held), "");
    // With a second writer of 0 either may have been it.
    let observed = seen("B:R2@10=5 A:W1@15-60=0 C:W4@15-60=0 B:R3@30-50=0");
    assert!(!orders(&observed.held).contains("WR"), "{observed:?}");
    // So may a write of unknown value.
    let observed = seen("B:R2@10=5 A:W1@15-60=0 C:W4@15-60 B:R3@30-50=0");
    assert!(!orders(&observed.held).contains("WR"), "{observed:?}");
}

#[test]
fn an_old_value_orders_the_read_before_the_write() {
    let observed = seen("A:W1@15-60=0 B:R3@30-50=5");
    assert_eq!(orders(&observed.held), "RW 3 1");
    assert_eq!(orders(&observed.open), "");
    // Unless another write may have restored it.
    let observed = seen("A:W1@15-60=0 C:W4@15-60=5 B:R3@30-50=5");
    assert!(!orders(&observed.held).contains("RW 3 1"));
}

#[test]
fn evidence_from_values_is_neither_overdone_nor_left_alone() {
    // Events are numbered by thread: 0 is A's write.
    let restored = run("r", false, "A:W1@15-60=0 B:R3@30-50=5 C:W4@15-60=5");
    assert!(!Evidence::new(&restored).ordered(0, 1));
    let kept = run("r", false, "A:W1@15-60=0 B:R3@30-50=5");
    assert!(Evidence::new(&kept).before(1, 0));
    // A's write precedes B's second read by its value, and that read C's write.
    let chain = run("r", false, "A:W1@15-99=0 B:R2@10=5 B:R3@30-50=0 C:W4@60=7");
    let evidence = Evidence::new(&chain);
    assert!(evidence.before(0, 2) && evidence.before(2, 3));
    assert!(evidence.before(0, 3), "what follows from the two");
}

#[test]
fn something_unknown_between_two_accesses_leaves_doubt_whether_they_are_consecutive() {
    let observed = seen("A:R1@10 A:C5@15! B:W2@20 A:R4@30");
    let rwr = order(OrderPattern::Rwr, &[1, 2, 4]);
    assert_eq!(observed.answer(&rwr), Answer::Unobserved);
}

#[test]
fn evidence_is_a_strict_order_on_events() {
    let run = run(
        "r",
        false,
        "A:W1@10-90 A:W100@20 B:R2@30-95=5 B:W3@40 C:R4@1-99=5",
    );
    let evidence = Evidence::new(&run);
    let events = run.trace.events.len();
    for a in 0..events {
        assert!(!evidence.before(a, a));
        for b in 0..events {
            assert!(!(evidence.before(a, b) && evidence.before(b, a)));
            for c in 0..events {
                let chain = evidence.before(a, b) && evidence.before(b, c);
                assert!(!chain || evidence.before(a, c), "{a} {b} {c}");
            }
        }
    }
}

#[test]
fn values_have_shapes_by_their_width() {
    let observed = seen("A:R1@1=0 A:R2@2=7 A:R3@3=-1 A:R4@4=4096");
    let shapes = [
        (1, vec![ValueShape::Zero]),
        (2, vec![ValueShape::NonZero, ValueShape::Equals(7)]),
        (
            3,
            vec![
                ValueShape::NonZero,
                ValueShape::Equals(u64::MAX),
                ValueShape::Negative,
            ],
        ),
        (4, vec![ValueShape::NonZero]),
    ];
    for (statement, expected) in shapes {
        for shape in [
            ValueShape::Zero,
            ValueShape::NonZero,
            ValueShape::Equals(7),
            ValueShape::Equals(u64::MAX),
            ValueShape::Negative,
        ] {
            let answer = observed.answer(&value(statement, shape));
            let wanted = if expected.contains(&shape) {
                Answer::Held
            } else {
                Answer::NotHeld
            };
            assert_eq!(answer, wanted, "statement {statement} {shape:?}");
        }
    }
}

#[test]
fn a_value_that_nothing_had_written_is_told_from_one_that_was() {
    let from_nowhere = value(1, ValueShape::Unwritten);
    for (script, wanted) in [
        ("A:R1@1=7", Answer::Held),
        ("A:R1@1=0", Answer::NotHeld),
        ("A:R1@1=7 B:W2@5=7", Answer::Held),
        ("A:W2@1=7 A:R1@5=7", Answer::NotHeld),
        // It may have been written, or not.
        ("A:R1@1-9=7 B:W2@5=7", Answer::NotHeld),
        // What was lost may have written it.
        ("A:R1@5=7 A:-@1", Answer::Unobserved),
        // A place of its own.
        ("A:W102@1=7 A:R1@5=7", Answer::Held),
    ] {
        assert_eq!(seen(script).answer(&from_nowhere), wanted, "{script}");
    }
}

/// Of accesses that were too many one knows zero, non-zero and negative: neither
/// which small number it was nor whether anything had been written before.
#[test]
fn a_summary_of_values_denies_only_what_it_summarises() {
    let summary = |zero, non_zero| ThinnedAccess {
        thread: ThreadIndex(0),
        site: SiteId(3),
        statement: StatementId(1),
        column: 7,
        location: queue_mut(),
        writes: false,
        lost: Interval {
            earliest: Tsc(2),
            latest: Tsc(9),
        },
        shapes: SeenShapes {
            zero,
            non_zero,
            negative: false,
        },
    };
    let answers = |thinned| {
        let mut run = run("r", true, "A:W2@1=0 A:R1@1=0 A:R1@9=0");
        run.thinned = vec![thinned];
        let observed = observe(&run, &plan(ALL), &everything_placed());
        use ValueShape::*;
        [NonZero, Negative, Equals(7), Unwritten].map(|shape| observed.answer(&value(1, shape)))
    };
    use Answer::*;
    assert_eq!(
        answers(summary(true, true)),
        [Held, NotHeld, Unobserved, Unobserved]
    );
    assert_eq!(
        answers(summary(true, false)),
        [NotHeld, NotHeld, NotHeld, NotHeld]
    );
}

/// Only hooks on the read and on writes can tell that nothing was written.
#[test]
fn a_watch_or_a_read_alone_does_not_deny_a_value_from_nowhere() {
    let mut watched = value(6, ValueShape::Unwritten);
    if let Predictor::Value { column, .. } = &mut watched {
        *column = 0;
    }
    assert_eq!(seen("A:R6@1=0!").answer(&watched), Answer::Unobserved);

    let mut reads_only = plan(ALL);
    reads_only
        .sites
        .retain(|site| site.kind != PointKind::Store);
    let run = run("r", false, "A:R1@1=0");
    let observed = observe(&run, &reads_only, &everything_placed());
    let from_nowhere = value(1, ValueShape::Unwritten);
    assert_eq!(observed.answer(&from_nowhere), Answer::Unobserved);
}

#[test]
fn an_unknown_value_leaves_the_other_shapes_open() {
    let observed = seen("A:R1@1=7 A:R1@2");
    assert_eq!(
        observed.answer(&value(1, ValueShape::Equals(7))),
        Answer::Held
    );
    assert_eq!(
        observed.answer(&value(1, ValueShape::Zero)),
        Answer::Unobserved
    );
}

#[test]
fn branches_hold_by_the_successor_taken() {
    let observed = seen("A:b1@5=1");
    assert_eq!(observed.answer(&branch(1, 1)), Answer::Held);
    assert_eq!(observed.answer(&branch(1, 0)), Answer::NotHeld);
    assert_eq!(observed.answer(&branch(77, 0)), Answer::Unobserved);
    let classes = observed
        .held
        .iter()
        .filter(|p| p.class() == PredictorClass::Branch);
    assert_eq!(classes.count(), 1);
}

#[test]
fn a_branch_that_some_outcomes_pass_unseen_answers_nothing() {
    let mut placement = everything_placed();
    placement.partial = vec![SiteId(3 + 2)]; // the branch of statement 1
    let observed = observe(&run("r", false, "A:b1@5=1"), &plan(ALL), &placement);
    // Runs in which it was seen would be all that is ever counted.
    assert_eq!(observed.answer(&branch(1, 1)), Answer::Unobserved);
    assert_eq!(observed.answer(&branch(1, 0)), Answer::Unobserved);
}

#[test]
fn a_thread_that_sleeps_on_what_has_changed_has_missed_it() {
    let missed = order(OrderPattern::Rws, &[2, 1, 3]);
    let answer = |failed, script: &str| {
        let plan = plan(&[1, 2, 3]);
        observe(&run("r", failed, script), &plan, &everything_placed()).answer(&missed)
    };
    assert_eq!(answer(true, "B:R2@10 A:W1@20 B:s3@30"), Answer::Held);
    // Written while it sleeps already: its signal should have come, and did not.
    assert_eq!(answer(true, "B:R2@10 B:s3@20 A:W1@30"), Answer::Held);
    assert_eq!(answer(true, "A:W1@5 B:R2@10 B:s3@30"), Answer::NotHeld);
    assert_eq!(
        answer(true, "B:R2@10 A:W1@20 B:R2@25 B:s3@30"),
        Answer::NotHeld,
        "it has read again"
    );
    assert_eq!(
        answer(true, "B:R2@10 A:W1@20 B:s3@30 B:R2@40"),
        Answer::NotHeld,
        "it has woken up"
    );
    assert_eq!(answer(false, "B:R2@10 A:W1@20 B:s3@30"), Answer::NotHeld);
}

/// An access to `queue->mut` that a thread made too often, until `latest`.
fn thinned(thread: u32, statement: u32, writes: bool, latest: Tsc) -> ThinnedAccess {
    ThinnedAccess {
        thread: ThreadIndex(thread),
        site: SiteId(3 * statement + u32::from(writes)),
        statement: StatementId(statement),
        column: 7,
        location: queue_mut(),
        writes,
        lost: Interval {
            earliest: Tsc(2),
            latest,
        },
        shapes: SeenShapes::default(),
    }
}

#[test]
fn a_thread_that_tired_of_writing_may_have_written_after_its_last_event() {
    let read_it = order(OrderPattern::Wr, &[1, 2]);
    let answer = |latest| {
        let mut run = run("r", true, "A:W1@1 A:W1@9 B:R2@20");
        run.thinned = vec![thinned(0, 1, true, latest)];
        observe(&run, &plan(ALL), &everything_placed()).answer(&read_it)
    };
    assert_eq!(answer(Tsc(9)), Answer::Held);
    assert_eq!(answer(END), Answer::Unobserved);
}

#[test]
fn a_thread_that_tired_of_reading_may_have_read_again_before_it_slept() {
    let missed = order(OrderPattern::Rws, &[2, 1, 3]);
    let answer = |latest| {
        let mut run = run("r", true, "B:R2@10 A:W1@20 B:s3@30");
        run.thinned = vec![thinned(1, 2, false, latest)];
        observe(&run, &plan(&[1, 2, 3]), &everything_placed()).answer(&missed)
    };
    assert_eq!(answer(Tsc(10)), Answer::Held);
    assert_eq!(answer(END), Answer::Unobserved);
}

#[test]
fn a_location_with_too_many_accesses_is_left_out_and_said_to_be() {
    let mut script = String::from("B:R2@1 ");
    for time in 0..9000 {
        script.push_str(&format!("A:W1@{} ", 10 + time));
    }
    let observed = seen(&script);
    assert_eq!(orders(&observed.held), "");
    let rw = order(OrderPattern::Rw, &[2, 1]);
    assert_eq!(observed.answer(&rw), Answer::Unobserved);
}

#[test]
fn a_record_that_orders_nothing_costs_bounded_effort_and_counts_for_nothing() {
    let mut script = String::new();
    for _ in 0..1500 {
        script.push_str("A:W1@0-9999 A:R3@0-9999 B:R2@0-9999 B:W4@0-9999 ");
    }
    script.truncate(script.len() * 2 / 3);
    let script = script.rsplit_once(' ').map_or("", |(whole, _)| whole);
    let observed = seen(script);
    assert_eq!(orders(&observed.held), "");
    for pattern in [OrderPattern::Wr, OrderPattern::Ww] {
        let answer = observed.answer(&order(pattern, &[1, 5]));
        assert_eq!(answer, Answer::Unobserved);
    }
}
