//! Whether a program read from bytes can be worked with: every number that is
//! used as an index lies within what it indexes.
//!
//! The rest of the crate indexes without asking, because what it made itself is
//! right. This is the one place where that is established for what came from
//! outside. It says nothing about whether the program is the right one.

use crate::calls::CallGraph;
use crate::dependences::graph::Graph;
use crate::ir::program::*;
use crate::memory::places::{Place, Root};
use crate::memory::stores::{StoreIndex, Write};

pub(crate) fn is_sound(program: &Program) -> bool {
    let check = Check { program };
    let functions = program.functions.iter().all(|f| check.function(f));
    functions
        && check.symbols()
        && check.tables()
        && check.stores(&program.stores)
        && check.calls(&program.calls)
        && program.graph.get().is_none_or(|graph| check.graph(graph))
}

struct Check<'a> {
    program: &'a Program,
}

impl Check<'_> {
    fn has_function(&self, id: FunctionId) -> bool {
        (id as usize) < self.program.functions.len()
    }

    fn has_global(&self, id: GlobalId) -> bool {
        (id as usize) < self.program.symbols.globals.len()
    }

    fn has_record(&self, id: Option<RecordId>) -> bool {
        id.is_none_or(|id| (id as usize) < self.program.symbols.records.len())
    }

    fn has_field(&self, id: Option<FieldId>) -> bool {
        id.is_none_or(|id| (id as usize) < self.program.symbols.fields.len())
    }

    fn has_statement(&self, id: u32) -> bool {
        (id as usize) < self.program.statements.len()
    }

    fn has_instruction(&self, at: InstructionRef) -> bool {
        let function = self.program.functions.get(at.function as usize);
        function.is_some_and(|f| (at.instruction as usize) < f.instructions.len())
    }

    fn function(&self, function: &Function) -> bool {
        let has_block = |id: &BlockId| (*id as usize) < function.blocks.len();
        let blocks = function.blocks.iter().all(|block| {
            block.first <= block.end
                && block.end as usize <= function.instructions.len()
                && block.successors.iter().chain(&block.unwind).all(has_block)
        });
        let loops = function.loops.iter();
        let mut loops = loops.flat_map(|l| [l.latch, l.header]);
        blocks
            && loops.all(|block| has_block(&block))
            && function.operands.iter().all(|o| self.operand(function, *o))
            && (0..)
                .zip(&function.instructions)
                .all(|(id, i)| self.instruction(function, id, i))
    }

    fn operand(&self, function: &Function, operand: Operand) -> bool {
        match operand {
            Operand::Instruction(id) => (id as usize) < function.instructions.len(),
            Operand::Function(id) => self.has_function(id),
            Operand::Global(id) => self.has_global(id),
            Operand::Parameter(_) | Operand::Constant => true,
        }
    }

    fn instruction(
        &self,
        function: &Function,
        id: InstructionId,
        instruction: &Instruction,
    ) -> bool {
        let block = function.blocks.get(instruction.block as usize);
        let in_block = block.is_some_and(|b| (b.first..b.end).contains(&id));
        let end = instruction
            .first_operand
            .checked_add(instruction.operand_count);
        let in_pool = end.is_some_and(|end| end as usize <= function.operands.len());
        let statement = instruction.statement;
        in_pool
            && in_block
            && statement.is_none_or(|id| self.has_statement(id.0))
            && match instruction.op {
                Op::Alloca { record, .. } | Op::Copy { record } | Op::Fill { record } => {
                    self.has_record(record)
                }
                Op::Load { field, .. } | Op::Update { field, .. } => self.has_field(field),
                Op::Store { field, .. } => self.has_field(field) && instruction.operand_count > 1,
                Op::Pointer(step) => self.has_field(step.field) && self.has_record(step.lands_on),
                Op::Call(Callee::Direct(id)) => self.has_function(id),
                Op::Call(Callee::Indirect) | Op::Select => instruction.operand_count > 0,
                _ => true,
            }
    }

    fn symbols(&self) -> bool {
        let symbols = &self.program.symbols;
        let mut fields = symbols.fields.iter();
        let held = symbols.held.iter();
        fields.all(|f| self.has_record(Some(f.record)))
            && held
                .into_iter()
                .all(|(id, f)| self.has_global(*id) && f.iter().all(|id| self.has_function(*id)))
            && symbols.classes.functions().all(|id| self.has_function(id))
    }

    fn tables(&self) -> bool {
        let program = self.program;
        program.members.len() == program.statements.len()
            && program
                .members
                .iter()
                .flatten()
                .all(|at| self.has_instruction(*at))
            && program
                .by_file_name
                .values()
                .flatten()
                .all(|id| self.has_statement(id.0))
    }

    fn place(&self, function: FunctionId, place: &Place) -> bool {
        let root = match place.root {
            Root::Slot(instruction) => self.has_instruction(InstructionRef {
                function,
                instruction,
            }),
            Root::Global(id) | Root::ThroughGlobal(id) => self.has_global(id),
            Root::ThroughField(id) => self.has_field(Some(id)),
            Root::Parameter(_) | Root::Unknown => true,
        };
        root && self.has_field(place.field) && self.has_record(place.record)
    }

    fn write(&self, write: &Write) -> bool {
        self.has_instruction(write.at) && self.place(write.at.function, &write.place)
    }

    fn stores(&self, stores: &StoreIndex) -> bool {
        let functions = &self.program.functions;
        let mut returned = stores.returned.iter().flatten();
        let mut single = stores.single.iter().zip(functions);
        let fields = stores.fields_of.values().flatten();
        stores.all_writes().all(|write| self.write(write))
            && stores
                .passed_globals
                .values()
                .flatten()
                .all(|(at, _)| self.has_instruction(*at))
            && { fields }.all(|id| self.has_field(Some(*id)))
            && stores.escaping.iter().all(|at| self.has_instruction(*at))
            && stores.returned.len() == functions.len()
            && returned.all(|r| self.has_field(r.field))
            && stores.single.len() == functions.len()
            && single.all(|(values, f)| values.values().all(|kept| self.operand(f, kept.value)))
    }

    fn calls(&self, calls: &CallGraph) -> bool {
        let count = self.program.functions.len();
        let mut sites = calls.callers.iter().flatten();
        let lists = calls.targets.iter().chain(&calls.routines);
        let mut ids = calls
            .thread_constructors
            .iter()
            .chain(calls.declared.values());
        calls.callers.len() == count
            && calls.roles.len() == count
            && sites.all(|site| self.has_instruction(site.at))
            && { lists }.all(|(at, f)| {
                self.has_instruction(*at) && f.iter().all(|id| self.has_function(*id))
            })
            && ids.all(|id| self.has_function(*id))
    }

    fn graph(&self, graph: &Graph) -> bool {
        let count = graph.nodes.len();
        let lists = graph.list_count();
        let most = self.program.statements.len();
        graph.nodes.windows(2).all(|pair| pair[0] < pair[1])
            && graph.statements.len() == count
            && graph.statements.iter().all(|id| *id as usize <= most)
            && graph.unknown.len() == count
            && graph.lists.len() == count
            && graph
                .lists
                .iter()
                .flatten()
                .all(|id| (*id as usize) < lists)
            && graph.starts.windows(2).all(|pair| pair[0] <= pair[1])
            && graph
                .starts
                .last()
                .is_none_or(|end| *end as usize == graph.edges.len())
            && graph
                .edges
                .iter()
                .all(|edge| (edge.on() as usize) < count && edge.checked_travel().is_some())
    }
}
