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

pub(crate) mod call_flow;
pub(crate) mod control;
pub(crate) mod dominance;
pub(crate) mod graph;
pub(crate) mod library_flow;
pub(crate) mod partners;
pub(crate) mod waits;

use crate::calls::CallSite;
use crate::ir::program::*;
use crate::memory::alias::Alias;
use crate::memory::places::Place;
use crate::memory::points_to::PointsTo;
use crate::memory::reaching::SlotWrites;
use crate::slice::order::Travel;
use crate::slice::slice_walk::Dependence;
use control::ControlDependence;
use library_flow::Resume;
use rustc_hash::FxHashMap as HashMap;
use serde::{Deserialize, Serialize};
use sketch_model::StatementId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What of an instruction is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Aspect {
    /// Everything it uses.
    Whole,
    /// That this call is made at all.
    Site,
    /// One argument of this call.
    Argument(u32),
    /// One argument of this call, an address, and what lies there.
    Handed(u32),
    /// What this call returns.
    Result,
    /// One field of what this instruction copies.
    Copied(FieldId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Node {
    pub at: InstructionRef,
    pub aspect: Aspect,
}

#[derive(Debug)]
pub(crate) struct Facts {
    control: ControlDependence,
    pub predecessors: Vec<Vec<BlockId>>,
    pub slots: SlotWrites,
    pub resumes: Vec<Resume>,
}

pub(crate) struct Dependences<'p> {
    pub(crate) program: &'p Program,
    pub(crate) alias: Alias,
    facts: RefCell<HashMap<FunctionId, Rc<Facts>>>,
    /// For `Alias::Andersen`, unless the program was too much for it.
    pub(crate) points_to: Option<PointsTo>,
    pub(crate) leads_to: RefCell<HashMap<FunctionId, Rc<Vec<bool>>>>,
    pub(crate) leaves: RefCell<HashMap<InstructionRef, Rc<Vec<bool>>>>,
    /// Loads through pointers whose targets are not known.
    pub(crate) unnamed_loads: Cell<u64>,
    pub(crate) assembly: Cell<u64>,
}

pub(crate) type Edges = Vec<Dependence<Node>>;

impl Dependences<'_> {
    pub(crate) fn statement(&self, node: Node) -> Option<StatementId> {
        if self.program.function(node.at).plumbing {
            return None;
        }
        self.program.statement_of(node.at)
    }

    /// What a node depends on.
    pub(crate) fn of(&self, node: Node) -> Edges {
        let mut edges = Edges::new();
        let at = node.at;
        match node.aspect {
            Aspect::Whole => self.whole(at, &mut edges),
            Aspect::Site => {}
            Aspect::Argument(number) => self.argument(at, number, &mut edges),
            Aspect::Handed(number) => self.handed(at, number, &mut edges),
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

pub(crate) fn edge(at: InstructionRef, aspect: Aspect, travel: Travel) -> Dependence<Node> {
    Dependence {
        on: Node { at, aspect },
        travel,
    }
}

/// How an instruction uses its operand at a position: as an address, or as a value.
pub(crate) fn way_to(op: Op, position: usize) -> Travel {
    let is_address = match op {
        Op::Load { .. } | Op::Update { .. } | Op::Fill { .. } => position == 0,
        Op::Store { .. } => position == 1,
        Op::Copy { .. } => position < 2,
        _ => false,
    };
    if is_address {
        Travel::Base
    } else {
        Travel::Value
    }
}

impl<'p> Dependences<'p> {
    pub fn new(program: &'p Program, alias: Alias) -> Dependences<'p> {
        let andersen = alias == Alias::Andersen;
        Dependences {
            program,
            alias,
            facts: RefCell::default(),
            points_to: andersen.then(|| PointsTo::of(program)).flatten(),
            leads_to: RefCell::default(),
            leaves: RefCell::default(),
            unnamed_loads: Cell::new(0),
            assembly: Cell::new(0),
        }
    }

    /// What a call may call.
    pub(crate) fn targets(&self, call: InstructionRef) -> &[FunctionId] {
        let arrived = self.points_to.as_ref().and_then(|p| p.targets(call));
        arrived.unwrap_or_else(|| self.program.calls.targets(call))
    }

    /// Who calls a function.
    pub(crate) fn callers(&self, id: FunctionId) -> impl Iterator<Item = &CallSite> {
        let sites = self.program.calls.callers(id).iter();
        sites.filter(move |site| site.callback.is_some() || self.targets(site.at).contains(&id))
    }

    /// The points-to analysis was asked for and was too much for this program.
    pub fn gave_up(&self) -> bool {
        self.alias == Alias::Andersen && self.points_to.is_none()
    }

    pub(crate) fn facts(&self, id: FunctionId) -> Rc<Facts> {
        let mut known = self.facts.borrow_mut();
        let facts = known.entry(id).or_insert_with(|| {
            let function = &self.program.functions[id as usize];
            let resolver = self.program.stores.resolver(&self.program.functions, id);
            Rc::new(Facts {
                control: ControlDependence::of(function),
                predecessors: function.predecessors(),
                slots: SlotWrites::of(&resolver),
                resumes: self.resumes(id),
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
            Op::VariableArguments => self.variable_arguments(at.function, edges),
            op => {
                for (position, operand) in function.operands(id).iter().enumerate() {
                    self.value(at.function, *operand, way_to(op, position), edges);
                }
                match op {
                    Op::Load { field, .. } | Op::Update { field, .. } => {
                        let place = self.place(at, 0, field);
                        self.contents(at, 0, place, edges);
                    }
                    Op::Phi => self.merge(at, edges),
                    _ => {}
                }
            }
        }
    }

    /// Why a call site matters to a function: it starts a thread with it, also
    /// by calling `std::thread`'s constructor, or it is a call of another kind.
    pub(crate) fn entry(&self, callee: FunctionId, site: &CallSite, otherwise: Travel) -> Travel {
        let starts = site.starts_thread() || self.program.calls.constructs_thread(callee);
        match otherwise {
            Travel::Argument if starts => Travel::Thread,
            Travel::Site if starts => Travel::Start,
            _ => otherwise,
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
        travel: Travel,
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
                    Op::Call(_) => edges.push(edge(at, Aspect::Result, travel)),
                    _ => edges.push(edge(at, Aspect::Whole, travel)),
                }
            }
            Operand::Parameter(number) => {
                for site in self.callers(holder) {
                    let travel = self.entry(holder, site, Travel::Argument);
                    if let Some(operand) = site.operand_for(number) {
                        edges.push(edge(site.at, Aspect::Argument(operand), travel));
                    }
                }
            }
            Operand::Function(_) | Operand::Global(_) | Operand::Constant => {}
        }
    }

    /// A phi's value depends on the block that control came from.
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
            let travel = Travel::Control;
            if let Op::Call(_) = self.program.op(at) {
                // A call decides by unwinding: so does what makes it unwind.
                edges.push(edge(at, Aspect::Site, travel));
                let throws = self.thrown_through(at).into_iter();
                edges.extend(throws.map(|throw| edge(throw, Aspect::Site, travel)));
            } else {
                edges.push(edge(at, Aspect::Whole, travel));
            }
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
            for site in self.callers(at.function) {
                let travel = self.entry(at.function, site, Travel::Site);
                edges.push(edge(site.at, Aspect::Site, travel));
            }
        }
    }
}
