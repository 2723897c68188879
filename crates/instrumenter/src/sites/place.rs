//! Finds the instructions that a plan's sites became, and hooks them.
//!
//! A site names a function, a line, a column and a kind. After optimisation it
//! may stand in several places (inlined, unrolled, duplicated) or in none
//! (folded away): all places are hooked under one id, and how many there were
//! is returned, because a site that stands nowhere can be neither true nor
//! false in any run.
//!
//! `outcomes.rs` says which outcome each way of a branch is, and whether hooks see
//! all of them; a copy for which this is not known is not hooked.

use crate::branches::outcomes::{Optimised, Reading};
use crate::branches::source_branches::{SourceBranches, Spot};
use crate::hooks::atomics::update_of;
use crate::hooks::{Access, Hooks, can_carry, result_of};
use crate::sites::locate::{Locator, Position};
use crate::sites::merged_accesses::{self, Merged};
use inkwell::builder::BuilderError;
use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use inkwell::targets::TargetData;
use inkwell::values::{
    AsValueRef, BasicValueEnum, FunctionValue, InstructionOpcode, InstructionValue, Operand,
    PointerValue,
};
use sketch_model::{
    Placement, PointKind, Purpose, Site, SiteId, Statement, StatementId, TrackingPlan,
};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use sync_functions::SyncFunction;

/// Hooks every site of `plan` that lives in `module`, adding to `placement`.
/// `branches` are those of the module before optimisation. Answers whether
/// anything was hooked.
pub fn place<'ctx>(
    context: &'ctx Context,
    module: &Module<'ctx>,
    branches: &SourceBranches,
    plan: &TrackingPlan,
    placement: &mut Placement,
) -> Result<bool, BuilderError> {
    placement.places.resize(plan.sites.len(), 0);
    let index = SiteIndex::new(plan);
    let layout = TargetData::create(&module.get_data_layout().as_str().to_string_lossy());
    let mut locator = Locator::new(context.as_ctx_ref());
    // Finding comes before hooking: hooks are instructions too.
    let found = find(&mut locator, module, &index);
    if found.is_empty() {
        return Ok(false);
    }
    let merged = merged_accesses::find(&mut locator, module, &index, branches.stores(), &found);
    let mut here = Placement::default();
    let (read, partial) = read_branches(&mut locator, module, branches, plan, &found);
    here.partial = partial;
    here.places.resize(plan.sites.len(), 0);
    let hooks = Hooks::declare(context, module);
    let mut count = |site: SiteId, hooked: bool| {
        if let Some(places) = here.places.get_mut(site.0 as usize) {
            *places += u32::from(hooked);
        }
    };
    for (site, instruction) in found {
        let chain = locator.positions(instruction.as_value_ref());
        // Otherwise it is where an inlined call begins.
        let itself = chain
            .first()
            .is_some_and(|written| index.at(written).any(|s| s.id == site.id));
        count(
            site.id,
            hook(&hooks, &layout, branches, site, instruction, itself)?,
        );
    }
    for access in merged {
        let hooked = hook_merged(&hooks, &layout, &access)?;
        for site in access.ways.iter().filter_map(|(_, site)| *site) {
            count(site.id, hooked);
        }
    }
    for (site, terminator, reading) in read {
        count(site, hooks.branch(site, terminator, &reading)?);
    }
    let any = here.places.iter().any(|places| *places > 0);
    placement.add(&here);
    Ok(any)
}

/// Before which terminators branches are recorded, and the sites of which that
/// does not say all.
type ReadBranches<'ctx> = (Vec<(SiteId, InstructionValue<'ctx>, Reading)>, Vec<SiteId>);

fn read_branches<'ctx>(
    locator: &mut Locator,
    module: &Module<'ctx>,
    branches: &SourceBranches,
    plan: &TrackingPlan,
    found: &[(&Site, InstructionValue<'ctx>)],
) -> ReadBranches<'ctx> {
    let mut sites: HashMap<&str, Vec<&Site>> = HashMap::new();
    let statements: HashMap<_, _> = plan.all_statements().map(|s| (s.id, s)).collect();
    let branch_sites = plan.sites.iter().filter(|s| s.kind == PointKind::Branch);
    for site in branch_sites.filter(|site| plan.is_hooked(site)) {
        if let Some(statement) = statements.get(&site.statement) {
            sites.entry(&statement.function).or_default().push(site);
        }
    }
    let mut copies: HashMap<(SiteId, LLVMValueRef, usize), Vec<InstructionValue<'ctx>>> =
        HashMap::new();
    for (site, branch) in found.iter().filter(|(s, _)| s.kind == PointKind::Branch) {
        let chain = locator.positions(branch.as_value_ref());
        let function = branch.get_parent().and_then(|block| block.get_parent());
        if let (Some(written), Some(function)) = (chain.first(), function) {
            let key = (site.id, function.as_value_ref(), written.instance);
            copies.entry(key).or_default().push(*branch);
        }
    }
    let (mut read, mut partial) = (Vec::new(), Vec::new());
    for function in module.get_functions() {
        let instances = instances_in(locator, function, &sites);
        if instances.is_empty() {
            continue;
        }
        let optimised = Optimised::read(locator, function);
        for position in instances {
            for site in sites.get(&*position.function).into_iter().flatten() {
                let Some(statement) = statements.get(&site.statement) else {
                    continue;
                };
                let written = Position {
                    line: statement.location.line,
                    column: site.column,
                    ..position.clone()
                };
                let key = (site.id, function.as_value_ref(), position.instance);
                let here = copies.get(&key).map(Vec::as_slice).unwrap_or_default();
                let Some(branch) = branches.at(&written) else {
                    partial.push(site.id);
                    continue;
                };
                let readings = optimised.readings(locator, branch, &written, here);
                if !readings.complete || branches.vanishes(&position.function) {
                    partial.push(site.id);
                }
                let places = readings.places.into_iter();
                read.extend(places.map(|(terminator, reading)| (site.id, terminator, reading)));
            }
        }
    }
    partial.sort_unstable();
    partial.dedup();
    (read, partial)
}

/// The inlined instances within `function` of functions that have sites, and the
/// function itself if it is one: a position in each.
fn instances_in(
    locator: &mut Locator,
    function: FunctionValue<'_>,
    sites: &HashMap<&str, Vec<&Site>>,
) -> Vec<Position> {
    let mut seen = HashSet::new();
    let mut instances = Vec::new();
    for block in function.get_basic_block_iter() {
        for instruction in block.get_instructions() {
            let chain = locator.positions(instruction.as_value_ref());
            for position in chain.iter() {
                let known = sites.contains_key(&*position.function);
                if known && seen.insert((Rc::clone(&position.function), position.instance)) {
                    instances.push(position.clone());
                }
            }
        }
    }
    instances
}

/// Sites by the function and line of their statement.
pub(crate) struct SiteIndex<'p> {
    by_line: HashMap<(&'p str, u32), Vec<&'p Site>>,
    statements: HashMap<StatementId, &'p Statement>,
}

impl<'p> SiteIndex<'p> {
    pub(crate) fn new(plan: &'p TrackingPlan) -> Self {
        let statements: HashMap<_, _> = plan.all_statements().map(|s| (s.id, s)).collect();
        let mut by_line: HashMap<_, Vec<_>> = HashMap::new();
        for site in plan.sites.iter().filter(|site| plan.is_hooked(site)) {
            if let Some(statement) = statements.get(&site.statement) {
                let line = (statement.function.as_str(), statement.location.line);
                by_line.entry(line).or_default().push(site);
            }
        }
        SiteIndex {
            by_line,
            statements,
        }
    }

    /// The sites written at `position`, whatever their kind.
    fn at<'a>(&'a self, position: &'a Position) -> impl Iterator<Item = &'p Site> + 'a {
        self.by_line
            .get(&(&*position.function, position.line))
            .into_iter()
            .flatten()
            .copied()
            .filter(|site| site.column == position.column)
            .filter(|site| {
                // Two static functions of one name live in different files.
                self.statements
                    .get(&site.statement)
                    .is_none_or(|s| *s.location.file == *position.file)
            })
    }

    /// The function of a site, and its place there.
    pub(crate) fn spot(&self, site: &Site) -> Option<(&'p str, Spot)> {
        let statement = self.statements.get(&site.statement)?;
        let spot = (statement.location.line, site.column);
        Some((statement.function.as_str(), spot))
    }

    /// The sites of the function that `position` is in.
    pub(crate) fn in_function<'a>(
        &'a self,
        position: &'a Position,
    ) -> impl Iterator<Item = &'p Site> + 'a {
        let lines = self.by_line.iter();
        let of_function = lines.filter(|((function, _), _)| *function == &*position.function);
        let sites = of_function.flat_map(|(_, sites)| sites.iter().copied());
        sites.filter(|site| {
            let statement = self.statements.get(&site.statement);
            statement.is_some_and(|s| *s.location.file == *position.file)
        })
    }

    /// Whether an access that came here through these calls is this site's: one
    /// that is for a caller takes what that one calls, the others have the rest.
    pub(crate) fn is_called(&self, site: &Site, written: &Position, through: &[Position]) -> bool {
        let is_by = |caller: StatementId| {
            let call = through.first().zip(self.statements.get(&caller));
            call.is_some_and(|(call, s)| {
                *call.function == *s.function
                    && call.line == s.location.line
                    && *call.file == *s.location.file
            })
        };
        match site.caller {
            Some(caller) => is_by(caller),
            None => !self
                .at(written)
                .filter(|other| other.kind == site.kind)
                .any(|other| other.caller.is_some_and(is_by)),
        }
    }
}

/// Every instruction that a site became, function by function.
pub(crate) fn find<'ctx, 'p>(
    locator: &mut Locator,
    module: &Module<'ctx>,
    index: &SiteIndex<'p>,
) -> Vec<(&'p Site, InstructionValue<'ctx>)> {
    let mut found = Vec::new();
    for function in module.get_functions() {
        let mut entered = HashSet::new();
        for block in function.get_basic_block_iter() {
            for instruction in block.get_instructions() {
                let chain = locator.positions(instruction.as_value_ref());
                let Some((written, inlined_through)) = chain.split_first() else {
                    continue;
                };
                found.extend(
                    index
                        .at(written)
                        .filter(|site| fits(site.kind, instruction))
                        .filter(|site| index.is_called(site, written, inlined_through))
                        .map(|site| (site, instruction)),
                );
                // A call that was inlined is reached where its body begins.
                let pads = [InstructionOpcode::Phi, InstructionOpcode::LandingPad];
                if pads.contains(&instruction.get_opcode()) {
                    continue;
                }
                for call in inlined_through {
                    let calls = index.at(call).filter(|s| s.kind == PointKind::Call);
                    let begun = calls.filter(|site| entered.insert((site.id, call.copy)));
                    found.extend(begun.map(|site| (site, instruction)));
                }
            }
        }
    }
    found
}

/// Whether a site of this kind can be this instruction.
fn fits(kind: PointKind, instruction: InstructionValue<'_>) -> bool {
    match (kind, instruction.get_opcode()) {
        (PointKind::Load, InstructionOpcode::Load)
        | (PointKind::Store, InstructionOpcode::Store)
        | (
            PointKind::Load | PointKind::Store,
            InstructionOpcode::AtomicRMW | InstructionOpcode::AtomicCmpXchg,
        )
        | (PointKind::Branch, InstructionOpcode::Switch) => true,
        (PointKind::Branch, InstructionOpcode::Br) => instruction.is_conditional().unwrap_or(false),
        (PointKind::Call, InstructionOpcode::Call | InstructionOpcode::Invoke) => {
            !is_intrinsic(instruction)
        }
        (PointKind::Sync(_), InstructionOpcode::Call | InstructionOpcode::Invoke) => {
            sync_function(instruction).is_some()
        }
        _ => false,
    }
}

fn is_update(instruction: InstructionValue<'_>) -> bool {
    matches!(
        instruction.get_opcode(),
        InstructionOpcode::AtomicRMW | InstructionOpcode::AtomicCmpXchg
    )
}

pub(crate) fn is_intrinsic(call: InstructionValue<'_>) -> bool {
    callee(call).is_some_and(|callee| callee.get_name().to_bytes().starts_with(b"llvm."))
}

/// What is called, which is a call's last operand.
fn callee(call: InstructionValue<'_>) -> Option<PointerValue<'_>> {
    match call.get_operand(call.get_num_operands().checked_sub(1)?) {
        Some(Operand::Value(BasicValueEnum::PointerValue(callee))) => Some(callee),
        _ => None,
    }
}

/// The synchronisation function that is called; a macro may call others at its
/// place.
fn sync_function(call: InstructionValue<'_>) -> Option<&'static SyncFunction> {
    sync_functions::named(callee(call)?.get_name().to_str().ok()?)
}

/// What a hook must know of a load or store; `None` if it cannot carry its value.
fn access_of<'ctx>(
    layout: &TargetData,
    instruction: InstructionValue<'ctx>,
) -> Option<Access<'ctx>> {
    let value = |operand: u32| match instruction.get_operand(operand) {
        Some(Operand::Value(value)) => Some(value),
        _ => None,
    };
    let is_load = instruction.get_opcode() == InstructionOpcode::Load;
    let (address, stored) = if is_load {
        (value(0), None)
    } else {
        (value(1), value(0))
    };
    let accessed = if is_load {
        result_of(instruction)
    } else {
        stored
    };
    let (Some(BasicValueEnum::PointerValue(address)), Some(accessed)) = (address, accessed) else {
        return None;
    };
    let size = layout.get_store_size(&accessed.get_type());
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    can_carry(&accessed, size).then_some(Access {
        instruction,
        address,
        stored,
        size,
    })
}

fn hook_merged<'ctx>(
    hooks: &Hooks<'ctx>,
    layout: &TargetData,
    merged: &Merged<'ctx, '_>,
) -> Result<bool, BuilderError> {
    let Some(access) = access_of(layout, merged.instruction) else {
        return Ok(false);
    };
    let ways = merged.ways.iter();
    let ways: Vec<_> = ways
        .map(|(from, site)| (*from, site.map(|s| s.id)))
        .collect();
    hooks.merged_access(&ways, &access)?;
    Ok(true)
}

fn hook<'ctx>(
    hooks: &Hooks<'ctx>,
    layout: &TargetData,
    written: &SourceBranches,
    site: &Site,
    instruction: InstructionValue<'ctx>,
    itself: bool,
) -> Result<bool, BuilderError> {
    let value = |operand: u32| match instruction.get_operand(operand) {
        Some(Operand::Value(value)) => Some(value),
        _ => None,
    };
    match site.kind {
        PointKind::Load | PointKind::Store if is_update(instruction) => {
            let size = |value: &BasicValueEnum<'ctx>| {
                u32::try_from(layout.get_store_size(&value.get_type())).unwrap_or(u32::MAX)
            };
            let Some(update) = update_of(instruction, size) else {
                return Ok(false);
            };
            let stores = site.kind == PointKind::Store;
            return hooks.update(site.id, site.arm_slot, &update, stores);
        }
        PointKind::Load | PointKind::Store => {
            let Some(access) = access_of(layout, instruction) else {
                return Ok(false);
            };
            hooks.access(site.id, site.arm_slot, &access)?;
        }
        // Hooked by what is read out of all its copies.
        PointKind::Branch => return Ok(false),
        PointKind::Sync(_) => {
            let object = sync_function(instruction).and_then(|f| value(f.object.into()));
            let Some(object) = object else {
                return Ok(false);
            };
            hooks.synchronisation(site.id, instruction, object)?;
        }
        PointKind::Call => {
            hooks.reached(site.id, instruction)?;
            if itself && site.purpose == Purpose::Statement {
                hooks.call_values(site.id, instruction, written)?;
            }
        }
    }
    Ok(true)
}
