//! What an optimised instruction tells of where control is, and what a branch tests.

use crate::branches::source_branches::{SourceBranch, Spot, condition_of};
use crate::sites::locate::{Locator, Position};
use inkwell::llvm_sys::core::{
    LLVMGetCallSiteEnumAttribute, LLVMGetCalledValue, LLVMGetEnumAttributeAtIndex,
    LLVMGetEnumAttributeKindForName, LLVMGetEnumAttributeValue, LLVMGetInstructionOpcode,
    LLVMGetIntTypeWidth, LLVMGetNumOperands, LLVMGetOperand, LLVMGetTypeKind, LLVMIsAFunction,
    LLVMIsAInstruction, LLVMTypeOf,
};
use inkwell::llvm_sys::prelude::LLVMValueRef;
use inkwell::llvm_sys::{LLVMAttributeFunctionIndex, LLVMOpcode, LLVMTypeKind};
use inkwell::values::{AsValueRef, InstructionOpcode, InstructionValue};
use std::collections::HashSet;
use std::ptr;

/// Whether a position holds control fast: the optimiser moves neither branches nor
/// calls with effects across branches with their positions, but stores out of
/// loops, and other things anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    Fixed,
    Loose,
}

pub fn weight(instruction: InstructionValue<'_>) -> Weight {
    let fixed = match instruction.get_opcode() {
        InstructionOpcode::Call => writes(instruction),
        InstructionOpcode::Invoke
        | InstructionOpcode::Br
        | InstructionOpcode::Switch
        | InstructionOpcode::Return => true,
        _ => false,
    };
    if fixed { Weight::Fixed } else { Weight::Loose }
}

/// Whether a call may write memory: one that does not can be moved.
fn writes(call: InstructionValue<'_>) -> bool {
    // `llvm/Support/ModRef.h` of LLVM 19: two bits for each kind of memory, of
    // which the higher says that it may be written.
    const WRITTEN: u64 = 0b10_10_10;
    // SAFETY: `call` is a live call; attributes are asked for as such only where
    // there is one, and a callee only where it is a function.
    unsafe {
        let name = "memory";
        let kind = LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len());
        let whole = LLVMAttributeFunctionIndex;
        let of_call = LLVMGetCallSiteEnumAttribute(call.as_value_ref(), whole, kind);
        let callee = LLVMIsAFunction(LLVMGetCalledValue(call.as_value_ref()));
        let of_callee = if callee.is_null() {
            ptr::null_mut()
        } else {
            LLVMGetEnumAttributeAtIndex(callee, whole, kind)
        };
        let known = [of_call, of_callee].into_iter().filter(|a| !a.is_null());
        known
            .map(|attribute| LLVMGetEnumAttributeValue(attribute))
            .all(|memory| memory & WRITTEN != 0)
    }
}

/// The position of an instruction within the instance of a function that
/// `written` is in: its own, or that of the call through which it came there.
pub fn spot_in(chain: &[Position], written: &Position) -> Option<Spot> {
    let within = |p: &&Position| p.instance == written.instance && p.function == written.function;
    let position = chain.iter().find(within).filter(|p| p.line != 0)?;
    Some((position.line, position.column))
}

/// Whether a branch tests the written condition and nothing else: whatever its
/// condition is put together from was part of that expression.
pub fn is_its_condition(
    locator: &mut Locator,
    branch: &SourceBranch,
    written: &Position,
    copy: InstructionValue<'_>,
) -> bool {
    let mut seen: HashSet<LLVMValueRef> = HashSet::new();
    // SAFETY: the copy is a live conditional branch or switch; operands of live
    // instructions are live, and each is asked for as many as it has.
    unsafe {
        let mut open = vec![condition_of(copy)];
        while let Some(value) = open.pop() {
            if LLVMIsAInstruction(value).is_null() || !seen.insert(value) {
                continue;
            }
            let joins = matches!(
                LLVMGetInstructionOpcode(value),
                LLVMOpcode::LLVMAnd
                    | LLVMOpcode::LLVMOr
                    | LLVMOpcode::LLVMXor
                    | LLVMOpcode::LLVMSelect
                    | LLVMOpcode::LLVMPHI
                    | LLVMOpcode::LLVMFreeze
            );
            if joins && is_bit(value) {
                for n in 0..LLVMGetNumOperands(value) {
                    let operand = LLVMGetOperand(value, n as u32);
                    open.extend(is_bit(operand).then_some(operand));
                }
                continue;
            }
            let chain = locator.positions(value);
            let spot = spot_in(&chain, written);
            if !spot.is_some_and(|spot| branch.condition.contains(&spot)) {
                return false;
            }
        }
    }
    true
}

/// # Safety
/// `value` must be alive.
unsafe fn is_bit(value: LLVMValueRef) -> bool {
    // SAFETY: as the caller promises; the width is asked of integers only.
    unsafe {
        let ty = LLVMTypeOf(value);
        LLVMGetTypeKind(ty) == LLVMTypeKind::LLVMIntegerTypeKind && LLVMGetIntTypeWidth(ty) == 1
    }
}
