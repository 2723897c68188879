//! Paths that bypass the recorded copies of a branch.
//!
//! Where the optimiser knew the outcome there is no branch left to record. If the
//! path leads into a loop that tests first, the test held there, and that can be
//! recorded on entry. If it leads to anything else from behind the branch, the record
//! is incomplete. And a copy that was hoisted to where the branch is not yet due may
//! record a test that the program never made: such a copy is not recorded.

use crate::branches::branch_marks::spot_in;
use crate::branches::outcomes::{Optimised, Reading};
use crate::branches::source_branches::{LoopTest, SourceBranch, Spot};
use crate::sites::locate::Position;
use std::collections::BTreeMap;
use std::rc::Rc;

impl Optimised<'_> {
    /// Whether control that enters a loop at a block does something of it before its
    /// test; `None` if that depends on the path.
    fn begins_at(
        &self,
        branch: &SourceBranch,
        test: &LoopTest,
        written: &Position,
        block: usize,
        read: &BTreeMap<usize, Reading>,
    ) -> Option<bool> {
        let mut block = block;
        for _ in 0..self.flow.blocks.len() {
            // What comes first counts: behind it there may be more of the loop, done
            // ahead of a test that may not allow it.
            let spots = self.marks[block]
                .iter()
                .filter_map(|(_, c)| spot_in(c, written));
            for spot in spots {
                if branch.condition.contains(&spot) {
                    return Some(false);
                }
                if branch.sides.get(&spot) == Some(&test.stays) {
                    return Some(true);
                }
            }
            if read.contains_key(&block) {
                return Some(false);
            }
            match self.flow.successors[block].as_slice() {
                [next] => block = *next,
                _ => return None,
            }
        }
        None
    }

    /// Blocks that lead into a loop whose test stands first, by paths that pass
    /// no copy of it: there it held. `None` if such a path has no block of its own.
    pub fn certain_entries(
        &self,
        branch: &SourceBranch,
        written: &Position,
        read: &BTreeMap<usize, Reading>,
    ) -> Option<Vec<usize>> {
        let Some(test) = branch.of_loop.as_ref().filter(|test| test.first) else {
            return Some(Vec::new());
        };
        let mut inside = vec![false; self.flow.blocks.len()];
        for number in read.keys() {
            if let Some(its) = self.its_loop(test, written, *number) {
                inside
                    .iter_mut()
                    .zip(its)
                    .for_each(|(all, one)| *all |= one);
            }
        }
        let edges = || {
            let from = 0..self.flow.blocks.len();
            from.flat_map(|b| {
                self.flow.successors[b]
                    .iter()
                    .enumerate()
                    .map(move |e| (b, e))
            })
        };
        let outcome = |block: usize, way: usize| match read.get(&block) {
            Some(Reading::Ways(ways)) => ways.get(way).copied(),
            _ => None,
        };
        // Where the test's last outcome has not been recorded, or it is over.
        let left = edges()
            .filter(|(from, (way, to))| {
                let leaves = inside[*from] && !inside[**to];
                leaves || outcome(*from, *way) == Some(1 - test.stays)
            })
            .map(|(_, (_, to))| *to);
        let stop = |block: usize, way: usize| {
            inside[self.flow.successors[block][way]] || outcome(block, way).is_some()
        };
        let starts: Vec<usize> = left.chain([0]).filter(|b| !inside[*b]).collect();
        let unrecorded = self.flow.reached(starts, stop);
        let held = edges()
            .filter(|(from, (way, _))| outcome(*from, *way) == Some(test.stays))
            .map(|(_, (_, to))| *to)
            .filter(|to| !inside[*to]);
        let held: Vec<usize> = held.collect();
        let recorded = self.flow.reached(held, stop);
        let mut entries = Vec::new();
        for (from, (way, to)) in edges() {
            let enters = !inside[from] && inside[*to] && outcome(from, way).is_none();
            if !enters || !unrecorded[from] {
                continue;
            }
            if !self.begins_at(branch, test, written, *to, read)? {
                continue;
            }
            if recorded[from] || self.flow.successors[from].len() > 1 {
                return None;
            }
            entries.push(from);
        }
        Some(entries)
    }

    /// Whether no path gets round the places that are read.
    pub fn complete(
        &self,
        branch: &SourceBranch,
        written: &Position,
        read: &BTreeMap<usize, Reading>,
    ) -> bool {
        let here = |chain: &Rc<[Position]>| {
            spot_in(chain, written) == Some((written.line, written.column))
        };
        if read.is_empty() || self.selects.iter().any(here) {
            return false;
        }
        let passed = |block: usize| read.contains_key(&block);
        let ahead = self.ahead(branch, written, &passed);
        let starts = ahead.iter().flat_map(|b| self.flow.successors[*b].iter());
        let round = self
            .flow
            .reached(starts.copied().chain([0]), |block, _| passed(block));
        let behind = |spot: Spot| branch.behind.contains(&spot);
        if self.meets(written, &round, &behind) {
            return false;
        }
        (0..2).all(|outcome| {
            let without = self.flow.reached([0], |block, way| match read.get(&block) {
                Some(Reading::Ways(ways)) => ways.get(way) == Some(&outcome),
                Some(Reading::Certain(certain)) => *certain == outcome,
                Some(Reading::Value) | None => false,
            });
            let side = |spot: Spot| branch.sides.get(&spot) == Some(&outcome);
            !self.meets(written, &without, &side)
        })
    }

    /// Blocks at whose end the branch is still to come and that do not end in it.
    fn ahead(
        &self,
        branch: &SourceBranch,
        written: &Position,
        passed: &dyn Fn(usize) -> bool,
    ) -> Vec<usize> {
        let leads_to = |block: &usize| {
            let marks = self.marks[*block].iter();
            let spots = marks.filter_map(|(_, chain)| spot_in(chain, written));
            let mut placed =
                spots.filter(|spot| branch.behind.contains(spot) || branch.ahead.contains(spot));
            let last = placed.next_back();
            last.is_some_and(|spot| branch.ahead.contains(&spot))
        };
        let blocks = (0..self.marks.len()).filter(leads_to);
        blocks.filter(|block| !passed(*block)).collect()
    }

    fn meets(&self, written: &Position, reached: &[bool], wanted: &dyn Fn(Spot) -> bool) -> bool {
        let blocks = (0..reached.len()).filter(|block| reached[*block]);
        blocks
            .flat_map(|block| &self.marks[block])
            .filter_map(|(_, chain)| spot_in(chain, written))
            .any(wanted)
    }

    /// Copies that were hoisted: a test that gives the same answer all through a loop
    /// is made once before it, whether or not the loop would ever have reached it.
    pub fn tested_early(
        &self,
        branch: &SourceBranch,
        written: &Position,
        copies: &[usize],
    ) -> Vec<usize> {
        let passed = |block: usize| copies.contains(&block);
        let behind = |spot: Spot| branch.behind.contains(&spot);
        let ahead = self.ahead(branch, written, &passed);
        let early = copies.iter().filter(|copy| {
            let ways = self.flow.successors[**copy].iter().copied();
            let after = self.flow.reached(ways, |block, _| passed(block));
            let again: Vec<usize> = ahead.iter().copied().filter(|b| after[*b]).collect();
            let next = again.iter().flat_map(|b| self.flow.successors[*b].iter());
            let round = self.flow.reached(next.copied(), |block, _| passed(block));
            if !self.meets(written, &round, &behind) {
                return false;
            }
            again.iter().any(|from| {
                let next = self.flow.successors[*from].iter().copied();
                let mut round = self.flow.reached(next, |block, _| passed(block));
                let loops = self.flow.loops(*from);
                // Only a loop that the copy is not in itself.
                for (block, met) in round.iter_mut().enumerate() {
                    let shared = loops.iter().rev().find(|inside| inside[block]);
                    *met &= shared.is_some_and(|inside| !inside[**copy]);
                }
                self.meets(written, &round, &behind)
            })
        });
        early.copied().collect()
    }
}
