//! When a diagnosis may end, and how many runs an iteration needs to get there.
//!
//! It may end when the best predictor of all is good (F ≥ 0.8, what the demo and
//! the evaluation ask for), significant after correction, and stayed the best of
//! its class while σ doubled. The last condition is what protects against the
//! first iterations, in which the true cause may not be tracked yet and a
//! consequence of it is the best there is. For the same reason it does not end
//! with a symptom (see [`super::ranking`]), unless nothing better is left to be
//! found: the whole slice is tracked, or [`FAR_ENOUGH`] statements are.
//!
//! Runs: three failing ones. With one, any predictor that held is perfect; with
//! two, the successful runs needed grow with the square root of the number of
//! predictors (hundreds); with three, with the cube root (tens). Successful runs
//! cost little, recurrences cost what we want to save, so more than three are
//! not asked for: as many successful runs are, as make a perfect predictor
//! significant (DESIGN §4).

use super::statistics::{fisher, price_of_look};
use serde::{Deserialize, Serialize};
use sketch_model::{PredictorClass, RankedPredictor, Ranking};

/// Corrected p below this counts as significant.
pub const SIGNIFICANT: f64 = 0.01;
/// F from which a predictor is good enough to end with.
pub const GOOD_F: f64 = 0.8;

/// Beyond this many tracked statements a symptom may end a diagnosis.
pub const FAR_ENOUGH: u32 = 64;

const FAILING_RUNS: u64 = 3;
const FEWEST_SUCCESSFUL: u64 = 20;
/// Nobody waits for more; with three failing runs it suffices for 10¹⁵ tests.
const MOST_SUCCESSFUL: u64 = 1_000_000;

/// What an iteration found: the best predictor of each class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IterationResult {
    pub iteration: u32,
    pub best: Vec<RankedPredictor>,
}

impl IterationResult {
    pub fn of(iteration: u32, ranking: &Ranking) -> Self {
        let classes = [
            PredictorClass::Order,
            PredictorClass::Value,
            PredictorClass::Branch,
        ];
        IterationResult {
            iteration,
            best: classes
                .into_iter()
                .filter_map(|class| ranking.best(class).cloned())
                .collect(),
        }
    }

    /// The best of all classes: significant before not, then by F. Among equals
    /// an order says more than a value, and a value more than a branch.
    pub fn overall(&self) -> Option<&RankedPredictor> {
        overall(self.best.iter())
    }
}

/// The best predictor of a ranking, over all classes.
pub fn best_overall(ranking: &Ranking) -> Option<&RankedPredictor> {
    overall(ranking.predictors.iter())
}

fn overall<'a>(
    candidates: impl Iterator<Item = &'a RankedPredictor>,
) -> Option<&'a RankedPredictor> {
    candidates.min_by(|a, b| {
        let doubtful = |p: &RankedPredictor| p.score.corrected_p >= SIGNIFICANT;
        doubtful(a)
            .cmp(&doubtful(b))
            .then(is_good(b).cmp(&is_good(a)))
            .then(a.symptom.cmp(&b.symptom))
            .then(b.score.f_measure.total_cmp(&a.score.f_measure))
            .then(a.class.cmp(&b.class))
    })
}

/// Whether a predictor separates the runs well enough to end with.
pub fn is_good(ranked: &RankedPredictor) -> bool {
    ranked.score.f_measure >= GOOD_F
}

/// Whether the diagnosis may end, by the results of its iterations in order;
/// `far_enough` says whether it may end with a symptom.
pub fn settled(history: &[IterationResult], far_enough: bool) -> bool {
    let [.., previous, last] = history else {
        return false;
    };
    let Some(best) = last.overall() else {
        return false;
    };
    let score = &best.score;
    if !is_good(best) || score.corrected_p >= SIGNIFICANT || (best.symptom && !far_enough) {
        return false;
    }
    let before = previous.best.iter().find(|p| p.class == best.class);
    before.is_some_and(|before| {
        best.predictor == before.predictor
            || before.same_runs.contains(&best.predictor)
            || best.same_runs.contains(&before.predictor)
    })
}

/// How many runs an iteration should wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub failing: u64,
    pub successful: u64,
}

/// The runs to wait for when `tested` predictors are looked at the `looks`-th time.
pub fn wanted(tested: u64, looks: u64) -> Wanted {
    let tests = tested.max(1) as f64 * price_of_look(looks);
    let enough = |successful| fisher(FAILING_RUNS, 0, 0, successful) * tests < SIGNIFICANT;
    let (mut low, mut high) = (FEWEST_SUCCESSFUL, FEWEST_SUCCESSFUL);
    while !enough(high) && high < MOST_SUCCESSFUL {
        low = high;
        high = (high * 2).min(MOST_SUCCESSFUL);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Wanted {
        failing: FAILING_RUNS,
        successful: high,
    }
}
