//! Functions that are entered once and stay: their calls do not end when
//! recording is turned off or on.
//!
//! A gate chooses the clone for a whole call. That is soon enough for functions
//! that are called again and again, and never for `main`, a thread's start
//! routine or what these call once for good: an event loop that was entered while
//! recording was off would never record. Such a function always runs in its
//! tracked clone, whose hooks look at the switch themselves and pass by at the
//! price of a comparison each.
//!
//! Why not leave a clone at a loop's back-edge: the two clones keep their
//! variables in different registers and stack slots, and a second form of each
//! loop inside the tracked clone would double its code to save those
//! comparisons.
//!
//! Deliberately absent: functions that another module calls, and start routines
//! that reach their thread through a pointer in memory (`std::thread`).

use crate::branches::flow::Flow;
use inkwell::basic_block::BasicBlock;
use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::core::{
    LLVMGetCalledValue, LLVMGetFirstUse, LLVMGetInstructionParent, LLVMGetLinkage, LLVMGetNextUse,
    LLVMGetNumArgOperands, LLVMGetOperand, LLVMGetUser, LLVMIsACallInst, LLVMIsAFunction,
    LLVMIsAInvokeInst,
};
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::module::Module;
use inkwell::values::{AsValueRef, FunctionValue};
use std::collections::BTreeSet;
use sync_functions::SYNC_FUNCTIONS;

/// Those of `functions` that are entered once and have loops.
pub fn resident(module: &Module<'_>, functions: &[String]) -> BTreeSet<String> {
    let mut once: BTreeSet<String> = roots(module);
    loop {
        let before = once.len();
        for function in module.get_functions() {
            if called_once_from(function, &once) {
                once.insert(name(function));
            }
        }
        if once.len() == before {
            break;
        }
    }
    let stays = |name: &&String| {
        let function = module.get_function(name).filter(|_| once.contains(*name));
        function.is_some_and(|function| {
            let flow = Flow::of(function);
            (0..flow.blocks.len()).any(|block| flow.innermost_loop(block).is_some())
        })
    };
    functions.iter().filter(stays).cloned().collect()
}

fn name(function: FunctionValue<'_>) -> String {
    function.get_name().to_string_lossy().into_owned()
}

/// `main` and the start routines that are named where their threads are made.
fn roots(module: &Module<'_>) -> BTreeSet<String> {
    let mut roots: BTreeSet<String> = BTreeSet::from(["main".to_owned()]);
    for known in SYNC_FUNCTIONS {
        let starter = module.get_function(known.name);
        let (Some(starter), Some(argument)) = (starter, known.starts) else {
            continue;
        };
        let argument = u32::from(argument);
        // SAFETY: the function is alive, and so are its uses and their users; an
        // argument is asked for only where there are so many.
        unsafe {
            let mut next = LLVMGetFirstUse(starter.as_value_ref());
            while !next.is_null() {
                let user = LLVMGetUser(next);
                next = LLVMGetNextUse(next);
                let calls = is_call(user)
                    && LLVMGetCalledValue(user) == starter.as_value_ref()
                    && LLVMGetNumArgOperands(user) > argument;
                if !calls {
                    continue;
                }
                let routine = LLVMIsAFunction(LLVMGetOperand(user, argument));
                roots.extend(FunctionValue::new(routine).map(name));
            }
        }
    }
    roots
}

/// # Safety
/// `value` must be alive.
unsafe fn is_call(value: LLVMValueRef) -> bool {
    // SAFETY: as the caller promises.
    unsafe { !LLVMIsACallInst(value).is_null() || !LLVMIsAInvokeInst(value).is_null() }
}

/// Whether a function is known to this module alone, and there to one call that
/// stands outside of loops in one of `callers`.
fn called_once_from(function: FunctionValue<'_>, callers: &BTreeSet<String>) -> bool {
    // SAFETY: the function is alive, and so are its uses and their users; a block
    // is asked of calls, which stand in one.
    let block = unsafe {
        let local = [
            LLVMLinkage::LLVMInternalLinkage,
            LLVMLinkage::LLVMPrivateLinkage,
        ];
        let only = LLVMGetFirstUse(function.as_value_ref());
        if !local.contains(&LLVMGetLinkage(function.as_value_ref()))
            || only.is_null()
            || !LLVMGetNextUse(only).is_null()
        {
            return false;
        }
        let user = LLVMGetUser(only);
        if !is_call(user) || LLVMGetCalledValue(user) != function.as_value_ref() {
            return false;
        }
        BasicBlock::new(LLVMGetInstructionParent(user))
    };
    let caller = block.and_then(|block| block.get_parent());
    let (Some(block), Some(caller)) = (block, caller) else {
        return false;
    };
    let flow = Flow::of(caller);
    let number = flow.number(block);
    callers.contains(&name(caller))
        && number.is_some_and(|number| flow.innermost_loop(number).is_none())
}
