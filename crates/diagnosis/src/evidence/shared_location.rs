//! The accesses of all threads to one piece of memory, and their order.
//!
//! Each access carries a clock: how many accesses of each thread provably came
//! before it. Program order makes these sets prefixes, so one number a thread
//! is enough, "before" is one comparison, and the accesses of a thread that are
//! before, unordered with, or after a given one are three ranges found by
//! bisection. That is what keeps pattern search away from quadratic time in the
//! usual case; [`MAX_ACCESSES`] bounds it in the worst.

use super::value_evidence;
use sketch_model::Interval;

/// A location with more accesses in one run is not analysed, and its order
/// predictors count as unobserved in that run.
pub const MAX_ACCESSES: usize = 8192;

/// Bound on accesses × threads², which is what taking in further evidence costs.
const MAX_EFFORT: usize = 50_000_000;

/// Whether a location of this size is analysed.
pub fn is_tractable(accesses: usize, threads: usize) -> bool {
    accesses <= MAX_ACCESSES
        && accesses.saturating_mul(threads).saturating_mul(threads) <= MAX_EFFORT
}

/// How often evidence from values may lead to more of it.
const VALUE_ROUNDS: usize = 3;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Read,
    Write,
    /// Unknown: made inside a library, or lost. It is never part of a pattern
    /// and always a possible write between two others.
    MayWrite,
}

/// One access to the location.
#[derive(Clone, Debug)]
pub struct Access {
    /// The event of the trace; `None` for a hole in a thread's record.
    pub event: Option<usize>,
    pub effect: Effect,
    pub bounds: Interval,
    /// The bytes touched, end excluded.
    pub range: (u64, u64),
    /// The exact value, if it is known.
    pub value: Option<u64>,
}

impl Access {
    pub fn overlaps(&self, other: &Access) -> bool {
        self.range.0 < other.range.1 && other.range.0 < self.range.1
    }
}

/// An access by thread (position in [`SharedLocation::threads`]) and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    pub thread: usize,
    pub index: usize,
}

/// One piece of memory that several threads touch.
#[derive(Clone, Debug)]
pub struct SharedLocation {
    /// Per thread, in program order.
    pub threads: Vec<Vec<Access>>,
    /// Per thread and access: for each thread, how many of its accesses are before.
    clocks: Vec<Vec<Vec<usize>>>,
    /// Per thread: how many of the first n accesses write, and how many write or may.
    writes: Vec<Vec<(usize, usize)>>,
}

impl SharedLocation {
    pub fn new(threads: Vec<Vec<Access>>) -> Self {
        let mut location = SharedLocation {
            clocks: interval_clocks(&threads),
            writes: threads.iter().map(|t| counted_writes(t)).collect(),
            threads,
        };
        for _ in 0..VALUE_ROUNDS {
            let edges = value_evidence::edges(&location);
            if edges.is_empty() {
                break;
            }
            location.propagate(&edges);
        }
        location
    }

    pub fn access(&self, at: At) -> &Access {
        &self.threads[at.thread][at.index]
    }

    /// All accesses, by thread and program order.
    pub fn all(&self) -> impl Iterator<Item = At> + '_ {
        self.threads
            .iter()
            .enumerate()
            .flat_map(|(thread, list)| (0..list.len()).map(move |index| At { thread, index }))
    }

    pub fn before(&self, a: At, b: At) -> bool {
        self.first_not_before(b, a.thread) > a.index
    }

    /// Accesses of `thread` below this number are before `at`.
    pub fn first_not_before(&self, at: At, thread: usize) -> usize {
        if thread == at.thread {
            at.index
        } else {
            self.clocks[at.thread][at.index][thread]
        }
    }

    /// Accesses of `thread` from this number on are after `at`.
    pub fn first_after(&self, at: At, thread: usize) -> usize {
        if thread == at.thread {
            return at.index + 1;
        }
        self.clocks[thread].partition_point(|clock| clock[at.thread] <= at.index)
    }

    /// Whether a write provably lies between two accesses.
    pub fn write_between(&self, a: At, b: At) -> bool {
        (0..self.threads.len()).any(|t| {
            let (from, to) = (self.first_after(a, t), self.first_not_before(b, t));
            from < to && self.writes[t][to].0 > self.writes[t][from].0
        })
    }

    /// Whether anything that writes or may write can lie between two accesses.
    pub fn write_possible_between(&self, a: At, b: At) -> bool {
        (0..self.threads.len()).any(|t| {
            let after_a = if t == a.thread {
                a.index + 1
            } else {
                self.first_not_before(a, t)
            };
            let before_b = if t == b.thread {
                b.index
            } else {
                self.first_after(b, t)
            };
            after_a < before_b && self.writes[t][before_b].1 > self.writes[t][after_a].1
        })
    }

    /// Takes in further "x is before y" facts, with all that follows from them.
    /// Contradictory facts (forged records) end it after a bounded effort.
    fn propagate(&mut self, edges: &[(At, At)]) {
        let threads = self.threads.len();
        for _ in 0..=edges.len().min(8) {
            let mut changed = false;
            for (x, y) in edges {
                let source = self.clocks[x.thread][x.index].clone();
                let target = &mut self.clocks[y.thread][y.index];
                changed |= join(target, &source);
                if target[x.thread] <= x.index {
                    target[x.thread] = x.index + 1;
                    changed = true;
                }
            }
            for thread in 0..threads {
                for index in 0..self.threads[thread].len() {
                    let mut clock = self.clocks[thread][index].clone();
                    if let Some(previous) = index.checked_sub(1) {
                        join(&mut clock, &self.clocks[thread][previous]);
                    }
                    for other in (0..threads).filter(|t| *t != thread) {
                        if let Some(last) = clock[other].checked_sub(1) {
                            join(&mut clock, &self.clocks[other][last]);
                        }
                    }
                    changed |= clock != self.clocks[thread][index];
                    self.clocks[thread][index] = clock;
                }
            }
            if !changed {
                break;
            }
        }
    }
}

fn join(target: &mut [usize], source: &[usize]) -> bool {
    let mut changed = false;
    for (t, s) in target.iter_mut().zip(source) {
        changed |= s > t;
        *t = (*t).max(*s);
    }
    changed
}

fn interval_clocks(threads: &[Vec<Access>]) -> Vec<Vec<Vec<usize>>> {
    let clock = |of: usize, access: &Access| -> Vec<usize> {
        let ended = |other: &Access| other.bounds.latest < access.bounds.earliest;
        threads
            .iter()
            .enumerate()
            .map(|(t, list)| {
                if t == of {
                    0
                } else {
                    list.partition_point(ended)
                }
            })
            .collect()
    };
    threads
        .iter()
        .enumerate()
        .map(|(t, list)| list.iter().map(|access| clock(t, access)).collect())
        .collect()
}

fn counted_writes(list: &[Access]) -> Vec<(usize, usize)> {
    let mut counts = vec![(0, 0)];
    let (mut certain, mut possible) = (0, 0);
    for access in list {
        certain += usize::from(access.effect == Effect::Write);
        possible += usize::from(access.effect != Effect::Read);
        counts.push((certain, possible));
    }
    counts
}
