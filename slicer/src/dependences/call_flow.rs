//! What crosses a call: arguments, addresses and what lies there, results.
//!
//! A parameter used as a value needs the argument; memory read through it under
//! a field's name finds its writes by that name; memory read through it without
//! a name needs what the caller's address denotes (`Handed`), which may again be
//! a parameter's target, and so on up the calls.

use crate::dependences::{Aspect, Dependences, Edges, edge};
use crate::ir::library::{Routine, callbacks};
use crate::ir::program::*;
use crate::memory::places::Root;
use crate::slice::order::Travel;

impl Dependences<'_> {
    /// What callers pass beyond the parameters that have names.
    pub(crate) fn variable_arguments(&self, id: FunctionId, edges: &mut Edges) {
        let first = self.program.functions[id as usize].parameter_count;
        for site in self.callers(id) {
            let caller = self.program.function(site.at);
            let is_pointer = caller.op(site.at.instruction) == Op::Call(Callee::Indirect);
            let count = caller.operands(site.at.instruction).len() - usize::from(is_pointer);
            for number in first..count as u32 {
                let aspect = Aspect::Argument(number);
                edges.push(edge(site.at, aspect, Travel::Argument));
            }
        }
    }

    pub(crate) fn argument(&self, call: InstructionRef, number: u32, edges: &mut Edges) {
        let function = self.program.function(call);
        let operand = function.operand(call.instruction, number as usize);
        self.value(call.function, operand, Travel::Value, edges);
        // An address hands over what lies there, except for named fields: who
        // reads one finds its writes by name.
        let place = self.place(call, number as usize, None);
        match place.root {
            Root::Slot(_) if place.field.is_none() && place.record.is_some() => {
                self.slot_contents(call, place, false, edges);
            }
            Root::Slot(_) => self.slot_contents(call, place, true, edges),
            Root::Global(id) if place.field.is_none() && operand == Operand::Global(id) => {
                let writes = self.program.stores.global_writes(id).iter();
                let whole = writes.filter(|w| w.place.field.is_none());
                whole.for_each(|w| self.write(w, None, Travel::Memory, edges));
            }
            _ => {}
        }
        if number == 0 {
            self.thrown_object(call, edges);
        }
    }

    /// An argument whose target is read without a name, so all of it counts.
    pub(crate) fn handed(&self, call: InstructionRef, number: u32, edges: &mut Edges) {
        self.argument(call, number, edges);
        let place = self.place(call, number as usize, None);
        match (place.root, place.field) {
            (Root::Slot(_), _) => self.slot_contents(call, place, true, edges),
            (Root::Parameter(_), _) | (_, Some(_)) => {
                self.contents(call, number as usize, place, edges)
            }
            _ => {}
        }
    }

    /// Whoever calls a function hands over what its parameter points to.
    pub(crate) fn handed_by_callers(&self, id: FunctionId, number: u32, edges: &mut Edges) -> bool {
        let mut found = false;
        for site in self.callers(id) {
            found = true;
            let travel = self.entry(id, site, Travel::Argument);
            if let Some(operand) = site.operand_for(number) {
                edges.push(edge(site.at, Aspect::Handed(operand), travel));
            }
        }
        found
    }

    pub(crate) fn all_arguments(&self, call: InstructionRef, edges: &mut Edges) {
        let count = self.program.function(call).operands(call.instruction).len();
        let targets = self.targets(call);
        let has_body = |id: &FunctionId| self.program.functions[*id as usize].is_defined();
        let visible = targets.iter().any(has_body);
        for number in 0..count as u32 {
            match visible {
                true => self.argument(call, number, edges),
                false => self.handed(call, number, edges),
            }
        }
    }

    pub(crate) fn callee_pointer(&self, at: InstructionRef, edges: &mut Edges) {
        let function = self.program.function(at);
        if function.op(at.instruction) == Op::Call(Callee::Indirect)
            && let Some(pointer) = function.operands(at.instruction).last()
        {
            self.value(at.function, *pointer, Travel::Value, edges);
        }
        if self.program.calls.routines(at).is_empty() {
            return;
        }
        let Op::Call(Callee::Direct(id)) = function.op(at.instruction) else {
            return;
        };
        for callback in callbacks(&self.program.functions[id as usize].name) {
            match callback.routine {
                Routine::Operand(position) => {
                    let pointer = function.operand(at.instruction, position);
                    self.value(at.function, pointer, Travel::Value, edges);
                }
                Routine::FirstField(position, record) => {
                    let mut place = self.place(at, position, None);
                    place.field = self.program.symbols.first_field(record);
                    self.contents(at, position, place, edges);
                }
                Routine::ThreadState => {}
            }
        }
    }

    pub(crate) fn result(&self, call: InstructionRef, edges: &mut Edges) {
        if self.carried_result(call, edges) {
            return;
        }
        let before = edges.len();
        self.returns(call, edges);
        let targets = self.targets(call);
        let has_body = |id: &FunctionId| self.program.functions[*id as usize].is_defined();
        if edges.len() == before && !targets.iter().any(has_body) {
            self.all_arguments(call, edges);
        }
    }

    /// The values that the callees return. The `ret` itself and the load of
    /// clang's return slot stand on the closing brace: they are skipped.
    pub(crate) fn returns(&self, call: InstructionRef, edges: &mut Edges) {
        for target in self.targets(call) {
            self.returned_by(*target, edges);
        }
    }

    pub(crate) fn returned_by(&self, target: FunctionId, edges: &mut Edges) {
        let function = &self.program.functions[target as usize];
        for block in 0..function.blocks.len() as BlockId {
            let Some(id) = function.terminator(block) else {
                continue;
            };
            if function.op(id) != Op::Return || function.operands(id).is_empty() {
                continue;
            }
            self.returned(target, id, edges);
        }
    }

    fn returned(&self, target: FunctionId, id: InstructionId, edges: &mut Edges) {
        let function = &self.program.functions[target as usize];
        let at = |instruction| InstructionRef {
            function: target,
            instruction,
        };
        let operand = function.operand(id, 0);
        let from = edges.len();
        match operand {
            Operand::Instruction(load) if self.loads_temporary(at(load)) => {
                let place = self.place(at(load), 0, None);
                self.slot_contents(at(load), place, true, edges);
            }
            Operand::Instruction(_) | Operand::Parameter(_) => {
                self.value(target, operand, Travel::Return, edges);
            }
            _ => edges.push(edge(at(id), Aspect::Whole, Travel::Return)),
        }
        for edge in &mut edges[from..] {
            edge.travel = Travel::Return;
        }
    }

    fn loads_temporary(&self, at: InstructionRef) -> bool {
        let function = self.program.function(at);
        let Op::Load { .. } = function.op(at.instruction) else {
            return false;
        };
        match function.operand(at.instruction, 0) {
            Operand::Instruction(slot) => {
                matches!(
                    function.op(slot),
                    Op::Alloca {
                        declared: false,
                        ..
                    }
                )
            }
            _ => false,
        }
    }
}
