//! What a thread waited for on its way.
//!
//! A wait on a condition or a semaphore decides over nothing that control
//! dependence knows of: whoever waits goes on sooner or later. But *that* it went
//! on, or did not wait at all, is what a broken hand-over between threads is
//! about: a count that says "somebody is idle" where nobody is lets a producer
//! pass. So the waits that surely run before a statement of the slice, in its function
//! or in what that calls, come a few steps behind it, and with them what decides over
//! them. Who wakes them is `partners`' matter.
//!
//! Deliberately absent: locks. Everything runs under some lock, and the hooks that
//! order threads record who holds it (`order_points.rs`).

use crate::dependences::dominance::Dominances;
use crate::dependences::partners::{is_wait, synchronises};
use crate::dependences::{Aspect, Node};
use crate::ir::program::{Callee, FunctionId, InstructionRef, Op, Program};
use crate::slice::contexts::Contexts;
use crate::slice::order::WAIT;
use crate::slice::slice_walk::{Reached, Seed};
use sketch_model::DependenceKind;
use std::collections::{BTreeMap, BTreeSet};

/// How many calls deep a wait is looked for.
const DEEPEST: usize = 3;

/// The waits before statements of a slice, each behind the nearest that it comes before.
pub(crate) fn waits(program: &Program, contexts: &Contexts, slice: &[Reached]) -> Vec<Seed<Node>> {
    let mut reached: BTreeMap<FunctionId, Vec<(u32, InstructionRef)>> = BTreeMap::new();
    for one in slice {
        for at in program.members(one.statement) {
            if !matches!(program.op(*at), Op::Marker | Op::Alloca { .. }) {
                let list = reached.entry(at.function).or_default();
                list.push((one.distance, *at));
            }
        }
    }
    let mut dominances = Dominances::new(program);
    let mut waiting = Waiting::new(program);
    let mut seeds: BTreeMap<InstructionRef, Seed<Node>> = BTreeMap::new();
    for (function, targets) in reached {
        for call in calls(program, function) {
            let found = waiting.of_call(call, DEEPEST);
            if found.is_empty() {
                continue;
            }
            // The nearest come first.
            let before = targets
                .iter()
                .find(|(_, to)| dominances.dominates(call, *to));
            let Some((distance, to)) = before else {
                continue;
            };
            let Some(gated) = program.statement_of(*to) else {
                continue;
            };
            let distance = distance.saturating_add(WAIT);
            for at in found {
                let is_listed = |at: &InstructionRef| {
                    let statement = program.statement_of(*at);
                    statement.is_some_and(|id| !program.is_library(id))
                };
                // What a library waits with, its caller waits with.
                let Some(at) = [at, call].into_iter().find(is_listed) else {
                    continue;
                };
                let Some(statement) = program.statement_of(at) else {
                    continue;
                };
                let aspect = Aspect::Site;
                let seed = Seed {
                    node: Node { at, aspect },
                    context: contexts.home_of(at.function),
                    distance,
                    listed: Some(distance),
                    statement,
                    why: Some((DependenceKind::Wait, gated)),
                };
                let known = seeds.entry(at).or_insert(seed);
                if distance < known.distance {
                    *known = seed;
                }
            }
        }
    }
    seeds.into_values().collect()
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
        if synchronises(name).is_some_and(|(operation, _)| is_wait(operation)) {
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
