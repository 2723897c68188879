//! Accesses that the optimiser made one of several.
//!
//! Branches that end alike (`a->n += x;` here, `b->n += y;` there) get one common end:
//! a load and a store at line 0, through a pointer that a phi chooses by the incoming
//! edge. The edge tells the accesses apart again. What the pointer is on an edge is
//! known where another access goes through the very same pointer at a line of its
//! own: that access names the location. If just one site of the plan stores to that
//! location in the functions that the edge belongs to, and its function has no other
//! store there, in the plan or not (`source_stores.rs`), the access is that site's when
//! control comes by that edge; otherwise it belongs to no site.
//!
//! A merged load is recognised only by the store beside it (`+=` is both).

use crate::sites::locate::Locator;
use crate::sites::place::SiteIndex;
use crate::sites::source_stores::SourceStores;
use inkwell::basic_block::BasicBlock;
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use inkwell::values::{
    AsValueRef, BasicValueEnum, InstructionOpcode, InstructionValue, Operand, PhiValue,
};
use sketch_model::{LocationName, PointKind, Site};
use std::collections::HashMap;

/// A merged access: for each way into its block the site that it is then, if known.
pub struct Merged<'ctx, 'p> {
    pub instruction: InstructionValue<'ctx>,
    pub ways: Vec<(BasicBlock<'ctx>, Option<&'p Site>)>,
}

/// The merged accesses of a module of which something is known; `found` are the
/// instructions that are sites by their own positions.
pub fn find<'ctx, 'p>(
    locator: &mut Locator,
    module: &Module<'ctx>,
    index: &SiteIndex<'p>,
    stores: &SourceStores,
    found: &[(&'p Site, InstructionValue<'ctx>)],
) -> Vec<Merged<'ctx, 'p>> {
    let mut names: HashMap<LLVMValueRef, &LocationName> = HashMap::new();
    for (site, instruction) in found {
        if let Some((address, name)) = address_of(*instruction).zip(site.location.as_ref()) {
            names.insert(address, name);
        }
    }
    let mut merged = Vec::new();
    let blocks = module
        .get_functions()
        .flat_map(|f| f.get_basic_block_iter());
    for block in blocks {
        // Backward: a store tells what the load before it is.
        let mut told: HashMap<LLVMValueRef, Vec<Option<&Site>>> = HashMap::new();
        let instructions: Vec<_> = block.get_instructions().collect();
        for instruction in instructions.into_iter().rev() {
            let Some((kind, phi)) = merged_access(locator, instruction) else {
                continue;
            };
            let stored = told.get(&phi.as_value_ref());
            let mut ways = Vec::new();
            for (number, (value, from)) in phi.get_incomings().enumerate() {
                let name = names.get(&value.as_value_ref()).copied();
                let beside = stored.and_then(|sites| sites.get(number).copied().flatten());
                let site =
                    name.and_then(|name| one(locator, (index, stores), from, kind, name, beside));
                ways.push((from, site));
            }
            if kind == PointKind::Store {
                let sites = ways.iter().map(|(_, site)| *site).collect();
                told.insert(phi.as_value_ref(), sites);
            }
            if ways.iter().any(|(_, site)| site.is_some()) {
                merged.push(Merged { instruction, ways });
            }
        }
    }
    merged
}

/// The one site of a kind that accesses a location where control comes `from`.
fn one<'p>(
    locator: &mut Locator,
    (index, stores): (&SiteIndex<'p>, &SourceStores),
    from: BasicBlock<'_>,
    kind: PointKind,
    name: &LocationName,
    beside: Option<&Site>,
) -> Option<&'p Site> {
    let mut chain = None;
    for instruction in from.get_instructions() {
        let positions = locator.positions(instruction.as_value_ref());
        if positions.first().is_some_and(|written| written.line > 0) {
            chain = Some(positions);
        }
    }
    let chain = chain?;
    let mut candidates = Vec::new();
    for (depth, position) in chain.iter().enumerate() {
        let through = &chain[depth + 1..];
        let accessing = index.in_function(position).filter(|site| {
            site.kind == kind
                && site.location.as_ref() == Some(name)
                && index.is_called(site, position, through)
        });
        candidates.extend(accessing);
    }
    if kind == PointKind::Load {
        let store = beside?;
        candidates.retain(|s| s.statement == store.statement && s.column == store.column);
    }
    let [site] = candidates.as_slice() else {
        return None;
    };
    let written = index.spot(site)?;
    (kind == PointKind::Load || stores.is_sole(written.0, written.1)).then_some(site)
}

/// An access at line 0 through a pointer that its own block chooses by the way.
fn merged_access<'ctx>(
    locator: &mut Locator,
    instruction: InstructionValue<'ctx>,
) -> Option<(PointKind, PhiValue<'ctx>)> {
    let kind = match instruction.get_opcode() {
        InstructionOpcode::Load => PointKind::Load,
        InstructionOpcode::Store => PointKind::Store,
        _ => return None,
    };
    let positions = locator.positions(instruction.as_value_ref());
    if positions.first()?.line > 0 {
        return None;
    }
    let pointer = pointer_of(instruction)?
        .into_pointer_value()
        .as_instruction()?;
    let phi = PhiValue::try_from(pointer).ok()?;
    (pointer.get_parent() == instruction.get_parent()).then_some((kind, phi))
}

fn address_of(instruction: InstructionValue<'_>) -> Option<LLVMValueRef> {
    pointer_of(instruction).map(|pointer| pointer.as_value_ref())
}

fn pointer_of(instruction: InstructionValue<'_>) -> Option<BasicValueEnum<'_>> {
    let number = match instruction.get_opcode() {
        InstructionOpcode::Load => 0,
        InstructionOpcode::Store => 1,
        _ => return None,
    };
    match instruction.get_operand(number) {
        Some(Operand::Value(pointer)) => Some(pointer),
        _ => None,
    }
}
