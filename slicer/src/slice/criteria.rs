//! Where a slice begins: from the statements on a failure's stacks to criteria.
//!
//! A fault is about the values that its statement uses. Libraries are taken to be right:
//! where the stack's inner end lies in one, the statement that called it is what failed.
//! An abort is about the
//! condition behind it: `abort`, a failed assertion, an uncaught exception or a
//! hardening check is reached on purpose, so what matters is that the program
//! came there and not which text it was going to print. A function that always
//! ends the program (`die`, `panic`, a check out of line) is no place to stop
//! either: the statement that called it is. A hang has one criterion for each
//! blocked thread.
//!
//! A stack also proves something: a frame that called another through a pointer
//! called just that function, so the call has this one target for the slice.
//!
//! Deliberately absent: addresses. Whoever symbolizes gives statements, with
//! those of inlined frames in their order.

use crate::dependences::control::ControlDependence;
use crate::ir::library::effects;
use crate::ir::program::*;
use sketch_model::StatementId;
use std::collections::{HashMap, HashSet};

/// A statement to slice from, with the stack above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criterion {
    pub failing: StatementId,
    /// The statements of the callers, innermost first.
    pub stack: Vec<StatementId>,
    /// Only that the statement was reached counts, not the values it uses.
    pub reached: bool,
    /// A thread did not go on from there: who holds what it waits for counts.
    pub waits: bool,
}

impl Criterion {
    /// The criterion of a statement and everything that it uses.
    pub fn at(failing: StatementId, stack: &[StatementId]) -> Criterion {
        Criterion {
            failing,
            stack: stack.to_vec(),
            reached: false,
            waits: false,
        }
    }
}

/// How a program failed, as far as slicing cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureShape {
    /// An access or operation that the machine refused.
    Fault,
    /// The program ended itself: abort, assertion, uncaught exception, hardening.
    Abort,
    /// It did not go on.
    Hang,
}

/// The criteria of a failure. `threads` holds the statements of each thread's
/// stack, innermost first, the failing thread first; threads without a
/// statement of the program are empty and say nothing.
pub fn criteria(
    program: &Program,
    shape: FailureShape,
    threads: &[Vec<StatementId>],
) -> Vec<Criterion> {
    let known = |frames: &Vec<StatementId>| -> Vec<StatementId> {
        let inside = |id: &StatementId| program.statements.get(id.0 as usize).is_some();
        frames.iter().copied().filter(inside).collect()
    };
    let stacks: Vec<Vec<StatementId>> = threads.iter().map(known).collect();
    let mut found: Vec<Criterion> = Vec::new();
    match shape {
        FailureShape::Fault | FailureShape::Abort => {
            let stack = stacks.first().map_or(&[][..], Vec::as_slice);
            let aborts = shape == FailureShape::Abort;
            let from = failing_frame(program, aborts, stack);
            if let Some((failing, callers)) = stack.get(from..).and_then(<[_]>::split_first) {
                found.push(Criterion {
                    reached: aborts,
                    ..Criterion::at(*failing, callers)
                });
            }
        }
        FailureShape::Hang => {
            for stack in &stacks {
                let stack = &stack[failing_frame(program, false, stack)..];
                if let Some((failing, callers)) = stack.split_first() {
                    let one = Criterion {
                        waits: true,
                        ..Criterion::at(*failing, callers)
                    };
                    if !found.contains(&one) {
                        found.push(one);
                    }
                }
            }
        }
    }
    found
}

/// The frame that a failure is about: the innermost one of the program's own, and of an
/// abort the innermost one whose function does not exist to end the program.
pub fn failing_frame(program: &Program, aborts: bool, stack: &[StatementId]) -> usize {
    let own = |id: &StatementId| !program.is_library(*id);
    if !aborts {
        return stack.iter().position(own).unwrap_or(0);
    }
    let endings = Endings::of(program);
    let explains = |id: &StatementId| own(id) && !endings.only_ends(program, *id);
    stack.iter().position(explains).unwrap_or(0)
}

/// Which functions never return to their callers.
pub(crate) struct Endings {
    never: HashSet<FunctionId>,
}

impl Endings {
    pub fn of(program: &Program) -> Endings {
        let functions = &program.functions;
        let ids = 0..functions.len() as FunctionId;
        let declared = ids.filter(|id| {
            let function = &functions[*id as usize];
            !function.is_defined() && effects(&function.name).ends
        });
        let mut never: HashSet<FunctionId> = declared.collect();
        let mut work: Vec<FunctionId> = never.iter().copied().collect();
        // Only callers of functions that never return can be such themselves.
        while let Some(ended) = work.pop() {
            for site in program.calls.callers(ended) {
                let caller = site.at.function;
                let function = &functions[caller as usize];
                if site.callback.is_none()
                    && !never.contains(&caller)
                    && !can_return(function, &never)
                {
                    never.insert(caller);
                    work.push(caller);
                }
            }
        }
        Endings { never }
    }

    /// Whether an instruction is a call that does not come back.
    pub fn ends(&self, program: &Program, at: InstructionRef) -> bool {
        match program.op(at) {
            Op::Call(Callee::Direct(id)) => self.never.contains(&id),
            _ => false,
        }
    }

    /// Whether a statement's function exists to end the program: it never
    /// returns, and it has no loop, or none in which anything decides over this
    /// statement. (That the only way out leads here decides nothing: so it is in a
    /// service loop with an assertion.)
    fn only_ends(&self, program: &Program, id: StatementId) -> bool {
        let calls = program.members(id).iter();
        let mut ending = calls.filter(|at| self.ends(program, **at));
        ending.any(|at| {
            let function = program.function(*at);
            let block = function.instructions[at.instruction as usize].block;
            let is_last_resort = function.loops.is_empty()
                || ControlDependence::of(function).deciders(block).is_empty();
            self.never.contains(&at.function) && function.name != "main" && is_last_resort
        })
    }
}

/// Whether a `ret` can be reached without passing a call that never returns.
fn can_return(function: &Function, never: &HashSet<FunctionId>) -> bool {
    let mut seen = vec![false; function.blocks.len()];
    let mut work: Vec<BlockId> = vec![0];
    while let Some(number) = work.pop() {
        if std::mem::replace(&mut seen[number as usize], true) {
            continue;
        }
        let block = &function.blocks[number as usize];
        let stops = (block.first..block.end).any(|id| match function.op(id) {
            Op::Call(Callee::Direct(callee)) => never.contains(&callee),
            _ => false,
        });
        if stops {
            continue;
        }
        let last = function.terminator(number);
        if last.is_some_and(|id| function.op(id) == Op::Return) {
            return true;
        }
        work.extend(&block.successors);
    }
    false
}

/// Calls through pointers whose target a stack shows.
pub(crate) type Proven = HashMap<InstructionRef, FunctionId>;

/// What the stacks prove. A line with several calls that could be meant proves
/// nothing, nor does one that also calls the function by name.
pub(crate) fn proven_targets(program: &Program, criteria: &[Criterion]) -> Proven {
    let mut proven = Proven::new();
    let mut refuted: HashSet<InstructionRef> = HashSet::new();
    for criterion in criteria {
        let mut inner = criterion.failing;
        for frame in &criterion.stack {
            let callee = program.statements.get(inner.0 as usize);
            let callee = callee.map_or("", |info| info.function.as_str());
            inner = *frame;
            let may_call = |at: &&InstructionRef| {
                let mut targets = program.calls.targets(**at).iter();
                targets.any(|id| program.functions[*id as usize].name == callee)
            };
            let mut calls = program.members(*frame).iter().filter(may_call);
            let (Some(call), None) = (calls.next(), calls.next()) else {
                continue;
            };
            if program.op(*call) != Op::Call(Callee::Indirect) {
                continue;
            }
            let mut targets = program.calls.targets(*call).iter();
            let target = targets.find(|id| program.functions[**id as usize].name == callee);
            let Some(target) = target else { continue };
            // Two stacks that show two targets prove that there are two.
            if proven
                .insert(*call, *target)
                .is_some_and(|old| old != *target)
            {
                refuted.insert(*call);
            }
        }
    }
    proven.retain(|call, _| !refuted.contains(call));
    proven
}
