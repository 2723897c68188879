//! Synchronisation on the way: calls that are not tracked and order threads.
//!
//! Most order across threads comes from locks, conditions, creation and join,
//! and these are seldom part of a slice. A call counts as on the way if it stands
//! in the function of a tracked statement and surely runs before it (a lock
//! that is held around it, the creation of a thread) or surely after it (the
//! unlock, the join). A call in a loop that does not hold the tracked statement
//! is left out: it would fill the record with what happened elsewhere.
//!
//! Deliberately absent: callers' locks, unless the call itself is tracked, and
//! `std::mutex`, whose calls are found by their names in the C library only
//! after inlining.

use crate::dependences::control::Loops;
use crate::dependences::dominance::Dominances;
use crate::ir::library::sync_op;
use crate::ir::program::{Callee, FunctionId, InstructionRef, Op, Program};
use sketch_model::{PointKind, StatementId, TrackPoint};
use std::collections::{BTreeMap, BTreeSet};

/// The points, by function and place in it.
pub(crate) fn order_points(
    program: &Program,
    tracked: &[StatementId],
    dominances: &mut Dominances<'_>,
) -> Vec<(StatementId, TrackPoint)> {
    let known: BTreeSet<StatementId> = tracked.iter().copied().collect();
    let mut targets: BTreeMap<FunctionId, Vec<InstructionRef>> = BTreeMap::new();
    for at in tracked.iter().flat_map(|id| program.members(*id)) {
        if !matches!(program.op(*at), Op::Marker | Op::Alloca { .. }) {
            targets.entry(at.function).or_default().push(*at);
        }
    }
    let mut found: Vec<(StatementId, TrackPoint)> = Vec::new();
    for (function, targets) in targets {
        let calls = sync_calls(program, function);
        if calls.is_empty() {
            continue;
        }
        let body = &program.functions[function as usize];
        let loops = Loops::of(body);
        let block = |at: InstructionRef| body.instructions[at.instruction as usize].block;
        for (call, kind) in calls {
            let on_the_way = targets.iter().any(|target| {
                loops.are_shared(body, block(call), block(*target))
                    && (dominances.dominates(call, *target)
                        || dominances.postdominates(call, *target))
            });
            let statement = program.statement_of(call);
            let Some(statement) = statement.filter(|s| on_the_way && !known.contains(s)) else {
                continue;
            };
            let points = program.points_of(call);
            let Some(point) = points.into_iter().find(|point| point.kind == kind) else {
                continue;
            };
            if !found.contains(&(statement, point.clone())) {
                found.push((statement, point));
            }
        }
    }
    found
}

fn sync_calls(program: &Program, function: FunctionId) -> Vec<(InstructionRef, PointKind)> {
    let body = &program.functions[function as usize];
    (0..body.instructions.len() as u32)
        .filter_map(|instruction| {
            let Op::Call(Callee::Direct(callee)) = body.op(instruction) else {
                return None;
            };
            let op = sync_op(&program.functions[callee as usize].name)?;
            let at = InstructionRef {
                function,
                instruction,
            };
            Some((at, PointKind::Sync(op)))
        })
        .collect()
}
