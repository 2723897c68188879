//! What all hooks are made of: the runtime's functions, readings of the clock,
//! values as integers, and the place where the next instruction goes.
//!
//! An access is bracketed by two readings of the time-stamp counter, and the
//! claim "the access happened between them" has to hold on an out-of-order
//! machine: `lfence` keeps `rdtsc` from running ahead of or behind a load, and
//! a store is visible to other threads only once it has left the store buffer,
//! which `mfence` waits for (AMD64 manual vol. 2, 7.4; Intel SDM vol. 3, 9.2
//! and `RDTSC`). No lock is taken around the access: it would hide the very
//! race that is looked for.
//!
//! Hooks of most sites keep all registers and are passed by once they have said enough
//! (`kept.rs`); the calls here are what the others are made of.

use crate::hooks::kept::{Told, can_tire};
use inkwell::InlineAsmDialect;
use inkwell::builder::{Builder, BuilderError};
use inkwell::context::Context;
use inkwell::llvm_sys::core::LLVMSetCurrentDebugLocation2;
use inkwell::llvm_sys::debuginfo::LLVMInstructionGetDebugLoc;
use inkwell::module::Module;
use inkwell::types::{BasicTypeEnum, VectorType};
use inkwell::values::{
    AsValueRef, BasicMetadataValueEnum, BasicValueEnum, FunctionValue, InstructionValue, IntValue,
    PointerValue,
};
use sketch_model::SiteId;
use std::num::NonZero;

/// A function of the runtime that hooks call (`crates/inprocess/recorder/src/hooks.rs`).
#[derive(Clone, Copy)]
pub(crate) enum Runtime {
    Access,
    Branch,
    Call,
    SyncBegin,
    SyncEnd,
    Value,
}

/// Their names and the bits of their arguments, in the order of [`Runtime`].
const RUNTIME: [(&str, &[u32]); 6] = [
    ("__failsketch_access", &[32, 32, 64, 64, 64, 64]),
    ("__failsketch_branch", &[32, 32]),
    ("__failsketch_call", &[32]),
    ("__failsketch_sync_begin", &[32, 64]),
    ("__failsketch_sync_end", &[32, 64, 64, 64]),
    ("__failsketch_value", &[32, 32, 64]),
];

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
pub(super) const READ_CLOCK_BEFORE: &str = read_clock!("lfence");
const READ_CLOCK_AFTER_STORE: &str = read_clock!("mfence\n\tlfence");
const CLOCK_CONSTRAINTS: &str = "={rax},~{rdx},~{memory},~{dirflag},~{fpsr},~{flags}";

/// What the reading behind an access waits for: what was loaded, or also that a store is
/// seen by others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fenced {
    Load,
    Store,
}

/// The write flag of `__failsketch_access`'s second argument.
const WRITE: u64 = 1 << 31;
/// Tells it that the access did not happen.
pub(super) const DID_NOT_HAPPEN: u64 = 1 << 30;

/// Bytes of a general register: the widest value that a hook carries.
pub(super) const WORD: u32 = 8;

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

/// Emits hooks into one module.
pub struct Hooks<'ctx> {
    pub(super) context: &'ctx Context,
    pub(super) builder: Builder<'ctx>,
    runtime: [FunctionValue<'ctx>; RUNTIME.len()],
}

impl<'ctx> Hooks<'ctx> {
    pub fn declare(context: &'ctx Context, module: &Module<'ctx>) -> Self {
        let declare = |(name, arguments): (&str, &[u32])| {
            let ty = |bits: &u32| match bits {
                32 => context.i32_type().into(),
                _ => context.i64_type().into(),
            };
            let arguments: Vec<_> = arguments.iter().map(ty).collect();
            let ty = context.void_type().fn_type(&arguments, false);
            let known = module.get_function(name);
            known.unwrap_or_else(|| module.add_function(name, ty, None))
        };
        Hooks {
            context,
            builder: context.create_builder(),
            runtime: RUNTIME.map(declare),
        }
    }

    /// Calls a function of the runtime.
    pub(super) fn call(
        &self,
        function: Runtime,
        arguments: &[IntValue<'ctx>],
    ) -> Result<(), BuilderError> {
        let arguments: Vec<BasicMetadataValueEnum<'ctx>> = arguments
            .iter()
            .map(|argument| (*argument).into())
            .collect();
        let function = self.runtime[function as usize];
        self.builder.build_call(function, &arguments, "")?;
        Ok(())
    }

    /// Aims a watchpoint slot at an address.
    pub(super) fn arm(
        &self,
        slot: u8,
        address: PointerValue<'ctx>,
        size: u32,
    ) -> Result<(), BuilderError> {
        let address = self.address(address)?;
        self.kept_arm(slot, address, size)
    }

    /// Records an access between two readings of the clock; `told` computes its flags
    /// and its value after it. A locked instruction leaves nothing in the store buffer, so what
    /// keeps registers needs to know no more than whether it writes.
    pub(super) fn bracket(
        &self,
        site: SiteId,
        access: (InstructionValue<'ctx>, PointerValue<'ctx>),
        fenced: Fenced,
        told: impl FnOnce(IntValue<'ctx>) -> Result<Told<'ctx>, BuilderError>,
    ) -> Result<(), BuilderError> {
        let (instruction, address) = access;
        let Some(next) = instruction.get_next_instruction() else {
            return Ok(());
        };
        self.stand_before(instruction);
        let address = self.address(address)?;
        let before = match can_tire(site) {
            true => self.kept_clock(site)?,
            false => self.read_clock(READ_CLOCK_BEFORE)?,
        };
        self.stand_between(instruction, next);
        if can_tire(site) {
            let told = told(address)?;
            return self.kept_access(site, before, &told);
        }
        self.bracket_end(self.site(site), before, fenced, || told(address))
    }

    /// The same of one whose site and flags depend on the way that control came.
    pub(super) fn bracket_merged(
        &self,
        site: IntValue<'ctx>,
        access: (InstructionValue<'ctx>, PointerValue<'ctx>),
        fenced: Fenced,
        told: impl FnOnce(IntValue<'ctx>) -> Result<Told<'ctx>, BuilderError>,
    ) -> Result<(), BuilderError> {
        let (instruction, address) = access;
        let Some(next) = instruction.get_next_instruction() else {
            return Ok(());
        };
        self.stand_before(instruction);
        let address = self.address(address)?;
        let before = self.read_clock(READ_CLOCK_BEFORE)?;
        self.stand_between(instruction, next);
        self.bracket_end(site, before, fenced, || told(address))
    }

    /// Reads the clock at once, and records what `told` says.
    fn bracket_end(
        &self,
        site: IntValue<'ctx>,
        before: IntValue<'ctx>,
        fenced: Fenced,
        told: impl FnOnce() -> Result<Told<'ctx>, BuilderError>,
    ) -> Result<(), BuilderError> {
        let after = self.read_clock(match fenced {
            Fenced::Store => READ_CLOCK_AFTER_STORE,
            Fenced::Load => READ_CLOCK_BEFORE,
        })?;
        let told = told()?;
        let write = if told.writes { WRITE } else { 0 };
        let mut flags = self.narrow(write | u64::from(told.size));
        if let Some(more) = told.flags {
            let narrow = self.context.i32_type();
            let more = self
                .builder
                .build_int_truncate_or_bit_cast(more, narrow, "")?;
            flags = self.builder.build_or(flags, more, "")?;
        }
        let value = told
            .value
            .unwrap_or_else(|| self.context.i64_type().const_zero());
        let arguments = [site, flags, told.address, value, before, after];
        self.call(Runtime::Access, &arguments)
    }

    fn address(&self, pointer: PointerValue<'ctx>) -> Result<IntValue<'ctx>, BuilderError> {
        let wide = self.context.i64_type();
        self.builder
            .build_ptr_to_int(pointer, wide, "failsketch.address")
    }

    pub(super) fn site(&self, site: SiteId) -> IntValue<'ctx> {
        self.narrow(site.0.into())
    }

    pub(super) fn stand_before(&self, instruction: InstructionValue<'ctx>) {
        self.stand_between(instruction, instruction);
    }

    /// Inserts before `next` from now on, in the name of `owner`'s source line.
    pub(super) fn stand_between(
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

    pub(super) fn narrow(&self, value: u64) -> IntValue<'ctx> {
        self.context.i32_type().const_int(value, false)
    }

    pub(super) fn read_clock(&self, assembly: &str) -> Result<IntValue<'ctx>, BuilderError> {
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
    pub(super) fn widened(
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
