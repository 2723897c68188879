//! The blocks of one function and where control goes between them, as numbers.
//!
//! Deliberately absent: dominators. What is asked here ("can this be reached
//! without passing that") is one walk each, for the few branches of a plan.

use inkwell::basic_block::BasicBlock;
use inkwell::llvm_sys::core::{LLVMGetNumSuccessors, LLVMGetSuccessor};
use inkwell::llvm_sys::prelude::LLVMBasicBlockRef;
use inkwell::values::{AsValueRef, FunctionValue};
use std::collections::HashMap;

/// The control-flow graph of a function. The entry is block 0.
pub struct Flow<'ctx> {
    pub blocks: Vec<BasicBlock<'ctx>>,
    /// By block, in the order of the terminator.
    pub successors: Vec<Vec<usize>>,
    numbers: HashMap<LLVMBasicBlockRef, usize>,
}

impl<'ctx> Flow<'ctx> {
    pub fn of(function: FunctionValue<'ctx>) -> Self {
        let blocks: Vec<BasicBlock<'ctx>> = function.get_basic_block_iter().collect();
        let numbers: HashMap<LLVMBasicBlockRef, usize> = blocks
            .iter()
            .enumerate()
            .map(|(number, block)| (block.as_mut_ptr(), number))
            .collect();
        let successors = blocks.iter().map(|block| {
            let Some(terminator) = block.get_terminator() else {
                return Vec::new();
            };
            // SAFETY: a live terminator is asked for as many successors as it has.
            let all = unsafe {
                let count = LLVMGetNumSuccessors(terminator.as_value_ref());
                (0..count).map(move |n| LLVMGetSuccessor(terminator.as_value_ref(), n))
            };
            all.filter_map(|block| numbers.get(&block).copied())
                .collect()
        });
        Flow {
            successors: successors.collect(),
            blocks,
            numbers,
        }
    }

    pub fn number(&self, block: BasicBlock<'ctx>) -> Option<usize> {
        self.numbers.get(&block.as_mut_ptr()).copied()
    }

    /// The blocks reached from `starts`, which are reached, without the edges
    /// (block and number of successor) that are cut.
    pub fn reached(
        &self,
        starts: impl IntoIterator<Item = usize>,
        cut: impl Fn(usize, usize) -> bool,
    ) -> Vec<bool> {
        let mut reached = vec![false; self.blocks.len()];
        let mut open: Vec<usize> = Vec::new();
        let enter = |block: usize, reached: &mut Vec<bool>, open: &mut Vec<usize>| {
            if !std::mem::replace(&mut reached[block], true) {
                open.push(block);
            }
        };
        for start in starts {
            enter(start, &mut reached, &mut open);
        }
        while let Some(block) = open.pop() {
            for (number, next) in self.successors[block].iter().enumerate() {
                if !cut(block, number) {
                    enter(*next, &mut reached, &mut open);
                }
            }
        }
        reached
    }

    /// The innermost loop that a block is in.
    pub fn innermost_loop(&self, block: usize) -> Option<Vec<bool>> {
        self.loops(block).pop()
    }

    /// The loops that a block is in, the outermost first: the blocks that it and
    /// they can reach in a circle; what stays connected without the blocks through
    /// which the circle is entered is a loop within (Steensgaard, "Sequentializing
    /// program dependence graphs", 1993).
    pub fn loops(&self, block: usize) -> Vec<Vec<bool>> {
        let mut within = vec![true; self.blocks.len()];
        let mut found = Vec::new();
        // Loops nest no deeper than there are blocks.
        for _ in 0..self.blocks.len() {
            let Some(circle) = self.circle(block, &within) else {
                break;
            };
            let mut entered = vec![false; circle.len()];
            entered[0] = true;
            for from in (0..circle.len()).filter(|from| !circle[*from]) {
                for to in &self.successors[from] {
                    entered[*to] = true;
                }
            }
            let entries: Vec<usize> = (0..circle.len())
                .filter(|b| circle[*b] && entered[*b])
                .collect();
            within = circle.clone();
            found.push(circle);
            if entries.is_empty() || entries.contains(&block) {
                break;
            }
            for entry in entries {
                within[entry] = false;
            }
        }
        found
    }

    /// The blocks that reach `block` and are reached from it, within others.
    fn circle(&self, block: usize, within: &[bool]) -> Option<Vec<bool>> {
        let next = self.successors[block].iter().copied();
        let after = self.reached(next.filter(|b| within[*b]), |from, way| {
            !within[self.successors[from][way]]
        });
        if !after[block] {
            return None;
        }
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.blocks.len()];
        for from in (0..self.blocks.len()).filter(|b| within[*b]) {
            for to in &self.successors[from] {
                before[*to].push(from);
            }
        }
        let mut circle = vec![false; self.blocks.len()];
        let mut open = vec![block];
        while let Some(at) = open.pop() {
            if after[at] && !std::mem::replace(&mut circle[at], true) {
                open.extend(&before[at]);
            }
        }
        Some(circle)
    }
}
