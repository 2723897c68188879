//! The hooks themselves: what is inserted around an instruction.
//!
//! Accesses, branches, synchronisation and calls are here; atomic updates and the
//! values of calls have files of their own. What all are made of is in `emit`.

pub(crate) mod atomics;
pub(crate) mod call_values;
mod emit;
mod kept;

use crate::branches::outcomes::Reading;
use crate::branches::source_branches::condition_of;
use emit::{DID_NOT_HAPPEN, Fenced, READ_CLOCK_BEFORE, Runtime, WORD};
pub use emit::{Hooks, can_carry};
use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::BuilderError;
use inkwell::llvm_sys::LLVMTailCallKind;
use inkwell::llvm_sys::core::{LLVMGetNormalDest, LLVMGetTailCallKind};
use inkwell::values::{
    AnyValue, AsValueRef, BasicValueEnum, InstructionOpcode, InstructionValue, IntValue, Operand,
    PhiValue, PointerValue,
};
use kept::{Told, can_tire};
use sketch_model::SiteId;

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

fn fenced(access: &Access<'_>) -> Fenced {
    match access.stored {
        Some(_) => Fenced::Store,
        None => Fenced::Load,
    }
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
        self.arm(slot, access.address, access.size)
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
        let at = (access.instruction, access.address);
        self.bracket(site, at, fenced(access), |address| {
            self.told(access, address, None)
        })
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
        let at = (access.instruction, access.address);
        self.bracket_merged(value(site), at, fenced(access), |address| {
            self.told(access, address, Some(value(flags)))
        })
    }

    /// What the hook of a load or store tells.
    fn told(
        &self,
        access: &Access<'ctx>,
        address: IntValue<'ctx>,
        flags: Option<IntValue<'ctx>>,
    ) -> Result<Told<'ctx>, BuilderError> {
        let value = access.stored.or_else(|| result_of(access.instruction));
        let value = value.map(|value| self.widened(value, access.size));
        Ok(Told {
            writes: access.stored.is_some(),
            size: (access.size & 0xffff) as u16,
            address,
            value: value.transpose()?,
            flags,
        })
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
        let one_of_two = match reading {
            Reading::Certain(outcome) => *outcome < 2,
            Reading::Ways(ways) => ways.iter().all(|way| *way < 2),
            Reading::Value => false,
        };
        let record = |outcome| match one_of_two && can_tire(site) {
            true => self.kept_branch(site, outcome),
            false => self.call(Runtime::Branch, &[self.site(site), outcome]),
        };
        if let Reading::Certain(outcome) = reading {
            record(self.narrow(*outcome as u64))?;
            return Ok(true);
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
        record(outcome)?;
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
        if can_tire(site) {
            return self.kept_call(site);
        }
        self.call(Runtime::Call, &[self.site(site)])
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
        let site = self.site(site);
        self.call(Runtime::SyncBegin, &[site, object])?;
        let Some(next) = place_behind(call) else {
            return Ok(());
        };
        let before = self.read_clock(READ_CLOCK_BEFORE)?;
        self.stand_between(call, next);
        let result = match result_of(call) {
            Some(result) => self.widened(result, WORD)?,
            None => self.context.i64_type().const_zero(),
        };
        self.call(Runtime::SyncEnd, &[site, object, result, before])
    }
}
