//! Which way of an optimised branch is which outcome of the branch that was written.
//!
//! One written branch may have become several (a rotated loop tests once to
//! enter and once to go on; unrolled, threaded and inlined code copies
//! everything), each turned round or not. A copy is read by where its ways lead:
//! the test of a loop by which way stays in it, any other by positions that, as
//! written, lie behind one outcome only. Both ways may speak; if they contradict
//! each other, or neither says anything, the copy is not recorded. It is not
//! recorded either if its condition has become that of several branches
//! (`a && b` tested at once): the way where that fails does not say which did.
//!
//! What is recorded is then right, but may not be all: a path on which the
//! optimiser knew the outcome jumps over the branch (`bypass.rs`).

use crate::branches::branch_marks::{Weight, is_its_condition, spot_in, weight};
use crate::branches::flow::Flow;
use crate::branches::source_branches::{LoopTest, Shape, SourceBranch, Spot, switch_of, tells};
use crate::sites::locate::{Locator, Position};
use inkwell::values::{AsValueRef, FunctionValue, InstructionOpcode, InstructionValue};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An optimised function, with what stands in its blocks.
pub struct Optimised<'ctx> {
    pub(crate) flow: Flow<'ctx>,
    /// By block, in order.
    pub(crate) marks: Vec<Vec<(Weight, Rc<[Position]>)>>,
    pub(crate) selects: Vec<Rc<[Position]>>,
}

/// What a hook of a branch says.
pub enum Reading {
    /// By way: the outcome.
    Ways(Vec<usize>),
    /// The value that is switched on.
    Value,
    /// Whoever gets here has taken this outcome.
    Certain(usize),
}

/// What can be recorded, before which terminators, and whether that tells of all
/// outcomes.
pub struct Readings<'ctx> {
    pub places: Vec<(InstructionValue<'ctx>, Reading)>,
    pub complete: bool,
}

impl<'ctx> Optimised<'ctx> {
    pub fn read(locator: &mut Locator, function: FunctionValue<'ctx>) -> Self {
        let flow = Flow::of(function);
        let mut selects = Vec::new();
        let mut marks = Vec::new();
        for block in &flow.blocks {
            let mut here = Vec::new();
            for instruction in block.get_instructions() {
                let chain = locator.positions(instruction.as_value_ref());
                if instruction.get_opcode() == InstructionOpcode::Select {
                    selects.push(Rc::clone(&chain));
                }
                if !chain.is_empty() && tells(instruction) {
                    here.push((weight(instruction), chain));
                }
            }
            marks.push(here);
        }
        Optimised {
            flow,
            marks,
            selects,
        }
    }

    /// Reads the copies of `branch`, all of one inlined instance of its function.
    pub fn readings(
        &self,
        locator: &mut Locator,
        branch: &SourceBranch,
        written: &Position,
        copies: &[InstructionValue<'ctx>],
    ) -> Readings<'ctx> {
        let numbers: Vec<usize> = copies
            .iter()
            .filter_map(|copy| self.flow.number(copy.get_parent()?))
            .collect();
        let mut read: BTreeMap<usize, Reading> = BTreeMap::new();
        for (copy, number) in copies.iter().zip(&numbers) {
            let reading = match &branch.shape {
                Shape::Switch { width, cases } => (copy.get_opcode() == InstructionOpcode::Switch
                    && switch_of(*copy) == (*width, cases.clone()))
                    .then_some(Reading::Value),
                Shape::TwoWay if !is_its_condition(locator, branch, written, *copy) => None,
                Shape::TwoWay => self
                    .outcomes(branch, written, *number, &numbers)
                    .map(Reading::Ways),
            };
            read.extend(reading.map(|reading| (*number, reading)));
        }
        let early = self.tested_early(branch, written, &numbers);
        read.retain(|number, _| !early.contains(number));
        let entries = self.certain_entries(branch, written, &read);
        let all_entries = entries.is_some();
        if let Some(test) = &branch.of_loop {
            let certain = |block| (block, Reading::Certain(test.stays));
            read.extend(entries.into_iter().flatten().map(certain));
        }
        let complete = all_entries && self.complete(branch, written, &read);
        let places = read.into_iter().filter_map(|(number, reading)| {
            let terminator = self.flow.blocks[number].get_terminator()?;
            Some((terminator, reading))
        });
        Readings {
            places: places.collect(),
            complete,
        }
    }

    /// The outcome of each way of the branch that ends a block.
    fn outcomes(
        &self,
        branch: &SourceBranch,
        written: &Position,
        number: usize,
        copies: &[usize],
    ) -> Option<Vec<usize>> {
        let ways = &self.flow.successors[number];
        let mut weights = &[Weight::Fixed, Weight::Loose][..];
        if let (Some(test), [one, other]) = (&branch.of_loop, ways.as_slice()) {
            if let Some(inside) = self.its_loop(test, written, number)
                && inside[*one] != inside[*other]
            {
                let (first, end) = match inside[*one] {
                    true => (test.stays, *other),
                    false => (1 - test.stays, *one),
                };
                let over = !self.goes_on(test, written, end, copies);
                return over.then(|| vec![first, 1 - first]);
            }
            if self.flow.innermost_loop(number).is_some() {
                // What the optimiser moved out of a loop stands behind its end.
                weights = &weights[..1];
            }
        }
        let read = self.by_votes(branch, written, ways, copies, weights)?;
        // What was made up around a loop (is it worth entering its fast form?) has its
        // test's position: both ways lead into it.
        let enters = |test: &LoopTest| {
            let leaves = ways.iter().zip(&read).filter(|(_, o)| **o != test.stays);
            leaves
                .map(|(way, _)| *way)
                .any(|way| self.leads_into(branch, test, written, way, copies))
        };
        let made_up = branch.of_loop.as_ref().is_some_and(enters);
        (!made_up).then_some(read)
    }

    fn by_votes(
        &self,
        branch: &SourceBranch,
        written: &Position,
        ways: &[usize],
        copies: &[usize],
        weights: &[Weight],
    ) -> Option<Vec<usize>> {
        let reached: Vec<Vec<bool>> = ways
            .iter()
            .map(|way| {
                self.flow
                    .reached([*way], |block, _| copies.contains(&block))
            })
            .collect();
        for weight in weights {
            let votes: Vec<[bool; 2]> = (0..ways.len())
                .map(|way| self.votes(branch, written, ways, &reached, way, *weight))
                .collect();
            if votes.iter().all(|v| *v == [false; 2]) {
                continue;
            }
            if let [one, other] = votes.as_slice() {
                // Each way speaks for itself and against the other.
                return match (one[0] || other[1], one[1] || other[0]) {
                    (true, false) => Some(vec![0, 1]),
                    (false, true) => Some(vec![1, 0]),
                    _ => None,
                };
            }
            let outcome = |vote: &[bool; 2]| match vote {
                [true, false] => Some(0),
                [false, true] => Some(1),
                _ => None,
            };
            return votes.iter().map(outcome).collect();
        }
        None
    }

    /// Which outcomes the positions behind one way alone speak for.
    fn votes(
        &self,
        branch: &SourceBranch,
        written: &Position,
        ways: &[usize],
        reached: &[Vec<bool>],
        way: usize,
        weight: Weight,
    ) -> [bool; 2] {
        let mut votes = [false; 2];
        // Several cases of a switch may lead to one place.
        let other = |n: &usize| ways[*n] != ways[way];
        let only = (0..self.marks.len()).filter(|block| {
            let elsewhere = (0..ways.len()).filter(other).any(|n| reached[n][*block]);
            reached[way][*block] && !elsewhere
        });
        let marks = only.flat_map(|block| &self.marks[block]);
        for (_, chain) in marks.filter(|(w, _)| *w == weight) {
            let spot = spot_in(chain, written);
            if let Some(side) = spot.and_then(|spot| branch.sides.get(&spot)) {
                votes[*side] = true;
            }
        }
        votes
    }

    /// The innermost loop that a copy is in, if that is what became of the loop
    /// that the branch tests: nothing in it was written elsewhere.
    pub(crate) fn its_loop(
        &self,
        test: &LoopTest,
        written: &Position,
        number: usize,
    ) -> Option<Vec<bool>> {
        let inside = self.flow.innermost_loop(number)?;
        let mut any = false;
        for block in (0..inside.len()).filter(|block| inside[*block]) {
            for (_, chain) in &self.marks[block] {
                let spot = spot_in(chain, written)?;
                if !test.spots.contains(&spot) {
                    return None;
                }
                any = true;
            }
        }
        any.then_some(inside)
    }

    /// Whether nothing but the loop that is tested stands in a block.
    fn is_of_loop(&self, test: &LoopTest, written: &Position, block: usize) -> bool {
        let mut spots = self.marks[block].iter().map(|(_, c)| spot_in(c, written));
        spots.all(|spot| spot.is_some_and(|spot| test.spots.contains(&spot)))
    }

    /// The blocks of the loop, and without a position, that follow one.
    fn more_of_loop(&self, test: &LoopTest, written: &Position, from: usize) -> Vec<usize> {
        let is_of_loop = |block| self.is_of_loop(test, written, block);
        let behind = self.flow.reached([from], |block, _| !is_of_loop(block));
        let found = (0..behind.len()).filter(|b| behind[*b] && is_of_loop(*b));
        found.collect()
    }

    /// Whether what leaves a loop may go on with it: an unrolled loop leaves what is
    /// left over to a second one, with a test between them. (What the optimiser
    /// moved out of the loop stands there, too.)
    fn goes_on(&self, test: &LoopTest, written: &Position, end: usize, copies: &[usize]) -> bool {
        let more = self.more_of_loop(test, written, end);
        more.iter().any(|block| copies.contains(block))
    }

    /// Whether a way leads into the loop although it is read as leaving it.
    fn leads_into(
        &self,
        branch: &SourceBranch,
        test: &LoopTest,
        written: &Position,
        way: usize,
        copies: &[usize],
    ) -> bool {
        self.more_of_loop(test, written, way).iter().any(|block| {
            let spots = self.marks[*block].iter().map(|(_, c)| spot_in(c, written));
            let stays = |spot: Spot| branch.sides.get(&spot) == Some(&test.stays);
            copies.contains(block) || spots.flatten().any(stays)
        })
    }
}
