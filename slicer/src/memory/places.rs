//! What an address denotes: a stack slot, a global, a field, or memory of
//! which only the derivation is known.
//!
//! Addresses are followed backward through pointer computations, casts, and
//! slots that keep what they were first given (as clang leaves parameters and most
//! locals), and through calls of functions that return an address derived from
//! a parameter (accessors, `std::forward`). A struct field wins over whatever
//! lies before it: `q->mut` is `queue.mut` wherever `q` comes from. That is only
//! the name; which objects of the type are meant is decided by `alias`.

use crate::ir::program::*;
use rustc_hash::FxHashMap as HashMap;
use serde::{Deserialize, Serialize};

/// How far an address is followed back.
const MAX_DEPTH: u32 = 12;

/// Where an address starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Root {
    Slot(InstructionId),
    Global(GlobalId),
    /// What the parameter points to.
    Parameter(u32),
    /// What a pointer kept in this global or field points to.
    ThroughGlobal(GlobalId),
    ThroughField(FieldId),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Place {
    pub root: Root,
    pub field: Option<FieldId>,
    /// No array element is chosen on the way: equal places are equal addresses.
    pub exact: bool,
    /// The record lying there, if a pointer computation ended on one.
    pub record: Option<RecordId>,
}

/// What a slot holds: the one value that is stored to it, or what a pointer began with
/// that is then only advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub value: Operand,
    pub advanced: bool,
}

/// Slots of one function that keep what they were first given.
pub(crate) type SingleStores = HashMap<InstructionId, Kept>;

/// Slots of which every use is a plain load or store, and which have one store beside
/// those that advance what they hold (`*p++ = c`).
pub(crate) fn single_stores(function: &Function) -> SingleStores {
    let mut stores: HashMap<InstructionId, Option<Vec<Operand>>> = HashMap::default();
    let slot_of = |operand: Operand| match operand {
        Operand::Instruction(id) if matches!(function.op(id), Op::Alloca { .. }) => Some(id),
        _ => None,
    };
    for id in 0..function.instructions.len() as InstructionId {
        let op = function.op(id);
        for (position, operand) in function.operands(id).iter().enumerate() {
            let Some(slot) = slot_of(*operand) else {
                continue;
            };
            match (op, position) {
                (Op::Load { .. }, 0) => {}
                (Op::Store { .. }, 1) => {
                    let known = stores.entry(slot).or_insert_with(|| Some(Vec::new()));
                    known
                        .iter_mut()
                        .for_each(|v| v.push(function.operand(id, 0)));
                }
                _ => {
                    stores.insert(slot, None);
                }
            }
        }
    }
    stores
        .into_iter()
        .filter_map(|(slot, values)| Some((slot, kept(function, slot, &values?)?)))
        .collect()
}

fn kept(function: &Function, slot: InstructionId, values: &[Operand]) -> Option<Kept> {
    let mut given = values.iter().filter(|v| !advances(function, slot, **v));
    let value = *given.next()?;
    let advanced = values.len() > 1;
    given.next().is_none().then_some(Kept { value, advanced })
}

/// Whether a value is what the slot holds, moved to another element.
fn advances(function: &Function, slot: InstructionId, value: Operand) -> bool {
    let Operand::Instruction(id) = value else {
        return false;
    };
    let Op::Pointer(PointerStep { field: None, .. }) = function.op(id) else {
        return false;
    };
    let Operand::Instruction(load) = function.operand(id, 0) else {
        return false;
    };
    let is_load = matches!(function.op(load), Op::Load { .. });
    is_load && function.operand(load, 0) == Operand::Instruction(slot)
}

/// What an address that a function returns is derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Returned {
    pub parameter: Option<u32>,
    pub field: Option<FieldId>,
}

/// Resolves addresses of one function.
pub(crate) struct Resolver<'a> {
    pub function: &'a Function,
    pub single: &'a SingleStores,
    /// By function; empty while this is being worked out.
    pub returned: &'a [Option<Returned>],
}

impl Resolver<'_> {
    /// What the function's results are derived from, if all from the same.
    pub fn returned(&self) -> Option<Returned> {
        let mut result = None;
        for block in 0..self.function.blocks.len() as BlockId {
            let Some(id) = self.function.terminator(block) else {
                continue;
            };
            if self.function.op(id) != Op::Return || self.function.operands(id).is_empty() {
                continue;
            }
            let place = self.resolve(self.function.operand(id, 0), MAX_DEPTH);
            let parameter = match place.root {
                Root::Parameter(number) => Some(number),
                _ => None,
            };
            let this = Returned {
                parameter,
                field: place.field,
            };
            if result.is_some_and(|other| other != this) {
                return None;
            }
            result = Some(this);
        }
        result.filter(|r| r.parameter.is_some() || r.field.is_some())
    }

    /// The place that a load, store or copy through `pointer` touches; `field`
    /// is what the access itself knows of a constant address.
    pub fn place(&self, pointer: Operand, field: Option<FieldId>) -> Place {
        let mut place = self.resolve(pointer, MAX_DEPTH);
        place.field = place.field.or(field);
        place
    }

    fn resolve(&self, pointer: Operand, depth: u32) -> Place {
        let unknown = Place {
            root: Root::Unknown,
            field: None,
            exact: false,
            record: None,
        };
        let at = |root| Place {
            root,
            exact: true,
            ..unknown
        };
        let id = match pointer {
            Operand::Instruction(id) if depth > 0 => id,
            Operand::Global(id) => return at(Root::Global(id)),
            Operand::Parameter(number) => return at(Root::Parameter(number)),
            _ => return unknown,
        };
        match self.function.op(id) {
            Op::Alloca { record, .. } => Place {
                record,
                ..at(Root::Slot(id))
            },
            Op::Cast => self.resolve(self.function.operand(id, 0), depth - 1),
            Op::Pointer(step) => {
                let base = self.resolve(self.function.operand(id, 0), depth - 1);
                Place {
                    root: base.root,
                    field: step.field.or(base.field),
                    exact: base.exact && !step.element,
                    record: step.lands_on,
                }
            }
            Op::Load { field, .. } => {
                let address = self.function.operand(id, 0);
                let held = match address {
                    Operand::Instruction(slot) => self.single.get(&slot),
                    _ => None,
                };
                if let Some(kept) = held {
                    let place = self.resolve(kept.value, depth - 1);
                    let exact = place.exact && !kept.advanced;
                    return Place { exact, ..place };
                }
                let holder = self.resolve(address, depth - 1);
                match (holder.field.or(field), holder.root) {
                    (Some(field), _) => at(Root::ThroughField(field)),
                    (None, Root::Global(id)) => at(Root::ThroughGlobal(id)),
                    _ => unknown,
                }
            }
            Op::Call(Callee::Direct(callee)) => {
                let Some(Some(returned)) = self.returned.get(callee as usize) else {
                    return unknown;
                };
                let base = match returned.parameter {
                    Some(number) => {
                        self.resolve(self.function.operand(id, number as usize), depth - 1)
                    }
                    None => unknown,
                };
                Place {
                    root: base.root,
                    field: returned.field.or(base.field),
                    exact: false,
                    record: None,
                }
            }
            _ => unknown,
        }
    }
}
