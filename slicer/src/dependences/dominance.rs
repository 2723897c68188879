//! What must have run before, what must run after, within one function.
//!
//! Dominators count unwind edges: a landing pad is entered from its invokes.
//! Postdominators do not, as in `control`: a call is taken to return.

use crate::dependences::control::immediate_postdominators;
use crate::ir::program::{BlockId, Function, FunctionId, InstructionId, InstructionRef, Program};
use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::HashMap;

/// The dominance of each function that was asked for.
pub(crate) struct Dominances<'p> {
    program: &'p Program,
    known: HashMap<FunctionId, Dominance>,
}

impl<'p> Dominances<'p> {
    pub fn new(program: &'p Program) -> Self {
        Dominances {
            program,
            known: HashMap::new(),
        }
    }

    pub fn of(&mut self, function: FunctionId) -> &Dominance {
        let body = &self.program.functions[function as usize];
        let known = self.known.entry(function);
        known.or_insert_with(|| Dominance::of(body))
    }

    /// Whether the first must have run whenever the second runs.
    pub fn dominates(&mut self, a: InstructionRef, b: InstructionRef) -> bool {
        let body = &self.program.functions[a.function as usize];
        a.function == b.function
            && self
                .of(a.function)
                .dominates(body, a.instruction, b.instruction)
    }

    /// Whether the first must still run whenever the second has, if calls return.
    pub fn postdominates(&mut self, a: InstructionRef, b: InstructionRef) -> bool {
        let body = &self.program.functions[a.function as usize];
        a.function == b.function
            && self
                .of(a.function)
                .postdominates(body, a.instruction, b.instruction)
    }
}

#[derive(Debug)]
pub(crate) struct Dominance {
    before: Vec<Option<usize>>,
    after: Vec<Option<usize>>,
}

impl Dominance {
    pub fn of(function: &Function) -> Dominance {
        let count = function.blocks.len();
        let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(count, count * 2);
        let nodes: Vec<NodeIndex> = (0..count).map(|_| graph.add_node(())).collect();
        for (from, block) in function.blocks.iter().enumerate() {
            for to in block.successors.iter().chain(&block.unwind) {
                graph.add_edge(nodes[from], nodes[*to as usize], ());
            }
        }
        let before = match nodes.first() {
            Some(entry) => {
                let found = simple_fast(&graph, *entry);
                let nearest = nodes.iter().map(|node| found.immediate_dominator(*node));
                nearest.map(|node| node.map(NodeIndex::index)).collect()
            }
            None => Vec::new(),
        };
        Dominance {
            before,
            after: immediate_postdominators(function, &[]),
        }
    }

    /// Whether the first must have run whenever the second runs.
    pub fn dominates(&self, function: &Function, a: InstructionId, b: InstructionId) -> bool {
        let [from, to] = [a, b].map(|id| function.instructions[id as usize].block);
        if from == to {
            return a <= b;
        }
        is_on_chain(&self.before, to, from)
    }

    /// Whether the first must still run whenever the second has, if calls return.
    pub fn postdominates(&self, function: &Function, a: InstructionId, b: InstructionId) -> bool {
        let [to, from] = [a, b].map(|id| function.instructions[id as usize].block);
        if from == to {
            return a >= b;
        }
        is_on_chain(&self.after, from, to)
    }
}

fn is_on_chain(next: &[Option<usize>], start: BlockId, wanted: BlockId) -> bool {
    let mut at = next[start as usize];
    while let Some(block) = at {
        if block == wanted as usize {
            return true;
        }
        at = next[block];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::program::{Block, Instruction, Op};

    /// A function of one-instruction blocks with the given successors.
    fn function(successors: &[&[BlockId]]) -> Function {
        let blocks = successors.iter().zip(0..).map(|(next, number)| Block {
            first: number,
            end: number + 1,
            successors: next.to_vec(),
            ..Block::default()
        });
        let instructions = (0..successors.len()).map(|number| Instruction {
            op: Op::Other,
            first_operand: 0,
            operand_count: 0,
            statement: None,
            column: 0,
            block: number as BlockId,
        });
        Function {
            blocks: blocks.collect(),
            instructions: instructions.collect(),
            ..Function::default()
        }
    }

    #[test]
    fn the_branch_comes_before_its_arms_and_the_join_after() {
        let function = function(&[&[1, 2], &[3], &[3], &[]]);
        let dominance = Dominance::of(&function);
        assert!(dominance.dominates(&function, 0, 1));
        assert!(dominance.dominates(&function, 0, 3));
        assert!(!dominance.dominates(&function, 1, 3));
        assert!(dominance.postdominates(&function, 3, 1));
        assert!(dominance.postdominates(&function, 3, 0));
        assert!(!dominance.postdominates(&function, 2, 0));
    }

    #[test]
    fn a_block_that_nothing_enters_has_no_dominator() {
        let function = function(&[&[], &[0]]);
        let dominance = Dominance::of(&function);
        assert!(!dominance.dominates(&function, 0, 1));
        assert!(!dominance.dominates(&function, 1, 0));
    }
}
