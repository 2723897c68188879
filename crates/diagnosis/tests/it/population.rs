//! Counting: independent of order and repetition, and right for predictors that
//! are met late.

use crate::support::*;
use diagnosis::{Answer, Nearness, Observations, Population, observe, rank};
use proptest::prelude::*;
use sketch_model::{OrderPattern, Predictor, StatementId, Support, ValueShape};
use std::collections::{BTreeMap, BTreeSet};

fn observed(id: &str, failed: bool, script: &str) -> Observations {
    observe(
        &run(id, failed, script),
        &plan(&[1, 2, 3]),
        &everything_placed(),
    )
}

fn population(runs: &[Observations]) -> Population {
    let mut population = Population::default();
    for run in runs {
        population.add(run);
    }
    population
}

fn nearness() -> Nearness {
    Nearness::new(
        StatementId(2),
        BTreeMap::from([(StatementId(2), 0), (StatementId(1), 3)]),
    )
}

#[test]
fn a_predictor_met_late_is_counted_in_earlier_runs() {
    let runs = [
        observed("s1", false, "B:R2@10=5 A:W1@20=0"),
        observed("s2", false, "B:R2@10 B:-@15 A:W1@20=0"),
        observed("s3", false, "B:R2@10-30 A:W1@20-40"),
        observed("f1", true, "A:W1@10=0 B:R2@20=0"),
    ];
    let wr = order(OrderPattern::Wr, &[1, 2]);
    let support = population(&runs).tally(&wr).support;
    assert_eq!(support.failing_true, 1);
    assert_eq!(support.successful_false, 1);
    assert_eq!(support.successful_unobserved, 2);
    let zero = value(2, ValueShape::Zero);
    let support = population(&runs).tally(&zero).support;
    // s2 lost events; s3 has no value.
    assert_eq!(
        (support.successful_false, support.successful_unobserved),
        (1, 2)
    );
}

#[test]
fn weights_shift_precision_and_not_counts() {
    let mut runs = vec![observed("f1", true, "A:W1@10=0 B:R2@20=0")];
    let mut rare = observed("s1", false, "A:W1@10=0 B:R2@20=0");
    rare.weight = 3.0; // stands for three successful runs
    runs.push(rare);
    let ranking = rank(&[&population(&runs)], 1, &nearness());
    let score = ranking.predictors[0].score;
    assert_eq!(score.precision, 0.25);
    assert_eq!(
        (score.support.failing_true, score.support.successful_true),
        (1, 1)
    );
}

#[test]
fn only_what_held_in_a_failing_run_is_ranked_and_all_that_held_is_tested() {
    let runs = [
        observed("s1", false, "B:R2@10=5 A:W1@20=0"),
        observed("f1", true, "A:W1@10=0 B:R2@20=0"),
    ];
    let ranking = rank(&[&population(&runs)], 4, &nearness());
    // RW 2 1, WR 1 2; 1 zero; 2 nonzero, 2 equals 5, 2 from nowhere, 2 zero.
    assert_eq!((ranking.tested, ranking.looks), (7, 4));
    assert!(
        ranking
            .predictors
            .iter()
            .all(|p| p.score.support.failing_true > 0)
    );
    let listed: usize = ranking
        .predictors
        .iter()
        .map(|p| 1 + p.same_runs.len())
        .sum();
    assert_eq!(listed, 3);
    // p = 1/2, times 7 predictors and 4 looks
    assert!(
        ranking
            .predictors
            .iter()
            .all(|p| p.score.corrected_p == 1.0)
    );
}

#[test]
fn significance_pays_for_every_predictor_and_every_look() {
    let mut population = Population::default();
    for id in 0..3 {
        population.add(&observed(&format!("f{id}"), true, "A:W1@10=0 B:R2@20=0"));
    }
    for id in 0..40 {
        population.add(&observed(&format!("s{id}"), false, "B:R2@10=5 A:W1@20=0"));
    }
    let corrected = |looks| {
        rank(&[&population], looks, &nearness()).predictors[0]
            .score
            .corrected_p
    };
    // 1 / C(43, 3), for 7 predictors
    let once = 7.0 / 12_341.0;
    assert!((corrected(1) - once).abs() < 1e-9, "{}", corrected(1));
    assert!((corrected(5) - 5.0 * once).abs() < 1e-9, "{}", corrected(5));
}

#[test]
fn among_equals_the_failing_statement_comes_first_and_the_rest_stand_with_it() {
    // Statement 3 reads after 2, so all its predictors hold in the same runs.
    let runs = [
        observed("f1", true, "B:R1@1 A:W1@10=0 B:R3@20=0 B:R2@30=0"),
        observed("s1", false, "B:R1@1 B:R3@20=5 B:R2@30=5 A:W1@50=0"),
    ];
    let ranking = rank(&[&population(&runs)], 1, &nearness());
    let best = ranking
        .best(sketch_model::PredictorClass::Order)
        .expect("an order");
    assert_eq!(best.predictor, order(OrderPattern::Wr, &[1, 2]));
    assert!(best.same_runs.contains(&order(OrderPattern::Wr, &[1, 3])));
    assert!(
        best.same_runs
            .contains(&order(OrderPattern::Rwr, &[1, 1, 3]))
    );
    assert_eq!(best.score.f_measure, 1.0);
}

/// Three honest agents see the race; a fourth floods the server with failing runs
/// in which another order held, and with successful ones in which the race did.
#[test]
fn one_agent_cannot_outvote_a_fleet() {
    let mut population = Population::default();
    let mut report = |agent: &str, run: usize, failed, script| {
        let mut run = observed(&format!("{agent}-{run}-{failed}"), failed, script);
        run.agent = sketch_model::AgentId(agent.to_owned());
        population.add(&run);
    };
    for agent in ["a", "b", "c"] {
        report(agent, 0, true, "A:W1@10=0 B:R2@20=0");
        for run in 0..20 {
            report(agent, run, false, "B:R2@10=5 A:W1@20=0");
        }
    }
    for run in 0..1_000 {
        report("hostile", run, true, "B:R3@10=1 A:W1@20=0");
        report("hostile", run, false, "A:W1@10=0 B:R2@20=0");
    }
    assert_eq!(population.set_aside(), 998 + 960);
    let wr = order(OrderPattern::Wr, &[1, 2]);
    let support = population.tally(&wr).support;
    assert_eq!((support.failing_true, support.failing_false), (3, 2));
    assert_eq!(
        (support.successful_true, support.successful_false),
        (40, 60)
    );
    let forged = population.tally(&order(OrderPattern::Rw, &[3, 1])).support;
    assert_eq!(forged.failing_true, 2);
}

#[test]
fn of_two_records_of_one_run_the_first_counts() {
    let first = observed("r", true, "A:W1@10=0 B:R2@20=0");
    let second = observed("r", false, "B:R2@10=5 A:W1@20=0");
    let population = population(&[first, second]);
    assert_eq!((population.failing(), population.successful()), (1, 0));
    let support = population.tally(&order(OrderPattern::Wr, &[1, 2])).support;
    assert_eq!((support.failing_true, support.successful_false), (1, 0));
}

fn any_run() -> impl Strategy<Value = Observations> {
    let scripts = [
        "A:W1@10=0 B:R2@20=0",
        "B:R2@10=5 A:W1@20=0",
        "B:R2@10-30 A:W1@20-40=0",
        "A:W1@10=0 B:-@15 B:R2@20=0",
        "A:b1@5=1 B:R3@7=1",
        "",
    ];
    (0..12u8, any::<bool>(), 0..scripts.len(), 1..4u8).prop_map(
        move |(id, failed, script, weight)| {
            let mut run = observed(&format!("r{id}"), failed, scripts[script]);
            // Thirds: sums that would differ with their order if they were rounded.
            run.weight = f64::from(weight) / 3.0;
            // Some report far more than others.
            run.agent = sketch_model::AgentId(format!(
                "agent-{}",
                [0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 0][usize::from(id)]
            ));
            run
        },
    )
}

/// Runs of different ids: storage lets no second one of an id in.
fn any_runs() -> impl Strategy<Value = Vec<Observations>> {
    proptest::collection::vec(any_run(), 0..30).prop_map(|runs| {
        let by_id = runs.into_iter().map(|run| (run.run.clone(), run));
        by_id.collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

/// The same runs in another order, some of them twice.
fn otherwise(runs: &[Observations], order: u64) -> Vec<Observations> {
    let mut other = runs.to_vec();
    other.extend(runs.iter().take(5).cloned());
    let length = other.len().max(1);
    // A rotation and a reversal make any arrival order of pairs.
    other.rotate_left(order as usize % length);
    if order & 1 == 0 {
        other.reverse();
    }
    other
}

fn met(runs: &[Observations]) -> BTreeSet<&Predictor> {
    let met = runs.iter().flat_map(|r| r.held.iter().chain(&r.open));
    met.collect()
}

/// Asks every run about a predictor, as the definition says.
fn asked_one_by_one(runs: &[Observations], predictor: &Predictor) -> Support {
    let mut support = Support::default();
    for run in runs {
        let count = match (run.failed, run.answer(predictor)) {
            (true, Answer::Held) => &mut support.failing_true,
            (true, Answer::NotHeld) => &mut support.failing_false,
            (true, Answer::Unobserved) => &mut support.failing_unobserved,
            (false, Answer::Held) => &mut support.successful_true,
            (false, Answer::NotHeld) => &mut support.successful_false,
            (false, Answer::Unobserved) => &mut support.successful_unobserved,
        };
        *count += 1;
    }
    support
}

proptest! {
    #[test]
    fn what_is_counted_is_what_each_run_answers(mut runs in any_runs()) {
        // One agent alone: every run counts.
        for run in &mut runs {
            run.agent = sketch_model::AgentId("agent-1".into());
        }
        let population = population(&runs);
        let mut tested = 0;
        for predictor in met(&runs) {
            let expected = asked_one_by_one(&runs, predictor);
            tested += u64::from(expected.failing_true + expected.successful_true > 0);
            prop_assert_eq!(population.tally(predictor).support, expected);
        }
        prop_assert_eq!(population.tested(), tested);
        let failing = runs.iter().filter(|r| r.failed).count() as u64;
        prop_assert_eq!(population.failing(), failing);
        prop_assert_eq!(population.failing() + population.successful(), runs.len() as u64);
    }

    #[test]
    fn ranks_do_not_depend_on_order_or_repetition(runs in any_runs(), order in any::<u64>()) {
        let ranked = |runs: &[Observations]| rank(&[&population(runs)], 1, &nearness());
        prop_assert_eq!(ranked(&runs), ranked(&otherwise(&runs, order)));
    }

    #[test]
    fn counts_do_not_depend_on_order_or_repetition(runs in any_runs(), order in any::<u64>()) {
        let (one, other) = (population(&runs), population(&otherwise(&runs, order)));
        let all = |p: &Population| (p.failing(), p.successful(), p.tested(), p.set_aside());
        prop_assert_eq!(all(&one), all(&other));
        for predictor in met(&runs) {
            prop_assert_eq!(one.tally(predictor), other.tally(predictor));
        }
    }
}
