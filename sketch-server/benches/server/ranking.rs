//! Ranking as predictors and runs grow: what a run costs, what a look costs, and
//! what a campaign takes in memory.
//!
//! Each run holds [`HELD`] predictors: a core that all runs share, and the rest
//! drawn from all with a few common and many rare ones, as races and values are.
//! One run in a hundred fails; one predictor holds in just those.

use diagnosis::predictors::{Aspect, Coverage, Hook};
use diagnosis::{Nearness, Observations, Population, rank};
use sketch_model::{
    AgentId, LocationName, OrderPattern, Predictor, PredictorClass, RunId, StatementId, ValueShape,
};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Predictors that hold in one run.
const HELD: usize = 200;
/// One run in so many fails.
const FAILING: u64 = 100;

pub fn measure() {
    println!("\nRanking: {HELD} predictors hold in a run, one run in {FAILING} fails");
    println!(
        "{:>10}  {:>8}  {:>11}  {:>11}  {:>9}  {:>15}  {:>9}  {:>12}",
        "predictors",
        "runs",
        "add µs mean",
        "add µs p99",
        "look ms",
        "with looks µs",
        "MB",
        "bytes/run"
    );
    for (predictors, runs) in [
        (1_000, 1_000),
        (10_000, 10_000),
        (30_000, 30_000),
        (100_000, 100_000),
        (10_000, 100_000),
        (100_000, 10_000),
    ] {
        // In a process of its own: memory that another row freed would be used again.
        let row = Command::new(std::env::current_exe().expect("this program"))
            .args(["rank", &predictors.to_string(), &runs.to_string()])
            .status()
            .expect("a row");
        assert!(row.success());
    }
}

/// One row of the table.
pub fn one(predictors: u32, runs: u64) {
    let all: Vec<Predictor> = (0..predictors).map(predictor).collect();
    let coverage = coverage(predictors);
    let before = resident();
    let mut population = Population::default();
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut added = Vec::with_capacity(runs as usize);
    for number in 0..runs {
        let observations = observed(number, &all, &coverage, &mut chance);
        let from = Instant::now();
        population.add(&observations);
        added.push(from.elapsed());
    }
    let memory = resident().saturating_sub(before);
    let distances = (0..1_000)
        .map(|n| (StatementId(n), n))
        .collect::<BTreeMap<_, _>>();
    let nearness = Nearness::new(StatementId(0), distances);
    // The first look also finds out what each class of runs could show.
    let first = rank(&[&population], 1, &nearness);
    let from = Instant::now();
    let ranking = rank(&[&population], 1, &nearness);
    let look = from.elapsed();
    assert_eq!(ranking, first);
    let best = ranking.best(PredictorClass::Order).expect("an order");
    assert_eq!(best.predictor, all[0], "the planted cause is first");
    added.sort_unstable();
    let mean = added.iter().sum::<Duration>().as_secs_f64() * 1e6 / runs as f64;
    let p99 = added[added.len() * 99 / 100].as_secs_f64() * 1e6;
    // Every failing run is looked at.
    let with_looks = mean + look.as_secs_f64() * 1e6 / FAILING as f64;
    println!(
        "{predictors:>10}  {runs:>8}  {mean:>11.1}  {p99:>11.1}  {:>9.1}  {with_looks:>15.1}  {:>9.1}  {:>12}",
        look.as_secs_f64() * 1e3,
        memory as f64 / 1e6,
        memory / runs,
    );
}

/// A question of some class; number 0 is the planted cause.
fn predictor(number: u32) -> Predictor {
    let (statement, location) = (
        StatementId(number / 4),
        LocationName::Global(format!("g{}", number / 64)),
    );
    match number % 4 {
        0 => Predictor::Order {
            pattern: OrderPattern::Wr,
            location,
            statements: vec![statement, StatementId(number / 4 + 1)],
        },
        1 | 2 => Predictor::Value {
            statement,
            column: 5,
            location,
            shape: ValueShape::Equals(u64::from(number % 255)),
            caller: None,
        },
        _ => Predictor::Branch {
            statement,
            column: 5,
            successor: 1,
        },
    }
}

/// Every hook stands, and nothing was lost.
fn coverage(predictors: u32) -> Coverage {
    let aspects = [Aspect::Load, Aspect::Store, Aspect::Branch];
    let hook = |statement: u32, aspect| Hook {
        statement: StatementId(statement),
        aspect,
        column: 5,
        location: None,
        placed: true,
        caller: None,
    };
    let hooks = (0..=predictors / 4 + 1).flat_map(|s| aspects.map(|a| hook(s, a)));
    Coverage {
        hooks: Arc::new(hooks.collect()),
        complete: true,
        branches_complete: true,
        ..Coverage::default()
    }
}

fn observed(
    number: u64,
    all: &[Predictor],
    coverage: &Coverage,
    chance: &mut Chance,
) -> Observations {
    let failed = number % FAILING == FAILING / 2;
    let mut held = BTreeSet::new();
    if failed {
        held.insert(all[0].clone());
    }
    while held.len() < HELD {
        // Small numbers are common: a quarter of them lies below a hundredth.
        let share = chance.next();
        let place = 1 + (share * share * share * (all.len() - 1) as f64) as usize;
        held.insert(all[place.min(all.len() - 1)].clone());
    }
    Observations {
        run: RunId(format!("run-{number}")),
        agent: AgentId(format!("agent-{}", number % 1_000)),
        failed,
        weight: 1.0,
        held,
        open: BTreeSet::new(),
        coverage: coverage.clone(),
    }
}

/// Numbers that are the same at each start (xorshift).
struct Chance(u64);

impl Chance {
    /// From 0 up to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
