//! No agent outvotes the fleet: of an agent that reported more runs than all
//! others together, only as many count as the others have.
//!
//! Failing and successful runs are two ballots, since few failing runs stand
//! against many successful ones and either can be forged. The rule applies from
//! [`FLEET`] agents on: with two there is one word against another and no fleet
//! to be outvoted, and a lone agent's recurrences are all there is. Three agents
//! leave at least four failing runs counted, which is what a diagnosis needs.
//!
//! Which of the agent's runs count is decided by a hash of their ids, not by when
//! they came: counts must not depend on the order of arrival. At most one agent can
//! have more than half of a ballot, so a new run changes little: this tells which
//! runs begin or cease to count, for a population that keeps sums.
//!
//! Deliberately absent: any judgement of contents. An agent that lies within its
//! share is outvoted, not found out. Identity is the gate's matter: a token
//! that speaks for one agent makes one voter.

use sketch_model::{AgentId, RunId};
use std::collections::{BTreeMap, BTreeSet};

/// Agents with runs of a kind from which on none may have more than half.
pub const FLEET: usize = 3;

/// A run's place among its agent's: by hash, then by id.
type Key = (u64, RunId);

/// The runs of one kind, by agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Votes {
    agents: BTreeMap<AgentId, Own>,
    runs: usize,
    /// The agent with more than half of the runs.
    majority: Option<AgentId>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Own {
    /// Every key here is below every key of `beyond`.
    counted: BTreeSet<Key>,
    beyond: BTreeSet<Key>,
}

/// What a change of a ballot does to the runs that are in it.
#[derive(Clone, Debug, Default, PartialEq)]
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
        self.runs += 1;
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
        let had = self.majority.clone().filter(|m| self.leads(m));
        let has = Some(agent.clone()).filter(|agent| self.leads(agent));
        self.settle(has.or(had), agent, turn)
    }

    /// Takes a run out that is in the ballot.
    pub fn remove(&mut self, agent: &AgentId, run: &RunId) -> Turn {
        let mut turn = Turn::default();
        let Some(own) = self.agents.get_mut(agent) else {
            return turn;
        };
        let key = key(run);
        if own.counted.remove(&key) {
            turn.counts_no_longer.push(run.clone());
            self.runs -= 1;
        } else if own.beyond.remove(&key) {
            self.runs -= 1;
        }
        if own.len() == 0 {
            self.agents.remove(agent);
        }
        // Anyone may lead now; runs are rarely taken out.
        let has = self.agents.keys().find(|agent| self.leads(agent)).cloned();
        self.settle(has, agent, turn)
    }

    /// How many runs of an agent may count.
    fn allowed(&self, agent: &AgentId) -> usize {
        let own = self.agents.get(agent).map_or(0, Own::len);
        let others = self.runs - own;
        match self.agents.len() >= FLEET && own > others {
            true => others,
            false => own,
        }
    }

    fn leads(&self, agent: &AgentId) -> bool {
        let own = self.agents.get(agent);
        own.is_some_and(|own| 2 * own.len() > self.runs)
    }

    fn settle(&mut self, majority: Option<AgentId>, changed: &AgentId, mut turn: Turn) -> Turn {
        let before = std::mem::replace(&mut self.majority, majority.clone());
        let concerned: BTreeSet<&AgentId> =
            before.iter().chain(&majority).chain([changed]).collect();
        for agent in concerned {
            let allowed = self.allowed(agent);
            if let Some(own) = self.agents.get_mut(agent) {
                own.settle(allowed, &mut turn);
            }
        }
        // What came and went within one change did neither.
        let both: BTreeSet<RunId> = turn.counts.iter().cloned().collect();
        let both: BTreeSet<RunId> = turn
            .counts_no_longer
            .iter()
            .filter(|run| both.contains(run))
            .cloned()
            .collect();
        turn.counts.retain(|run| !both.contains(run));
        turn.counts_no_longer.retain(|run| !both.contains(run));
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
            // From three on: never more than all others together.
            (vec![(1, 100), (2, 1), (3, 1)], vec![2, 1, 1]),
            (
                vec![(1, 100), (2, 10), (3, 10), (4, 5)],
                vec![25, 10, 10, 5],
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
            gone in proptest::collection::btree_set((0..5u8, 0..40u16), 0..20),
            seed in any::<u64>(),
        ) {
            let straight: Vec<_> = runs.iter().copied().collect();
            let mut other = straight.clone();
            // A fixed shuffle by the seed.
            other.sort_by_key(|(a, r)| (u64::from(*a) << 16 | u64::from(*r)).wrapping_mul(seed | 1));
            let (expected, _) = counted(&straight);
            prop_assert_eq!(&counted(&other).0, &expected);
            // Runs that came and went leave nothing behind.
            let extra: Vec<_> = gone.difference(&runs).copied().collect();
            let (mut now, mut votes) = counted(&[extra.clone(), other].concat());
            for (agent, run) in extra {
                let turn = votes.remove(&AgentId(agent.to_string()), &RunId(format!("{agent}-{run}")));
                now.extend(turn.counts);
                now.retain(|r| !turn.counts_no_longer.contains(r));
            }
            prop_assert_eq!(now, expected);
        }

        #[test]
        fn no_agent_of_a_fleet_has_more_than_half(
            runs in proptest::collection::btree_set((0..6u8, 0..60u16), 0..150),
        ) {
            let straight: Vec<_> = runs.iter().copied().collect();
            let (counted, votes) = counted(&straight);
            if votes.agents.len() >= FLEET {
                for agent in 0..6 {
                    prop_assert!(2 * of(&counted, agent) <= counted.len());
                }
            }
        }
    }
}
