//! The branches that decide whether tracked statements are reached.
//!
//! With a processor's trace, tracking would start in the predecessors of a
//! tracked statement's block and stop before its immediate postdominator, and
//! would not be started again where a tracked statement dominates. With hooks
//! each recorded branch costs by itself, so what is left of that rule is: the
//! conditional branches at the end of predecessor blocks. Left out are
//!
//! * branches that do not decide over the block (`control`): where it
//!   postdominates the branch, the statement is reached whichever way that goes,
//!   and so it is between a tracked statement and one that postdominates it;
//! * branches of tracked statements: these have a hook already.
//!
//! Deliberately absent: edges of exceptions, which no branch decides.

use crate::dependences::control::ControlDependence;
use crate::ir::program::{BlockId, FunctionId, InstructionRef, Op, Program};
use sketch_model::{PointKind, StatementId, TrackPoint};
use std::collections::{BTreeSet, HashMap};

/// The points, in the order of the tracked statements that want them.
pub(crate) fn branch_points(
    program: &Program,
    tracked: &[StatementId],
) -> Vec<(StatementId, TrackPoint)> {
    let known: BTreeSet<StatementId> = tracked.iter().copied().collect();
    let mut flow: HashMap<FunctionId, (Vec<Vec<BlockId>>, ControlDependence)> = HashMap::new();
    let mut found: Vec<(StatementId, TrackPoint)> = Vec::new();
    for id in tracked {
        let blocks: BTreeSet<(FunctionId, BlockId)> = program
            .members(*id)
            .iter()
            .map(|at| (at.function, block_of(program, *at)))
            .collect();
        for (function, block) in blocks {
            let body = &program.functions[function as usize];
            let (before, control) = flow
                .entry(function)
                .or_insert_with(|| (body.predecessors(), ControlDependence::of(body)));
            for previous in &before[block as usize] {
                let Some(branch) = body.terminator(*previous) else {
                    continue;
                };
                if body.op(branch) != Op::Branch || !control.deciders(block).contains(&branch) {
                    continue;
                }
                let instruction = &body.instructions[branch as usize];
                let Some(statement) = instruction.statement.filter(|s| !known.contains(s)) else {
                    continue;
                };
                let point = TrackPoint {
                    kind: PointKind::Branch,
                    column: instruction.column,
                    location: None,
                    size: 0,
                };
                if !found.contains(&(statement, point.clone())) {
                    found.push((statement, point));
                }
            }
        }
    }
    found
}

fn block_of(program: &Program, at: InstructionRef) -> BlockId {
    program.function(at).instructions[at.instruction as usize].block
}
