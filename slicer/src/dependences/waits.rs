//! Waits that a thread passed before it failed: the second part of a slice.
//!
//! Nothing is control-dependent on a wait for a condition or a semaphore, because
//! the waiting thread goes on sooner or later. But *that* it went on, or did not
//! wait at all, is what a broken hand-over between threads is about: a count that says "somebody is idle" where nobody is lets a producer
//! pass. So behind everything that the failure depends on come the waits that
//! surely run before a statement of the slice, in its function or in what that
//! calls, and what decides over them.
//!
//! They come last, and are tracked only when what is nearer explains nothing.
//!
//! Deliberately absent: locks. Everything runs under some lock, and the hooks that
//! order threads record who holds it (`order_points.rs`).

use crate::dependences::dominance::Dominances;
use crate::dependences::{Aspect, Node};
use crate::ir::library::sync_op;
use crate::ir::program::{Callee, FunctionId, InstructionRef, Op, Program};
use crate::slice::slice_walk::Seed;
use sketch_model::{DependenceKind, StatementId, SyncOp};
use std::collections::{BTreeMap, BTreeSet};

/// How many calls deep a wait is looked for.
const DEEPEST: usize = 3;

/// The waits before statements of a slice, each with one that it comes before;
/// what is found through them lies behind `farthest`.
pub(crate) fn waits(program: &Program, slice: &[StatementId], farthest: u32) -> Vec<Seed<Node>> {
    let mut reached: BTreeMap<FunctionId, Vec<InstructionRef>> = BTreeMap::new();
    for at in slice.iter().flat_map(|id| program.members(*id)) {
        if !matches!(program.op(*at), Op::Marker | Op::Alloca { .. }) {
            reached.entry(at.function).or_default().push(*at);
        }
    }
    let mut dominances = Dominances::new(program);
    let mut waiting = Waiting::new(program);
    let mut seeds: Vec<Seed<Node>> = Vec::new();
    for (function, targets) in reached {
        for call in calls(program, function) {
            let found = waiting.of_call(call, DEEPEST);
            if found.is_empty() {
                continue;
            }
            let before = targets.iter().find(|to| dominances.dominates(call, **to));
            let Some(gated) = before.and_then(|to| program.statement_of(*to)) else {
                continue;
            };
            for at in found {
                let Some(statement) = program.statement_of(at) else {
                    continue;
                };
                if seeds.iter().all(|seed| seed.node.at != at) {
                    seeds.push(Seed {
                        node: Node {
                            at,
                            aspect: Aspect::Site,
                        },
                        distance: farthest.saturating_add(1),
                        statement,
                        why: Some((DependenceKind::Wait, gated)),
                    });
                }
            }
        }
    }
    seeds
}

fn calls(program: &Program, function: FunctionId) -> impl Iterator<Item = InstructionRef> {
    let body = &program.functions[function as usize];
    let direct = |number: &u32| matches!(body.op(*number), Op::Call(Callee::Direct(_)));
    (0..body.instructions.len() as u32)
        .filter(direct)
        .map(move |instruction| InstructionRef {
            function,
            instruction,
        })
}

/// Finds the waits that a call can lead to.
struct Waiting<'p> {
    program: &'p Program,
    known: BTreeMap<(FunctionId, usize), Vec<InstructionRef>>,
}

impl<'p> Waiting<'p> {
    fn new(program: &'p Program) -> Self {
        Waiting {
            program,
            known: BTreeMap::new(),
        }
    }

    fn of_call(&mut self, call: InstructionRef, depth: usize) -> Vec<InstructionRef> {
        let Op::Call(Callee::Direct(callee)) = self.program.op(call) else {
            return Vec::new();
        };
        let name = &self.program.functions[callee as usize].name;
        if matches!(
            sync_op(name),
            Some(SyncOp::CondWait | SyncOp::SemaphoreWait)
        ) {
            return vec![call];
        }
        match depth {
            0 => Vec::new(),
            _ => self.of_function(callee, depth - 1),
        }
    }

    fn of_function(&mut self, function: FunctionId, depth: usize) -> Vec<InstructionRef> {
        if let Some(known) = self.known.get(&(function, depth)) {
            return known.clone();
        }
        let mut found = BTreeSet::new();
        for call in calls(self.program, function) {
            found.extend(self.of_call(call, depth));
        }
        let found: Vec<InstructionRef> = found.into_iter().collect();
        self.known.insert((function, depth), found.clone());
        found
    }
}
