//! Hooks that keep every register, and that a tired thread passes by.
//!
//! A hook is one piece of assembly. It compares the thread's id with the words that tell
//! who has had enough of this site (`crates/inprocess/layout/src/fatigue.rs`), and only if
//! the thread is not among them calls a thunk of the runtime that keeps all registers but
//! `r10` and `r11` (`crates/inprocess/recorder/src/kept.rs`). So the compiler takes a hook for
//! flags, memory and two scratch registers, and a hook that is passed by costs three to ten
//! instructions.
//!
//! A call pushes its return address, so functions with hooks have no red zone: then the
//! unwind rules at the hook hold, and those of the thunk lead to it.
//!
//! Where operands stand is the compiler's choice. The assembler writes the numbers of
//! their registers into the constant that goes with the call, so nothing has to be moved on
//! the way of those who pass by.
//!
//! Deliberately absent: branches of more than two ways, accesses whose site depends on the
//! way, synchronisation calls, which have few repetitions and whose last one counts, and sites
//! with high numbers. Their hooks call at once (`emit.rs`).

use crate::hooks::emit::Hooks;
use inkwell::InlineAsmDialect;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::BuilderError;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, IntValue};
use runtime::layout::{
    DOOR_CLOCK, DOOR_NEGATIVE, DOOR_OUTCOME, DOOR_POSITIVE, DOOR_ZERO, DOORS, OWNERS, TIRING_SITES,
};
use sketch_model::SiteId;
use std::fmt::Write;

/// Numbers of registers in an access's constant.
const ADDRESS_AT: u32 = 48;
const VALUE_AT: u32 = 52;
const FLAGS_AT: u32 = 56;
const HAS_VALUE: u64 = 1 << 60;
const HAS_FLAGS: u64 = 1 << 61;
/// The same of a call's value.
const PASSED_AT: u32 = 32 + 20;

const CLOBBERS: &str = "~{r11},~{memory},~{dirflag},~{fpsr},~{flags}";
/// The thread's id into `r10`.
const THREAD: &str = "movq __failsketch_thread(%rip), %r10\n\tmovl %fs:(%r10), %r10d\n\t";
const WORD: usize = size_of::<u32>();

/// An access as a hook tells of it.
pub(super) struct Told<'ctx> {
    pub writes: bool,
    pub size: u16,
    pub address: IntValue<'ctx>,
    pub value: Option<IntValue<'ctx>>,
    /// `DID_NOT_HAPPEN` or nothing, where that is not certain.
    pub flags: Option<IntValue<'ctx>>,
}

/// Whether threads can tire of the site.
pub(super) fn can_tire(site: SiteId) -> bool {
    (site.0 as usize) < TIRING_SITES
}

impl<'ctx> Hooks<'ctx> {
    /// The time before an access, for [`Self::kept_access`].
    pub(super) fn kept_clock(&self, site: SiteId) -> Result<IntValue<'ctx>, BuilderError> {
        let mut text = THREAD.to_owned();
        pass_by(&mut text, site, DOOR_CLOCK);
        call(&mut text, "clock", |text| {
            _ = write!(text, "movl $${}, %r10d\n\t", site.0);
        });
        let time = self.assembly(&text, "=&{r10}", &[])?;
        Ok(time.unwrap_or_else(|| self.context.i64_type().const_zero()))
    }

    pub(super) fn kept_access(
        &self,
        site: SiteId,
        before: IntValue<'ctx>,
        told: &Told<'ctx>,
    ) -> Result<(), BuilderError> {
        // The result is 0, `before` comes in as 1.
        let mut operands = vec![before, told.address];
        let mut constraints = "=&{r10},0,r".to_owned();
        let mut what = u64::from(site.0) | u64::from(told.size) << 32;
        let mut numbers = vec![(2, ADDRESS_AT)];
        let more = [
            (told.value, VALUE_AT, HAS_VALUE),
            (told.flags, FLAGS_AT, HAS_FLAGS),
        ];
        for (operand, at, has) in more {
            let Some(operand) = operand else { continue };
            operands.push(operand);
            constraints += ",r";
            what |= has;
            numbers.push((operands.len(), at));
        }
        let mut text = "testq %r10, %r10\n\tjs 4f\n\t".to_owned();
        if told.value.is_some() {
            let part = match told.size {
                1 => 'b',
                2 => 'w',
                4 => 'k',
                _ => 'q',
            };
            _ = write!(
                text,
                "test ${{3:{part}}}, ${{3:{part}}}\n\tje 2f\n\tjs 3f\n\t"
            );
        }
        // Of a value that is not known the runtime takes note as of zero.
        let doors: &[(usize, &str)] = match told.value {
            Some(_) => &[
                (DOOR_POSITIVE, ""),
                (DOOR_ZERO, "2:"),
                (DOOR_NEGATIVE, "3:"),
            ],
            None => &[(DOOR_ZERO, "")],
        };
        for (door, label) in doors {
            text += label;
            pass_by(&mut text, site, *door);
            _ = write!(text, "movl $${door}, %r10d\n\tjmp 4f\n");
        }
        text += "4:\n\t";
        let thunk = if told.writes { "wrote" } else { "read" };
        call(&mut text, thunk, |text| constant(text, what, &numbers));
        self.assembly(&text, &constraints, &operands)?;
        Ok(())
    }

    /// Which of two ways a branch goes.
    pub(super) fn kept_branch(
        &self,
        site: SiteId,
        outcome: IntValue<'ctx>,
    ) -> Result<(), BuilderError> {
        let mut text = THREAD.to_owned();
        let first = place(site, DOOR_OUTCOME);
        let set_door = match outcome.get_zero_extended_constant() {
            Some(known) => {
                let door = DOOR_OUTCOME + known as usize;
                pass_by(&mut text, site, door);
                format!("movl $${door}, %r10d\n\t")
            }
            None => {
                _ = write!(text, "leaq __failsketch_tired+{first}(%rip), %r11\n\t");
                for owner in 0..OWNERS {
                    let at = owner * WORD;
                    _ = write!(text, "cmpl %r10d, {at}(%r11,${{1:q}},8)\n\tje 9f\n\t");
                }
                format!("leal {DOOR_OUTCOME}(${{1:q}}), %r10d\n\t")
            }
        };
        call(&mut text, "branch", |text| {
            *text += &set_door;
            _ = write!(text, "movl $${}, %r11d\n\t", site.0);
        });
        let known = outcome.get_zero_extended_constant().is_some();
        let (constraints, operands) = match known {
            true => ("=&{r10}", vec![]),
            false => {
                let wide = self.context.i64_type();
                let outcome = self.builder.build_int_z_extend(outcome, wide, "")?;
                ("=&{r10},r", vec![outcome])
            }
        };
        self.assembly(&text, constraints, &operands)?;
        Ok(())
    }

    /// A call is reached.
    pub(super) fn kept_call(&self, site: SiteId) -> Result<(), BuilderError> {
        let mut text = THREAD.to_owned();
        pass_by(&mut text, site, DOOR_CLOCK);
        call(&mut text, "call", |text| {
            _ = write!(
                text,
                "movl $${DOOR_CLOCK}, %r10d\n\tmovl $${}, %r11d\n\t",
                site.0
            );
        });
        self.assembly(&text, "=&{r10}", &[])?;
        Ok(())
    }

    /// A value that a call is given or returns; `passed` is what `__failsketch_value` wants
    /// to know of it.
    pub(super) fn kept_value(
        &self,
        site: SiteId,
        passed: u64,
        value: IntValue<'ctx>,
    ) -> Result<(), BuilderError> {
        let mut text = THREAD.to_owned();
        pass_by(&mut text, site, DOOR_CLOCK);
        let what = u64::from(site.0) | passed << 32;
        call(&mut text, "value", |text| {
            _ = write!(text, "movl $${DOOR_CLOCK}, %r10d\n\t");
            constant(text, what, &[(1, PASSED_AT)]);
        });
        self.assembly(&text, "=&{r10},r", &[value])?;
        Ok(())
    }

    /// Aims a watchpoint slot, unless it is there, or aiming changes nothing any more.
    pub(super) fn kept_arm(
        &self,
        slot: u8,
        address: IntValue<'ctx>,
        size: u32,
    ) -> Result<(), BuilderError> {
        // As the runtime joins them (`crates/inprocess/recorder/src/recorder_state.rs`).
        let shift: u64 = match size {
            0 | 1 => 0,
            2 | 3 => 1,
            4..=7 => 2,
            _ => 3,
        };
        let at = usize::from(slot) * size_of::<u64>();
        let mut text = format!(
            "cmpl $$0, __failsketch_asking(%rip)\n\tje 9f\n\t\
             decl __failsketch_countdown(%rip)\n\tjs 8f\n\t\
             movabsq $${}, %r11\n\txorq ${{1:q}}, %r11\n\t\
             cmpq %r11, __failsketch_asked+{at}(%rip)\n\tje 9f\n8:\t",
            shift << 60
        );
        let what = u64::from(slot) | u64::from(size.min(0xffff)) << 32;
        call(&mut text, "arm", |text| {
            constant(text, what, &[(1, ADDRESS_AT)]);
        });
        self.assembly(&text, "=&{r10},r", &[address])?;
        Ok(())
    }

    /// Puts the assembly where the builder stands; answers its result, `r10`.
    fn assembly(
        &self,
        text: &str,
        constraints: &str,
        operands: &[IntValue<'ctx>],
    ) -> Result<Option<IntValue<'ctx>>, BuilderError> {
        let block = self.builder.get_insert_block();
        if let Some(function) = block.and_then(|block| block.get_parent()) {
            let kind = Attribute::get_named_enum_kind_id("noredzone");
            let attribute = self.context.create_enum_attribute(kind, 0);
            function.add_attribute(AttributeLoc::Function, attribute);
        }
        let wide = self.context.i64_type();
        let types: Vec<BasicMetadataTypeEnum<'ctx>> =
            operands.iter().map(|o| o.get_type().into()).collect();
        let ty = wide.fn_type(&types, false);
        let assembly = self.context.create_inline_asm(
            ty,
            text.to_owned(),
            format!("{constraints},{CLOBBERS}"),
            true,
            false,
            Some(InlineAsmDialect::ATT),
            false,
        );
        let operands: Vec<BasicMetadataValueEnum<'ctx>> =
            operands.iter().map(|operand| (*operand).into()).collect();
        let call = self
            .builder
            .build_indirect_call(ty, assembly, &operands, "failsketch")?;
        let result = call.try_as_basic_value().basic();
        Ok(result.map(|value| value.into_int_value()))
    }
}

/// Where the words of a site's door are.
fn place(site: SiteId, door: usize) -> usize {
    (site.0 as usize * DOORS + door) * OWNERS * WORD
}

/// Goes on behind the hook if the thread in `r10` is tired of the door.
fn pass_by(text: &mut String, site: SiteId, door: usize) {
    for owner in 0..OWNERS {
        let at = place(site, door) + owner * WORD;
        _ = write!(
            text,
            "cmpl %r10d, __failsketch_tired+{at}(%rip)\n\tje 9f\n\t"
        );
    }
}

/// Calls a thunk, and is behind the hook.
fn call(text: &mut String, thunk: &str, prepare: impl FnOnce(&mut String)) {
    prepare(text);
    _ = write!(text, "call __failsketch_kept_{thunk}\n9:");
}

/// `what` with the numbers of operands' registers into `r11`.
fn constant(text: &mut String, what: u64, numbers: &[(usize, u32)]) {
    // In the order of their numbers in machine code.
    const REGISTERS: &str = "rax,rcx,rdx,rbx,rsp,rbp,rsi,rdi,r8,r9,r10,r11,r12,r13,r14,r15";
    let mut sum = format!("{what}");
    for (operand, at) in numbers {
        let name = format!(".Lfailsketch_register_{at}");
        _ = write!(
            text,
            ".set .Lfailsketch_number,0\n\t\
             .irp register,{REGISTERS}\n\t\
             .ifc %\\register,${{{operand}:q}}\n\t\
             .set {name},.Lfailsketch_number\n\t\
             .endif\n\t\
             .set .Lfailsketch_number,.Lfailsketch_number+1\n\t\
             .endr\n\t"
        );
        _ = write!(sum, "+({name}<<{at})");
    }
    _ = write!(text, "movabsq $${sum}, %r11\n\t");
}
