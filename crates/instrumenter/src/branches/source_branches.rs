//! The branches of a plan as they were before optimisation: what lies behind
//! each of their outcomes.
//!
//! The optimiser copies branches, turns them round, and lets paths jump over
//! them. What it keeps is where instructions were written. So each branch is
//! described by positions: those that are reached through one outcome only,
//! those that lie behind the branch whichever way it goes, those from which the
//! branch comes first, and those that compute its condition. With these,
//! `outcomes.rs` reads the optimised code.
//!
//! Two branches written at one position (a macro with several conditions) are
//! not told apart by anything that survives, so they have no description.

use crate::branches::flow::Flow;
use crate::hooks::call_values::{DeclaredStrings, declared_strings};
use crate::sites::eliminated_inlines::vanished;
use crate::sites::locate::{Locator, Position, subprogram_of};
use crate::sites::place::is_intrinsic;
use crate::sites::source_stores::SourceStores;
use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::core::{
    LLVMConstIntGetZExtValue, LLVMGetCondition, LLVMGetIntTypeWidth, LLVMGetNumOperands,
    LLVMGetOperand, LLVMIsAConstantInt, LLVMIsAInstruction, LLVMTypeOf,
};
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use inkwell::values::{AsValueRef, FunctionValue, InstructionOpcode, InstructionValue};
use sketch_model::{PointKind, TrackingPlan};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Line and column within a function.
pub type Spot = (u32, u32);

/// What kind of branch it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Outcome 0 if the condition holds, else 1.
    TwoWay,
    /// The outcome is the value that is switched on.
    Switch { width: u32, cases: BTreeSet<u64> },
}

/// A branch that decides whether a loop goes on.
#[derive(Debug)]
pub struct LoopTest {
    /// The outcome that stays in the loop.
    pub stays: usize,
    /// Nothing of the loop is done before it.
    pub first: bool,
    /// What stands in the loop and nowhere else.
    pub spots: HashSet<Spot>,
}

/// A branch before optimisation.
#[derive(Debug)]
pub struct SourceBranch {
    pub shape: Shape,
    /// Of a two-way branch: what is reached through this outcome alone.
    pub sides: HashMap<Spot, usize>,
    /// What is reached through the branch alone.
    pub behind: HashSet<Spot>,
    /// From here the branch is passed before anything behind it.
    pub ahead: HashSet<Spot>,
    /// What its condition is computed by.
    pub condition: HashSet<Spot>,
    pub of_loop: Option<LoopTest>,
}

/// The branches that a plan has sites at, by function and position.
#[derive(Debug, Default)]
pub struct SourceBranches {
    branches: HashMap<(String, Spot), Option<SourceBranch>>,
    /// Functions whose code is gone, branches and all, in some place where they
    /// were called.
    vanished: BTreeSet<String>,
    /// By the name of the function, which may be a mere declaration where it is
    /// called.
    strings: HashMap<String, DeclaredStrings>,
    stores: SourceStores,
}

impl SourceBranches {
    /// Reads them out of a module before and after optimisation.
    pub fn read<'ctx>(
        context: &'ctx Context,
        module: &Module<'ctx>,
        optimised: &Module<'ctx>,
        plan: &TrackingPlan,
    ) -> Self {
        let statements: HashMap<_, _> = plan.all_statements().map(|s| (s.id, s)).collect();
        let mut wanted: HashMap<&str, HashSet<Spot>> = HashMap::new();
        for site in plan.sites.iter().filter(|s| s.kind == PointKind::Branch) {
            if let Some(statement) = statements.get(&site.statement) {
                let spots = wanted.entry(&statement.function).or_default();
                spots.insert((statement.location.line, site.column));
            }
        }
        let mut found = SourceBranches::default();
        let mut locator = Locator::new(context.as_ctx_ref());
        for function in module.get_functions() {
            let spots = subprogram_of(function).and_then(|name| {
                let spots = wanted.get(&*name)?;
                Some((name, spots))
            });
            if let Some((name, spots)) = spots {
                found.read_function(&mut locator, function, &name, spots);
            }
        }
        found.vanished = vanished(&mut locator, module, optimised);
        let stored = plan.sites.iter().filter(|s| s.kind == PointKind::Store);
        let stored = stored.filter_map(|site| statements.get(&site.statement));
        let functions = stored.map(|s| s.function.as_str()).collect();
        found.stores = SourceStores::read(&mut locator, module, &functions);
        for function in module.get_functions() {
            let name = function.get_name().to_string_lossy().into_owned();
            found
                .strings
                .extend(declared_strings(function).map(|strings| (name, strings)));
        }
        found
    }

    /// The stores of the plan's functions.
    pub fn stores(&self) -> &SourceStores {
        &self.stores
    }

    /// The strings that a function takes and returns.
    pub fn strings_of(&self, function: &str) -> Option<&DeclaredStrings> {
        self.strings.get(function)
    }

    /// Whether some of what a function did can no longer be seen at all.
    pub fn vanishes(&self, function: &str) -> bool {
        self.vanished.contains(function)
    }

    /// The branch at a position; `None` if there is none, or more than one.
    pub fn at(&self, position: &Position) -> Option<&SourceBranch> {
        let key = (
            position.function.to_string(),
            (position.line, position.column),
        );
        self.branches.get(&key)?.as_ref()
    }

    fn read_function(
        &mut self,
        locator: &mut Locator,
        function: FunctionValue<'_>,
        name: &str,
        spots: &HashSet<Spot>,
    ) {
        let flow = Flow::of(function);
        let mut at: HashMap<Spot, Vec<usize>> = HashMap::new();
        for (number, block) in flow.blocks.iter().enumerate() {
            for instruction in block.get_instructions().filter(|i| tells(*i)) {
                if let Some(spot) = spot_of(locator, instruction) {
                    at.entry(spot).or_default().push(number);
                }
            }
        }
        for number in 0..flow.blocks.len() {
            let branch = flow.blocks[number].get_terminator();
            let Some(branch) = branch.filter(|_| flow.successors[number].len() > 1) else {
                continue;
            };
            let spot = spot_of(locator, branch).filter(|spot| spots.contains(spot));
            let (Some(spot), Some(shape)) = (spot, shape_of(branch)) else {
                continue;
            };
            let described = describe(locator, &flow, &at, number, branch, shape);
            self.branches
                .entry((name.to_owned(), spot))
                .and_modify(|known| *known = None)
                .or_insert(Some(described));
        }
    }
}

fn describe(
    locator: &mut Locator,
    flow: &Flow<'_>,
    at: &HashMap<Spot, Vec<usize>>,
    number: usize,
    branch: InstructionValue<'_>,
    shape: Shape,
) -> SourceBranch {
    let without_branch = flow.reached([0], |block, _| block == number);
    let everywhere = flow.reached([0], |_, _| false);
    let is_behind = |block: &usize| everywhere[*block] && !without_branch[*block];
    let spots = |fits: &dyn Fn(&usize) -> bool| -> HashSet<Spot> {
        let all = at.iter().filter(|(_, blocks)| blocks.iter().all(fits));
        all.map(|(spot, _)| *spot).collect()
    };
    let mut sides = HashMap::new();
    if shape == Shape::TwoWay {
        for outcome in 0..2 {
            let otherwise = flow.reached([0], |block, way| block == number && way == outcome);
            let only = |block: &usize| everywhere[*block] && !otherwise[*block];
            sides.extend(spots(&only).into_iter().map(|spot| (spot, outcome)));
        }
    }
    // Backward from what is behind, not through the branch: what is met there may
    // get behind it without passing it.
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); flow.blocks.len()];
    for (from, successors) in flow.successors.iter().enumerate() {
        for to in successors.iter().filter(|_| from != number) {
            before[*to].push(from);
        }
    }
    let mut past = vec![false; flow.blocks.len()];
    let mut open: Vec<usize> = (0..flow.blocks.len()).filter(|b| is_behind(b)).collect();
    while let Some(block) = open.pop() {
        if !std::mem::replace(&mut past[block], true) {
            open.extend(&before[block]);
        }
    }
    let leads_to = |block: &usize| everywhere[*block] && !past[*block];
    let of_loop = flow.innermost_loop(number).and_then(|inside| {
        let stays = match flow.successors[number].as_slice() {
            [one, other] if inside[*one] != inside[*other] => usize::from(inside[*other]),
            _ => return None,
        };
        let entered = (0..flow.blocks.len()).any(|from| {
            everywhere[from] && !inside[from] && flow.successors[from].contains(&number)
        });
        Some(LoopTest {
            stays,
            first: entered,
            spots: spots(&|block| inside[*block]),
        })
    });
    SourceBranch {
        shape,
        sides,
        behind: spots(&is_behind),
        ahead: spots(&leads_to),
        condition: condition(locator, branch),
        of_loop,
    }
}

/// Positions of the expression that decides. Before optimisation variables are
/// memory, so following operands stays within the expression.
fn condition(locator: &mut Locator, branch: InstructionValue<'_>) -> HashSet<Spot> {
    let mut spots: HashSet<Spot> = spot_of(locator, branch).into_iter().collect();
    let mut seen: HashSet<LLVMValueRef> = HashSet::new();
    // SAFETY: the branch is live and has a condition, and so are operands of
    // instructions; an instruction is asked for as many as it has.
    unsafe {
        let mut open = vec![condition_of(branch)];
        while let Some(value) = open.pop() {
            if LLVMIsAInstruction(value).is_null() || !seen.insert(value) {
                continue;
            }
            let chain = locator.positions(value);
            spots.extend(chain.first().map(|p| (p.line, p.column)));
            for n in 0..LLVMGetNumOperands(value) {
                open.push(LLVMGetOperand(value, n as u32));
            }
        }
    }
    spots
}

fn shape_of(branch: InstructionValue<'_>) -> Option<Shape> {
    match branch.get_opcode() {
        InstructionOpcode::Br => Some(Shape::TwoWay),
        InstructionOpcode::Switch => {
            let (width, cases) = switch_of(branch);
            Some(Shape::Switch { width, cases })
        }
        _ => None,
    }
}

/// What a conditional branch or a switch decides by.
pub fn condition_of(branch: InstructionValue<'_>) -> LLVMValueRef {
    // SAFETY: the branch is live; a switch's first operand is its condition.
    unsafe {
        match branch.get_opcode() {
            InstructionOpcode::Switch => LLVMGetOperand(branch.as_value_ref(), 0),
            _ => LLVMGetCondition(branch.as_value_ref()),
        }
    }
}

/// The width of a switch's value, and its cases.
pub fn switch_of(switch: InstructionValue<'_>) -> (u32, BTreeSet<u64>) {
    // SAFETY: a live switch has a condition of integer type, then its default
    // destination, then pairs of constant and destination.
    unsafe {
        let value = switch.as_value_ref();
        let width = LLVMGetIntTypeWidth(LLVMTypeOf(condition_of(switch)));
        let operands = (2..LLVMGetNumOperands(value)).map(|n| LLVMGetOperand(value, n as u32));
        let constants = operands.filter(|operand| !LLVMIsAConstantInt(*operand).is_null());
        let cases = constants.map(|constant| LLVMConstIntGetZExtValue(constant));
        (width, cases.collect())
    }
}

/// Whether an instruction's position tells where control is. Jumps and phis take
/// theirs from elsewhere, and markers for debuggers have no code.
pub fn tells(instruction: InstructionValue<'_>) -> bool {
    match instruction.get_opcode() {
        InstructionOpcode::Phi | InstructionOpcode::Alloca => false,
        InstructionOpcode::Br => instruction.is_conditional().unwrap_or(false),
        InstructionOpcode::Call => !is_intrinsic(instruction),
        _ => true,
    }
}

pub fn spot_of(locator: &mut Locator, instruction: InstructionValue<'_>) -> Option<Spot> {
    let chain = locator.positions(instruction.as_value_ref());
    let written = chain.first().filter(|p| p.line != 0)?;
    Some((written.line, written.column))
}
