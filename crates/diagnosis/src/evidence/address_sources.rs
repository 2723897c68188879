//! Which registers and places on the stack the address of a failing access was made from,
//! by the code before it.
//!
//! Walks back from the instruction through those right before it: what the address needs
//! is replaced, wherever it was written, by what it was written from. A register that
//! turns up so and was not written since still holds, at the crash, what it held then; and
//! so does a place on the stack, counted from the stack pointer. The walk ends where that
//! moves, and where execution cannot have come from above: behind a jump or a return. What a
//! call has left in a register has no source here.
//!
//! Hooks lie between the program's instructions (`crates/instrumenter/src/hooks/kept.rs`). They
//! keep all registers but two, which they fill right before they call or jump within
//! themselves: by that they are known, and passed.

use formats::address_map::FunctionCode;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use sketch_model::StaticAddress;
use std::collections::BTreeSet;

use super::instruction::number_of;

/// Instructions that are looked at.
const REACH: usize = 256;

/// What hooks do not keep.
const SCRATCH: [Register; 2] = [Register::R10, Register::R11];

const CLOBBERED_BY_CALLS: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// What an address was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSources {
    /// By their numbers in [`sketch_model::WatchHit::registers`].
    pub registers: BTreeSet<u8>,
    /// By their distance above the stack pointer, in bytes.
    pub places: BTreeSet<u64>,
}

/// None if no instruction begins there or it accesses no memory.
pub fn of_access_at(function: &FunctionCode, at: StaticAddress) -> AddressSources {
    let Some(before) = until(function, at) else {
        return AddressSources::default();
    };
    let Some((access, before)) = before.split_last() else {
        return AddressSources::default();
    };
    let mut needed = address_registers(access);
    let mut sources = needed.clone();
    let mut written: BTreeSet<Register> = BTreeSet::new();
    let (mut places, mut overwritten) = (BTreeSet::new(), BTreeSet::new());
    for (at, instruction) in before.iter().enumerate().rev().take(REACH) {
        let in_a_hook = at
            .checked_sub(1)
            .is_some_and(|above| fills_scratch(&before[above]));
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::UnconditionalBranch if in_a_hook => {
                needed.retain(|register| !SCRATCH.contains(register));
                written.extend(SCRATCH);
                continue;
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                for register in CLOBBERED_BY_CALLS {
                    needed.remove(&register);
                    written.insert(register);
                }
                continue;
            }
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            _ => break,
        }
        if moves_stack_pointer(instruction) {
            break;
        }
        let (reads, writes, surely) = effect(instruction);
        let (read_place, written_place) = places_of(instruction);
        overwritten.extend(written_place);
        let makes = writes.iter().any(|register| needed.contains(register));
        written.extend(&writes);
        if makes {
            if surely {
                needed.retain(|register| !writes.contains(register));
            }
            let fresh = reads.iter().filter(|register| !written.contains(register));
            sources.extend(fresh);
            needed.extend(&reads);
            places.extend(read_place.filter(|place| !overwritten.contains(place)));
        }
        if needed.is_empty() {
            break;
        }
    }
    AddressSources {
        registers: sources.into_iter().filter_map(number_of).collect(),
        places,
    }
}

/// Whether an instruction puts a number into a register that hooks do not keep.
fn fills_scratch(instruction: &Instruction) -> bool {
    let immediate = (0..instruction.op_count()).any(|operand| {
        matches!(
            instruction.op_kind(operand),
            OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
        )
    });
    instruction.mnemonic() == Mnemonic::Mov
        && immediate
        && instruction.op0_kind() == OpKind::Register
        && SCRATCH.contains(&instruction.op0_register().full_register())
}

fn moves_stack_pointer(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_registers();
    used.iter().any(|used| {
        let reads = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
        used.register().full_register() == Register::RSP && !reads
    })
}

/// The places on the stack that an instruction reads and writes, if they are known.
fn places_of(instruction: &Instruction) -> (Option<u64>, Option<u64>) {
    let mut factory = InstructionInfoFactory::new();
    let memory = factory.info(instruction).used_memory();
    let place = |reads: bool| {
        let mut on_stack = memory.iter().filter(|m| {
            let plain = m.base() == Register::RSP && m.index() == Register::None;
            let access = match m.access() {
                OpAccess::Read | OpAccess::CondRead => reads,
                OpAccess::Write | OpAccess::CondWrite => !reads,
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => true,
                _ => false,
            };
            plain && access
        });
        on_stack.next().map(|m| m.displacement())
    };
    (place(true), place(false))
}

/// The instructions of a function up to the one that begins at `at`, it included.
fn until(function: &FunctionCode, at: StaticAddress) -> Option<Vec<Instruction>> {
    let mut decoder = Decoder::with_ip(64, &function.bytes, function.start.0, DecoderOptions::NONE);
    let mut all = Vec::new();
    while decoder.can_decode() && decoder.ip() <= at.0 {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        all.push(instruction);
    }
    all.last()
        .is_some_and(|last| last.ip() == at.0)
        .then_some(all)
}

/// General registers but the stack pointer.
fn general(register: Register) -> Option<Register> {
    let full = register.full_register();
    (full != Register::RSP && number_of(full).is_some()).then_some(full)
}

fn address_registers(instruction: &Instruction) -> BTreeSet<Register> {
    let mut factory = InstructionInfoFactory::new();
    let memory = factory.info(instruction).used_memory();
    let parts = memory.iter().flat_map(|m| [m.base(), m.index()]);
    parts.filter_map(general).collect()
}

/// What an instruction reads and writes, and whether it writes in any case.
fn effect(instruction: &Instruction) -> (BTreeSet<Register>, BTreeSet<Register>, bool) {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let (mut reads, mut writes, mut surely) = (BTreeSet::new(), BTreeSet::new(), true);
    for used in info.used_registers() {
        let Some(register) = general(used.register()) else {
            continue;
        };
        let access = used.access();
        if matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ) {
            reads.insert(register);
        }
        if matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ) {
            writes.insert(register);
        }
        surely &= !matches!(access, OpAccess::CondWrite | OpAccess::ReadCondWrite);
    }
    (reads, writes, surely)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAX: u8 = 0;
    const RBX: u8 = 1;
    const RCX: u8 = 2;

    fn sources(bytes: &[u8], at: u64) -> Vec<u8> {
        let function = FunctionCode {
            name: "f".into(),
            start: StaticAddress(0),
            bytes: bytes.to_vec(),
        };
        let found = of_access_at(&function, StaticAddress(at));
        found.registers.into_iter().collect()
    }

    #[test]
    fn what_the_address_was_loaded_through_is_a_source() {
        // mov rax, [rbx+8]; mov ecx, [rax]
        let code = [0x48, 0x8b, 0x43, 0x08, 0x8b, 0x08];
        assert_eq!(sources(&code, 4), [RAX, RBX]);
    }

    #[test]
    fn a_register_that_was_written_since_is_none() {
        // mov rax, [rbx+8]; xor ebx, ebx; mov ecx, [rax]
        let code = [0x48, 0x8b, 0x43, 0x08, 0x31, 0xdb, 0x8b, 0x08];
        assert_eq!(sources(&code, 6), [RAX]);
    }

    #[test]
    fn a_register_that_merely_lies_about_is_none() {
        // mov rcx, [rbx]; mov eax, [rax]
        let code = [0x48, 0x8b, 0x0b, 0x8b, 0x00];
        assert_eq!(sources(&code, 3), [RAX]);
    }

    #[test]
    fn what_a_call_returned_has_no_source() {
        // mov rax, [rbx]; call +0; mov ecx, [rax]
        let code = [0x48, 0x8b, 0x03, 0xe8, 0, 0, 0, 0, 0x8b, 0x08];
        assert_eq!(sources(&code, 8), [RAX]);
    }

    #[test]
    fn what_lies_before_a_hook_is_reached_through_it() {
        // mov rax, [rbx]; mov r10d, 1; jmp +6; mov r10d, 2; mov r11d, 3; call +0; mov ecx, [rax]
        let code = [
            0x48, 0x8b, 0x03, 0x41, 0xba, 1, 0, 0, 0, 0xeb, 6, 0x41, 0xba, 2, 0, 0, 0, 0x41, 0xbb,
            3, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x8b, 0x08,
        ];
        assert_eq!(sources(&code, 28), [RAX, RBX]);
    }

    #[test]
    fn a_place_on_the_stack_is_a_source_until_it_is_written() {
        let places = |bytes: &[u8]| {
            let function = FunctionCode {
                name: "f".into(),
                start: StaticAddress(0),
                bytes: bytes.to_vec(),
            };
            let at = StaticAddress(bytes.len() as u64 - 2);
            of_access_at(&function, at)
                .places
                .into_iter()
                .collect::<Vec<_>>()
        };
        // mov rax, [rsp+16]; mov rax, [rax]; mov ecx, [rax]
        let code = [0x48, 0x8b, 0x44, 0x24, 0x10, 0x48, 0x8b, 0x00, 0x8b, 0x08];
        assert_eq!(places(&code), [16]);
        // mov rax, [rsp+16]; mov [rsp+16], rbx; mov ecx, [rax]
        let code = [
            0x48, 0x8b, 0x44, 0x24, 0x10, 0x48, 0x89, 0x5c, 0x24, 0x10, 0x8b, 0x08,
        ];
        assert_eq!(places(&code), [0u64; 0]);
    }

    #[test]
    fn nothing_flows_across_a_jump() {
        // mov rax, [rbx]; jmp +0; mov ecx, [rax+rcx]
        let code = [0x48, 0x8b, 0x03, 0xeb, 0x00, 0x8b, 0x0c, 0x08];
        assert_eq!(sources(&code, 5), [RAX, RCX]);
    }
}
