//! Where a pointer comes from, by name: what "the same derivation" means.
//!
//! A pointer is traced back through casts, steps, phis, locals, arguments of
//! callers (thread creations among them) and results of callees, until each way
//! ends at something that has a name: a variable, the call that made the object,
//! or a pointer that is kept in a global or a field. Two accesses of one field
//! are of one derivation if their pointers share such an origin.
//!
//! Deliberately absent: what lies in memory. A pointer that was read back from
//! an array or through another pointer has no origin and shares none; the
//! points-to analysis (`points_to`) is for that.

use crate::dependences::Dependences;
use crate::library::NEW;
use crate::places::Root;
use crate::program::*;
use std::collections::HashSet;
use std::rc::Rc;

/// Steps after which a trace gives up and keeps what it has.
const MAX_STEPS: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Slot(InstructionRef),
    Global(GlobalId),
    /// The object that a library call made, or gave.
    Made(InstructionRef),
    /// A parameter of a function that nobody is known to call.
    Parameter(FunctionId, u32),
    ThroughGlobal(GlobalId),
    ThroughField(FieldId),
}

pub(crate) type Origins = HashSet<Origin>;

impl Dependences<'_> {
    /// Whether two pointers may come from one origin.
    pub(crate) fn share_origin(
        &self,
        one: (FunctionId, Operand),
        other: (FunctionId, Operand),
    ) -> bool {
        let (one, other) = (self.origins(one), self.origins(other));
        let (few, many) = if one.len() < other.len() {
            (one, other)
        } else {
            (other, one)
        };
        few.iter().any(|origin| many.contains(origin))
    }

    pub(crate) fn origins(&self, pointer: (FunctionId, Operand)) -> Rc<Origins> {
        if let Some(known) = self.known_origins.borrow().get(&pointer) {
            return Rc::clone(known);
        }
        let mut found = Origins::new();
        let mut seen = HashSet::from([pointer]);
        let mut work = vec![pointer];
        while let Some((holder, operand)) = work.pop() {
            let mut next = Vec::new();
            self.origin_step(holder, operand, &mut found, &mut next);
            work.extend(next.into_iter().filter(|step| seen.insert(*step)));
            if seen.len() > MAX_STEPS {
                break;
            }
        }
        let found = Rc::new(found);
        let mut known = self.known_origins.borrow_mut();
        known.insert(pointer, Rc::clone(&found));
        found
    }

    /// One step back: names go to `found`, other pointers to `next`.
    fn origin_step(
        &self,
        holder: FunctionId,
        operand: Operand,
        found: &mut Origins,
        next: &mut Vec<(FunctionId, Operand)>,
    ) {
        let function = &self.program.functions[holder as usize];
        let id = match operand {
            Operand::Global(id) => {
                found.insert(Origin::Global(id));
                return;
            }
            Operand::Parameter(number) => {
                let mut called = false;
                for site in self.callers(holder) {
                    called = true;
                    let caller = self.program.function(site.at);
                    let new = self.program.calls.declared(NEW);
                    let passed = site.values_for(caller, new, number).into_iter();
                    next.extend(passed.map(|value| (site.at.function, value)));
                }
                if !called {
                    found.insert(Origin::Parameter(holder, number));
                }
                return;
            }
            Operand::Instruction(id) => id,
            Operand::Function(_) | Operand::Constant => return,
        };
        let at = InstructionRef {
            function: holder,
            instruction: id,
        };
        let operands = function.operands(id);
        let mut go_on = |from: &[Operand]| next.extend(from.iter().map(|o| (holder, *o)));
        match function.op(id) {
            Op::Alloca { .. } => {
                found.insert(Origin::Slot(at));
            }
            Op::Cast | Op::Pointer(_) => go_on(&operands[..operands.len().min(1)]),
            Op::Phi => go_on(operands),
            Op::Select => go_on(operands.get(1..).unwrap_or_default()),
            // Integers that were pointers, members of pairs in registers.
            Op::Other if operands.len() == 1 => go_on(operands),
            Op::Load { field, .. } | Op::Update { field, .. } => {
                self.held_origins(at, field, found, next);
            }
            Op::Call(_) => {
                let targets = self.targets(at);
                let bodies = targets.iter().map(|id| &self.program.functions[*id as usize]);
                let mut has_body = false;
                for (target, body) in targets.iter().zip(bodies) {
                    has_body |= body.is_defined();
                    next.extend(returned_values(body).map(|value| (*target, value)));
                }
                if !has_body {
                    found.insert(Origin::Made(at));
                }
            }
            _ => {}
        }
    }

    /// The origins of a pointer that was kept in memory.
    fn held_origins(
        &self,
        load: InstructionRef,
        field: Option<FieldId>,
        found: &mut Origins,
        next: &mut Vec<(FunctionId, Operand)>,
    ) {
        let holder = self.place(load, 0, field);
        match (holder.field, holder.root) {
            (Some(field), _) => {
                found.insert(Origin::ThroughField(field));
            }
            (None, Root::Global(id)) => {
                found.insert(Origin::ThroughGlobal(id));
            }
            (None, Root::Slot(slot)) => {
                let facts = self.facts(load.function);
                let function = self.program.function(load);
                for write in facts.slots.of_slot(slot) {
                    match (write.argument, function.op(write.at)) {
                        (None, Op::Store { .. }) => {
                            next.push((load.function, function.operand(write.at, 0)));
                        }
                        (Some(number), _) => {
                            let call = InstructionRef {
                                function: load.function,
                                instruction: write.at,
                            };
                            self.given_origins(call, number, next);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// A call got the slot's address: the pointers that its body stores there.
    fn given_origins(
        &self,
        call: InstructionRef,
        number: u32,
        next: &mut Vec<(FunctionId, Operand)>,
    ) {
        for target in self.targets(call) {
            for write in self.program.stores.parameter_writes(*target, number) {
                let body = self.program.function(write.at);
                if let Op::Store { .. } = body.op(write.at.instruction) {
                    next.push((*target, body.operand(write.at.instruction, 0)));
                }
            }
        }
    }
}

/// What a function's `ret`s return.
pub(crate) fn returned_values(function: &Function) -> impl Iterator<Item = Operand> + '_ {
    let blocks = 0..function.blocks.len() as BlockId;
    let ends = blocks.filter_map(|block| function.terminator(block));
    let returns = ends.filter(|id| function.op(*id) == Op::Return);
    returns.filter_map(|id| function.operands(id).first().copied())
}

/// The pointer through which an instruction writes.
pub(crate) fn written_pointer(function: &Function, id: InstructionId) -> Operand {
    match function.op(id) {
        Op::Store { .. } => function.operand(id, 1),
        _ => function.operand(id, 0),
    }
}
