//! When a diagnosis may end, and how many runs an iteration needs to get there.
//!
//! It may end when the best predictor of all is good, significant after correction,
//! and stayed the best of its class while σ doubled. Good is F ≥ 0.8, what the demo
//! and the evaluation ask for. But precision, and with it F, falls with the share of runs that
//! fail: where one run in a hundred does, a cause that also occurs in one successful
//! run in fifty, and is survived there, has an F of 0.4. So what holds in nearly
//! every failing run and ten times as often as in successful ones is good, too. The last condition is what protects against the
//! first iterations, in which the true cause may not be tracked yet and a
//! consequence of it is the best there is. For the same reason it does not end
//! with a symptom (see [`super::ranking`]), unless nothing better is left to be
//! found: the whole slice is tracked, or [`FAR_ENOUGH`] statements are. And it does not end
//! with what could be seen in less than half of the failing runs: hooks that were off,
//! or had no place, when the others failed leave a few runs that agree by chance.
//!
//! Runs: recurrences of a failure are dear, successful runs are not. One failing
//! run and a few successful ones give a hint: whatever is best there is worth
//! following, and a σ at which nothing good shows is left at once. An end needs
//! proof: at least two failing runs, and with them as many successful ones as make
//! a perfect predictor significant after correction, hundreds for two
//! failing runs, tens for three.

use super::statistics::fisher;
use serde::{Deserialize, Serialize};
use sketch_model::{PredictorClass, RankedPredictor, Ranking};

/// Corrected p below this counts as significant.
pub const SIGNIFICANT: f64 = 0.01;
/// F from which a predictor is good enough to end with.
pub const GOOD_F: f64 = 0.8;
/// Or it holds in this share of failing runs ...
const NEARLY_ALL: f64 = 0.9;
/// ... and so many times as often as in successful ones.
const TIMES_AS_OFTEN: f64 = 10.0;

/// Beyond this many tracked statements a symptom may end a diagnosis.
pub const FAR_ENOUGH: u32 = 256;

/// With one failing run any predictor that held in it is perfect.
const FEWEST_FAILING: u64 = 2;
/// Fewer cannot contradict anything ...
const FEWEST_FOR_A_HINT: u64 = 10;
/// ... and whatever the test says, fewer are no proof.
const FEWEST_FOR_PROOF: u64 = 20;
/// Successful runs in which a predictor must have been observable.
const FEWEST_CONTRADICTING: u64 = 5;

/// What an iteration found: the best predictor of each class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IterationResult {
    pub iteration: u32,
    pub best: Vec<RankedPredictor>,
}

impl IterationResult {
    pub fn of(iteration: u32, ranking: &Ranking) -> Self {
        IterationResult {
            iteration,
            best: PredictorClass::ALL
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
        is_significant(b)
            .cmp(&is_significant(a))
            .then(is_good(b).cmp(&is_good(a)))
            .then(a.symptom.cmp(&b.symptom))
            .then(b.score.f_measure.total_cmp(&a.score.f_measure))
            .then(a.class.cmp(&b.class))
    })
}

/// Whether a predictor could be seen in so many failing runs that they speak for all.
fn is_observable(ranked: &RankedPredictor) -> bool {
    let support = ranked.score.support;
    let failing = support.failing_observed() + support.failing_unobserved;
    2 * support.failing_observed() >= failing
}

/// Whether a predictor separates the runs well enough to end with. One that could be
/// seen in few of the failing runs says nothing of the others. One that hardly any successful run could contradict separates nothing; nor does one that
/// holds in successful runs too, and has a high F only because most runs in which it
/// could be observed failed.
pub fn is_good(ranked: &RankedPredictor) -> bool {
    let support = ranked.score.support;
    let contradicting = support.successful_observed();
    let holds = |held: u64, of: u64| held as f64 / of.max(1) as f64;
    let failing = holds(support.failing_true, support.failing_observed());
    let successful = holds(support.successful_true, contradicting);
    let precise = ranked.score.f_measure >= GOOD_F && 2.0 * successful <= failing;
    let telling = failing >= NEARLY_ALL && TIMES_AS_OFTEN * successful <= failing;
    is_observable(ranked) && contradicting >= FEWEST_CONTRADICTING && (precise || telling)
}

/// Whether it cannot well be chance, after correction.
pub fn is_significant(ranked: &RankedPredictor) -> bool {
    ranked.score.corrected_p < SIGNIFICANT
}

/// Whether a diagnosis could end with it, if it stays.
pub fn is_answer(ranked: &RankedPredictor) -> bool {
    is_good(ranked) && is_significant(ranked)
}

/// Whether the diagnosis may end, by the results of its iterations in order;
/// `far_enough` says whether it may end with a symptom.
pub fn settled(history: &[IterationResult], far_enough: bool) -> bool {
    stable(history, far_enough).is_some_and(is_significant)
}

/// Whether it would end here, were the best predictor significant: then more
/// runs are worth waiting for, and a larger σ is not.
pub fn promising(history: &[IterationResult], far_enough: bool) -> bool {
    stable(history, far_enough).is_some()
}

/// The best predictor, if it is good and stayed the best of its class.
fn stable(history: &[IterationResult], far_enough: bool) -> Option<&RankedPredictor> {
    let [.., previous, last] = history else {
        return None;
    };
    let best = last.overall().filter(|best| is_good(best))?;
    if best.symptom && !far_enough {
        return None;
    }
    let before = previous.best.iter().find(|p| p.class == best.class)?;
    let stayed = best.predictor == before.predictor
        || before.same_runs.contains(&best.predictor)
        || best.same_runs.contains(&before.predictor);
    stayed.then_some(best)
}

/// How much the runs of an iteration can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Power {
    Nothing,
    /// There is something to compare: what is best is worth following.
    Hint,
    /// A perfect predictor would be significant.
    Proof,
}

/// What so many runs can say when `tested` predictors are looked at the
/// `looks`-th time.
pub fn power(failing: u64, successful: u64, tested: u64, looks: u64) -> Power {
    if failing == 0 || successful < FEWEST_FOR_A_HINT {
        return Power::Nothing;
    }
    let tests = tested.max(1) as f64 * looks.max(1) as f64;
    let proves = fisher(failing, 0, 0, successful) * tests < SIGNIFICANT;
    if failing >= FEWEST_FAILING && successful >= FEWEST_FOR_PROOF && proves {
        Power::Proof
    } else {
        Power::Hint
    }
}
