//! When a diagnosis may end.

use crate::support::*;
use diagnosis::ranking::statistics::fisher;
use diagnosis::{IterationResult, Power, power, promising, settled};
use sketch_model::{OrderPattern, Predictor, RankedPredictor, Score, Support, ValueShape};

fn ranked(predictor: Predictor, f_measure: f64, corrected_p: f64) -> RankedPredictor {
    RankedPredictor {
        class: predictor.class(),
        predictor,
        score: Score {
            support: Support {
                failing_true: 2,
                successful_false: 20,
                ..Support::default()
            },
            precision: f_measure,
            recall: f_measure,
            f_measure,
            precision_interval: (0.0, 1.0),
            recall_interval: (0.0, 1.0),
            corrected_p,
        },
        same_runs: Vec::new(),
        symptom: false,
    }
}

fn result(best: Vec<RankedPredictor>) -> IterationResult {
    IterationResult { iteration: 1, best }
}

fn cause() -> Predictor {
    order(OrderPattern::Wr, &[1, 2])
}

fn consequence() -> Predictor {
    order(OrderPattern::Wr, &[1, 3])
}

#[test]
fn a_symptom_ends_it_only_when_nothing_better_is_left() {
    let symptom = RankedPredictor {
        symptom: true,
        ..ranked(cause(), 1.0, 0.0001)
    };
    let history = [result(vec![symptom.clone()]), result(vec![symptom.clone()])];
    assert!(!settled(&history, false));
    assert!(settled(&history, true));
    // A good cause goes before a perfect symptom.
    let explains = ranked(value(1, ValueShape::Zero), 0.85, 0.0001);
    let both = result(vec![symptom, explains.clone()]);
    assert_eq!(both.overall(), Some(&explains));
    assert!(settled(&[both.clone(), both], false));
}

#[test]
fn it_ends_when_the_best_stays_best() {
    let good = || result(vec![ranked(cause(), 1.0, 0.001)]);
    assert!(settled(&[good(), good()], false));
    assert!(!settled(&[good()], false), "one iteration proves nothing");
    assert!(!settled(&[], false));
    let empty = || result(vec![]);
    assert!(!settled(&[empty(), empty()], false));
    assert!(!settled(&[empty(), good()], false));
    assert!(settled(&[empty(), good(), good()], false));
}

/// Few runs fail, and some survive the cause: F is low, and nobody doubts it.
#[test]
fn what_holds_ten_times_as_often_in_failing_runs_is_good_too() {
    let held_in = |failing: (u64, u64), successful: (u64, u64)| {
        let mut rare = ranked(cause(), 0.4, 0.001);
        rare.score.support = Support {
            failing_true: failing.0,
            failing_false: failing.1,
            successful_true: successful.0,
            successful_false: successful.1,
            ..Support::default()
        };
        let result = result(vec![rare]);
        settled(&[result.clone(), result], false)
    };
    assert!(held_in((9, 1), (9, 91)));
    assert!(!held_in((9, 1), (10, 90)), "too often in successful runs");
    assert!(!held_in((8, 2), (1, 99)), "in too few failing runs");
    assert!(!held_in((9, 1), (0, 4)), "nothing could contradict it");
}

#[test]
fn it_goes_on_while_the_best_changes_or_is_weak() {
    let other = result(vec![ranked(consequence(), 1.0, 0.001)]);
    let good = result(vec![ranked(cause(), 1.0, 0.001)]);
    assert!(
        !settled(&[other, good.clone()], false),
        "another was best before"
    );
    let mut weak = ranked(cause(), 0.79, 0.001);
    weak.score.support.failing_false = 1;
    let weak = result(vec![weak]);
    assert!(!settled(&[good.clone(), weak], false), "F too low");
    let doubtful = result(vec![ranked(cause(), 1.0, 0.01)]);
    assert!(!settled(&[good, doubtful], false), "not significant");
}

#[test]
fn predictors_of_the_same_runs_count_as_the_same() {
    let mut grouped = ranked(consequence(), 1.0, 0.001);
    grouped.same_runs.push(cause());
    let good = result(vec![ranked(cause(), 1.0, 0.001)]);
    let before = [result(vec![grouped.clone()]), good.clone()];
    assert!(settled(&before, false));
    assert!(settled(&[good, result(vec![grouped])], false));
}

#[test]
fn the_best_of_all_classes_decides_and_an_order_wins_a_tie() {
    let by_branch = |f| ranked(branch(1, 0), f, 0.001);
    // The branch is better and new: not settled, although the order stayed.
    let before = result(vec![ranked(cause(), 0.9, 0.001)]);
    let after = result(vec![ranked(cause(), 0.9, 0.001), by_branch(0.95)]);
    assert!(!settled(&[before.clone(), after], false));
    let tie = result(vec![by_branch(0.9), ranked(cause(), 0.9, 0.001)]);
    assert_eq!(tie.overall().map(|p| &p.predictor), Some(&cause()));
    assert!(settled(&[before, tie], false));
}

#[test]
fn what_only_lacks_runs_is_promising() {
    let doubtful = || result(vec![ranked(cause(), 1.0, 0.2)]);
    assert!(promising(&[doubtful(), doubtful()], false));
    assert!(!settled(&[doubtful(), doubtful()], false));
    let other = result(vec![ranked(consequence(), 1.0, 0.2)]);
    assert!(!promising(&[other, doubtful()], false));
    assert!(!promising(&[doubtful()], false));
}

#[test]
fn a_predictor_that_nothing_could_contradict_is_not_good() {
    let mut vacuous = ranked(cause(), 1.0, 0.0001);
    vacuous.score.support.successful_false = 0;
    let history = [result(vec![vacuous.clone()]), result(vec![vacuous])];
    assert!(!settled(&history, true));
}

/// One failing run is a hint; proof asks for two, and for as many successful
/// ones as make a perfect predictor significant.
#[test]
fn runs_say_as_much_as_they_can_prove() {
    assert_eq!(power(0, 1_000_000, 1, 1), Power::Nothing);
    assert_eq!(power(5, 9, 1, 1), Power::Nothing);
    assert_eq!(power(1, 10, 1, 1), Power::Hint);
    assert_eq!(power(5, 19, 1, 1), Power::Hint);
    assert_eq!(power(5, 20, 1, 1), Power::Proof);
    assert_eq!(power(1, 1_000_000, 1, 1), Power::Hint);
    for (failing, tested, looks) in [(2, 100, 1), (2, 400, 3), (3, 100, 5), (3, 5_000, 3)] {
        let corrected = |s| fisher(failing, 0, 0, s) * (tested * looks) as f64;
        let fewest = (20..).find(|s| corrected(*s) < 0.01).expect("some number");
        assert_eq!(power(failing, fewest, tested, looks), Power::Proof);
        if fewest > 20 {
            assert_eq!(power(failing, fewest - 1, tested, looks), Power::Hint);
        }
    }
}
