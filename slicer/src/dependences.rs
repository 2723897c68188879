//! What one instruction depends on: the edges that a slice follows.
//!
//! A node is an instruction *under an aspect*, because a call is several things
//! at once: reached for its result it needs what the callee returns, reached as
//! a call site it needs what decides whether it runs, reached from a parameter
//! it needs that one argument. Taking the whole statement each time would drag
//! every argument of every call on the way into the slice.
//!
//! Facts about a function (control dependence, slot writes) are worked out when
//! a slice first enters it and kept for the slice.

use crate::control::ControlDependence;
use crate::places::{Place, Root};
use crate::program::*;
use crate::reaching::SlotWrites;
use crate::walk::{Dependence, DependenceGraph};
use sketch_model::{DependenceKind, StatementId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// What of an instruction is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Aspect {
    /// Everything it uses.
    Whole,
    /// That this call is made at all.
    Site,
    /// One argument of this call.
    Argument(u32),
    /// What this call returns.
    Result,
    /// One field of what this instruction copies.
    Copied(FieldId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    pub at: InstructionRef,
    pub aspect: Aspect,
}

#[derive(Debug)]
pub(crate) struct Facts {
    control: ControlDependence,
    pub predecessors: Vec<Vec<BlockId>>,
    pub slots: SlotWrites,
}

pub(crate) struct Dependences<'p> {
    pub(crate) program: &'p Program,
    facts: RefCell<HashMap<FunctionId, Rc<Facts>>>,
    /// Loads through pointers of which nothing is known.
    pub(crate) unnamed_loads: Cell<u64>,
    assembly: Cell<u64>,
}

pub(crate) type Edges = Vec<Dependence<Node>>;

impl DependenceGraph for Dependences<'_> {
    type Node = Node;

    fn statement(&self, node: Node) -> Option<StatementId> {
        self.program.statement_of(node.at)
    }

    fn dependences(&self, node: Node) -> Edges {
        let mut edges = Edges::new();
        let at = node.at;
        match node.aspect {
            Aspect::Whole => self.whole(at, &mut edges),
            Aspect::Site => {}
            Aspect::Argument(number) => self.argument(at, number, &mut edges),
            Aspect::Result => self.result(at, &mut edges),
            Aspect::Copied(field) => self.copied(at, Some(field), &mut edges),
        }
        if node.aspect != Aspect::Whole {
            self.callee_pointer(at, &mut edges);
        }
        self.control(at, &mut edges);
        edges.retain(|edge| edge.on != node);
        edges
    }
}

pub(crate) fn edge(at: InstructionRef, aspect: Aspect, kind: DependenceKind) -> Dependence<Node> {
    Dependence {
        on: Node { at, aspect },
        kind,
        through_entry: false,
    }
}

impl<'p> Dependences<'p> {
    pub fn new(program: &'p Program) -> Dependences<'p> {
        Dependences {
            program,
            facts: RefCell::default(),
            unnamed_loads: Cell::new(0),
            assembly: Cell::new(0),
        }
    }

    /// What the walk so far could not follow, in words.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.unnamed_loads.get() > 0 {
            gaps.push(format!(
                "{} loads in the slice go through pointers whose targets are not known \
                 statically; watchpoints find what stores there",
                self.unnamed_loads.get()
            ));
        }
        if self.assembly.get() > 0 {
            gaps.push(format!(
                "{} pieces of inline assembly in the slice are taken to depend on their \
                 operands only",
                self.assembly.get()
            ));
        }
        gaps
    }

    pub(crate) fn facts(&self, id: FunctionId) -> Rc<Facts> {
        let mut known = self.facts.borrow_mut();
        let facts = known.entry(id).or_insert_with(|| {
            let function = &self.program.functions[id as usize];
            let resolver = self.program.stores.resolver(&self.program.functions, id);
            Rc::new(Facts {
                control: ControlDependence::of(function),
                predecessors: function.predecessors(),
                slots: SlotWrites::of(function, resolver.single),
            })
        });
        Rc::clone(facts)
    }

    fn whole(&self, at: InstructionRef, edges: &mut Edges) {
        let function = self.program.function(at);
        let id = at.instruction;
        match function.op(id) {
            Op::Call(callee) => {
                if callee == Callee::Assembly {
                    self.assembly.set(self.assembly.get() + 1);
                }
                self.all_arguments(at, edges);
                self.returns(at, edges);
                self.callee_pointer(at, edges);
            }
            Op::Copy { .. } => self.copied(at, None, edges),
            op => {
                for operand in function.operands(id) {
                    self.value(at.function, *operand, DependenceKind::Data, edges);
                }
                match op {
                    Op::Load { field, .. } | Op::Update { field, .. } => {
                        let place = self.place(at, 0, field);
                        self.contents(at, place, edges);
                    }
                    Op::Phi => self.merge(at, edges),
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn place(
        &self,
        at: InstructionRef,
        operand: usize,
        field: Option<FieldId>,
    ) -> Place {
        let function = self.program.function(at);
        let resolver = self
            .program
            .stores
            .resolver(&self.program.functions, at.function);
        resolver.place(function.operand(at.instruction, operand), field)
    }

    /// What computes a value.
    pub(crate) fn value(
        &self,
        holder: FunctionId,
        operand: Operand,
        kind: DependenceKind,
        edges: &mut Edges,
    ) {
        match operand {
            Operand::Instruction(instruction) => {
                let at = InstructionRef {
                    function: holder,
                    instruction,
                };
                match self.program.op(at) {
                    Op::Alloca { .. } => {}
                    Op::Call(_) => edges.push(edge(at, Aspect::Result, kind)),
                    _ => edges.push(edge(at, Aspect::Whole, kind)),
                }
            }
            Operand::Parameter(number) => {
                for site in self.program.calls.callers(holder) {
                    let (number, kind) = match site.thread_argument {
                        Some(argument) if number == 0 => (argument, DependenceKind::ThreadStart),
                        Some(_) => continue,
                        None => (number, DependenceKind::Argument),
                    };
                    edges.push(edge(site.at, Aspect::Argument(number), kind));
                }
            }
            Operand::Function(_) | Operand::Global(_) | Operand::Constant => {}
        }
    }

    fn argument(&self, call: InstructionRef, number: u32, edges: &mut Edges) {
        let function = self.program.function(call);
        let operand = function.operand(call.instruction, number as usize);
        self.value(call.function, operand, DependenceKind::Data, edges);
        // An address hands over what lies there.
        let place = self.place(call, number as usize, None);
        match place.root {
            Root::Slot(_) => self.slot_contents(call, place, edges),
            Root::Global(id) if place.field.is_none() && operand == Operand::Global(id) => {
                let writes = self.program.stores.global_writes(id).iter();
                let whole = writes.filter(|w| w.place.field.is_none());
                whole.for_each(|w| self.write(w, None, DependenceKind::Memory, edges));
            }
            _ => {}
        }
    }

    fn all_arguments(&self, call: InstructionRef, edges: &mut Edges) {
        let count = self.program.function(call).operands(call.instruction).len();
        for number in 0..count as u32 {
            self.argument(call, number, edges);
        }
    }

    fn callee_pointer(&self, at: InstructionRef, edges: &mut Edges) {
        let function = self.program.function(at);
        if function.op(at.instruction) == Op::Call(Callee::Indirect)
            && let Some(pointer) = function.operands(at.instruction).last()
        {
            self.value(at.function, *pointer, DependenceKind::Data, edges);
        }
    }

    fn result(&self, call: InstructionRef, edges: &mut Edges) {
        let before = edges.len();
        self.returns(call, edges);
        let targets = self.program.calls.targets(call);
        let has_body = |id: &FunctionId| self.program.functions[*id as usize].is_defined();
        if edges.len() == before && !targets.iter().any(has_body) {
            self.all_arguments(call, edges);
        }
    }

    /// The values that the callees return. The `ret` itself and the load of
    /// clang's return slot stand on the closing brace: they are skipped.
    fn returns(&self, call: InstructionRef, edges: &mut Edges) {
        for target in self.program.calls.targets(call) {
            let function = &self.program.functions[*target as usize];
            for block in 0..function.blocks.len() as BlockId {
                let Some(id) = function.terminator(block) else {
                    continue;
                };
                if function.op(id) != Op::Return || function.operands(id).is_empty() {
                    continue;
                }
                self.returned(*target, id, edges);
            }
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
                self.slot_contents(at(load), place, edges);
            }
            Operand::Instruction(_) | Operand::Parameter(_) => {
                self.value(target, operand, DependenceKind::Return, edges);
            }
            _ => edges.push(edge(at(id), Aspect::Whole, DependenceKind::Return)),
        }
        for edge in &mut edges[from..] {
            edge.kind = DependenceKind::Return;
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

    /// A phi takes its value from the way that control came.
    fn merge(&self, at: InstructionRef, edges: &mut Edges) {
        let facts = self.facts(at.function);
        let function = self.program.function(at);
        let block = function.instructions[at.instruction as usize].block;
        for previous in &facts.predecessors[block as usize] {
            let terminator = function.terminator(*previous);
            let branch = terminator.filter(|id| function.op(*id) == Op::Branch);
            let deciders = match &branch {
                Some(id) => std::slice::from_ref(id),
                None => facts.control.deciders(*previous),
            };
            self.decided_by(at.function, deciders, edges);
        }
    }

    fn decided_by(&self, function: FunctionId, deciders: &[InstructionId], edges: &mut Edges) {
        for decider in deciders {
            let at = InstructionRef {
                function,
                instruction: *decider,
            };
            let aspect = match self.program.op(at) {
                Op::Call(_) => Aspect::Site,
                _ => Aspect::Whole,
            };
            edges.push(edge(at, aspect, DependenceKind::Control));
        }
    }

    /// What decides whether an instruction runs: branches, and the calls of
    /// its function if it runs whenever the function does.
    fn control(&self, at: InstructionRef, edges: &mut Edges) {
        let function = self.program.function(at);
        let keeps_parameter = matches!(function.op(at.instruction), Op::Store { .. })
            && matches!(function.operand(at.instruction, 0), Operand::Parameter(_));
        if keeps_parameter && self.program.statement_of(at).is_none() {
            return;
        }
        let block = function.instructions[at.instruction as usize].block;
        let facts = self.facts(at.function);
        self.decided_by(at.function, facts.control.deciders(block), edges);
        if facts.control.is_unconditional(block) {
            for site in self.program.calls.callers(at.function) {
                let kind = match site.thread_argument {
                    Some(_) => DependenceKind::ThreadStart,
                    None => DependenceKind::Control,
                };
                edges.push(Dependence {
                    through_entry: true,
                    ..edge(site.at, Aspect::Site, kind)
                });
            }
        }
    }
}
