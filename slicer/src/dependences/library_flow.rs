//! Data flow through library functions: pthread_join, setjmp, thread-specific keys, exceptions.
//!
//! A thread's result comes out of `pthread_join`, a key's value out of
//! `pthread_getspecific`, `longjmp`'s argument out of `setjmp`, a thrown object
//! out of the handler. The bitcode shows both ends and nothing between them.
//! Ends are matched by the place that names the handle (thread, key, buffer), or
//! by type for exceptions; where no place is named alike, all ends count.

use crate::dependences::{Aspect, Dependences, Edges, edge};
use crate::ir::library::*;
use crate::ir::program::*;
use crate::slice::order::Travel;
use std::rc::Rc;
use sync_functions::{Operation, names_of};

/// A `setjmp`, and the blocks from which a `longjmp` may come back to it.
#[derive(Debug)]
pub(crate) struct Resume {
    pub at: InstructionId,
    pub block: BlockId,
    pub from: Vec<BlockId>,
}

impl Dependences<'_> {
    /// The name of the library function that a call calls.
    fn library_callee(&self, call: InstructionRef) -> Option<&str> {
        match self.program.op(call) {
            Op::Call(Callee::Direct(id)) => {
                let function = &self.program.functions[id as usize];
                (!function.is_defined()).then_some(function.name.as_str())
            }
            _ => None,
        }
    }

    fn made_by(&self, names: &[&str], user: InstructionRef) -> Vec<InstructionRef> {
        let makers = self.program.calls.library_calls(names);
        let functions = &self.program.functions;
        self.program.stores.made_by(functions, &makers, user)
    }

    /// What a library call returns that another call gave it. `false` if the
    /// library is not known to do so.
    pub(crate) fn carried_result(&self, call: InstructionRef, edges: &mut Edges) -> bool {
        let Some(name) = self.library_callee(call) else {
            return false;
        };
        if KEY_GETTERS.contains(&name) {
            for at in self.made_by(&KEY_SETTERS, call) {
                edges.push(edge(at, Aspect::Argument(1), Travel::Memory));
            }
        } else if JUMP_TARGETS.contains(&name) {
            for at in self.made_by(&JUMPS, call) {
                edges.push(edge(at, Aspect::Argument(1), Travel::Return));
            }
        } else if name == BEGIN_CATCH {
            let function = self.program.function(call);
            for block in 0..function.blocks.len() as BlockId {
                let invoke = function.terminator(block);
                let unwinds = function.blocks[block as usize].unwind.is_some();
                if let Some(instruction) = invoke.filter(|_| unwinds) {
                    let invoke = InstructionRef {
                        function: call.function,
                        instruction,
                    };
                    for at in self.thrown_through(invoke) {
                        edges.push(edge(at, Aspect::Argument(0), Travel::Value));
                    }
                }
            }
        } else {
            return false;
        }
        true
    }

    /// What a library call stores where its operand points; `false` if that is
    /// not known.
    pub(crate) fn carried_out(&self, call: InstructionRef, number: u32, edges: &mut Edges) -> bool {
        let is_handle = number == 0 && !self.program.calls.routines(call).is_empty();
        if is_handle {
            edges.push(edge(call, Aspect::Site, Travel::Value));
            return true;
        }
        let joins = self.library_callee(call).is_some_and(joins_thread);
        if !joins || number != 1 {
            return false;
        }
        edges.push(edge(call, Aspect::Argument(0), Travel::Value));
        let ends = self.program.calls.library_calls(&THREAD_ENDS);
        let creators: Vec<&str> = names_of(Operation::ThreadCreate).collect();
        for creation in self.made_by(&creators, call) {
            for routine in self.program.calls.routines(creation) {
                self.returned_by(*routine, edges);
                let own = ends
                    .iter()
                    .filter(|at| self.leads_to(at.function)[*routine as usize]);
                edges.extend(own.map(|at| edge(*at, Aspect::Argument(0), Travel::Return)));
            }
        }
        true
    }

    /// For each function, whether a call of it may lead to one on the same
    /// thread. Worked out backward, because throws and jumps are few.
    fn leads_to(&self, goal: FunctionId) -> Rc<Vec<bool>> {
        if let Some(known) = self.leads_to.borrow().get(&goal) {
            return Rc::clone(known);
        }
        let mut leads = vec![false; self.program.functions.len()];
        let mut work = vec![goal];
        while let Some(id) = work.pop() {
            if !std::mem::replace(&mut leads[id as usize], true) {
                let calls = self.callers(id).filter(|site| site.callback.is_none());
                work.extend(calls.map(|site| site.at.function));
            }
        }
        let leads = Rc::new(leads);
        let mut known = self.leads_to.borrow_mut();
        known.insert(goal, Rc::clone(&leads));
        leads
    }

    /// For each function, whether a throw may leave it: handlers on the way that
    /// take the type end it, unless they throw again.
    fn leaves(&self, throw: InstructionRef) -> Rc<Vec<bool>> {
        if let Some(known) = self.leaves.borrow().get(&throw) {
            return Rc::clone(known);
        }
        let mut leaves = vec![false; self.program.functions.len()];
        let mut work = vec![throw];
        while let Some(at) = work.pop() {
            if self.is_handled(throw, at)
                || std::mem::replace(&mut leaves[at.function as usize], true)
            {
                continue;
            }
            let calls = self.callers(at.function);
            work.extend(calls.filter(|s| s.callback.is_none()).map(|s| s.at));
        }
        let leaves = Rc::new(leaves);
        let mut known = self.leaves.borrow_mut();
        known.insert(throw, Rc::clone(&leaves));
        leaves
    }

    /// Whether what is thrown through a call certainly ends in a handler there.
    fn is_handled(&self, throw: InstructionRef, call: InstructionRef) -> bool {
        let thrown = self.program.function(throw).operand(throw.instruction, 1);
        let caught = self.caught_at(call);
        let takes = |clause: &Operand| match (self.class_of(thrown), self.class_of(*clause)) {
            (Some(thrown), Some(wanted)) => self.program.symbols.classes.is_a(thrown, wanted),
            (_, None) => *clause == Operand::Constant,
            _ => false,
        };
        let rethrows = self.program.calls.library_calls(&[RETHROW]);
        let throws_again = rethrows.iter().any(|at| at.function == call.function);
        !throws_again && caught.iter().any(takes)
    }

    /// The types that are caught where a call unwinds to.
    fn caught_at(&self, call: InstructionRef) -> &[Operand] {
        let function = self.program.function(call);
        let block = function.instructions[call.instruction as usize].block;
        let Some(pad) = function.blocks[block as usize].unwind else {
            return &[];
        };
        let pad = &function.blocks[pad as usize];
        let mut pads = (pad.first..pad.end).filter(|id| function.op(*id) == Op::LandingPad);
        pads.next().map_or(&[][..], |id| function.operands(id))
    }

    fn class_of(&self, operand: Operand) -> Option<&str> {
        match operand {
            Operand::Global(id) => self.program.symbols.globals[id as usize].strip_prefix("_ZTI"),
            _ => None,
        }
    }

    /// The throws that may leave a call by its unwind edge, by what is caught there.
    pub(crate) fn thrown_through(&self, invoke: InstructionRef) -> Vec<InstructionRef> {
        let throws = self.program.calls.library_calls(&[THROW]);
        let function = self.program.function(invoke);
        let block = function.instructions[invoke.instruction as usize].block;
        if throws.is_empty() || function.blocks[block as usize].unwind.is_none() {
            return Vec::new();
        }
        let caught = self.caught_at(invoke);
        let targets = self.targets(invoke);
        let arrives = |at: &InstructionRef| {
            let leaves = self.leaves(*at);
            let made = *at == invoke || targets.iter().any(|id| leaves[*id as usize]);
            made && self.is_caught(*at, caught)
        };
        throws.into_iter().filter(arrives).collect()
    }

    fn is_caught(&self, throw: InstructionRef, caught: &[Operand]) -> bool {
        let thrown = self.class_of(self.program.function(throw).operand(throw.instruction, 1));
        let fits = |clause: &Operand| match (thrown, self.class_of(*clause)) {
            (Some(thrown), Some(wanted)) => self.program.symbols.classes.is_a(thrown, wanted),
            _ => true,
        };
        caught.is_empty() || caught.iter().any(fits)
    }

    /// For a throw: what was put into the thrown object.
    pub(crate) fn thrown_object(&self, call: InstructionRef, edges: &mut Edges) {
        if self.library_callee(call) != Some(THROW) {
            return;
        }
        let function = self.program.function(call);
        let object = function.operand(call.instruction, 0);
        if !matches!(object, Operand::Instruction(_)) {
            return;
        }
        for instruction in 0..function.instructions.len() as InstructionId {
            let fills = match function.op(instruction) {
                Op::Store { .. } => function.operand(instruction, 1) == object,
                Op::Copy { .. } | Op::Call(_) => function.operand(instruction, 0) == object,
                _ => false,
            };
            let at = InstructionRef {
                function: call.function,
                instruction,
            };
            if fills && at != call {
                edges.push(edge(at, Aspect::Whole, Travel::Value));
            }
        }
    }

    /// The `setjmp`s of a function, with the blocks that may jump back to them.
    pub(crate) fn resumes(&self, id: FunctionId) -> Vec<Resume> {
        let targets = self.program.calls.library_calls(&JUMP_TARGETS);
        let own = targets.into_iter().filter(|at| at.function == id);
        let jumps = self.program.calls.library_calls(&JUMPS);
        let function = &self.program.functions[id as usize];
        let may_jump = |instruction: InstructionId| {
            let at = InstructionRef {
                function: id,
                instruction,
            };
            let targets = self.targets(at);
            let leads = |jump: &InstructionRef| {
                let leads = self.leads_to(jump.function);
                *jump == at || targets.iter().any(|id| leads[*id as usize])
            };
            jumps.iter().any(leads)
        };
        own.map(|at| {
            let blocks = function.blocks.iter().enumerate();
            let from = blocks.filter(|(_, block)| (block.first..block.end).any(may_jump));
            Resume {
                at: at.instruction,
                block: function.instructions[at.instruction as usize].block,
                from: from.map(|(number, _)| number as BlockId).collect(),
            }
        })
        .collect()
    }
}
