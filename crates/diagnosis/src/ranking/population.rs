//! All observed runs of one tracked build, counted as they come.
//!
//! Runs of different builds are not pooled: probing changes how often a program
//! fails, so the caller keeps one population a variant. Adding is
//! independent of order, and a run counts once: storage takes a run id only the
//! first time that it comes, so there is no second record of a run to choose from.
//!
//! A predictor that is first met in the thousandth run needs its answers in the
//! first 999, in which it did not hold or could not be seen. Those are not asked
//! again: runs that could show the same things ([`Coverage`]) form a *class*, and
//! whether a predictor can be seen in a run is the same for all of its class. So
//! the runs of a class in which it neither held nor was in doubt are those in
//! which it did not hold, or those that cannot tell, all of them. Adding a run
//! costs what held in it; a tally costs one step a class.
//!
//! Of an agent that reported far more runs than others, not all count
//! ([`super::votes`]); those that do not are kept, for they may when others
//! report more.
//!
//! Limit: classes are told apart by everything that a run could show. Where each
//! run loses something else, there are as many classes as runs, and ranking costs
//! predictors × runs again.

use super::agent_weighting::{Turn, Votes};
use super::run_sets::{Packed, RunSets};
use super::tally::{Sum, Tally};
use crate::predictors::{Coverage, Observations};
use sha2::{Digest, Sha256};
use sketch_model::{Predictor, RunId};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The runs of one tracked build.
#[derive(Clone, Debug, Default)]
pub struct Population {
    numbers: HashMap<Arc<Predictor>, u32>,
    /// By number.
    counts: Vec<Counts>,
    class_numbers: HashMap<Arc<Coverage>, u32>,
    classes: Vec<Class>,
    runs: HashMap<RunId, Run>,
    sets: RunSets,
    failing: u64,
    /// Which of the failing and of the successful runs count.
    failing_votes: Votes,
    successful_votes: Votes,
    /// Predictors that held in some run.
    tested: u64,
}

/// Runs that could show the same.
#[derive(Clone, Debug)]
struct Class {
    coverage: Arc<Coverage>,
    failing: Sum,
    successful: Sum,
}

/// What is known of one predictor.
#[derive(Clone, Debug)]
struct Counts {
    predictor: Arc<Predictor>,
    held: RunSet,
    /// By class, only those in which it held or was in doubt.
    cells: Vec<(u32, Cell)>,
    /// Whether the first so many classes can show it; filled when first asked.
    shown: RefCell<Vec<bool>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    held_failing: Sum,
    held_successful: Sum,
    open_failing: Sum,
    open_successful: Sum,
}

/// A set of runs, as far as telling it from others goes: the sum of 128 bits of
/// hash of each, which does not depend on their order and can be taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunSet {
    runs: u64,
    sum: u128,
}

/// What a run said, for when it begins or ceases to count.
#[derive(Clone, Debug)]
struct Run {
    failed: bool,
    /// Not so if its agent reported far more runs than others.
    counts: bool,
    weight: f64,
    class: u32,
    held: Packed,
    open: Packed,
}

/// A predictor that may be ranked.
pub struct Candidate<'a> {
    pub predictor: &'a Predictor,
    pub tally: Tally,
    /// Predictors with the same ones say the same.
    pub held_in: RunSet,
}

impl Population {
    /// Adds a run. A run that is known changes nothing.
    pub fn add(&mut self, observations: &Observations) {
        if self.runs.contains_key(&observations.run) {
            return;
        }
        let class = self.class(&observations.coverage);
        let mut held = self.number_all(&observations.held);
        let mut open = self.number_all(&in_doubt(observations));
        let run = Run {
            failed: observations.failed,
            counts: false,
            weight: sane(observations.weight),
            class,
            held: self.sets.kept(&mut held),
            open: self.sets.kept(&mut open),
        };
        let id = observations.run.clone();
        self.failing += u64::from(run.failed);
        self.runs.insert(id.clone(), run);
        let votes = self.votes(observations.failed);
        let turn = votes.add(&observations.agent, &id);
        self.turn(turn);
    }

    /// How many runs do not count, because their agents reported far more than
    /// others ([`super::votes`]).
    pub fn set_aside(&self) -> u64 {
        self.runs.values().filter(|run| !run.counts).count() as u64
    }

    fn votes(&mut self, failed: bool) -> &mut Votes {
        match failed {
            true => &mut self.failing_votes,
            false => &mut self.successful_votes,
        }
    }

    /// Runs begin to count, or cease to.
    fn turn(&mut self, turn: Turn) {
        let gone = turn.counts_no_longer.into_iter().map(|id| (id, false));
        let come = turn.counts.into_iter().map(|id| (id, true));
        for (id, counts) in gone.chain(come) {
            let Some(mut run) = self.runs.remove(&id) else {
                continue;
            };
            let way = if counts { Way::Add } else { Way::TakeBack };
            self.count(&id, &run, way);
            run.counts = counts;
            self.runs.insert(id, run);
        }
    }

    pub fn failing(&self) -> u64 {
        self.failing
    }

    pub fn successful(&self) -> u64 {
        self.runs.len() as u64 - self.failing
    }

    /// How many predictors held in some run, failing or not: all that is tested.
    pub fn tested(&self) -> u64 {
        self.tested
    }

    /// The predictors that held in at least one failing run.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate<'_>> {
        let failed = |counts: &&Counts| {
            let mut cells = counts.cells.iter();
            cells.any(|(_, cell)| cell.held_failing.runs > 0)
        };
        let counts = self.counts.iter().filter(failed);
        counts.map(|counts| Candidate {
            predictor: &counts.predictor,
            tally: self.tally_of(counts),
            held_in: counts.held,
        })
    }

    pub fn tally(&self, predictor: &Predictor) -> Tally {
        match self.numbers.get(predictor) {
            Some(number) => self.tally_of(&self.counts[*number as usize]),
            None => self.tally_of(&Counts::of(Arc::new(predictor.clone()))),
        }
    }

    fn tally_of(&self, counts: &Counts) -> Tally {
        let mut shown = counts.shown.borrow_mut();
        for class in &self.classes[shown.len()..] {
            shown.push(class.coverage.can_answer(&counts.predictor));
        }
        let mut cells = counts.cells.iter().peekable();
        let (mut failing, mut successful) = (Answers::default(), Answers::default());
        for ((number, class), shown) in (0..).zip(&self.classes).zip(shown.iter()) {
            let cell = cells.next_if(|(of, _)| *of == number);
            let cell = cell.map_or_else(Cell::default, |(_, cell)| *cell);
            failing.add(class.failing, cell.held_failing, cell.open_failing, *shown);
            successful.add(
                class.successful,
                cell.held_successful,
                cell.open_successful,
                *shown,
            );
        }
        Tally {
            support: sketch_model::Support {
                failing_true: failing.held.runs,
                failing_false: failing.not_held.runs,
                failing_unobserved: failing.unobserved,
                successful_true: successful.held.runs,
                successful_false: successful.not_held.runs,
                successful_unobserved: successful.unobserved,
            },
            failing_true: failing.held.weighed(),
            successful_true: successful.held.weighed(),
            failing_false: failing.not_held.weighed(),
        }
    }

    fn class(&mut self, coverage: &Coverage) -> u32 {
        if let Some(number) = self.class_numbers.get(coverage) {
            return *number;
        }
        let number = self.classes.len() as u32;
        let coverage = Arc::new(coverage.clone());
        self.class_numbers.insert(Arc::clone(&coverage), number);
        self.classes.push(Class {
            coverage,
            failing: Sum::default(),
            successful: Sum::default(),
        });
        number
    }

    fn number_all(&mut self, predictors: &BTreeSet<Predictor>) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(predictors.len());
        for predictor in predictors {
            if let Some(number) = self.numbers.get(predictor) {
                numbers.push(*number);
                continue;
            }
            let number = self.counts.len() as u32;
            let predictor = Arc::new(predictor.clone());
            self.numbers.insert(Arc::clone(&predictor), number);
            self.counts.push(Counts::of(predictor));
            numbers.push(number);
        }
        numbers
    }

    fn count(&mut self, id: &RunId, run: &Run, way: Way) {
        let one = Sum::one(run.weight);
        let class = &mut self.classes[run.class as usize];
        if run.failed {
            class.failing = way.apply(class.failing, one);
        } else {
            class.successful = way.apply(class.successful, one);
        }
        for number in run.open.numbers() {
            let cell = self.counts[number as usize].cell(run.class);
            let open = match run.failed {
                true => &mut cell.open_failing,
                false => &mut cell.open_successful,
            };
            *open = way.apply(*open, one);
        }
        let hash = hash_of(id);
        for number in run.held.numbers() {
            let counts = &mut self.counts[number as usize];
            let cell = counts.cell(run.class);
            let held = match run.failed {
                true => &mut cell.held_failing,
                false => &mut cell.held_successful,
            };
            *held = way.apply(*held, one);
            let runs = &mut counts.held;
            match way {
                Way::Add => {
                    self.tested += u64::from(runs.runs == 0);
                    runs.runs += 1;
                    runs.sum = runs.sum.wrapping_add(hash);
                }
                Way::TakeBack => {
                    runs.runs -= 1;
                    runs.sum = runs.sum.wrapping_sub(hash);
                    self.tested -= u64::from(runs.runs == 0);
                }
            }
        }
    }
}

/// Whether a run comes or goes.
#[derive(Clone, Copy)]
enum Way {
    Add,
    TakeBack,
}

impl Way {
    fn apply(self, sum: Sum, one: Sum) -> Sum {
        match self {
            Way::Add => sum.plus(one),
            Way::TakeBack => sum.minus(one),
        }
    }
}

impl Counts {
    fn of(predictor: Arc<Predictor>) -> Counts {
        Counts {
            predictor,
            held: RunSet::default(),
            cells: Vec::new(),
            shown: RefCell::default(),
        }
    }

    fn cell(&mut self, class: u32) -> &mut Cell {
        let place = self.cells.binary_search_by_key(&class, |(of, _)| *of);
        let place = place.unwrap_or_else(|place| {
            self.cells.insert(place, (class, Cell::default()));
            place
        });
        &mut self.cells[place].1
    }
}

/// The answers of failing or of successful runs.
#[derive(Default)]
struct Answers {
    held: Sum,
    not_held: Sum,
    unobserved: u64,
}

impl Answers {
    /// Adds the runs of one class: `all` of them, those in which it `held` and
    /// those in which it is `open` whether it did.
    fn add(&mut self, all: Sum, held: Sum, open: Sum, shown: bool) {
        self.held = self.held.plus(held);
        let rest = all.minus(held);
        if shown {
            self.unobserved += open.runs;
            self.not_held = self.not_held.plus(rest.minus(open));
        } else {
            self.unobserved += rest.runs;
        }
    }
}

/// What is in doubt: nothing that held is.
fn in_doubt(observations: &Observations) -> BTreeSet<Predictor> {
    &observations.open - &observations.held
}

fn sane(weight: f64) -> f64 {
    if weight.is_finite() && weight > 0.0 {
        weight
    } else {
        1.0
    }
}

fn hash_of(id: &RunId) -> u128 {
    let digest = Sha256::digest(id.0.as_bytes());
    let (first, _) = digest.split_at(16);
    first
        .iter()
        .fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}
