//! A program as plain data: functions, blocks, instructions, statements.
//!
//! Only what slicing needs is kept of LLVM's IR: an opcode class, operands,
//! the field a pointer computation lands on, a statement and a column. Operands
//! lie in one pool per function, because a big program has millions of them and
//! a vector for each would double its memory.
//!
//! Deliberately absent: types (beyond sizes and record names) and constants'
//! values. No LLVM handle survives loading.

use crate::calls::CallGraph;
use crate::dependences::graph::Graph;
use crate::ir::classes::{Classes, VirtualCall};
use crate::memory::stores::StoreIndex;
use rustc_hash::FxHashMap as HashMap;
use serde::{Deserialize, Serialize};
use sketch_model::{BuildId, Gap, SourceLocation, StatementId, UnknownRoutine};
use std::sync::OnceLock;

/// Position in [`Program::functions`].
pub(crate) type FunctionId = u32;
/// Position in [`Function::instructions`].
pub(crate) type InstructionId = u32;
/// Position in [`Function::blocks`].
pub(crate) type BlockId = u32;
/// Position in [`Symbols::globals`].
pub(crate) type GlobalId = u32;
/// Position in [`Symbols::records`].
pub(crate) type RecordId = u32;
/// Position in [`Symbols::fields`].
pub(crate) type FieldId = u32;

/// One instruction of the whole program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct InstructionRef {
    pub function: FunctionId,
    pub instruction: InstructionId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Operand {
    Instruction(InstructionId),
    Parameter(u32),
    Function(FunctionId),
    /// The address of a global variable, or a constant offset from it.
    Global(GlobalId),
    /// Any other constant, undef, a block, metadata.
    Constant,
}

/// What a pointer computation (`getelementptr`) does to its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PointerStep {
    /// The field of the innermost *named* record that it enters.
    pub field: Option<FieldId>,
    /// It also selects an element of an array or of an anonymous record, so two
    /// results need not be equal.
    pub element: bool,
    /// The record that lies at the result, if a whole one does.
    pub lands_on: Option<RecordId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Callee {
    Direct(FunctionId),
    /// The pointer is the call's last operand.
    Indirect,
    Assembly,
}

/// Opcode class. Comments give the operands in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Op {
    /// A stack slot; `declared` if it holds a variable of the source.
    Alloca {
        declared: bool,
        record: Option<RecordId>,
    },
    /// pointer
    Load { size: u32, field: Option<FieldId> },
    /// value, pointer
    Store { size: u32, field: Option<FieldId> },
    /// Atomic read-modify-write: pointer, values
    Update { size: u32, field: Option<FieldId> },
    /// memcpy, memmove: destination, source, length
    Copy { record: Option<RecordId> },
    /// memset: destination, value, length
    Fill { record: Option<RecordId> },
    /// base, indices
    Pointer(PointerStep),
    /// A change of type only: value
    Cast,
    /// arguments, then the callee's pointer if indirect
    Call(Callee),
    /// incoming values
    Phi,
    /// condition, two values
    Select,
    /// A conditional branch or switch: condition
    Branch,
    /// value, if any
    Return,
    /// Where an exception arrives: the types that are caught, `Constant` for all
    LandingPad,
    /// va_start: the list
    VariableArguments,
    /// Debug and lifetime markers.
    Marker,
    /// Arithmetic, comparisons, other intrinsics, unconditional jumps.
    Other,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Instruction {
    pub op: Op,
    pub first_operand: u32,
    pub operand_count: u32,
    pub statement: Option<StatementId>,
    pub column: u32,
    pub block: BlockId,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Block {
    pub first: InstructionId,
    /// One past the last.
    pub end: InstructionId,
    /// Ordinary successors; the unwind edge of an invoke is apart.
    pub successors: Vec<BlockId>,
    pub unwind: Option<BlockId>,
    /// Line and column of its first instruction that has them.
    pub start: Option<(u32, u32)>,
}

/// A loop of the source: the jump back, and where the text begins and ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SourceLoop {
    pub latch: BlockId,
    pub header: BlockId,
    pub start: (u32, u32),
    pub end: (u32, u32),
}

/// A function; without blocks if only declared.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Function {
    pub name: String,
    /// Its type in LLVM's notation: what indirect calls are matched by.
    pub signature: String,
    pub address_taken: bool,
    /// A global's initial value holds its address.
    pub in_initializer: bool,
    /// The types that indirect calls call, by call.
    pub called_types: HashMap<InstructionId, String>,
    /// Those of them that go through a C++ table.
    pub virtual_calls: HashMap<InstructionId, VirtualCall>,
    pub parameter_count: u32,
    /// It only hands values on into a new thread; see `names::is_plumbing`.
    pub plumbing: bool,
    pub blocks: Vec<Block>,
    pub loops: Vec<SourceLoop>,
    pub instructions: Vec<Instruction>,
    pub operands: Vec<Operand>,
}

impl Function {
    pub fn is_defined(&self) -> bool {
        !self.blocks.is_empty()
    }

    pub fn operands(&self, id: InstructionId) -> &[Operand] {
        let instruction = &self.instructions[id as usize];
        let first = instruction.first_operand as usize;
        &self.operands[first..first + instruction.operand_count as usize]
    }

    pub fn operand(&self, id: InstructionId, position: usize) -> Operand {
        let found = self.operands(id).get(position);
        found.copied().unwrap_or(Operand::Constant)
    }

    pub fn op(&self, id: InstructionId) -> Op {
        self.instructions[id as usize].op
    }

    pub fn terminator(&self, block: BlockId) -> Option<InstructionId> {
        let block = &self.blocks[block as usize];
        (block.end > block.first).then(|| block.end - 1)
    }

    /// Predecessors of each block, unwind edges included.
    pub fn predecessors(&self) -> Vec<Vec<BlockId>> {
        let mut result = vec![Vec::new(); self.blocks.len()];
        for (number, block) in self.blocks.iter().enumerate() {
            for next in block.successors.iter().chain(&block.unwind) {
                result[*next as usize].push(number as BlockId);
            }
        }
        result
    }
}

/// A field of a record by its byte offset; `name` is the member's, or the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Field {
    pub record: RecordId,
    pub offset: u64,
    pub name: String,
}

/// One row of the statement table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementInfo {
    pub id: StatementId,
    /// The linkage name of the function.
    pub function: String,
    pub location: SourceLocation,
}

/// What is known by name beside functions.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Symbols {
    pub globals: Vec<String>,
    pub records: Vec<String>,
    pub fields: Vec<Field>,
    /// The functions that initial values of globals hold.
    pub held: HashMap<GlobalId, Vec<FunctionId>>,
    pub classes: Classes,
}

impl Symbols {
    /// The field at the start of the record of that name.
    pub fn first_field(&self, record: &str) -> Option<FieldId> {
        let is_it = |f: &Field| f.offset == 0 && self.records[f.record as usize] == record;
        let position = self.fields.iter().position(is_it);
        position.map(|id| id as FieldId)
    }
}

/// What loading could not analyse. As [`Gap`], but in a form that postcard can read back:
/// gaps describe themselves, and stored programs do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProgramGap {
    /// By its name.
    ModuleWithoutDebugInfo(String),
    /// What this function hands over.
    RoutineUnknown(String, UnknownRoutine),
}

impl ProgramGap {
    fn gap(&self) -> Gap {
        match self.clone() {
            ProgramGap::ModuleWithoutDebugInfo(module) => Gap::ModuleWithoutDebugInfo { module },
            ProgramGap::RoutineUnknown(function, routine) => {
                Gap::RoutineUnknown { function, routine }
            }
        }
    }
}

/// A whole program, ready to be sliced.
#[derive(Debug)]
pub struct Program {
    pub(crate) build: BuildId,
    pub(crate) functions: Vec<Function>,
    pub(crate) symbols: Symbols,
    pub(crate) statements: Vec<StatementInfo>,
    /// The instructions of each statement, in program order.
    pub(crate) members: Vec<Vec<InstructionRef>>,
    /// By statement: its line is a library's, and no slice lists it.
    pub(crate) libraries: Vec<bool>,
    /// Statements by the last component of their file's path.
    pub(crate) by_file_name: HashMap<String, Vec<StatementId>>,
    pub(crate) stores: StoreIndex,
    pub(crate) calls: CallGraph,
    /// What could not be analysed.
    pub(crate) gaps: Vec<ProgramGap>,
    /// Made when a slice first needs it.
    pub(crate) graph: OnceLock<Graph>,
}

impl Program {
    /// The statement table, sorted by file, line and function. An id is a
    /// position in it, so it depends on the bitcode alone.
    pub fn statements(&self) -> &[StatementInfo] {
        &self.statements
    }

    /// Takes over whose each source file is. Where there is no answer, and where nothing
    /// would be the program's own, system headers are a library's and all else its own.
    pub fn with_own_files(mut self, is_own: &dyn Fn(&str) -> Option<bool>) -> Program {
        let is_library = |file: &str| is_own(file).map_or_else(|| is_system(file), |own| !own);
        let decided = by_file(&self.statements, is_library);
        if !decided.iter().all(|library| *library) {
            self.libraries = decided;
        }
        self
    }

    /// Whether a statement's line is a library's.
    pub(crate) fn is_library(&self, id: StatementId) -> bool {
        self.libraries.get(id.0 as usize) == Some(&true)
    }

    /// The dependences of the whole program, made at the first call.
    pub(crate) fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| Graph::whole(self))
    }

    /// Works out the dependences of the whole program now, and not at the first
    /// slice; how many there are.
    pub fn link(&self) -> usize {
        self.graph().edges.len()
    }

    pub fn build(&self) -> &BuildId {
        &self.build
    }

    /// What loading could not analyse.
    pub fn gaps(&self) -> Vec<Gap> {
        self.gaps.iter().map(ProgramGap::gap).collect()
    }

    /// The statement on a line. `file` is a full path or the end of one (whole
    /// components); `function` is a linkage name and decides between functions
    /// that share a line.
    pub fn statement_at(
        &self,
        function: Option<&str>,
        file: &str,
        line: u32,
    ) -> Option<StatementId> {
        let file = file.trim_start_matches("./");
        let last = file.rsplit('/').next().unwrap_or(file);
        let location = |id: &StatementId| &self.statements[id.0 as usize].location;
        // Sorted by file and line: a build of one file has every statement in here.
        let mut rest = self.by_file_name.get(last)?.as_slice();
        let mut found = None;
        while let Some(first) = rest.first() {
            let path = &location(first).file;
            let (of_file, others) =
                rest.split_at(rest.partition_point(|id| location(id).file == *path));
            rest = others;
            if !is_path_end(path, file) {
                continue;
            }
            let from = of_file.partition_point(|id| location(id).line < line);
            let on_line = of_file[from..]
                .iter()
                .take_while(|id| location(id).line == line);
            let mut fits = on_line.filter(|id| {
                function.is_none_or(|name| name == self.statements[id.0 as usize].function)
            });
            match fits.next() {
                Some(id) if path == file => return Some(*id),
                Some(id) => found = found.or(Some(*id)),
                None => {}
            }
        }
        found
    }

    pub(crate) fn function(&self, at: InstructionRef) -> &Function {
        &self.functions[at.function as usize]
    }

    pub(crate) fn op(&self, at: InstructionRef) -> Op {
        self.function(at).op(at.instruction)
    }

    pub(crate) fn statement_of(&self, at: InstructionRef) -> Option<StatementId> {
        self.function(at).instructions[at.instruction as usize].statement
    }

    pub(crate) fn members(&self, id: StatementId) -> &[InstructionRef] {
        self.members.get(id.0 as usize).map_or(&[], Vec::as_slice)
    }
}

/// Which statements are in system headers.
pub(crate) fn libraries(statements: &[StatementInfo]) -> Vec<bool> {
    by_file(statements, is_system)
}

fn by_file(statements: &[StatementInfo], is: impl Fn(&str) -> bool) -> Vec<bool> {
    let mut known: HashMap<&str, bool> = HashMap::default();
    let files = statements.iter().map(|info| info.location.file.as_str());
    let answer = |file| *known.entry(file).or_insert_with(|| is(file));
    files.map(answer).collect()
}

fn is_system(file: &str) -> bool {
    file.starts_with("/usr/include/") || file.starts_with("/usr/lib/")
}

fn is_path_end(path: &str, end: &str) -> bool {
    path.strip_suffix(end)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('/') || end.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_path_end;

    #[test]
    fn a_path_ends_in_whole_components() {
        assert!(is_path_end("/src/lib/queue.c", "queue.c"));
        assert!(is_path_end("/src/lib/queue.c", "lib/queue.c"));
        assert!(is_path_end("/src/lib/queue.c", "/src/lib/queue.c"));
        assert!(!is_path_end("/src/lib/queue.c", "ueue.c"));
        assert!(!is_path_end("/src/lib/queue.c", "other/queue.c"));
    }
}
