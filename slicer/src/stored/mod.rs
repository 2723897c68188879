//! A program as bytes, so that a build's graph is made once.
//!
//! The bytes begin with what made them: a mark, the format, a fingerprint of this
//! crate's own source (`build.rs`) and the build. A graph of another version of
//! the analysis is another graph, even where the format is the same, and the
//! fingerprint notices what nobody remembers to count up. Whatever does not
//! agree is refused, and the caller makes the graph anew from the bitcode.
//!
//! Bytes that agree are still not trusted: every number that is an index later
//! is checked once after reading (`sound`).
//!
//! Deliberately absent: a checksum. The build store has one for all it keeps.

pub(crate) mod bytes;
pub(crate) mod validate;

use crate::calls::CallSite;
use crate::dependences::graph::{Edge, Graph};
use crate::dependences::{Aspect, Node};
use crate::ir::classes::VirtualCall;
use crate::ir::library::{number_of_callback, numbered_callback};
use crate::ir::program::*;
use crate::memory::places::{Place, Returned, Root};
use crate::memory::stores::Write;
use bytes::{Reader, Stored, Writer, stored_enum, stored_struct};
use sketch_model::{BuildId, SourceLocation, StatementId};
use std::sync::OnceLock;
use validate::is_sound;

const MARK: &[u8; 8] = b"fsgraph\n";
/// Of the types and their order below.
const FORMAT: u64 = 1;
/// Of the source of this crate; see `build.rs`.
const MADE_BY: &str = env!("SLICER_SOURCE");

/// Why bytes are not the stored graph that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("these bytes are not a stored graph")]
    Foreign,
    #[error("the stored graph was made by another version of failsketch")]
    OtherVersion,
    #[error("the stored graph is of another build")]
    OtherBuild,
    #[error("the stored graph is damaged")]
    Damaged,
}

impl Program {
    /// What names the version of stored graphs: others are refused.
    pub fn graph_version() -> String {
        format!("{FORMAT}-{MADE_BY}")
    }

    /// The program with its dependences, for [`Program::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.bytes.extend(MARK);
        to.number(FORMAT);
        to.text(MADE_BY);
        to.text(&self.build.0);
        self.functions.write(&mut to);
        self.symbols.write(&mut to);
        self.statements.write(&mut to);
        self.members.write(&mut to);
        self.by_file_name.write(&mut to);
        self.stores.write(&mut to);
        self.calls.write(&mut to);
        self.gaps.write(&mut to);
        self.graph().write(&mut to);
        to.bytes
    }

    /// The program that [`Program::to_bytes`] wrote; an error for anything else.
    pub fn from_bytes(build: &BuildId, bytes: &[u8]) -> Result<Program, GraphError> {
        let body = bytes.strip_prefix(MARK).ok_or(GraphError::Foreign)?;
        let mut from = Reader::new(body);
        if from.number() != Some(FORMAT) || from.text() != Some(MADE_BY) {
            return Err(GraphError::OtherVersion);
        }
        if from.text() != Some(&build.0) {
            return Err(GraphError::OtherBuild);
        }
        let program = read_program(build, &mut from).filter(|_| from.is_empty());
        program.filter(is_sound).ok_or(GraphError::Damaged)
    }
}

fn read_program(build: &BuildId, from: &mut Reader<'_>) -> Option<Program> {
    Some(Program {
        build: build.clone(),
        functions: Stored::read(from)?,
        symbols: Stored::read(from)?,
        statements: Stored::read(from)?,
        members: Stored::read(from)?,
        by_file_name: Stored::read(from)?,
        stores: Stored::read(from)?,
        calls: Stored::read(from)?,
        gaps: Stored::read(from)?,
        graph: OnceLock::from(Graph::read(from)?),
    })
}

stored_struct!(InstructionRef {
    function,
    instruction
});
stored_struct!(PointerStep {
    field,
    element,
    lands_on
});
stored_struct!(SourceLoop {
    latch,
    header,
    start,
    end
});
stored_struct!(Block {
    first,
    end,
    successors,
    unwind,
    start
});
stored_struct!(Field {
    record,
    offset,
    name
});
stored_struct!(StatementInfo {
    id,
    function,
    location
});
stored_struct!(SourceLocation { file, line });
stored_struct!(Symbols {
    globals,
    records,
    fields,
    held,
    classes
});
stored_struct!(VirtualCall { slot, class });
stored_struct!(Instruction {
    op,
    first_operand,
    operand_count,
    statement,
    column,
    block
});
stored_struct!(Function {
    name,
    signature,
    address_taken,
    in_initializer,
    called_types,
    virtual_calls,
    parameter_count,
    plumbing,
    blocks,
    loops,
    instructions,
    operands,
});
stored_struct!(Write { at, place });
stored_struct!(Place {
    root,
    field,
    exact,
    record
});
stored_struct!(Returned { parameter, field });
stored_struct!(CallSite { at, callback });
stored_struct!(Node { at, aspect });
stored_struct!(Graph {
    nodes,
    statements,
    unknown,
    lists,
    starts,
    edges,
    gave_up
});

stored_enum!(Operand {
    0 => Instruction(id),
    1 => Parameter(number),
    2 => Function(id),
    3 => Global(id),
    4 => Constant,
});
stored_enum!(Callee { 0 => Direct(id), 1 => Indirect, 2 => Assembly });
stored_enum!(Op {
    0 => Alloca { declared, record },
    1 => Load { size, field },
    2 => Store { size, field },
    3 => Update { size, field },
    4 => Copy { record },
    5 => Fill { record },
    6 => Pointer(step),
    7 => Cast,
    8 => Call(callee),
    9 => Phi,
    10 => Select,
    11 => Branch,
    12 => Return,
    13 => LandingPad,
    14 => VariableArguments,
    15 => Marker,
    16 => Other,
});
stored_enum!(Root {
    0 => Slot(id),
    1 => Global(id),
    2 => Parameter(number),
    3 => ThroughGlobal(id),
    4 => ThroughField(id),
    5 => Unknown,
});
stored_enum!(Aspect {
    0 => Whole,
    1 => Site,
    2 => Argument(number),
    3 => Handed(number),
    4 => Result,
    5 => Copied(field),
});

impl Stored for StatementId {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Option<StatementId> {
        u32::read(from).map(StatementId)
    }
}

/// By its place in the library's table, which the fingerprint covers.
impl Stored for &'static crate::ir::library::Callback {
    fn write(&self, to: &mut Writer) {
        to.number(number_of_callback(self) as u64);
    }
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        numbered_callback(usize::try_from(from.number()?).ok()?)
    }
}

impl Stored for Edge {
    fn write(&self, to: &mut Writer) {
        self.bits().write(to);
    }
    fn read(from: &mut Reader<'_>) -> Option<Edge> {
        Edge::from_bits(u32::read(from)?)
    }
}

impl Stored for [u32; 2] {
    fn write(&self, to: &mut Writer) {
        self[0].write(to);
        self[1].write(to);
    }
    fn read(from: &mut Reader<'_>) -> Option<[u32; 2]> {
        Some([u32::read(from)?, u32::read(from)?])
    }
}
