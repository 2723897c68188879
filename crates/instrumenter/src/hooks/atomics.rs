//! Hooks around atomic read-modify-writes.
//!
//! One instruction is two points of the plan, a load and a store at one column:
//! the load saw the old value, the store left the new one, which is computed again
//! from the old one beside the instruction. A compare-and-exchange stores only
//! when it succeeds; otherwise the hook of its store is passed a flag.
//!
//! Deliberately absent: operations whose result is not plain integer arithmetic
//! (floating-point, wrapping increments). Their load has a hook, their store none,
//! and the placement says so.

use crate::hooks::emit::{DID_NOT_HAPPEN, Fenced, Hooks};
use crate::hooks::kept::Told;
use inkwell::IntPredicate;
use inkwell::builder::BuilderError;
use inkwell::llvm_sys::LLVMAtomicRMWBinOp as Op;
use inkwell::llvm_sys::core::LLVMGetAtomicRMWBinOp;
use inkwell::values::{
    AsValueRef, BasicValueEnum, InstructionOpcode, InstructionValue, IntValue, Operand,
    PointerValue, StructValue,
};
use sketch_model::SiteId;

/// An atomic read-modify-write.
pub struct Update<'ctx> {
    pub instruction: InstructionValue<'ctx>,
    pub address: PointerValue<'ctx>,
    pub size: u32,
    operand: BasicValueEnum<'ctx>,
}

/// The instruction as an update; `None` if it is none or touches more than a word.
pub fn update_of<'ctx>(
    instruction: InstructionValue<'ctx>,
    size: impl Fn(&BasicValueEnum<'ctx>) -> u32,
) -> Option<Update<'ctx>> {
    let operand_number = match instruction.get_opcode() {
        InstructionOpcode::AtomicRMW => 1,
        InstructionOpcode::AtomicCmpXchg => 2,
        _ => return None,
    };
    let value = |number: u32| match instruction.get_operand(number) {
        Some(Operand::Value(value)) => Some(value),
        _ => None,
    };
    let BasicValueEnum::PointerValue(address) = value(0)? else {
        return None;
    };
    let operand = value(operand_number)?;
    let size = size(&operand);
    (size <= 8).then_some(Update {
        instruction,
        address,
        size,
        operand,
    })
}

impl<'ctx> Hooks<'ctx> {
    /// Brackets an update in the name of its load or its store. False if the
    /// stored value cannot be known.
    pub fn update(
        &self,
        site: SiteId,
        arm_slot: Option<u8>,
        update: &Update<'ctx>,
        stores: bool,
    ) -> Result<bool, BuilderError> {
        if stores && !self.can_compute(update) {
            return Ok(false);
        }
        if let Some(slot) = arm_slot {
            self.stand_before(update.instruction);
            self.arm(slot, update.address, update.size)?;
        }
        // Others see the update when it has left the store buffer, whichever of
        // its two points this is.
        let at = (update.instruction, update.address);
        self.bracket(site, at, Fenced::Store, |address| {
            let (old, succeeded) = self.outcome(update)?;
            let value = match stores {
                true => self.new_value(update, old)?,
                false => old,
            };
            let mut flags = None;
            if let Some(succeeded) = succeeded.filter(|_| stores) {
                let failed = self.builder.build_not(succeeded, "")?;
                let wide = self.context.i64_type();
                let failed = self.builder.build_int_z_extend(failed, wide, "")?;
                let shift = wide.const_int(DID_NOT_HAPPEN.trailing_zeros().into(), false);
                flags = Some(self.builder.build_left_shift(failed, shift, "")?);
            }
            Ok(Told {
                writes: stores,
                size: update.size as u16,
                address,
                value: Some(self.widened(value, update.size)?),
                flags,
            })
        })?;
        Ok(true)
    }

    /// The value before the update and, for a compare-and-exchange, whether it
    /// stored.
    fn outcome(
        &self,
        update: &Update<'ctx>,
    ) -> Result<(BasicValueEnum<'ctx>, Option<IntValue<'ctx>>), BuilderError> {
        let result = crate::hooks::result_of(update.instruction).unwrap_or(update.operand);
        if update.instruction.get_opcode() == InstructionOpcode::AtomicRMW {
            return Ok((result, None));
        }
        let pair: StructValue<'ctx> = result.into_struct_value();
        let old = self.builder.build_extract_value(pair, 0, "")?;
        let succeeded = self.builder.build_extract_value(pair, 1, "")?;
        Ok((old, Some(succeeded.into_int_value())))
    }

    fn can_compute(&self, update: &Update<'ctx>) -> bool {
        if update.instruction.get_opcode() == InstructionOpcode::AtomicCmpXchg {
            return true;
        }
        let plain = matches!(
            operation(update.instruction),
            Op::LLVMAtomicRMWBinOpXchg
                | Op::LLVMAtomicRMWBinOpAdd
                | Op::LLVMAtomicRMWBinOpSub
                | Op::LLVMAtomicRMWBinOpAnd
                | Op::LLVMAtomicRMWBinOpNand
                | Op::LLVMAtomicRMWBinOpOr
                | Op::LLVMAtomicRMWBinOpXor
                | Op::LLVMAtomicRMWBinOpMax
                | Op::LLVMAtomicRMWBinOpMin
                | Op::LLVMAtomicRMWBinOpUMax
                | Op::LLVMAtomicRMWBinOpUMin
        );
        let exchange = operation(update.instruction) == Op::LLVMAtomicRMWBinOpXchg;
        plain && (exchange || update.operand.is_int_value())
    }

    fn new_value(
        &self,
        update: &Update<'ctx>,
        old: BasicValueEnum<'ctx>,
    ) -> Result<BasicValueEnum<'ctx>, BuilderError> {
        let operand = update.operand;
        if update.instruction.get_opcode() == InstructionOpcode::AtomicCmpXchg {
            return Ok(operand);
        }
        let (BasicValueEnum::IntValue(a), BasicValueEnum::IntValue(b)) = (old, operand) else {
            return Ok(operand);
        };
        let build = &self.builder;
        let larger = |predicate| -> Result<BasicValueEnum<'ctx>, BuilderError> {
            let first = build.build_int_compare(predicate, a, b, "")?;
            build.build_select(first, a, b, "")
        };
        Ok(match operation(update.instruction) {
            Op::LLVMAtomicRMWBinOpAdd => build.build_int_add(a, b, "")?.into(),
            Op::LLVMAtomicRMWBinOpSub => build.build_int_sub(a, b, "")?.into(),
            Op::LLVMAtomicRMWBinOpAnd => build.build_and(a, b, "")?.into(),
            Op::LLVMAtomicRMWBinOpNand => {
                let both = build.build_and(a, b, "")?;
                build.build_not(both, "")?.into()
            }
            Op::LLVMAtomicRMWBinOpOr => build.build_or(a, b, "")?.into(),
            Op::LLVMAtomicRMWBinOpXor => build.build_xor(a, b, "")?.into(),
            Op::LLVMAtomicRMWBinOpMax => larger(IntPredicate::SGT)?,
            Op::LLVMAtomicRMWBinOpMin => larger(IntPredicate::SLT)?,
            Op::LLVMAtomicRMWBinOpUMax => larger(IntPredicate::UGT)?,
            Op::LLVMAtomicRMWBinOpUMin => larger(IntPredicate::ULT)?,
            _ => operand,
        })
    }
}

fn operation(rmw: InstructionValue<'_>) -> Op {
    // SAFETY: callers pass a live atomicrmw instruction.
    unsafe { LLVMGetAtomicRMWBinOp(rmw.as_value_ref()) }
}
