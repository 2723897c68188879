//! The hooks themselves: what is inserted around an instruction.
//!
//! An access is bracketed by two readings of the time-stamp counter, and the
//! claim "the access happened between them" has to hold on an out-of-order
//! machine: `lfence` keeps `rdtsc` from running ahead of or behind a load, and
//! a store is visible to other threads only once it has left the store buffer,
//! which `mfence` waits for (AMD64 manual vol. 2, 7.4; Intel SDM vol. 3, 9.2
//! and `RDTSC`). No lock is taken around the access: it would hide the very
//! race that is looked for.

pub(crate) mod atomics;
pub(crate) mod call_values;

use crate::branches::outcomes::Reading;
use crate::branches::source_branches::condition_of;
use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::llvm_sys::LLVMTailCallKind;
use inkwell::llvm_sys::core::{
    LLVMGetNormalDest, LLVMGetTailCallKind, LLVMSetCurrentDebugLocation2,
};
use inkwell::llvm_sys::debuginfo::LLVMInstructionGetDebugLoc;
use inkwell::module::Module;
use inkwell::types::{BasicTypeEnum, FunctionType, VectorType};
use inkwell::values::{
    AnyValue, AsValueRef, BasicValueEnum, FunctionValue, InstructionOpcode, InstructionValue,
    IntValue, Operand, PhiValue, PointerValue,
};
use inkwell::{InlineAsmDialect, builder::BuilderError};
use sketch_model::SiteId;
use std::num::NonZero;

/// Reads the counter after some fences. Nothing is read while recording is off: a
/// call that began while it was on may last for ever, and the fences are what
/// costs. The prefix marks the instruction as ours, should the program have
/// forbidden it to itself (`crates/inprocess/capture/src/signal_chain.rs`); it has no other effect.
macro_rules! read_clock {
    ($fences:literal) => {
        concat!(
            "xorl %eax, %eax\n\t",
            "cmpl $$0, __failsketch_enabled(%rip)\n\t",
            "je 1f\n\t",
            $fences,
            "\n\t.byte 0x3e\n\trdtsc\n\t",
            "shl $$32, %rdx\n\tor %rdx, %rax\n",
            "1:"
        )
    };
}
pub(crate) const READ_CLOCK_BEFORE: &str = read_clock!("lfence");
pub(crate) const READ_CLOCK_AFTER_STORE: &str = read_clock!("mfence\n\tlfence");
const CLOCK_CONSTRAINTS: &str = "={rax},~{rdx},~{memory},~{dirflag},~{fpsr},~{flags}";

/// The write flag of `__failsketch_access`'s second argument.
pub(crate) const WRITE: u64 = 1 << 31;
/// Tells it that the access did not happen.
pub(crate) const DID_NOT_HAPPEN: u64 = 1 << 30;

/// Bytes of a general register: the widest value that a hook carries.
const WORD: u32 = 8;

/// Cases of a switch that a hook compares one by one.
const MOST_CASES: usize = 16;

/// What an instruction computes; `None` if it computes nothing.
pub fn result_of(instruction: InstructionValue<'_>) -> Option<BasicValueEnum<'_>> {
    BasicValueEnum::try_from(instruction.as_any_value_enum()).ok()
}

fn must_be_tail_call(call: InstructionValue<'_>) -> bool {
    if call.get_opcode() != InstructionOpcode::Call {
        return false;
    }
    // SAFETY: `call` is a live call instruction.
    let kind = unsafe { LLVMGetTailCallKind(call.as_value_ref()) };
    kind == LLVMTailCallKind::LLVMTailCallKindMustTail
}

/// The instruction before which a call has just returned; `None` if there is no
/// such place. An `invoke` returns into its normal destination, if that is reached
/// from nowhere else. Nothing may stand between a tail call that must be one and
/// its return.
pub(crate) fn place_behind(call: InstructionValue<'_>) -> Option<InstructionValue<'_>> {
    if call.get_opcode() != InstructionOpcode::Invoke {
        let ends_here = call.is_terminator() || must_be_tail_call(call);
        return call.get_next_instruction().filter(|_| !ends_here);
    }
    // SAFETY: `call` is a live invoke, and its destination a block of its function.
    let normal = unsafe { BasicBlock::new(LLVMGetNormalDest(call.as_value_ref())) }?;
    let only_use = normal.get_first_use()?;
    if only_use.get_next_use().is_some() {
        return None;
    }
    let mut first = normal.get_first_instruction()?;
    while first.get_opcode() == InstructionOpcode::Phi {
        first = first.get_next_instruction()?;
    }
    Some(first)
}

/// Whether a hook can carry this value's bits, or its size alone says that it
/// cannot. Small structs and arrays as values are neither; compilers hardly
/// make them.
pub fn can_carry(value: &BasicValueEnum<'_>, size: u32) -> bool {
    match value {
        BasicValueEnum::ArrayValue(_) | BasicValueEnum::StructValue(_) => size > WORD,
        BasicValueEnum::ScalableVectorValue(_) => false,
        // A vector of bits does not fill its bytes.
        BasicValueEnum::VectorValue(vector) => {
            size > WORD || vector_bits(vector.get_type()) == Some(8 * size)
        }
        _ => true,
    }
}

fn vector_bits(vector: VectorType<'_>) -> Option<u32> {
    let element = match vector.get_element_type() {
        BasicTypeEnum::IntType(integer) => integer.get_bit_width(),
        BasicTypeEnum::FloatType(float) => float.get_bit_width(),
        _ => return None,
    };
    Some(element * vector.get_size())
}

/// The first instruction of the access's block before which its address is
/// known; `None` if only the access itself will do. What the block is entered
/// through (phis, landing pads) must stay first.
fn arming_point<'ctx>(access: &Access<'ctx>) -> Option<InstructionValue<'ctx>> {
    let block = access.instruction.get_parent()?;
    let maker = access.address.as_instruction();
    let maker = maker.filter(|maker| maker.get_parent() == Some(block));
    let mut at = match maker {
        Some(maker) => maker.get_next_instruction()?,
        None => block.get_first_instruction()?,
    };
    let entrance = [InstructionOpcode::Phi, InstructionOpcode::LandingPad];
    while entrance.contains(&at.get_opcode()) {
        at = at.get_next_instruction()?;
    }
    Some(at)
}

/// Emits hooks into one module.
pub struct Hooks<'ctx> {
    pub(crate) context: &'ctx Context,
    pub(crate) builder: Builder<'ctx>,
    pub(crate) access: FunctionValue<'ctx>,
    branch: FunctionValue<'ctx>,
    call: FunctionValue<'ctx>,
    sync_begin: FunctionValue<'ctx>,
    sync_end: FunctionValue<'ctx>,
    pub(crate) arm: FunctionValue<'ctx>,
    pub(crate) value: FunctionValue<'ctx>,
}

/// What an access hook needs to know of its instruction.
pub struct Access<'ctx> {
    pub instruction: InstructionValue<'ctx>,
    pub address: PointerValue<'ctx>,
    /// For a store, the value stored; a load's value is the instruction's own.
    pub stored: Option<BasicValueEnum<'ctx>>,
    pub size: u32,
}

impl<'ctx> Hooks<'ctx> {
    pub fn declare(context: &'ctx Context, module: &Module<'ctx>) -> Self {
        let narrow = context.i32_type().into();
        let wide = context.i64_type().into();
        let void = context.void_type();
        let declare = |name: &str, ty: FunctionType<'ctx>| {
            module
                .get_function(name)
                .unwrap_or_else(|| module.add_function(name, ty, None))
        };
        Hooks {
            context,
            builder: context.create_builder(),
            access: declare(
                "__failsketch_access",
                void.fn_type(&[narrow, narrow, wide, wide, wide, wide], false),
            ),
            branch: declare(
                "__failsketch_branch",
                void.fn_type(&[narrow, narrow], false),
            ),
            call: declare("__failsketch_call", void.fn_type(&[narrow], false)),
            sync_begin: declare(
                "__failsketch_sync_begin",
                void.fn_type(&[narrow, wide], false),
            ),
            sync_end: declare(
                "__failsketch_sync_end",
                void.fn_type(&[narrow, wide, wide, wide], false),
            ),
            value: declare(
                "__failsketch_value",
                void.fn_type(&[narrow, narrow, wide], false),
            ),
            arm: declare(
                "__failsketch_arm",
                void.fn_type(&[narrow, wide, narrow], false),
            ),
        }
    }

    /// Aims a watchpoint slot at an access, as early as the access is certain to
    /// come and its address is known: at the start of its block, or behind the
    /// instruction of the block that computes the address. Aiming takes tens of
    /// microseconds; the farther it is from the access, the less it moves the
    /// access in time, and the sooner other threads' accesses are seen.
    fn aim(&self, slot: u8, access: &Access<'ctx>) -> Result<(), BuilderError> {
        match arming_point(access) {
            Some(point) => self.stand_between(access.instruction, point),
            None => self.stand_before(access.instruction),
        }
        let wide = self.context.i64_type();
        let address = self
            .builder
            .build_ptr_to_int(access.address, wide, "failsketch.aim")?;
        let arguments = [
            self.narrow(slot.into()).into(),
            address.into(),
            self.narrow(access.size.into()).into(),
        ];
        self.builder.build_call(self.arm, &arguments, "")?;
        Ok(())
    }

    /// Brackets a load or store, and aims a watchpoint at it first if the plan says so.
    pub fn access(
        &self,
        site: SiteId,
        arm_slot: Option<u8>,
        access: &Access<'ctx>,
    ) -> Result<(), BuilderError> {
        if let Some(slot) = arm_slot {
            self.aim(slot, access)?;
        }
        self.bracket(self.narrow(site.0.into()), self.narrow(0), access)
    }

    /// Brackets a load or store that is one site or another, or none, by the block
    /// that control came from.
    pub fn merged_access(
        &self,
        ways: &[(BasicBlock<'ctx>, Option<SiteId>)],
        access: &Access<'ctx>,
    ) -> Result<(), BuilderError> {
        let Some(first) = access
            .instruction
            .get_parent()
            .and_then(|block| block.get_first_instruction())
        else {
            return Ok(());
        };
        self.stand_before(first);
        let narrow = self.context.i32_type();
        let site = self.builder.build_phi(narrow, "failsketch.site")?;
        let flags = self.builder.build_phi(narrow, "failsketch.happened")?;
        for (from, known) in ways {
            let id = known.map_or(0, |id| u64::from(id.0));
            let happened = if known.is_some() { 0 } else { DID_NOT_HAPPEN };
            site.add_incoming(&[(&self.narrow(id), *from)]);
            flags.add_incoming(&[(&self.narrow(happened), *from)]);
        }
        let value = |phi: PhiValue<'ctx>| phi.as_basic_value().into_int_value();
        self.bracket(value(site), value(flags), access)
    }

    fn bracket(
        &self,
        site: IntValue<'ctx>,
        more_flags: IntValue<'ctx>,
        access: &Access<'ctx>,
    ) -> Result<(), BuilderError> {
        let Some(next) = access.instruction.get_next_instruction() else {
            return Ok(());
        };
        self.stand_before(access.instruction);
        let wide = self.context.i64_type();
        let address = self
            .builder
            .build_ptr_to_int(access.address, wide, "failsketch.address")?;
        let before = self.read_clock(READ_CLOCK_BEFORE)?;
        self.stand_between(access.instruction, next);
        let (value, after, flags) = match access.stored {
            Some(stored) => (Some(stored), READ_CLOCK_AFTER_STORE, WRITE),
            None => (result_of(access.instruction), READ_CLOCK_BEFORE, 0),
        };
        let after = self.read_clock(after)?;
        let value = match value {
            Some(value) => self.widened(value, access.size)?,
            None => wide.const_zero(),
        };
        let flags = self.narrow(flags | u64::from(access.size & 0xffff));
        let arguments = [
            site.into(),
            self.builder.build_or(flags, more_flags, "")?.into(),
            address.into(),
            value.into(),
            before.into(),
            after.into(),
        ];
        self.builder.build_call(self.access, &arguments, "")?;
        Ok(())
    }

    /// Records the outcome of a branch before a terminator, as it was read. False if
    /// too many of a switch's cases would have to be compared.
    pub fn branch(
        &self,
        site: SiteId,
        branch: InstructionValue<'ctx>,
        reading: &Reading,
    ) -> Result<bool, BuilderError> {
        self.stand_before(branch);
        if let Reading::Certain(outcome) = reading {
            return self.record_branch(site, self.narrow(*outcome as u64));
        }
        // SAFETY: a live conditional branch or switch has an integer condition.
        let condition = unsafe { IntValue::new(condition_of(branch)) };
        let narrow = self.context.i32_type();
        let outcome = match reading {
            Reading::Value if condition.get_type().get_bit_width() > 32 => {
                self.builder.build_int_truncate(condition, narrow, "")?
            }
            Reading::Value => self
                .builder
                .build_int_z_extend_or_bit_cast(condition, narrow, "")?,
            // Successor 0 is taken when the condition holds.
            Reading::Ways(ways) if condition.get_type().get_bit_width() == 1 => {
                let second = match ways.as_slice() {
                    [0, ..] => self.builder.build_not(condition, "")?,
                    _ => condition,
                };
                self.builder.build_int_z_extend(second, narrow, "")?
            }
            Reading::Ways(ways) => match self.outcome_of_cases(branch, condition, ways)? {
                Some(outcome) => outcome,
                None => return Ok(false),
            },
            Reading::Certain(outcome) => self.narrow(*outcome as u64),
        };
        self.record_branch(site, outcome)
    }

    fn record_branch(&self, site: SiteId, outcome: IntValue<'ctx>) -> Result<bool, BuilderError> {
        let arguments = [self.narrow(site.0.into()).into(), outcome.into()];
        self.builder.build_call(self.branch, &arguments, "")?;
        Ok(true)
    }

    /// The outcome of a two-way branch that has become a switch, whose ways are
    /// its default and its cases.
    fn outcome_of_cases(
        &self,
        switch: InstructionValue<'ctx>,
        condition: IntValue<'ctx>,
        ways: &[usize],
    ) -> Result<Option<IntValue<'ctx>>, BuilderError> {
        let Some((default, cases)) = ways.split_first() else {
            return Ok(None);
        };
        let others = cases.iter().filter(|way| *way != default).count();
        if others > MOST_CASES {
            return Ok(None);
        }
        let mut outcome = self.narrow(*default as u64);
        for (number, way) in cases.iter().enumerate().filter(|(_, way)| *way != default) {
            // The condition and the default come first, then pairs of a constant
            // and a destination.
            let case = switch.get_operand(2 + 2 * number as u32);
            let Some(Operand::Value(BasicValueEnum::IntValue(case))) = case else {
                return Ok(None);
            };
            let is_case = self
                .builder
                .build_int_compare(IntPredicate::EQ, condition, case, "")?;
            let way = self.narrow(*way as u64);
            let chosen = self.builder.build_select(is_case, way, outcome, "")?;
            outcome = chosen.into_int_value();
        }
        Ok(Some(outcome))
    }

    /// Records that `instruction` is reached.
    pub fn reached(
        &self,
        site: SiteId,
        instruction: InstructionValue<'ctx>,
    ) -> Result<(), BuilderError> {
        self.stand_before(instruction);
        self.builder
            .build_call(self.call, &[self.narrow(site.0.into()).into()], "")?;
        Ok(())
    }

    /// Brackets a synchronisation call on `object`. A call that never returns
    /// still leaves its beginning.
    pub fn synchronisation(
        &self,
        site: SiteId,
        call: InstructionValue<'ctx>,
        object: BasicValueEnum<'ctx>,
    ) -> Result<(), BuilderError> {
        self.stand_before(call);
        let object = self.widened(object, WORD)?;
        let site = self.narrow(site.0.into());
        self.builder
            .build_call(self.sync_begin, &[site.into(), object.into()], "")?;
        let Some(next) = place_behind(call) else {
            return Ok(());
        };
        let before = self.read_clock(READ_CLOCK_BEFORE)?;
        self.stand_between(call, next);
        let result = match result_of(call) {
            Some(result) => self.widened(result, WORD)?,
            None => self.context.i64_type().const_zero(),
        };
        let arguments = [site.into(), object.into(), result.into(), before.into()];
        self.builder.build_call(self.sync_end, &arguments, "")?;
        Ok(())
    }

    pub(crate) fn stand_before(&self, instruction: InstructionValue<'ctx>) {
        self.stand_between(instruction, instruction);
    }

    /// Inserts before `next` from now on, in the name of `owner`'s source line.
    pub(crate) fn stand_between(
        &self,
        owner: InstructionValue<'ctx>,
        next: InstructionValue<'ctx>,
    ) {
        self.builder.position_before(&next);
        // SAFETY: builder and instruction are alive and of one context; an
        // instruction without a location gives null, which clears the builder's.
        unsafe {
            LLVMSetCurrentDebugLocation2(
                self.builder.as_mut_ptr(),
                LLVMInstructionGetDebugLoc(owner.as_value_ref()),
            );
        }
    }

    pub(crate) fn narrow(&self, value: u64) -> IntValue<'ctx> {
        self.context.i32_type().const_int(value, false)
    }

    pub(crate) fn read_clock(&self, assembly: &str) -> Result<IntValue<'ctx>, BuilderError> {
        let ty = self.context.i64_type().fn_type(&[], false);
        let read = self.context.create_inline_asm(
            ty,
            assembly.to_owned(),
            CLOCK_CONSTRAINTS.to_owned(),
            true,
            false,
            Some(InlineAsmDialect::ATT),
            false,
        );
        let call = self
            .builder
            .build_indirect_call(ty, read, &[], "failsketch.clock")?;
        Ok(call.try_as_basic_value().basic().map_or_else(
            || self.context.i64_type().const_zero(),
            |v| v.into_int_value(),
        ))
    }

    /// The bits of a value as an integer: the first eight bytes, if it is larger,
    /// which the record's size tells. Of structs and arrays nothing.
    pub(crate) fn widened(
        &self,
        value: BasicValueEnum<'ctx>,
        size: u32,
    ) -> Result<IntValue<'ctx>, BuilderError> {
        let wide = self.context.i64_type();
        let integer = match value {
            BasicValueEnum::IntValue(integer) => integer,
            BasicValueEnum::PointerValue(pointer) => {
                return self.builder.build_ptr_to_int(pointer, wide, "");
            }
            BasicValueEnum::StructValue(_) | BasicValueEnum::ArrayValue(_) => {
                return Ok(wide.const_zero());
            }
            // Pointers are not cast together; two are too wide to be carried anyway.
            BasicValueEnum::VectorValue(vector) if vector_bits(vector.get_type()).is_none() => {
                return Ok(wide.const_zero());
            }
            _ => {
                let bits = NonZero::new(8 * size);
                let Some(Ok(same_width)) = bits.map(|b| self.context.custom_width_int_type(b))
                else {
                    return Ok(wide.const_zero());
                };
                self.builder
                    .build_bit_cast(value, same_width, "")?
                    .into_int_value()
            }
        };
        match integer.get_type().get_bit_width() {
            64 => Ok(integer),
            ..64 => self.builder.build_int_z_extend(integer, wide, ""),
            _ => self.builder.build_int_truncate(integer, wide, ""),
        }
    }
}
