//! Where a pointer comes from, by name: what "the same derivation" means.
//!
//! A pointer is traced back through casts, steps, phis, locals, arguments of
//! callers (thread creations among them) and results of callees, until each way
//! ends at something that has a name: a variable, the call that made the object,
//! or a pointer that is kept in a global or a field. Two accesses of one field
//! are of one derivation if their pointers share such an origin.
//!
//! That is inclusion without memory, so the solver of `andersen` does it, for
//! all pointers at once: one by one it took minutes where callers are many.
//!
//! Deliberately absent: what lies in memory. A pointer that was read back from
//! an array or through another pointer has no origin and shares none; the
//! points-to analysis (`points_to`) is for that.

use crate::ir::library::NEW;
use crate::ir::program::*;
use crate::memory::places::{Resolver, Root};
use crate::memory::points_to::Nodes;
use crate::memory::solver::{NoMemory, Node, Solver};
use std::cell::RefCell;
use std::collections::HashMap;

/// Moves of origins after which the analysis gives up.
const BUDGET: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    Slot(InstructionRef),
    Global(GlobalId),
    /// The object that a library call made, or gave.
    Made(InstructionRef),
    /// A parameter of a function that nobody is known to call.
    Parameter(FunctionId, u32),
    ThroughGlobal(GlobalId),
    ThroughField(FieldId),
}

/// The origins of every pointer of a program.
#[derive(Debug)]
pub(crate) struct Origins {
    solver: Solver,
    nodes: Nodes,
    globals: HashMap<GlobalId, Node>,
    shared: RefCell<HashMap<(Node, Node), bool>>,
}

impl Origins {
    /// `None` if the program is too much for the budget.
    pub fn of(program: &Program) -> Option<Origins> {
        let (nodes, count) = Nodes::of_program(program);
        let mut solver = Solver::default();
        solver.add_nodes(count);
        let mut builder = Builder {
            program,
            solver,
            nodes,
            ids: HashMap::new(),
            contents: HashMap::new(),
            globals: HashMap::new(),
        };
        builder.add_functions();
        let solved = builder.solver.solve(&mut NoMemory, BUDGET);
        solved.then(|| Origins {
            solver: builder.solver,
            nodes: builder.nodes,
            globals: builder.globals,
            shared: RefCell::default(),
        })
    }

    /// Whether two pointers may come from one origin.
    pub fn share(&self, one: (FunctionId, Operand), other: (FunctionId, Operand)) -> bool {
        // A global that is never passed on has no node, and one origin.
        if let (Operand::Global(one), Operand::Global(other)) = (one.1, other.1) {
            return one == other;
        }
        let (Some(one), Some(other)) = (self.node(one), self.node(other)) else {
            return false;
        };
        let key = (one.min(other), one.max(other));
        let mut known = self.shared.borrow_mut();
        *known.entry(key).or_insert_with(|| {
            let (one, other) = (self.solver.set(one), self.solver.set(other));
            let (few, many) = if one.len() < other.len() {
                (one, other)
            } else {
                (other, one)
            };
            few.iter().any(|origin| many.binary_search(origin).is_ok())
        })
    }

    fn node(&self, (holder, operand): (FunctionId, Operand)) -> Option<Node> {
        let node = match operand {
            Operand::Global(id) => self.globals.get(&id).copied(),
            _ => self.nodes.of(holder, operand),
        };
        node.map(|node| self.solver.find(node))
    }
}

struct Builder<'p> {
    program: &'p Program,
    solver: Solver,
    nodes: Nodes,
    ids: HashMap<Origin, u32>,
    /// For each slot that is written, the node of what lies in it.
    contents: HashMap<InstructionRef, Node>,
    globals: HashMap<GlobalId, Node>,
}

impl Builder<'_> {
    fn begin(&mut self, node: Node, origin: Origin) {
        let next = self.ids.len() as u32;
        let id = *self.ids.entry(origin).or_insert(next);
        self.solver.add_location(node, id);
    }

    fn node(&mut self, holder: FunctionId, operand: Operand) -> Option<Node> {
        match operand {
            Operand::Global(id) => {
                if let Some(known) = self.globals.get(&id) {
                    return Some(*known);
                }
                let node = self.solver.add_node();
                self.globals.insert(id, node);
                self.begin(node, Origin::Global(id));
                Some(node)
            }
            _ => self.nodes.of(holder, operand),
        }
    }

    fn copy(&mut self, holder: FunctionId, from: Operand, to: Node) {
        if let Some(from) = self.node(holder, from) {
            self.solver.add_copy(from, to);
        }
    }

    fn contents(&mut self, slot: InstructionRef) -> Node {
        let solver = &mut self.solver;
        *self
            .contents
            .entry(slot)
            .or_insert_with(|| solver.add_node())
    }

    fn add_functions(&mut self) {
        let program = self.program;
        for id in 0..program.functions.len() as FunctionId {
            let function = &program.functions[id as usize];
            if !function.is_defined() {
                continue;
            }
            let resolver = program.stores.resolver(&program.functions, id);
            for instruction in 0..function.instructions.len() as InstructionId {
                self.add_instruction(&resolver, id, instruction);
            }
            let result = self.nodes.result(id);
            for value in returned_values(function) {
                self.copy(id, value, result);
            }
            self.add_callers(id, function.parameter_count);
        }
    }

    fn add_instruction(&mut self, resolver: &Resolver<'_>, holder: FunctionId, id: InstructionId) {
        let function = resolver.function;
        let at = |instruction| InstructionRef {
            function: holder,
            instruction,
        };
        let operands = function.operands(id);
        let own = self.nodes.instruction(holder, id);
        let from = match function.op(id) {
            Op::Alloca { .. } => {
                self.begin(own, Origin::Slot(at(id)));
                &[]
            }
            Op::Cast | Op::Pointer(_) => &operands[..operands.len().min(1)],
            Op::Phi => operands,
            Op::Select => operands.get(1..).unwrap_or_default(),
            // Integers that were pointers, members of pairs in registers.
            Op::Other if operands.len() == 1 => operands,
            Op::Load { field, .. } | Op::Update { field, .. } => {
                let place = resolver.place(function.operand(id, 0), field);
                match (place.field, place.root) {
                    (Some(field), _) => self.begin(own, Origin::ThroughField(field)),
                    (None, Root::Global(id)) => self.begin(own, Origin::ThroughGlobal(id)),
                    (None, Root::Slot(slot)) => {
                        let contents = self.contents(at(slot));
                        self.solver.add_copy(contents, own);
                    }
                    _ => {}
                }
                &[]
            }
            Op::Store { .. } => {
                let place = resolver.place(function.operand(id, 1), None);
                if let (None, Root::Slot(slot)) = (place.field, place.root) {
                    let contents = self.contents(at(slot));
                    self.copy(holder, function.operand(id, 0), contents);
                }
                &[]
            }
            Op::Call(_) => {
                self.add_call(resolver, at(id), own);
                &[]
            }
            _ => &[],
        };
        from.iter().for_each(|value| self.copy(holder, *value, own));
    }

    /// A call's result, and what its bodies store into slots that it gets.
    fn add_call(&mut self, resolver: &Resolver<'_>, call: InstructionRef, own: Node) {
        let program = self.program;
        let targets = program.calls.targets(call);
        let is_defined = |id: &&FunctionId| program.functions[**id as usize].is_defined();
        let mut has_body = false;
        for target in targets.iter().filter(is_defined) {
            has_body = true;
            self.solver.add_copy(self.nodes.result(*target), own);
        }
        if !has_body {
            self.begin(own, Origin::Made(call));
            return;
        }
        for (operand, number) in resolver.function.operands(call.instruction).iter().zip(0..) {
            let place = resolver.place(*operand, None);
            let (None, Root::Slot(slot)) = (place.field, place.root) else {
                continue;
            };
            for target in targets {
                for write in program.stores.parameter_writes(*target, number) {
                    let body = program.function(write.at);
                    if let Op::Store { .. } = body.op(write.at.instruction) {
                        let contents = self.contents(InstructionRef {
                            function: call.function,
                            instruction: slot,
                        });
                        self.copy(*target, body.operand(write.at.instruction, 0), contents);
                    }
                }
            }
        }
    }

    fn add_callers(&mut self, id: FunctionId, parameters: u32) {
        let program = self.program;
        let sites = program.calls.callers(id);
        let new = program.calls.declared(NEW);
        for number in 0..parameters {
            let Some(own) = self.nodes.of(id, Operand::Parameter(number)) else {
                continue;
            };
            if sites.is_empty() {
                self.begin(own, Origin::Parameter(id, number));
            }
            for site in sites {
                let caller = program.function(site.at);
                for value in site.values_for(caller, new, number) {
                    self.copy(site.at.function, value, own);
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
