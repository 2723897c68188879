//! Which predictors separate failing from successful runs, best first.
//!
//! Within each class: what is significant before what is not, what is good before
//! what is not, causes before symptoms, then by F (β = 0.5), then by the number of failing runs in which it held. Significance
//! comes first because F alone is blind to support: a predictor that could be
//! observed in one failing run and in no successful one has F = 1. Races produce many
//! perfect predictors at once: whatever follows the fatal order in the same
//! thread follows it in every failing run. Among equals, memory says more than what
//! a call was given: that is a copy, and does not tell of what. Then the reader is best
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
//! predictor further back says more. Of a fault it is the value that the failing access
//! itself saw: that the pointer was null is the first half of the answer, and whoever
//! made it so is the other. What the calls on the failing
//! stack were given is a symptom anywhere: it was handed down to where it failed.
//!
//! The use of freed memory is never a symptom: it names who freed it.
//!
//! Predictors of a class that held in exactly the same runs cannot be told
//! apart by any statistic; they stand as one, under the best of them.
//!
//! Precision and recall are weighted by the runs' sampling probability. Fisher's
//! test is not: how often failing or successful runs are reported shifts both
//! columns of its table alike. It is multiplied by the number of predictors
//! tested (Bonferroni) and of looks taken; what that promises over many looks is
//! in docs/statistics.md.

pub mod agent_weighting;
pub mod population;
pub(crate) mod run_sets;
pub mod statistics;
pub mod stop_rule;
pub mod tally;

use population::{Candidate, Population, RunSet};
use sketch_model::{
    DependenceKind, Predictor, PredictorClass, RankedPredictor, Ranking, Score, Slice, SliceEntry,
    StatementId,
};
use statistics::{f_half, fisher, wilson};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use stop_rule::{is_good, is_significant};
use tally::Tally;

/// One step, as distances are counted.
const STEP: u64 = SliceEntry::STEP as u64;

/// How near statements are to the failing one.
#[derive(Clone, Debug, Default)]
pub struct Nearness {
    failing: Option<StatementId>,
    /// Where the program ended itself: the failing statement, the conditions right
    /// before it, and what these ask a function for.
    ending: BTreeSet<StatementId>,
    /// The failing statement and the calls that led into its function.
    stack: BTreeSet<StatementId>,
    distances: BTreeMap<StatementId, u32>,
    /// Beyond all of them: of statements outside the slice.
    farthest: u64,
}

impl Nearness {
    pub fn new(failing: StatementId, distances: BTreeMap<StatementId, u32>) -> Self {
        Nearness::at(Some(failing), distances)
    }

    pub fn of_slice(slice: &Slice) -> Self {
        let entries = slice.entries.iter();
        let distances = entries.map(|e| (e.statement.id, e.distance)).collect();
        let calls = slice.entries.iter().filter(|entry| {
            let why = entry.why.as_ref();
            why.is_some_and(|why| why.kind == DependenceKind::Stack)
        });
        let calls = calls.map(|entry| entry.statement.id);
        let mut nearness = Nearness::at(slice.failing().map(|e| e.statement.id), distances);
        nearness.stack.extend(calls);
        nearness
    }

    fn at(failing: Option<StatementId>, distances: BTreeMap<StatementId, u32>) -> Self {
        let farthest = distances.values().max();
        Nearness {
            failing,
            ending: BTreeSet::new(),
            stack: failing.into_iter().collect(),
            farthest: farthest.map_or(STEP, |d| u64::from(*d) + STEP),
            distances,
        }
    }

    /// The same, of a program that ended itself: an abort, a failed assertion.
    pub fn of_ending(slice: &Slice) -> Self {
        let mut nearness = Nearness::of_slice(slice);
        nearness.ending = nearness.failing.into_iter().collect();
        for kind in [DependenceKind::Control, DependenceKind::Return] {
            let further: Vec<StatementId> = slice
                .entries
                .iter()
                .filter(|entry| {
                    let why = entry.why.as_ref().filter(|why| why.kind == kind);
                    why.is_some_and(|why| nearness.ending.contains(&why.parent))
                })
                .map(|entry| entry.statement.id)
                .collect();
            nearness.ending.extend(further);
        }
        nearness
    }

    /// The same, of a hang: that several threads reached the place where they wait
    /// explains nothing.
    pub fn of_hang(slice: &Slice) -> Self {
        let nearness = Nearness::of_slice(slice);
        Nearness {
            ending: nearness.failing.into_iter().collect(),
            ..nearness
        }
    }

    /// Whether a predictor tells that the run failed, and not why.
    fn is_symptom(&self, predictor: &Predictor) -> bool {
        if predictor.class() == PredictorClass::Lifetime {
            return false;
        }
        let is_value = predictor.class() == PredictorClass::Value;
        if is_value && self.failing.is_some_and(|f| predictor.statements() == [f]) {
            return true;
        }
        let mut statements = predictor.statements().iter();
        statements
            .all(|s| self.ending.contains(s) || (predictor.is_of_call() && self.stack.contains(s)))
    }

    /// Smaller is nearer: first whether the failing statement is missing.
    fn of(&self, predictor: &Predictor) -> (bool, u64) {
        let statements = predictor.statements();
        let known = |s: &StatementId| self.distances.get(s).map(|d| u64::from(*d));
        let distance = |s: &StatementId| known(s).unwrap_or(self.farthest);
        let away = self.failing.is_none_or(|f| !statements.contains(&f));
        // One step for each statement, so that more statements are farther.
        (away, statements.iter().map(|s| distance(s) + STEP).sum())
    }
}

/// A predictor with what it is compared by, found out once.
struct Scored {
    ranked: RankedPredictor,
    nearness: (bool, u64),
    held_in: RunSet,
}

/// Ranks the predictors that held in at least one failing run. Populations are not
/// pooled, because probing differs between them: each is scored by itself, and a
/// predictor that several know stands with its best score. All of them together
/// are what was tested.
pub fn rank(populations: &[&Population], looks: u64, nearness: &Nearness) -> Ranking {
    let tested = populations.iter().map(|p| p.tested()).sum();
    let scored = |population: &&Population| scored(population, tested, looks, nearness);
    let mut all: Vec<Scored> = populations.iter().flat_map(scored).collect();
    all.sort_by(better);
    let mut told: BTreeSet<Predictor> = BTreeSet::new();
    let mut predictors: Vec<RankedPredictor> = Vec::new();
    for Scored { ranked, .. } in all {
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

/// The predictors of one population, best first; those that held in the same runs
/// stand under the best of them.
fn scored(population: &Population, tested: u64, looks: u64, nearness: &Nearness) -> Vec<Scored> {
    let mut scored: Vec<Scored> = population
        .candidates()
        .map(
            |Candidate {
                 predictor,
                 tally,
                 held_in,
             }| {
                Scored {
                    ranked: RankedPredictor {
                        predictor: predictor.clone(),
                        class: predictor.class(),
                        score: score(&tally, tested, looks),
                        same_runs: Vec::new(),
                        symptom: nearness.is_symptom(predictor),
                    },
                    nearness: nearness.of(predictor),
                    held_in,
                }
            },
        )
        .collect();
    scored.sort_by(better);
    let mut groups: HashMap<(PredictorClass, RunSet), usize> = HashMap::new();
    let mut leaders: Vec<Scored> = Vec::new();
    for candidate in scored {
        let group = (candidate.ranked.class, candidate.held_in);
        match groups.get(&group) {
            Some(leader) => {
                let same = &mut leaders[*leader].ranked.same_runs;
                same.push(candidate.ranked.predictor);
            }
            None => {
                groups.insert(group, leaders.len());
                leaders.push(candidate);
            }
        }
    }
    leaders
}

fn better(a: &Scored, b: &Scored) -> Ordering {
    let (near_a, near_b) = (a.nearness, b.nearness);
    let (a, b) = (&a.ranked, &b.ranked);
    let (support_a, support_b) = (a.score.support, b.score.support);
    a.class
        .cmp(&b.class)
        .then(is_significant(b).cmp(&is_significant(a)))
        .then(is_good(b).cmp(&is_good(a)))
        .then(a.symptom.cmp(&b.symptom))
        .then(b.score.f_measure.total_cmp(&a.score.f_measure))
        .then(support_b.failing_true.cmp(&support_a.failing_true))
        .then(a.predictor.is_of_call().cmp(&b.predictor.is_of_call()))
        .then(near_a.cmp(&near_b))
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
