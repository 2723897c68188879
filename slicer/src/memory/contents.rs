//! Memory: which writes may have put there what an instruction reads.
//!
//! Slots of the reader's own function are followed by flow (`reaching`); named
//! locations by the program-wide index, whoever writes them and in whichever
//! thread, by the same field of the same struct type, or, if `andersen` was asked
//! for, as far as `points_to` lets them meet. Memory behind a pointer with
//! unknown targets is not followed; watchpoints find what that misses.

use crate::dependences::{Aspect, Dependences, Edges, edge, way_to};
use crate::ir::library::effects;
use crate::ir::program::*;
use crate::memory::moving_pointers::places_walked;
use crate::memory::places::{Place, Root};
use crate::memory::reaching::SlotWrite;
use crate::memory::stores::Write;
use crate::slice::order::Travel;

/// A read: the pointer it goes through, and what that denotes.
struct Read {
    holder: FunctionId,
    pointer: Operand,
    place: Place,
}

impl Dependences<'_> {
    /// What may have stored the contents of a place that `reader` reads through
    /// the pointer that is its operand at `position`.
    pub(crate) fn contents(
        &self,
        reader: InstructionRef,
        position: usize,
        place: Place,
        edges: &mut Edges,
    ) {
        let function = self.program.function(reader);
        let pointer = function.operand(reader.instruction, position);
        let read = Read {
            holder: reader.function,
            pointer,
            place,
        };
        if let Root::Slot(slot) = place.root {
            self.slot_contents(reader, place, true, edges);
            let slot = InstructionRef {
                function: reader.function,
                instruction: slot,
            };
            if self.program.stores.escapes(slot) {
                self.foreign_contents(&read, edges);
            }
            return;
        }
        if self.pointed_contents(&read, edges) {
            return;
        }
        let stores = &self.program.stores;
        let before = edges.len();
        let add = |writes: &[Write], field: Option<FieldId>, edges: &mut Edges| {
            for write in writes.iter().filter(|w| stores.may_meet(place.root, w)) {
                self.write(write, field, Travel::Memory, edges);
            }
        };
        match (place.field, place.root) {
            (Some(field), root) => {
                add(stores.field_writes(field), None, edges);
                let record = self.program.symbols.fields[field as usize].record;
                add(stores.record_writes(record), Some(field), edges);
                if let Root::Global(id) = root {
                    let writes = stores.global_writes(id).iter();
                    let whole = writes.filter(|w| w.place.field.is_none()).copied();
                    add(&whole.collect::<Vec<Write>>(), Some(field), edges);
                }
            }
            (None, Root::Global(id)) => add(stores.global_writes(id), None, edges),
            (None, root @ (Root::ThroughGlobal(_) | Root::ThroughField(_))) => {
                add(stores.writes_through(root), None, edges);
                self.kept_targets(root, edges);
            }
            (None, _) => {}
        }
        if let Root::Global(id) = place.root {
            self.written_by_libraries(id, edges);
        }
        let known = match (place.field, place.root) {
            (None, Root::Global(id)) => {
                self.written_through_parameters(id, edges);
                true
            }
            (None, Root::Parameter(number)) => {
                let own = self.written_by_itself(reader, number, edges);
                self.handed_by_callers(reader.function, number, edges) || own
            }
            // Nobody writes the field by this name: it came under another.
            (Some(_), Root::Parameter(number)) if edges.len() == before => {
                self.handed_by_callers(reader.function, number, edges)
            }
            (None, Root::Unknown) => {
                let walked = self.walked_contents(&read, edges);
                self.given_targets(&read, edges) || walked
            }
            _ => true,
        };
        if !known {
            self.unnamed_loads.set(self.unnamed_loads.get() + 1);
        }
    }

    /// A pointer is kept in a field or global (a captured reference, mostly): what
    /// is written to the variables whose addresses were put there.
    fn kept_targets(&self, root: Root, edges: &mut Edges) {
        let stores = &self.program.stores;
        let kept = match root {
            Root::ThroughField(field) => stores.field_writes(field),
            Root::ThroughGlobal(global) => stores.global_writes(global),
            _ => &[],
        };
        for store in kept {
            let at = store.at;
            if !matches!(self.program.op(at), Op::Store { .. }) {
                continue;
            }
            let target = self.place(at, 0, None);
            match (target.field, target.root) {
                (None, Root::Slot(slot)) => {
                    let facts = self.facts(at.function);
                    let writes = facts.slots.of_slot(slot).iter();
                    for write in writes.filter(|w| w.argument.is_none()) {
                        let at = InstructionRef {
                            function: at.function,
                            instruction: write.at,
                        };
                        edges.push(edge(at, Aspect::Whole, Travel::Memory));
                    }
                }
                (None, Root::Global(global)) => {
                    for write in stores.global_writes(global) {
                        self.write(write, None, Travel::Memory, edges);
                    }
                }
                _ => {}
            }
        }
    }

    /// A pointer that walks: what is written to the places that it may be at.
    fn walked_contents(&self, read: &Read, edges: &mut Edges) -> bool {
        let stores = &self.program.stores;
        let resolver = stores.resolver(&self.program.functions, read.holder);
        let places = places_walked(&resolver, read.pointer);
        for place in &places {
            let writes = match (place.field, place.root) {
                (Some(field), _) => stores.field_writes(field),
                (None, Root::Global(id)) => stores.global_writes(id),
                _ => &[],
            };
            for write in writes.iter().filter(|w| stores.may_meet(place.root, w)) {
                self.write(write, None, Travel::Memory, edges);
            }
        }
        !places.is_empty()
    }

    /// A pointer came out of a call by way of a local: what is written to the
    /// field whose address the call's body stored there.
    fn given_targets(&self, read: &Read, edges: &mut Edges) -> bool {
        let function = &self.program.functions[read.holder as usize];
        let Operand::Instruction(load) = read.pointer else {
            return false;
        };
        let load = InstructionRef {
            function: read.holder,
            instruction: load,
        };
        let Op::Load { .. } = function.op(load.instruction) else {
            return false;
        };
        let Root::Slot(slot) = self.place(load, 0, None).root else {
            return false;
        };
        let before = edges.len();
        let facts = self.facts(read.holder);
        for write in facts.slots.of_slot(slot) {
            let call = InstructionRef {
                function: read.holder,
                instruction: write.at,
            };
            let Some(number) = write.argument else {
                continue;
            };
            for target in self.targets(call) {
                for given in self.program.stores.parameter_writes(*target, number) {
                    if !matches!(self.program.op(given.at), Op::Store { .. }) {
                        continue;
                    }
                    let place = self.place(given.at, 0, None);
                    if let Some(field) = place.field {
                        let writes = self.program.stores.field_writes(field).iter();
                        writes.for_each(|w| self.write(w, None, Travel::Memory, edges));
                    }
                }
            }
        }
        edges.len() > before
    }

    /// A slot whose address went elsewhere: writes of its field from there.
    fn foreign_contents(&self, read: &Read, edges: &mut Edges) {
        if let Some(points_to) = &self.points_to {
            let found = points_to.writers(read.holder, read.pointer, read.place.field);
            for at in found.into_iter().filter(|at| at.function != read.holder) {
                self.pointed(at, read.place.field, edges);
            }
            return;
        }
        let Some(field) = read.place.field else {
            return;
        };
        let stores = &self.program.stores;
        let writes = stores.field_writes(field).iter();
        let foreign = writes.filter(|w| !matches!(w.place.root, Root::Slot(_) | Root::Global(_)));
        for write in foreign.filter(|w| stores.may_meet(read.place.root, w)) {
            self.write(write, None, Travel::Memory, edges);
        }
    }

    /// The writes that the points-to analysis allows; `false` if it knows of
    /// none, or is not asked.
    fn pointed_contents(&self, read: &Read, edges: &mut Edges) -> bool {
        let Some(points_to) = &self.points_to else {
            return false;
        };
        let field = read.place.field;
        let found = points_to.writers(read.holder, read.pointer, field);
        found.iter().for_each(|at| self.pointed(*at, field, edges));
        !found.is_empty()
    }

    fn pointed(&self, at: InstructionRef, field: Option<FieldId>, edges: &mut Edges) {
        let aspect = match (self.program.op(at), field) {
            (Op::Copy { .. }, Some(field)) => Aspect::Copied(field),
            _ => Aspect::Whole,
        };
        edges.push(edge(at, aspect, Travel::Memory));
    }

    /// Library calls that store into a global whose address they got.
    fn written_by_libraries(&self, global: GlobalId, edges: &mut Edges) {
        for (call, number) in self.program.stores.passed_globals(global) {
            let writes = |id: &FunctionId| {
                let target = &self.program.functions[*id as usize];
                !target.is_defined() && effects(&target.name).write_into(*number)
            };
            if self.targets(*call).iter().any(writes) {
                edges.push(edge(*call, Aspect::Whole, Travel::Memory));
            }
        }
    }

    /// Functions that get a global's address may write it through their parameter.
    fn written_through_parameters(&self, global: GlobalId, edges: &mut Edges) {
        for (call, number) in self.program.stores.passed_globals(global) {
            for target in self.targets(*call) {
                let writes = self.program.stores.parameter_writes(*target, *number);
                for write in writes.iter().filter(|w| w.place.field.is_none()) {
                    self.write(write, None, Travel::Memory, edges);
                }
            }
        }
    }

    /// What the reader's own function puts where its parameter points: by stores, by
    /// library calls, and by functions that it hands the pointer on to.
    fn written_by_itself(&self, reader: InstructionRef, number: u32, edges: &mut Edges) -> bool {
        let before = edges.len();
        let facts = self.facts(reader.function);
        let writes = facts.slots.of_parameter(number).iter();
        for write in writes.filter(|write| write.place.field.is_none()) {
            let at = InstructionRef {
                function: reader.function,
                instruction: write.at,
            };
            match write.argument {
                _ if at == reader => {}
                None => edges.push(edge(at, Aspect::Whole, Travel::Memory)),
                Some(operand) => self.written_through_call(at, operand, edges),
            }
        }
        edges.len() > before
    }

    /// What a call that gets a pointer is known to write there.
    fn written_through_call(&self, call: InstructionRef, operand: u32, edges: &mut Edges) {
        for target in self.targets(call) {
            let function = &self.program.functions[*target as usize];
            if !function.is_defined() {
                if effects(&function.name).write_into(operand) {
                    edges.push(edge(call, Aspect::Whole, Travel::Memory));
                }
                continue;
            }
            let before = edges.len();
            let writes = self
                .program
                .stores
                .parameter_writes(*target, operand)
                .iter();
            for write in writes.filter(|write| write.place.field.is_none()) {
                self.write(write, None, Travel::OutParameter, edges);
            }
            if edges.len() > before {
                edges.push(edge(call, Aspect::Argument(operand), Travel::Value));
            }
        }
    }

    /// An edge to a write; of a copy only the wanted field, of a call that frees only what
    /// it was given.
    pub(crate) fn write(
        &self,
        write: &Write,
        field: Option<FieldId>,
        travel: Travel,
        edges: &mut Edges,
    ) {
        let (aspect, travel) = match (self.program.op(write.at), field) {
            (Op::Copy { .. }, Some(field)) => (Aspect::Copied(field), travel),
            (Op::Call(_), _) => (Aspect::Argument(0), Travel::Freed),
            _ => (Aspect::Whole, travel),
        };
        edges.push(edge(write.at, aspect, travel));
    }

    /// What may lie in a slot; `fields` says whether writes of single fields count.
    pub(crate) fn slot_contents(
        &self,
        reader: InstructionRef,
        place: Place,
        fields: bool,
        edges: &mut Edges,
    ) {
        let facts = self.facts(reader.function);
        let function = self.program.function(reader);
        let found = facts.slots.reaching(
            function,
            &self.program.symbols.fields,
            &facts.predecessors,
            place,
            reader.instruction,
            &facts.resumes,
        );
        let counts = |w: &SlotWrite| fields || w.place.field.is_none() || w.argument.is_some();
        for write in found.into_iter().filter(counts) {
            let at = InstructionRef {
                function: reader.function,
                instruction: write.at,
            };
            match write.argument {
                None => {
                    let copy = matches!(function.op(write.at), Op::Copy { .. });
                    let field = place.field.filter(|_| copy);
                    let aspect = field.map_or(Aspect::Whole, Aspect::Copied);
                    edges.push(edge(at, aspect, Travel::Definition));
                }
                Some(number) => self.written_by_call(at, number, write, place, edges),
            }
        }
    }

    /// A call got the slot's address: what its body stores there, if it has
    /// one; otherwise whatever went into the call.
    fn written_by_call(
        &self,
        call: InstructionRef,
        number: u32,
        write: SlotWrite,
        wanted: Place,
        edges: &mut Edges,
    ) {
        if self.carried_out(call, number, edges) {
            return;
        }
        let targets = self.targets(call);
        let has_body = |id: &FunctionId| self.program.functions[*id as usize].is_defined();
        if !targets.iter().any(has_body) {
            edges.push(edge(call, Aspect::Whole, Travel::Definition));
            return;
        }
        for target in targets {
            for inner in self.program.stores.parameter_writes(*target, number) {
                let field = inner.place.field.or(write.place.field);
                if field.is_none() || wanted.field.is_none() || field == wanted.field {
                    self.write(inner, wanted.field, Travel::OutParameter, edges);
                }
            }
        }
        edges.push(edge(call, Aspect::Argument(number), Travel::Value));
    }

    /// A copy: its addresses, and what lies at its source.
    pub(crate) fn copied(&self, at: InstructionRef, field: Option<FieldId>, edges: &mut Edges) {
        let function = self.program.function(at);
        for (position, operand) in function.operands(at.instruction).iter().enumerate() {
            let travel = way_to(function.op(at.instruction), position);
            self.value(at.function, *operand, travel, edges);
        }
        let record = match function.op(at.instruction) {
            Op::Copy { record } => record,
            _ => return,
        };
        let mut source = self.place(at, 1, None);
        if field.is_some() {
            source.field = field;
        }
        let is_object = matches!(source.root, Root::Slot(_) | Root::Global(_));
        match (source.field, record) {
            (None, Some(record)) if !is_object => {
                for field in self.program.stores.fields_of(record) {
                    source.field = Some(*field);
                    self.contents(at, 1, source, edges);
                }
            }
            _ => self.contents(at, 1, source, edges),
        }
    }
}
