//! Populations that must not be pooled are ranked together and counted apart.

use crate::support::*;
use diagnosis::{Nearness, Population, observe, rank};
use sketch_model::OrderPattern;

/// Runs of one plan: the fatal order in `failing` of them, the other in the rest.
fn population(name: &str, failing: usize, successful: usize) -> Population {
    let plan = plan(&[1, 2]);
    let mut population = Population::default();
    for number in 0..failing + successful {
        let failed = number < failing;
        let script = if failed {
            "A:W1@10=0 B:R2@20=0"
        } else {
            "A:W1@20=0 B:R2@10=5"
        };
        let run = run(&format!("{name}-{number}"), failed, script);
        population.add(&observe(&run, &plan, &everything_placed()));
    }
    population
}

#[test]
fn a_population_without_runs_changes_nothing() {
    let (one, empty) = (population("a", 3, 30), Population::default());
    let rank = |populations: &[&Population]| rank(populations, 2, &Nearness::default());
    assert_eq!(rank(&[&one, &empty]), rank(&[&one]));
    assert_eq!(rank(&[]).predictors, []);
}

#[test]
fn counts_are_those_of_the_best_population_and_all_tests_count() {
    let (small, large) = (population("a", 2, 10), population("b", 3, 40));
    let nearness = Nearness::default();
    let apart = rank(&[&small, &large], 1, &nearness);
    let alone = rank(&[&large], 1, &nearness);
    assert_eq!(
        apart.tested,
        rank(&[&small], 1, &nearness).tested + alone.tested
    );
    let fatal = order(OrderPattern::Wr, &[1, 2]);
    let find = |ranking: &sketch_model::Ranking| {
        let mut all = ranking.predictors.iter();
        let found = all.find(|p| p.predictor == fatal || p.same_runs.contains(&fatal));
        found.expect("the planted order is ranked").clone()
    };
    let (together, by_itself) = (find(&apart), find(&alone));
    assert_eq!(together.score.support, by_itself.score.support);
    let factor = apart.tested as f64 / alone.tested as f64;
    let expected = by_itself.score.corrected_p * factor;
    assert!((together.score.corrected_p - expected).abs() < 1e-12);
    // Nobody is listed twice.
    let mut told = Vec::new();
    for ranked in &apart.predictors {
        assert!(!told.contains(&ranked.predictor), "{ranked:?}");
        told.push(ranked.predictor.clone());
    }
}
