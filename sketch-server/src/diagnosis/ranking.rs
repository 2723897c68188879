//! Which predictors separate failing from successful runs, best first.
//!
//! Within each class: what is significant before what is not, what is good before
//! what is not, causes before symptoms, then by F (β = 0.5), then by the number of failing runs in which it held. Significance
//! comes first because F alone is blind to support: a predictor that could be
//! observed in one failing run and in no successful one has F = 1. Races produce many
//! perfect predictors at once: whatever follows the fatal order in the same
//! thread follows it in every failing run. Among equals the reader is best
//! served by the one that ends at the crash, so the next criteria are: it names
//! the failing statement; its statements are nearest to it in the slice
//! (statements outside the slice count as farthest; a sum, so that two
//! statements go before three). Only then the number of successful runs in which
//! it did not hold: it varies with what each run could show, and would make the
//! best predictor change from look to look. Last its own order, to be
//! deterministic.
//!
//! A symptom is, where the program ended itself, a branch or value of the failing
//! statement or of the condition that guards it. That a failed assertion found
//! its condition false separates the runs perfectly and explains nothing; any good
//! predictor further back says more. A fault has no symptoms in this sense: that
//! the pointer was null is the first half of the answer.
//!
//! Predictors of a class that held in exactly the same runs cannot be told
//! apart by any statistic; they stand as one, under the best of them.
//!
//! Precision and recall are weighted by the runs' sampling probability. Fisher's
//! test is not: how often failing or successful runs are reported shifts both
//! columns of its table alike. It is multiplied by the number of predictors
//! tested (Bonferroni) and of looks taken; what that promises over many looks is
//! in docs/statistics.md.

use super::population::{Population, Tally};
use super::statistics::{f_half, fisher, wilson};
use super::stop_rule::{is_good, is_significant};
use sketch_model::{
    DependenceKind, Predictor, PredictorClass, RankedPredictor, Ranking, RunId, Score, Slice,
    StatementId,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// How near statements are to the failing one.
#[derive(Clone, Debug, Default)]
pub struct Nearness {
    failing: Option<StatementId>,
    /// Where the program ended itself: the failing statement, and the conditions
    /// right before it.
    ending: BTreeSet<StatementId>,
    distances: BTreeMap<StatementId, u32>,
}

impl Nearness {
    pub fn new(failing: StatementId, distances: BTreeMap<StatementId, u32>) -> Self {
        Nearness {
            failing: Some(failing),
            ending: BTreeSet::new(),
            distances,
        }
    }

    pub fn of_slice(slice: &Slice) -> Self {
        let entries = slice.entries.iter();
        Nearness {
            failing: slice.failing().map(|e| e.statement.id),
            ending: BTreeSet::new(),
            distances: entries.map(|e| (e.statement.id, e.distance)).collect(),
        }
    }

    /// The same, of a program that ended itself: an abort, a failed assertion.
    pub fn of_ending(slice: &Slice) -> Self {
        let mut nearness = Nearness::of_slice(slice);
        let guards = slice.entries.iter().filter(|entry| {
            entry.why.as_ref().is_some_and(|why| {
                why.kind == DependenceKind::Control && Some(why.parent) == nearness.failing
            })
        });
        let guards = guards.map(|entry| entry.statement.id);
        nearness.ending = guards.chain(nearness.failing).collect();
        nearness
    }

    /// Whether a predictor tells that the run failed, and not why.
    fn is_symptom(&self, predictor: &Predictor) -> bool {
        predictor.class() != PredictorClass::Order
            && predictor
                .statements()
                .iter()
                .all(|s| self.ending.contains(s))
    }

    /// Smaller is nearer: first whether the failing statement is missing.
    fn of(&self, predictor: &Predictor) -> (bool, u64) {
        let farthest = self
            .distances
            .values()
            .max()
            .map_or(1, |d| u64::from(*d) + 1);
        let statements = predictor.statements();
        let distance = |s: &StatementId| self.distances.get(s).map_or(farthest, |d| u64::from(*d));
        let away = self.failing.is_none_or(|f| !statements.contains(&f));
        // One for each statement, so that more statements are farther.
        (away, statements.iter().map(|s| distance(s) + 1).sum())
    }
}

/// Ranks the predictors that held in at least one failing run.
pub fn rank(population: &Population, looks: u64, nearness: &Nearness) -> Ranking {
    let predictors = population.predictors();
    let tested = predictors.len() as u64;
    let mut scored: Vec<RankedPredictor> = predictors
        .into_iter()
        .map(|predictor| (predictor, population.tally(predictor)))
        .filter(|(_, tally)| tally.support.failing_true > 0)
        .map(|(predictor, tally)| RankedPredictor {
            predictor: predictor.clone(),
            class: predictor.class(),
            score: score(&tally, tested, looks),
            same_runs: Vec::new(),
            symptom: nearness.is_symptom(predictor),
        })
        .collect();
    scored.sort_by(|a, b| better(a, b, nearness));

    let mut groups: BTreeMap<(PredictorClass, Vec<&RunId>), usize> = BTreeMap::new();
    let mut ranked: Vec<RankedPredictor> = Vec::new();
    for candidate in scored {
        let runs = population.held_in(&candidate.predictor);
        match groups.get(&(candidate.class, runs.clone())) {
            Some(leader) => ranked[*leader].same_runs.push(candidate.predictor),
            None => {
                groups.insert((candidate.class, runs), ranked.len());
                ranked.push(candidate);
            }
        }
    }
    Ranking {
        tested,
        looks,
        predictors: ranked,
    }
}

/// Ranks predictors over populations that must not be pooled, because probing
/// differs between them. Each is scored within a population by itself; one that
/// several populations know stands with its best score. All of them together
/// are what was tested.
pub fn rank_apart(populations: &[&Population], looks: u64, nearness: &Nearness) -> Ranking {
    if let [only] = populations {
        return rank(only, looks, nearness);
    }
    let parts: Vec<Ranking> = populations
        .iter()
        .map(|population| rank(population, looks, nearness))
        .collect();
    let tested = parts.iter().map(|part| part.tested).sum();
    let mut all: Vec<RankedPredictor> = Vec::new();
    for part in parts {
        let further = tested as f64 / part.tested.max(1) as f64;
        for mut ranked in part.predictors {
            let score = &mut ranked.score;
            score.corrected_p = (score.corrected_p * further).min(1.0);
            all.push(ranked);
        }
    }
    all.sort_by(|a, b| better(a, b, nearness));
    let mut told: BTreeSet<Predictor> = BTreeSet::new();
    let mut predictors: Vec<RankedPredictor> = Vec::new();
    for ranked in all {
        if !told.contains(&ranked.predictor) {
            told.insert(ranked.predictor.clone());
            told.extend(ranked.same_runs.iter().cloned());
            predictors.push(ranked);
        }
    }
    Ranking {
        tested,
        looks,
        predictors,
    }
}

fn better(a: &RankedPredictor, b: &RankedPredictor, nearness: &Nearness) -> Ordering {
    let (support_a, support_b) = (a.score.support, b.score.support);
    a.class
        .cmp(&b.class)
        .then(is_significant(b).cmp(&is_significant(a)))
        .then(is_good(b).cmp(&is_good(a)))
        .then(a.symptom.cmp(&b.symptom))
        .then(b.score.f_measure.total_cmp(&a.score.f_measure))
        .then(support_b.failing_true.cmp(&support_a.failing_true))
        .then(nearness.of(&a.predictor).cmp(&nearness.of(&b.predictor)))
        .then(support_b.successful_false.cmp(&support_a.successful_false))
        .then(a.predictor.cmp(&b.predictor))
}

fn score(tally: &Tally, tested: u64, looks: u64) -> Score {
    let support = tally.support;
    let held = tally.failing_true.and(tally.successful_true);
    let failed = tally.failing_true.and(tally.failing_false);
    let share = |whole: f64| {
        if whole > 0.0 {
            tally.failing_true.sum / whole
        } else {
            0.0
        }
    };
    let (precision, recall) = (share(held.sum), share(failed.sum));
    let p = fisher(
        support.failing_true,
        support.failing_false,
        support.successful_true,
        support.successful_false,
    );
    Score {
        support,
        precision,
        recall,
        f_measure: f_half(precision, recall),
        precision_interval: wilson(precision, held.effective()),
        recall_interval: wilson(recall, failed.effective()),
        corrected_p: (p * tested.max(1) as f64 * looks.max(1) as f64).min(1.0),
    }
}
