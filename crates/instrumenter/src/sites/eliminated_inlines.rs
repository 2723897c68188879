//! Functions of which an inlined copy has been optimised out entirely.
//!
//! Where a call is inlined and what it did is then computed in advance, nothing
//! is left of it: no instruction that could be hooked, and none that would tell
//! that something is missing. What still tells is the caller: it has the
//! position of a call, as written, at which there is neither a call any more nor
//! anything inlined. A call in code that was found to be dead looks the same,
//! which errs on the safe side.

use crate::branches::source_branches::Spot;
use crate::sites::locate::{Locator, subprogram_of};
use inkwell::llvm_sys::core::{LLVMGetCalledValue, LLVMIsAFunction};
use inkwell::module::Module;
use inkwell::values::{AsValueRef, FunctionValue, InstructionOpcode};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// The functions of a module that left no trace somewhere, by the names that
/// debug info gives them.
pub fn vanished<'ctx>(
    locator: &mut Locator,
    written: &Module<'ctx>,
    optimised: &Module<'ctx>,
) -> BTreeSet<String> {
    let calls = calls(locator, written);
    let seen = seen(locator, optimised);
    // One that was inlined nowhere and is still there is called, or the call is dead.
    let names = |inlined: bool| -> HashSet<&str> {
        let keys = seen.keys().filter(|(_, _, at)| (*at != 0) == inlined);
        keys.map(|(_, function, _)| &**function).collect()
    };
    let (inlined, whole) = (names(true), names(false));
    let can_vanish = |f: &str| inlined.contains(f) || !whole.contains(f);
    let mut vanished: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    for ((_, function, _), spots) in &seen {
        for (spot, callee) in calls.get(&**function).into_iter().flatten() {
            if !spots.contains(spot) && can_vanish(callee) && vanished.insert(callee.clone()) {
                open.push(callee.clone());
            }
        }
    }
    // What they called has gone with them.
    while let Some(function) = open.pop() {
        for (_, callee) in calls.get(&function).into_iter().flatten() {
            if can_vanish(callee) && vanished.insert(callee.clone()) {
                open.push(callee.clone());
            }
        }
    }
    vanished
}

/// By caller: where it calls functions of the module.
fn calls(locator: &mut Locator, module: &Module<'_>) -> HashMap<String, Vec<(Spot, String)>> {
    let mut calls: HashMap<String, Vec<(Spot, String)>> = HashMap::new();
    for caller in module.get_functions() {
        let Some(name) = subprogram_of(caller) else {
            continue;
        };
        for block in caller.get_basic_block_iter() {
            for call in block.get_instructions() {
                let kinds = [InstructionOpcode::Call, InstructionOpcode::Invoke];
                if !kinds.contains(&call.get_opcode()) {
                    continue;
                }
                // SAFETY: `call` is a live call; what it calls is a function or not.
                let callee = unsafe {
                    let callee = LLVMIsAFunction(LLVMGetCalledValue(call.as_value_ref()));
                    FunctionValue::new(callee)
                };
                let callee = callee.filter(|f| f.count_basic_blocks() > 0);
                let callee = callee.and_then(subprogram_of);
                let chain = locator.positions(call.as_value_ref());
                if let (Some(callee), Some(at)) = (callee, chain.first()) {
                    let call = ((at.line, at.column), callee);
                    calls.entry(name.clone()).or_default().push(call);
                }
            }
        }
    }
    calls
}

/// Where, by function, inlined copy and position, there is a call or has been one.
type Seen = HashMap<(usize, Rc<str>, usize), HashSet<Spot>>;

fn seen(locator: &mut Locator, module: &Module<'_>) -> Seen {
    let mut seen = Seen::new();
    for function in module.get_functions() {
        let place = function.as_value_ref() as usize;
        for block in function.get_basic_block_iter() {
            for instruction in block.get_instructions() {
                let kinds = [InstructionOpcode::Call, InstructionOpcode::Invoke];
                let calls = kinds.contains(&instruction.get_opcode());
                let chain = locator.positions(instruction.as_value_ref());
                for (depth, at) in chain.iter().enumerate() {
                    let key = (place, Rc::clone(&at.function), at.instance);
                    let spots = seen.entry(key).or_default();
                    if depth > 0 || calls {
                        spots.insert((at.line, at.column));
                    }
                }
            }
        }
    }
    seen
}
