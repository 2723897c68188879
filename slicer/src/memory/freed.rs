//! Calls that free a block, as writes of what lay there.
//!
//! Whoever reads a block that was freed reads what the free left: the call is what stored
//! it, as far as a slice cares. Pointers have no types in the bitcode, so which record a
//! block holds is told by how the same pointer is used: in the same function, through the
//! same global or field anywhere, or by a function that it is given to (a destructor).
//!
//! Deliberately absent: which object it was. As with stores, one of the record's fields is
//! as good as another.

use crate::ir::library::frees;
use crate::ir::program::*;
use crate::memory::places::Root;
use crate::memory::stores::{StoreIndex, Write};
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// A pointer by where it comes from; locals and parameters are those of a function. A
/// slot stands for the pointer that it holds.
type Pointer = (Option<FunctionId>, Root);
type Records = BTreeSet<RecordId>;

/// The calls that free, each with the records that may lie there.
pub(crate) fn freed(
    index: &StoreIndex,
    functions: &[Function],
    fields: &[Field],
) -> Vec<(Write, Records)> {
    let calls = calls_that_free(functions);
    if calls.is_empty() {
        return Vec::new();
    }
    let known = records_behind(index, functions, fields);
    let mut found = Vec::new();
    for at in calls {
        let function = &functions[at.function as usize];
        let operand = function.operand(at.instruction, 0);
        let place = index.resolver(functions, at.function).place(operand, None);
        if place.field.is_some() || matches!(place.root, Root::Slot(_)) {
            continue;
        }
        let mut records = Records::new();
        if let Some(pointer) = pointer(index, functions, at.function, operand) {
            records.extend(known.get(&pointer).into_iter().flatten());
            for given in given_to(index, functions, at.function, pointer) {
                records.extend(known.get(&given).into_iter().flatten());
            }
        }
        found.push((Write { at, place }, records));
    }
    found
}

fn calls_that_free(functions: &[Function]) -> Vec<InstructionRef> {
    let frees: Vec<bool> = functions
        .iter()
        .map(|function| !function.is_defined() && frees(&function.name))
        .collect();
    let mut found = Vec::new();
    for (function, body) in (0..).zip(functions) {
        for instruction in 0..body.instructions.len() as InstructionId {
            let at = InstructionRef {
                function,
                instruction,
            };
            match body.op(instruction) {
                Op::Call(Callee::Direct(callee)) if frees[callee as usize] => found.push(at),
                _ => {}
            }
        }
    }
    found
}

/// Where a pointer comes from, if that says anything.
fn pointer(
    index: &StoreIndex,
    functions: &[Function],
    holder: FunctionId,
    operand: Operand,
) -> Option<Pointer> {
    let place = index.resolver(functions, holder).place(operand, None);
    if place.field.is_some() {
        return None;
    }
    match place.root {
        root @ Root::Parameter(_) => Some((Some(holder), root)),
        root @ (Root::ThroughGlobal(_) | Root::ThroughField(_)) => Some((None, root)),
        Root::Slot(_) | Root::Global(_) => None,
        Root::Unknown => {
            let function = &functions[holder as usize];
            let Operand::Instruction(load) = operand else {
                return None;
            };
            match (function.op(load), function.operand(load, 0)) {
                (Op::Load { .. }, Operand::Instruction(slot))
                    if matches!(function.op(slot), Op::Alloca { .. }) =>
                {
                    Some((Some(holder), Root::Slot(slot)))
                }
                _ => None,
            }
        }
    }
}

/// The records whose fields are reached through each pointer.
fn records_behind(
    index: &StoreIndex,
    functions: &[Function],
    fields: &[Field],
) -> HashMap<Pointer, Records> {
    let mut known: HashMap<Pointer, Records> = HashMap::default();
    for (holder, function) in (0..).zip(functions) {
        for id in 0..function.instructions.len() as InstructionId {
            let Op::Pointer(PointerStep {
                field: Some(field), ..
            }) = function.op(id)
            else {
                continue;
            };
            let base = function.operand(id, 0);
            if let Some(pointer) = pointer(index, functions, holder, base) {
                let record = fields[field as usize].record;
                known.entry(pointer).or_default().insert(record);
            }
        }
    }
    known
}

/// The parameters that a pointer becomes in functions that its holder calls.
fn given_to(
    index: &StoreIndex,
    functions: &[Function],
    holder: FunctionId,
    wanted: Pointer,
) -> Vec<Pointer> {
    let function = &functions[holder as usize];
    let mut found = Vec::new();
    for id in 0..function.instructions.len() as InstructionId {
        let Op::Call(Callee::Direct(callee)) = function.op(id) else {
            continue;
        };
        if !functions[callee as usize].is_defined() {
            continue;
        }
        for (number, operand) in (0..).zip(function.operands(id)) {
            if pointer(index, functions, holder, *operand) == Some(wanted) {
                found.push((Some(callee), Root::Parameter(number)));
            }
        }
    }
    found
}
