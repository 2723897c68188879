//! All observed runs of one tracked build.
//!
//! Runs of different builds are not pooled: probing changes how often a program
//! fails (DESIGN §4), so the caller keeps one population a variant. Adding is
//! independent of order and repetition: a run counts once, and if two records
//! claim the same run id, the lesser by a fixed order stays, whichever came
//! first. Merging two populations is adding all runs of one to the other.
//!
//! Of an agent that reported far more runs than others, not all count
//! ([`super::votes`]); those that do not are kept, for they may when others report
//! more.
//!
//! A predictor that is first met in the thousandth run needs its answers in the
//! first 999. Each run therefore keeps what it could show, and counting asks
//! every run. Limit, and the work of issue 7: that costs predictors × runs at
//! each ranking, and memory in proportion to the runs; counts that are updated
//! run by run, with a shared signature of what a run could show, would cost
//! neither.

use super::predictors::{Answer, Observations};
use super::votes::{Turn, Votes};
use serde::{Deserialize, Serialize};
use sketch_model::{Predictor, RunId, Support};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The runs of one tracked build.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Observations>", into = "Vec<Observations>")]
pub struct Population {
    runs: BTreeMap<RunId, Observations>,
    failing: Votes,
    successful: Votes,
    /// Runs that do not count.
    set_aside: BTreeSet<RunId>,
}

impl From<Vec<Observations>> for Population {
    fn from(runs: Vec<Observations>) -> Population {
        let mut population = Population::default();
        for run in &runs {
            population.add(run);
        }
        population
    }
}

impl From<Population> for Vec<Observations> {
    fn from(population: Population) -> Vec<Observations> {
        population.runs.into_values().collect()
    }
}

/// How often a predictor gave which answer, in runs and in weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub support: Support,
    /// Weights of the runs in which it held.
    pub failing_true: Weight,
    pub successful_true: Weight,
    pub failing_false: Weight,
}

/// A sum of weights, and of their squares: what a weighted share is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weight {
    pub sum: f64,
    pub squares: f64,
}

impl Weight {
    fn add(&mut self, weight: f64) {
        self.sum += weight;
        self.squares += weight * weight;
    }

    pub fn and(self, other: Weight) -> Weight {
        Weight {
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    /// How many runs of equal weight would tell as much (Kish).
    pub fn effective(self) -> f64 {
        if self.squares > 0.0 {
            self.sum * self.sum / self.squares
        } else {
            0.0
        }
    }
}

impl Population {
    /// Adds a run. Adding it again changes nothing.
    pub fn add(&mut self, observations: &Observations) {
        let mut observations = observations.clone();
        if !(observations.weight.is_finite() && observations.weight > 0.0) {
            observations.weight = 1.0;
        }
        let run = observations.run.clone();
        if let Some(known) = self.runs.get(&run) {
            if known.partial_cmp(&observations) != Some(Ordering::Greater) {
                return;
            }
            let (failed, agent) = (known.failed, known.agent.clone());
            self.vote(failed, |votes| votes.remove(&agent, &run));
            self.set_aside.remove(&run);
        }
        let (failed, agent) = (observations.failed, observations.agent.clone());
        self.set_aside.insert(run.clone());
        self.vote(failed, |votes| votes.add(&agent, &run));
        self.runs.insert(run, observations);
    }

    fn vote(&mut self, failed: bool, change: impl FnOnce(&mut Votes) -> Turn) {
        let turn = change(match failed {
            true => &mut self.failing,
            false => &mut self.successful,
        });
        self.set_aside.extend(turn.counts_no_longer);
        for run in &turn.counts {
            self.set_aside.remove(run);
        }
    }

    /// The runs that count.
    fn counted(&self) -> impl Iterator<Item = &Observations> {
        let runs = self.runs.values();
        runs.filter(|run| !self.set_aside.contains(&run.run))
    }

    /// How many runs do not count, because their agent reported too many.
    pub fn set_aside(&self) -> u64 {
        self.set_aside.len() as u64
    }

    pub fn merge(&mut self, other: &Population) {
        for observations in other.runs.values() {
            self.add(observations);
        }
    }

    pub fn failing(&self) -> u64 {
        self.runs.values().filter(|r| r.failed).count() as u64
    }

    pub fn successful(&self) -> u64 {
        self.runs.values().filter(|r| !r.failed).count() as u64
    }

    /// By run id.
    pub fn runs(&self) -> impl Iterator<Item = &Observations> {
        self.runs.values()
    }

    /// Every predictor that held in some run, failing or not: all that is tested.
    pub fn predictors(&self) -> BTreeSet<&Predictor> {
        self.counted().flat_map(|r| &r.held).collect()
    }

    pub fn tally(&self, predictor: &Predictor) -> Tally {
        let mut tally = Tally::default();
        let support = &mut tally.support;
        for run in self.counted() {
            match (run.failed, run.answer(predictor)) {
                (true, Answer::Held) => {
                    support.failing_true += 1;
                    tally.failing_true.add(run.weight);
                }
                (true, Answer::NotHeld) => {
                    support.failing_false += 1;
                    tally.failing_false.add(run.weight);
                }
                (true, Answer::Unobserved) => support.failing_unobserved += 1,
                (false, Answer::Held) => {
                    support.successful_true += 1;
                    tally.successful_true.add(run.weight);
                }
                (false, Answer::NotHeld) => support.successful_false += 1,
                (false, Answer::Unobserved) => support.successful_unobserved += 1,
            }
        }
        tally
    }

    /// The runs in which it held: predictors with the same ones say the same.
    pub fn held_in(&self, predictor: &Predictor) -> Vec<&RunId> {
        let held = self.counted().filter(|r| r.held.contains(predictor));
        held.map(|r| &r.run).collect()
    }
}
