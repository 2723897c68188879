//! What every pointer of a program may point to, for `--alias andersen`.
//!
//! Flow-insensitive and context-insensitive; objects are variables, and heap
//! objects by the library call that made them. Within an object, fields of named
//! records are told apart; everything else of it is one location. Locals that
//! are only loaded and stored are plain nodes, which spares most of the work.
//! Calls through pointers are added as functions arrive at the pointer; virtual
//! calls go by class, as in the call graph.
//!
//! Deliberately absent, because the loaded program does not hold it: pointers in
//! initial values of globals (functions there are known), values that a library
//! carries (`carried`), exceptions. A pointer whose set stays empty is "unknown",
//! and the slice then matches its accesses by field.

use crate::ir::library::{NEW, effects};
use crate::ir::program::*;
use crate::memory::heap::{CopySides, Heap, Object, Objects, PendingCall};
use crate::memory::solver::{Location, Node, Solver, Waiting};
use std::collections::{HashMap, HashSet};

/// Moves of locations after which the analysis gives up.
const BUDGET: u64 = 400_000_000;

/// Pairs of a load and a store that may meet, beyond which a slice that follows
/// all of them takes minutes.
const MAX_PAIRS: u64 = 40_000_000;

/// The solution: pointers to locations, and who writes where.
#[derive(Debug)]
pub(crate) struct PointsTo {
    solver: Solver,
    nodes: Nodes,
    objects: Objects,
    /// Instructions that may write at a location, sorted.
    writers: HashMap<Location, Vec<InstructionRef>>,
    called: HashMap<InstructionRef, Vec<FunctionId>>,
}

impl PointsTo {
    /// `None` if the program is too much for the budget.
    pub fn of(program: &Program) -> Option<PointsTo> {
        let mut builder = Builder::new(program);
        builder.add_functions();
        builder.add_initial();
        if !builder.solver.solve(&mut builder.memory, BUDGET) {
            return None;
        }
        // Pointers at which no function arrived: whatever the call graph says.
        if builder.add_unresolved() && !builder.solver.solve(&mut builder.memory, BUDGET) {
            return None;
        }
        builder.finish()
    }

    /// The functions that arrived at a called pointer.
    pub fn targets(&self, call: InstructionRef) -> Option<&[FunctionId]> {
        self.called.get(&call).map(Vec::as_slice)
    }

    /// The instructions that may write where a pointer points, sorted.
    pub fn writers(
        &self,
        holder: FunctionId,
        pointer: Operand,
        field: Option<FieldId>,
    ) -> Vec<InstructionRef> {
        let mut found = Vec::new();
        for location in self.locations(holder, pointer, field) {
            for met in self.objects.met_by(location) {
                found.extend(self.writers.get(&met).into_iter().flatten());
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// What an instruction writes beside where its pointer points: a copy or fill
    /// also covers the fields of the record that it copies.
    fn covered(&self, program: &Program, op: Op, locations: Vec<Location>) -> Vec<Location> {
        let (Op::Copy { record } | Op::Fill { record }) = op else {
            return locations;
        };
        let mut all = locations.clone();
        for location in locations {
            let object = self.objects.all[location as usize].0;
            let within = self.objects.of_object.get(&object).into_iter().flatten();
            all.extend(within.filter(|l| {
                let field = self.objects.all[**l as usize].1;
                let of = field.map(|f| program.symbols.fields[f as usize].record);
                record.is_none() || of == record
            }));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn locations(
        &self,
        holder: FunctionId,
        pointer: Operand,
        field: Option<FieldId>,
    ) -> Vec<Location> {
        match pointer {
            Operand::Global(id) => {
                let key = (Object::Global(id), field);
                let whole = (Object::Global(id), None);
                let ids = &self.objects.ids;
                ids.get(&key)
                    .or_else(|| ids.get(&whole))
                    .copied()
                    .into_iter()
                    .collect()
            }
            Operand::Instruction(_) | Operand::Parameter(_) => {
                let node = self.nodes.of(holder, pointer);
                node.map_or_else(Vec::new, |node| self.solver.set(node).to_vec())
            }
            Operand::Function(_) | Operand::Constant => Vec::new(),
        }
    }
}

/// Where the nodes of each function begin: instructions, parameters, result.
#[derive(Debug)]
pub(crate) struct Nodes {
    first: Vec<Node>,
    instructions: Vec<u32>,
}

impl Nodes {
    /// The numbering, and how many nodes it has.
    pub fn of_program(program: &Program) -> (Nodes, usize) {
        let mut nodes = Nodes {
            first: Vec::new(),
            instructions: Vec::new(),
        };
        let mut count = 0;
        for function in &program.functions {
            nodes.first.push(count);
            nodes.instructions.push(function.instructions.len() as u32);
            count += function.instructions.len() as u32 + 1 + function.parameter_count;
        }
        (nodes, count as usize)
    }

    pub fn of(&self, holder: FunctionId, operand: Operand) -> Option<Node> {
        let holder = holder as usize;
        match operand {
            Operand::Instruction(id) => Some(self.first[holder] + id),
            Operand::Parameter(number) => {
                Some(self.first[holder] + self.instructions[holder] + 1 + number)
            }
            _ => None,
        }
    }

    pub fn instruction(&self, holder: FunctionId, id: InstructionId) -> Node {
        self.first[holder as usize] + id
    }

    pub fn result(&self, function: FunctionId) -> Node {
        self.first[function as usize] + self.instructions[function as usize]
    }
}

struct Builder<'p> {
    program: &'p Program,
    solver: Solver,
    memory: Heap,
    nodes: Nodes,
    /// Operands that are constants have nodes too, made when first met.
    constants: HashMap<(Object, Option<FieldId>), Node>,
}

impl<'p> Builder<'p> {
    fn new(program: &'p Program) -> Builder<'p> {
        let (nodes, count) = Nodes::of_program(program);
        let mut solver = Solver::default();
        solver.add_nodes(count);
        let mut memory = Heap::default();
        let fields = program.symbols.fields.iter().zip(0..);
        let leading = fields.filter(|(field, _)| field.offset == 0);
        memory.objects.leading = leading.map(|(_, id)| id).collect();
        Builder {
            program,
            solver,
            memory,
            nodes,
            constants: HashMap::new(),
        }
    }

    fn node(
        &mut self,
        holder: FunctionId,
        operand: Operand,
        field: Option<FieldId>,
    ) -> Option<Node> {
        let object = match operand {
            Operand::Global(id) => Object::Global(id),
            Operand::Function(id) => Object::Function(id),
            Operand::Constant => return None,
            _ => return self.nodes.of(holder, operand),
        };
        if let Some(known) = self.constants.get(&(object, field)) {
            return Some(*known);
        }
        let node = self.solver.add_node();
        self.constants.insert((object, field), node);
        let location = self.memory.make(object, field, &mut self.solver);
        self.solver.add_location(node, location);
        Some(node)
    }

    fn copy(&mut self, holder: FunctionId, from: Operand, to: Node) {
        if let Some(from) = self.node(holder, from, None) {
            self.solver.add_copy(from, to);
        }
    }

    fn wait(&mut self, holder: FunctionId, on: Operand, field: Option<FieldId>, what: Waiting) {
        if let Some(node) = self.node(holder, on, field) {
            self.solver.add_waiting(node, what);
        }
    }

    fn add_functions(&mut self) {
        for id in 0..self.program.functions.len() as FunctionId {
            let function = &self.program.functions[id as usize];
            if !function.is_defined() {
                continue;
            }
            let plain = plain_slots(function);
            for instruction in 0..function.instructions.len() as InstructionId {
                self.add_instruction(id, instruction, &plain);
            }
            let result = self.nodes.result(id);
            for value in returned_values(function) {
                self.copy(id, value, result);
            }
        }
        self.add_calls();
    }

    fn add_instruction(
        &mut self,
        holder: FunctionId,
        id: InstructionId,
        plain: &HashSet<InstructionId>,
    ) {
        let function = &self.program.functions[holder as usize];
        let operands = function.operands(id);
        let at = InstructionRef {
            function: holder,
            instruction: id,
        };
        let own = self.nodes.instruction(holder, id);
        let is_plain = |operand: Operand| match operand {
            Operand::Instruction(slot) => plain.contains(&slot),
            _ => false,
        };
        match function.op(id) {
            Op::Alloca { .. } if !plain.contains(&id) => {
                let location = self.memory.make(Object::Slot(at), None, &mut self.solver);
                self.solver.add_location(own, location);
            }
            Op::Load { field, .. } => {
                let pointer = function.operand(id, 0);
                match is_plain(pointer) {
                    true => self.copy(holder, pointer, own),
                    false => self.wait(holder, pointer, field, Waiting::Load(own)),
                }
            }
            Op::Store { field, .. } => {
                let (value, pointer) = (function.operand(id, 0), function.operand(id, 1));
                let Some(from) = self.node(holder, value, None) else {
                    return;
                };
                match self.nodes.of(holder, pointer) {
                    Some(slot) if is_plain(pointer) => self.solver.add_copy(from, slot),
                    _ => self.wait(holder, pointer, field, Waiting::Store(from)),
                }
            }
            Op::Update { field, .. } => {
                let pointer = function.operand(id, 0);
                self.wait(holder, pointer, field, Waiting::Load(own));
                for value in operands.get(1..).unwrap_or_default() {
                    if let Some(from) = self.node(holder, *value, None) {
                        self.wait(holder, pointer, field, Waiting::Store(from));
                    }
                }
            }
            Op::Pointer(step) => {
                let base = function.operand(id, 0);
                match step.field {
                    Some(field) => self.wait(holder, base, None, Waiting::Step(own, field)),
                    None => self.copy(holder, base, own),
                }
            }
            Op::Copy { .. } => {
                self.add_object_copy(holder, function.operand(id, 0), function.operand(id, 1))
            }
            Op::Cast | Op::Phi => operands.iter().for_each(|o| self.copy(holder, *o, own)),
            Op::Select => {
                let values = operands.get(1..).unwrap_or_default();
                values.iter().for_each(|o| self.copy(holder, *o, own));
            }
            // Integers that were pointers, members of pairs in registers.
            Op::Other if operands.len() == 1 => self.copy(holder, operands[0], own),
            Op::Call(Callee::Direct(callee)) => {
                let called = &self.program.functions[callee as usize];
                if called.is_defined() {
                    return;
                }
                let location = self.memory.make(Object::Made(at), None, &mut self.solver);
                self.solver.add_location(own, location);
                let effects = effects(&called.name);
                if effects.returns_first {
                    self.copy(holder, function.operand(id, 0), own);
                }
                if effects.copies {
                    self.add_object_copy(holder, function.operand(id, 0), function.operand(id, 1));
                }
            }
            _ => {}
        }
    }

    fn add_object_copy(&mut self, holder: FunctionId, to: Operand, from: Operand) {
        let copy = self.memory.sides.len() as u32;
        self.memory.sides.push(CopySides::default());
        self.wait(holder, from, None, Waiting::CopyFrom(copy));
        self.wait(holder, to, None, Waiting::CopyTo(copy));
    }

    /// Copies arguments to parameters and results to calls, for each edge of the call graph.
    fn add_calls(&mut self) {
        let program = self.program;
        let mut pending: HashMap<InstructionRef, u32> = HashMap::new();
        for target in 0..program.functions.len() as FunctionId {
            let parameters = program.functions[target as usize].parameter_count;
            for site in program.calls.callers(target) {
                let caller = program.function(site.at);
                let mut flows: Vec<(Node, Node)> = Vec::new();
                for number in 0..parameters {
                    let to = self.nodes.of(target, Operand::Parameter(number));
                    for value in site.values_for(caller, program.calls.declared(NEW), number) {
                        let from = self.node(site.at.function, value, None);
                        flows.extend(from.zip(to));
                    }
                }
                if site.callback.is_none() {
                    let own = Operand::Instruction(site.at.instruction);
                    let own = self.nodes.of(site.at.function, own);
                    flows.extend(own.map(|own| (self.nodes.result(target), own)));
                }
                let waits = site.callback.is_none()
                    && caller.op(site.at.instruction) == Op::Call(Callee::Indirect)
                    && !caller.virtual_calls.contains_key(&site.at.instruction);
                if !waits {
                    flows
                        .iter()
                        .for_each(|(from, to)| self.solver.add_copy(*from, *to));
                    continue;
                }
                let next = self.memory.calls.len() as u32;
                let call = *pending.entry(site.at).or_insert(next);
                if call == next {
                    self.memory.calls.push(PendingCall {
                        at: site.at,
                        candidates: Vec::new(),
                        flows: Vec::new(),
                        found: Vec::new(),
                    });
                    let pointer = caller.operands(site.at.instruction).last();
                    let pointer = pointer.copied().unwrap_or(Operand::Constant);
                    self.wait(site.at.function, pointer, None, Waiting::Call(call));
                }
                let call = &mut self.memory.calls[call as usize];
                call.candidates.push(target);
                call.flows.push(flows);
            }
        }
    }

    /// Functions that initial values of globals hold.
    fn add_initial(&mut self) {
        for (global, functions) in &self.program.symbols.held {
            let whole = self
                .memory
                .make(Object::Global(*global), None, &mut self.solver);
            let contents = self.memory.objects.contents(whole);
            for function in functions {
                let object = Object::Function(*function);
                let location = self.memory.make(object, None, &mut self.solver);
                self.solver.add_location(contents, location);
            }
        }
    }

    fn add_unresolved(&mut self) -> bool {
        let unresolved = self
            .memory
            .calls
            .iter()
            .filter(|call| call.found.is_empty());
        let flows: Vec<(Node, Node)> = unresolved.flat_map(|c| c.flows.concat()).collect();
        flows
            .iter()
            .for_each(|(from, to)| self.solver.add_copy(*from, *to));
        !flows.is_empty()
    }

    /// `None` if following the result would take longer than finding it.
    fn finish(self) -> Option<PointsTo> {
        let mut writers: HashMap<Location, Vec<InstructionRef>> = HashMap::new();
        let mut entries = 0_u64;
        let mut result = PointsTo {
            solver: self.solver,
            nodes: self.nodes,
            objects: self.memory.objects,
            writers: HashMap::new(),
            called: HashMap::new(),
        };
        for (id, function) in self.program.functions.iter().enumerate() {
            let holder = id as FunctionId;
            // The node of a plain slot is what lies in it, not where it lies.
            let plain = plain_slots(function);
            let is_plain = |operand: &Operand| match operand {
                Operand::Instruction(slot) => plain.contains(slot),
                _ => false,
            };
            for instruction in 0..function.instructions.len() as InstructionId {
                let written = pointers_written(self.program, function, instruction);
                for (pointer, field) in written.into_iter().filter(|(p, _)| !is_plain(p)) {
                    let locations = result.locations(holder, pointer, field);
                    let op = function.op(instruction);
                    let locations = result.covered(self.program, op, locations);
                    entries += locations.len() as u64;
                    if entries > MAX_PAIRS {
                        return None;
                    }
                    for location in locations {
                        writers.entry(location).or_default().push(InstructionRef {
                            function: holder,
                            instruction,
                        });
                    }
                }
            }
        }
        let mut pairs = 0_u64;
        for (id, function) in self.program.functions.iter().enumerate() {
            for instruction in 0..function.instructions.len() as InstructionId {
                let Op::Load { field, .. } = function.op(instruction) else {
                    continue;
                };
                let pointer = function.operand(instruction, 0);
                let read = result.locations(id as FunctionId, pointer, field);
                let written = read.iter().filter_map(|l| writers.get(l));
                pairs += written.map(|w| w.len() as u64).sum::<u64>();
            }
        }
        if pairs > MAX_PAIRS {
            return None;
        }
        result.writers = writers;
        let calls = self.memory.calls.into_iter();
        let resolved = calls.filter(|call| !call.found.is_empty());
        result.called = resolved.map(|call| (call.at, call.found)).collect();
        Some(result)
    }
}

/// The pointers through which an instruction writes, library calls included.
fn pointers_written(
    program: &Program,
    function: &Function,
    id: InstructionId,
) -> Vec<(Operand, Option<FieldId>)> {
    match function.op(id) {
        Op::Store { field, .. } | Op::Update { field, .. } => {
            vec![(written_pointer(function, id), field)]
        }
        Op::Copy { .. } | Op::Fill { .. } => vec![(function.operand(id, 0), None)],
        Op::Call(Callee::Direct(callee)) => {
            let effects = effects(&program.functions[callee as usize].name);
            let operands = function.operands(id).iter().zip(0..);
            let written = operands.filter(|(_, number)| effects.write_into(*number));
            written.map(|(operand, _)| (*operand, None)).collect()
        }
        _ => Vec::new(),
    }
}

/// Slots of which every use is a plain load or store of all of them.
fn plain_slots(function: &Function) -> HashSet<InstructionId> {
    let mut plain: HashSet<InstructionId> = HashSet::new();
    for id in 0..function.instructions.len() as InstructionId {
        if matches!(function.op(id), Op::Alloca { .. }) {
            plain.insert(id);
        }
    }
    for id in 0..function.instructions.len() as InstructionId {
        let op = function.op(id);
        for (position, operand) in function.operands(id).iter().enumerate() {
            let direct = matches!((op, position), (Op::Load { .. }, 0) | (Op::Store { .. }, 1));
            if let Operand::Instruction(slot) = operand
                && !direct
                && op != Op::Marker
            {
                plain.remove(slot);
            }
        }
    }
    plain
}

/// What a function's `ret`s return.
fn returned_values(function: &Function) -> impl Iterator<Item = Operand> + '_ {
    let blocks = 0..function.blocks.len() as BlockId;
    let ends = blocks.filter_map(|block| function.terminator(block));
    let returns = ends.filter(|id| function.op(*id) == Op::Return);
    returns.filter_map(|id| function.operands(id).first().copied())
}

/// The pointer through which an instruction writes.
fn written_pointer(function: &Function, id: InstructionId) -> Operand {
    match function.op(id) {
        Op::Store { .. } => function.operand(id, 1),
        _ => function.operand(id, 0),
    }
}
