//! Synthetic populations with a planted cause: how often is it ranked first?
//!
//! A population has one order predictor that is the cause and [`OTHERS`] that are
//! not, of three kinds. *Bystanders* hold with a probability of their own that
//! has nothing to do with failing. *Preconditions* hold whenever the cause does,
//! and in 30% of all other runs: necessary, not sufficient. *Consequences* hold in
//! 80% of the runs in which the cause does, and in no other.
//!
//! Noise ν spoils all of it: in a failing run the cause held with probability
//! 1 − ν (else something else made it fail), in a successful one with ν/4 (it held
//! and did no harm), and in any run it cannot be told, with probability ν, whether
//! the cause held (events were lost).
//!
//! Numbers come from a generator with a fixed seed: the table is the same on
//! every machine.
#![allow(dead_code)] // the test and the example each use their own part

use diagnosis::predictors::{Aspect, Coverage, Hook};
use diagnosis::ranking::stop_rule::SIGNIFICANT;
use diagnosis::{Nearness, Observations, Population, rank};
use sketch_model::{
    AgentId, LocationName, OrderPattern, Predictor, PredictorClass, RunId, StatementId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const BYSTANDERS: u32 = 50;
pub const PRECONDITIONS: u32 = 5;
pub const CONSEQUENCES: u32 = 5;
pub const OTHERS: u32 = BYSTANDERS + PRECONDITIONS + CONSEQUENCES;

/// What a population is like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub failing: u32,
    /// The share of all runs that fail.
    pub rate: f64,
    pub noise: f64,
}

impl Shape {
    /// Successful runs that come with the failing ones, but no more than 400:
    /// what a server asks for is less.
    pub fn successful(&self) -> u32 {
        let all = f64::from(self.failing) * (1.0 - self.rate) / self.rate;
        (all.round() as u32).clamp(1, 400)
    }
}

/// What came of a number of populations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub populations: u32,
    /// The cause was first of its class.
    pub first: u32,
    /// It was first and significant: a diagnosis could end with it.
    pub proven: u32,
    /// Another was first and significant: a diagnosis could end with a wrong one.
    pub wrong: u32,
}

/// A small generator of random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to but without 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn with(&mut self, probability: f64) -> bool {
        self.share() < probability
    }
}

fn place() -> LocationName {
    LocationName::Global("shared".into())
}

/// Predictor number 0 is the cause.
fn order(number: u32) -> Predictor {
    Predictor::Order {
        pattern: OrderPattern::Wr,
        location: place(),
        statements: vec![StatementId(2 * number), StatementId(2 * number + 1)],
    }
}

/// Every hook stands; nothing was lost.
fn whole() -> Coverage {
    let hook = |(statement, aspect)| Hook {
        statement: StatementId(statement),
        aspect,
        column: 1,
        location: Some(place()),
        placed: true,
        caller: None,
    };
    let stores = (0..=OTHERS).map(|n| (2 * n, Aspect::Store));
    let loads = (0..=OTHERS).map(|n| (2 * n + 1, Aspect::Load));
    Coverage {
        hooks: Arc::new(stores.chain(loads).map(hook).collect()),
        complete: true,
        branches_complete: true,
        ..Coverage::default()
    }
}

/// All that does not change from run to run.
struct World {
    predictors: Vec<Predictor>,
    coverage: Coverage,
    /// By bystander.
    habits: Vec<f64>,
}

impl World {
    fn new(random: &mut Random) -> World {
        World {
            predictors: (0..=OTHERS).map(order).collect(),
            coverage: whole(),
            habits: (0..BYSTANDERS).map(|_| random.share()).collect(),
        }
    }

    fn run(&self, number: u32, failed: bool, noise: f64, random: &mut Random) -> Observations {
        let cause = random.with(if failed { 1.0 - noise } else { noise / 4.0 });
        let seen = !random.with(noise);
        let mut held = BTreeSet::new();
        let mut open = BTreeSet::new();
        match (seen, cause) {
            (true, true) => {
                held.insert(self.predictors[0].clone());
            }
            (true, false) => {}
            (false, _) => {
                open.insert(self.predictors[0].clone());
            }
        }
        for (other, predictor) in (0..OTHERS).zip(&self.predictors[1..]) {
            let holds = if other < BYSTANDERS {
                random.with(self.habits[other as usize])
            } else if other < BYSTANDERS + PRECONDITIONS {
                cause | random.with(0.3)
            } else {
                cause & random.with(0.8)
            };
            if holds {
                held.insert(predictor.clone());
            }
        }
        Observations {
            run: RunId(format!("run-{number}")),
            agent: AgentId(format!("agent-{}", number % 7)),
            failed,
            weight: 1.0,
            held,
            open,
            coverage: self.coverage.clone(),
        }
    }
}

/// Ranks so many populations of a shape.
pub fn tried(shape: Shape, populations: u32, seed: u64) -> Outcome {
    let mut random = Random(seed);
    // Every statement is equally far: nothing but the statistics decides.
    let nearness = Nearness::new(StatementId(u32::MAX), BTreeMap::new());
    let mut outcome = Outcome::default();
    for _ in 0..populations {
        let world = World::new(&mut random);
        let mut population = Population::default();
        for number in 0..shape.failing + shape.successful() {
            let failed = number < shape.failing;
            population.add(&world.run(number, failed, shape.noise, &mut random));
        }
        let ranking = rank(&[&population], 1, &nearness);
        let best = ranking.best(PredictorClass::Order);
        let is_cause = best.is_some_and(|best| best.predictor == world.predictors[0]);
        let proven = best.is_some_and(|best| best.score.corrected_p < SIGNIFICANT);
        outcome.populations += 1;
        outcome.first += u32::from(is_cause);
        outcome.proven += u32::from(is_cause && proven);
        outcome.wrong += u32::from(!is_cause && proven);
    }
    outcome
}

/// How many populations without any cause showed something significant at one of
/// so many looks, each after one more failing run and nine more successful ones.
pub fn false_alarms(populations: u32, looks: u32, seed: u64) -> u32 {
    let mut random = Random(seed);
    let nearness = Nearness::new(StatementId(u32::MAX), BTreeMap::new());
    let mut alarmed = 0;
    for _ in 0..populations {
        let world = World::new(&mut random);
        let mut population = Population::default();
        let mut alarm = false;
        for number in 0..10 * looks {
            let failed = number % 10 == 9;
            let mut run = world.run(number, failed, 0.0, &mut random);
            // What goes with the cause is left out: bystanders alone are there.
            run.held
                .retain(|p| world.predictors[1..=BYSTANDERS as usize].contains(p));
            population.add(&run);
            if failed {
                let look = u64::from(number / 10) + 1;
                let ranking = rank(&[&population], look, &nearness);
                let mut found = ranking.predictors.iter();
                alarm |= found.any(|p| p.score.corrected_p < SIGNIFICANT);
            }
        }
        alarmed += u32::from(alarm);
    }
    alarmed
}
