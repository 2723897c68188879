//! No agent outvotes the fleet: none counts for more than twice as many runs as
//! the agent in the middle has.
//!
//! Failing and successful runs are two ballots, since few failing runs stand
//! against many successful ones and either can be forged. The rule applies from
//! [`FLEET`] agents on: with two there is one word against another and no fleet
//! to be outvoted, and a lone agent's recurrences are all there is. Three agents
//! leave at least four failing runs counted, which is what a diagnosis needs. The
//! middle is the median: as long as most agents are honest, those that are not
//! cannot shift it, which a mean would let them.
//!
//! Which of an agent's runs count is decided by a hash of their ids, not by when
//! they came: counts must not depend on the order of arrival. A change tells which
//! runs begin or cease to count, for a population that keeps sums.
//!
//! Deliberately absent: any judgement of contents. An agent that lies within its
//! share is outvoted, not found out. Identity is the gate's matter: a token
//! that speaks for one agent makes one voter.

use sketch_model::{AgentId, RunId};
use std::collections::{BTreeMap, BTreeSet};

/// Agents with runs of a kind from which on the rule applies.
pub const FLEET: usize = 3;
/// How many times the middle agent's runs one agent may count for.
pub const MOST: usize = 2;

/// A run's place among its agent's: by hash, then by id.
type Key = (u64, RunId);

/// The runs of one kind, by agent.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    agents: BTreeMap<AgentId, Own>,
    /// How many agents have how many runs.
    sizes: BTreeMap<usize, usize>,
    /// How many runs of one agent may count; `None` for all.
    allowed: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Own {
    /// Every key here is below every key of `beyond`.
    counted: BTreeSet<Key>,
    beyond: BTreeSet<Key>,
}

/// What a change of a ballot does to the runs that are in it.
#[derive(Debug, Default)]
pub struct Turn {
    pub counts: Vec<RunId>,
    pub counts_no_longer: Vec<RunId>,
}

impl Own {
    fn len(&self) -> usize {
        self.counted.len() + self.beyond.len()
    }

    /// Lets `allowed` runs count.
    fn settle(&mut self, allowed: usize, turn: &mut Turn) {
        while self.counted.len() > allowed {
            let Some(key) = self.counted.pop_last() else {
                break;
            };
            turn.counts_no_longer.push(key.1.clone());
            self.beyond.insert(key);
        }
        while self.counted.len() < allowed {
            let Some(key) = self.beyond.pop_first() else {
                break;
            };
            turn.counts.push(key.1.clone());
            self.counted.insert(key);
        }
    }
}

impl Votes {
    /// Adds a run that is not in the ballot yet.
    pub fn add(&mut self, agent: &AgentId, run: &RunId) -> Turn {
        let own = self.agents.entry(agent.clone()).or_default();
        let mut turn = Turn::default();
        // Beyond first: settling takes it out if it may count.
        own.beyond.insert(key(run));
        let last = own.counted.last();
        if last.is_some_and(|last| own.beyond.first() < Some(last)) {
            // Its place is among those that count; the last of them makes room.
            if let (Some(new), Some(last)) = (own.beyond.pop_first(), own.counted.pop_last()) {
                turn.counts.push(new.1.clone());
                turn.counts_no_longer.push(last.1.clone());
                own.counted.insert(new);
                own.beyond.insert(last);
            }
        }
        let size = own.len();
        self.grown_to(size);
        self.settle(agent, turn)
    }

    /// An agent has one run more.
    fn grown_to(&mut self, size: usize) {
        if let Some(agents) = self.sizes.get_mut(&(size - 1)) {
            *agents -= 1;
            if *agents == 0 {
                self.sizes.remove(&(size - 1));
            }
        }
        *self.sizes.entry(size).or_default() += 1;
    }

    /// Twice what the agent in the middle has; of two in the middle, the lesser.
    fn rule(&self) -> Option<usize> {
        if self.agents.len() < FLEET {
            return None;
        }
        let middle = (self.agents.len() - 1) / 2;
        let mut passed = 0;
        let mut sizes = self.sizes.iter();
        let median = sizes.find(|(_, agents)| {
            passed += **agents;
            passed > middle
        });
        median.map(|(size, _)| MOST * size)
    }

    fn settle(&mut self, changed: &AgentId, mut turn: Turn) -> Turn {
        let before = self.allowed;
        self.allowed = self.rule();
        let allowed = self.allowed.unwrap_or(usize::MAX);
        if self.allowed == before {
            if let Some(own) = self.agents.get_mut(changed) {
                own.settle(allowed, &mut turn);
            }
        } else {
            for own in self.agents.values_mut() {
                own.settle(allowed, &mut turn);
            }
        }
        // What came and went within one change did neither.
        let came: BTreeSet<RunId> = turn.counts.iter().cloned().collect();
        let went: BTreeSet<RunId> = turn.counts_no_longer.iter().cloned().collect();
        turn.counts.retain(|run| !went.contains(run));
        turn.counts_no_longer.retain(|run| !came.contains(run));
        turn
    }
}

fn key(run: &RunId) -> Key {
    let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = run.0.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    (hash, run.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many runs of each agent count, by what the turns say.
    fn counted(runs: &[(u8, u16)]) -> (BTreeSet<RunId>, Votes) {
        let (mut counted, mut votes) = (BTreeSet::new(), Votes::default());
        for (agent, run) in runs {
            let run = RunId(format!("{agent}-{run}"));
            let turn = votes.add(&AgentId(agent.to_string()), &run);
            for run in turn.counts {
                assert!(counted.insert(run.clone()), "{run} counts twice");
            }
            for run in turn.counts_no_longer {
                assert!(counted.remove(&run), "{run} did not count");
            }
        }
        (counted, votes)
    }

    fn of(counted: &BTreeSet<RunId>, agent: u8) -> usize {
        let prefix = format!("{agent}-");
        counted.iter().filter(|r| r.0.starts_with(&prefix)).count()
    }

    fn runs(shares: &[(u8, u16)]) -> Vec<(u8, u16)> {
        let of = |(agent, runs): &(u8, u16)| -> Vec<(u8, u16)> {
            (0..*runs).map(|r| (*agent, r)).collect()
        };
        shares.iter().flat_map(of).collect()
    }

    #[test]
    fn the_rule_in_a_table() {
        for (shares, expected) in [
            // Alone, or one against one: everything counts.
            (vec![(1, 100)], vec![100]),
            (vec![(1, 100), (2, 1)], vec![100, 1]),
            // From three on: never more than twice the middle one.
            (vec![(1, 100), (2, 1), (3, 1)], vec![2, 1, 1]),
            (
                vec![(1, 100), (2, 10), (3, 10), (4, 5)],
                vec![20, 10, 10, 5],
            ),
            // Two that conspire do not raise each other's share.
            (
                vec![(1, 100), (2, 90), (3, 3), (4, 3), (5, 2)],
                vec![6, 6, 3, 3, 2],
            ),
            // An even fleet loses nothing.
            (vec![(1, 10), (2, 10), (3, 10)], vec![10, 10, 10]),
            (vec![(1, 20), (2, 10), (3, 10)], vec![20, 10, 10]),
        ] {
            let (counted, _) = counted(&runs(&shares));
            let by_agent: Vec<usize> = shares.iter().map(|(a, _)| of(&counted, *a)).collect();
            assert_eq!(by_agent, expected, "{shares:?}");
        }
    }

    proptest! {
        #[test]
        fn which_runs_count_depends_on_what_is_there_alone(
            runs in proptest::collection::btree_set((0..5u8, 0..40u16), 0..80),
            seed in any::<u64>(),
        ) {
            let straight: Vec<_> = runs.iter().copied().collect();
            let mut other = straight.clone();
            // A fixed shuffle by the seed.
            other.sort_by_key(|(a, r)| (u64::from(*a) << 16 | u64::from(*r)).wrapping_mul(seed | 1));
            let (expected, _) = counted(&straight);
            prop_assert_eq!(counted(&other).0, expected);
        }

        #[test]
        fn no_agent_of_a_fleet_counts_for_more_than_twice_the_middle_one(
            runs in proptest::collection::btree_set((0..6u8, 0..60u16), 0..150),
        ) {
            let straight: Vec<_> = runs.iter().copied().collect();
            let (counted, votes) = counted(&straight);
            let mut sizes: Vec<usize> = votes.agents.values().map(Own::len).collect();
            sizes.sort();
            for agent in 0..6 {
                let own = straight.iter().filter(|(a, _)| *a == agent).count();
                let most = match sizes.len() < FLEET {
                    true => own,
                    false => own.min(2 * sizes[(sizes.len() - 1) / 2]),
                };
                prop_assert_eq!(of(&counted, agent), most);
            }
        }
    }
}
