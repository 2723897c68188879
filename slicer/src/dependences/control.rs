//! Control dependence within a function, by postdominators.
//!
//! A block depends on a branch if one way out of the branch always leads to the
//! block and another need not (Ferrante, Ottenstein, Warren 1987). Blocks that
//! never reach an exit (service loops) get an imagined edge to it, last block
//! first, so that their own branches still count.
//!
//! Over whole runs of a function that forgets what readers do not: in
//! `for (;;) { while (empty) { if (done) { last(); return; } wait(); } … }` the
//! call of `last` lies on the only way out, so formally nothing decides over it.
//! Dependence is therefore also taken within one iteration, by letting every
//! jump back to a loop's start count as an exit. Of what that adds, one part is
//! dropped again: what stands after a loop in the text does not depend on the
//! loop's end, or every slice would hold every earlier loop.
//!
//! Unwind edges are left out: with them, everything after a C++ call would
//! depend on that call not throwing, and every slice would hold every call.
//! What only unwinding can reach depends on the calls that unwind there.

use crate::ir::program::*;
use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct ControlDependence {
    /// For each block, the terminators it depends on.
    deciders: Vec<Vec<InstructionId>>,
    /// For each block, whether it runs whenever the function is entered.
    unconditional: Vec<bool>,
}

impl ControlDependence {
    pub fn deciders(&self, block: BlockId) -> &[InstructionId] {
        &self.deciders[block as usize]
    }

    pub fn is_unconditional(&self, block: BlockId) -> bool {
        self.unconditional[block as usize]
    }

    pub fn of(function: &Function) -> ControlDependence {
        let count = function.blocks.len();
        let mut result = ControlDependence {
            deciders: vec![Vec::new(); count],
            unconditional: vec![false; count],
        };
        if count == 0 {
            return result;
        }
        let next = immediate_postdominators(function, &[]);
        result.add_deciders(function, &next, &|_, _| true);
        if !function.loops.is_empty() {
            let loops = Loops::of(function);
            let latches: Vec<BlockId> = function.loops.iter().map(|l| l.latch).collect();
            let next = immediate_postdominators(function, &latches);
            result.add_deciders(function, &next, &|decider, block| {
                !loops.is_left_behind(function, decider, block)
            });
        }
        let mut runner = Some(0);
        while let Some(at) = runner {
            result.unconditional[at] = true;
            runner = next[at];
        }
        result.add_unwinding(function);
        result
    }

    /// Adds what the postdominators `next` say, where `counts` agrees.
    fn add_deciders(
        &mut self,
        function: &Function,
        next: &[Option<usize>],
        counts: &dyn Fn(usize, usize) -> bool,
    ) {
        for (number, block) in function.blocks.iter().enumerate() {
            let Some(terminator) = function.terminator(number as BlockId) else {
                continue;
            };
            if block.successors.len() < 2 {
                continue;
            }
            for successor in &block.successors {
                let mut runner = Some(*successor as usize);
                while let Some(at) = runner.filter(|at| Some(*at) != next[number]) {
                    if !self.deciders[at].contains(&terminator) && counts(number, at) {
                        self.deciders[at].push(terminator);
                    }
                    runner = next[at];
                }
            }
        }
    }

    fn add_unwinding(&mut self, function: &Function) {
        let normal = reachable(function, vec![0]);
        for (number, block) in function.blocks.iter().enumerate() {
            let Some(pad) = block.unwind else { continue };
            let Some(invoke) = function.terminator(number as BlockId) else {
                continue;
            };
            for (at, reached) in reachable(function, vec![pad]).into_iter().enumerate() {
                if reached && !normal[at] && !self.deciders[at].contains(&invoke) {
                    self.deciders[at].push(invoke);
                }
            }
        }
    }
}

/// The loops of a function, by the blocks they consist of.
pub(crate) struct Loops {
    bodies: Vec<BTreeSet<BlockId>>,
    /// For each block, the loops that hold it.
    around: Vec<Vec<usize>>,
}

impl Loops {
    pub fn of(function: &Function) -> Loops {
        let predecessors = function.predecessors();
        let mut result = Loops {
            bodies: Vec::with_capacity(function.loops.len()),
            around: vec![Vec::new(); function.blocks.len()],
        };
        for (number, source) in function.loops.iter().enumerate() {
            // The blocks that can come back to the header without passing it.
            let mut body = BTreeSet::from([source.header]);
            let mut work = vec![source.latch];
            while let Some(block) = work.pop() {
                if body.insert(block) {
                    work.extend(&predecessors[block as usize]);
                }
            }
            for block in &body {
                result.around[*block as usize].push(number);
            }
            result.bodies.push(body);
        }
        result
    }

    /// Whether any loop holds the block.
    pub fn hold(&self, block: BlockId) -> bool {
        !self.around[block as usize].is_empty()
    }

    /// Whether every loop around `inner` is also around `other`, in the flow of
    /// control or in the text (where `other` leaves the loop).
    pub fn are_shared(&self, function: &Function, inner: BlockId, other: BlockId) -> bool {
        let mut around = self.around[inner as usize].iter();
        around.all(|number| {
            let source = &function.loops[*number];
            let start = function.blocks[other as usize].start;
            self.bodies[*number].contains(&other)
                || start.is_some_and(|at| source.start <= at && at <= source.end)
        })
    }

    /// Whether `block` stands behind a loop that holds `decider`, in the text
    /// as well as in the flow of control.
    fn is_left_behind(&self, function: &Function, decider: usize, block: usize) -> bool {
        self.around[decider].iter().any(|number| {
            let source = &function.loops[*number];
            let start = function.blocks[block].start;
            let in_text = start.is_some_and(|at| source.start <= at && at <= source.end);
            !self.bodies[*number].contains(&(block as BlockId)) && !in_text
        })
    }
}

fn reachable(function: &Function, mut work: Vec<BlockId>) -> Vec<bool> {
    let mut seen = vec![false; function.blocks.len()];
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut seen[block as usize], true) {
            work.extend(&function.blocks[block as usize].successors);
        }
    }
    seen
}

/// For each block its immediate postdominator; `None` is the imagined exit, to
/// which `leaving` blocks have an edge besides their own.
pub(crate) fn immediate_postdominators(
    function: &Function,
    leaving: &[BlockId],
) -> Vec<Option<usize>> {
    let count = function.blocks.len();
    let exit = count;
    let mut backward: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
    for (number, block) in function.blocks.iter().enumerate() {
        for successor in &block.successors {
            backward[*successor as usize].push(number);
        }
        if block.successors.is_empty() {
            backward[exit].push(number);
        }
    }
    backward[exit].extend(leaving.iter().map(|block| *block as usize));
    let mut seen = vec![false; count + 1];
    mark(&backward, exit, &mut seen);
    for block in (0..count).rev() {
        if !seen[block] {
            backward[exit].push(block);
            mark(&backward, block, &mut seen);
        }
    }
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(count + 1, count * 2);
    let nodes: Vec<NodeIndex> = (0..=count).map(|_| graph.add_node(())).collect();
    for (from, targets) in backward.iter().enumerate() {
        for to in targets {
            graph.add_edge(nodes[from], nodes[*to], ());
        }
    }
    let dominators = simple_fast(&graph, nodes[exit]);
    (0..count)
        .map(|block| dominators.immediate_dominator(nodes[block]))
        .map(|found| found.map(NodeIndex::index).filter(|at| *at != exit))
        .collect()
}

fn mark(backward: &[Vec<usize>], from: usize, seen: &mut [bool]) {
    let mut work = vec![from];
    while let Some(at) = work.pop() {
        if !std::mem::replace(&mut seen[at], true) {
            work.extend(&backward[at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of one-instruction blocks with the given successors.
    fn function(successors: &[&[BlockId]]) -> Function {
        let blocks = successors.iter().zip(0..).map(|(next, number)| Block {
            first: number,
            end: number + 1,
            successors: next.to_vec(),
            ..Block::default()
        });
        Function {
            blocks: blocks.collect(),
            ..Function::default()
        }
    }

    #[test]
    fn both_arms_depend_on_the_branch_and_the_join_does_not() {
        let control = ControlDependence::of(&function(&[&[1, 2], &[3], &[3], &[]]));
        assert_eq!(control.deciders(1), [0]);
        assert_eq!(control.deciders(2), [0]);
        assert!(control.deciders(3).is_empty());
        assert!(control.is_unconditional(3));
        assert!(!control.is_unconditional(1));
    }

    #[test]
    fn a_loop_depends_on_its_own_condition() {
        // 0 → 1; 1 → 2 | 3; 2 → 1
        let control = ControlDependence::of(&function(&[&[1], &[2, 3], &[1], &[]]));
        assert_eq!(control.deciders(1), [1]);
        assert_eq!(control.deciders(2), [1]);
        assert!(control.deciders(3).is_empty());
    }

    #[test]
    fn a_loop_without_exit_keeps_its_branches() {
        // 0 → 1; 1 → 2 | 3; 2 → 1; 3 → 1: nothing ever returns.
        let control = ControlDependence::of(&function(&[&[1], &[2, 3], &[1], &[1]]));
        assert_eq!(control.deciders(2), [1]);
    }

    #[test]
    fn the_last_act_of_an_endless_loop_depends_on_the_branch_that_leaves() {
        // for (;;) { while (1:) { 2: if → 3 (return) else → 1 } 4 → 0 } 5
        let mut function = function(&[&[1], &[2, 4], &[3, 1], &[], &[0]]);
        for (line, block) in (10..).zip(&mut function.blocks) {
            block.start = Some((line, 1));
        }
        let source_loop = |latch, header, start, end| SourceLoop {
            latch,
            header,
            start: (start, 0),
            end: (end, 0),
        };
        function.loops = vec![source_loop(2, 1, 11, 14), source_loop(4, 0, 10, 15)];
        let control = ControlDependence::of(&function);
        assert_eq!(control.deciders(3), [2]);
        // The inner condition of this round, and of the round before.
        assert_eq!(control.deciders(2), [2, 1]);
        // What follows the inner loop in the text does not depend on its end.
        function.blocks[3].start = Some((20, 1));
        let control = ControlDependence::of(&function);
        assert!(control.deciders(3).is_empty());
    }

    #[test]
    fn an_early_exit_decides_over_what_follows() {
        // if (bad) abort(); rest
        let control = ControlDependence::of(&function(&[&[1, 2], &[], &[]]));
        assert_eq!(control.deciders(1), [0]);
        assert_eq!(control.deciders(2), [0]);
    }
}
