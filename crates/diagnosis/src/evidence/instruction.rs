//! What a machine instruction did to memory, and where the value is now.
//!
//! Memory read again after a hit may hold another thread's value;
//! the registers of the sample cannot. This file finds the instruction that
//! ends at a program counter and says which register, if any, holds the value
//! that it loaded or stored. Only forms in which the register *certainly* holds
//! it are listed: plain moves, with or without extension, and the exchanging
//! instructions for the value they read. Anything else is `Unknown`.
//!
//! Functions are decoded linearly from their first byte. Clang puts no data
//! into code on x86-64, so the instruction boundaries found this way are the
//! real ones; hand-written assembly with data in it may yield nothing.
//!
//! Deliberately absent: vector registers (not in the sample), and accesses by a
//! control transfer (`call *m`): the counter is then at the target.

use formats::address_map::FunctionCode;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, UsedMemory,
};
use sketch_model::StaticAddress;

/// Where a value is after the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datum {
    /// In a general register, by its number in [`sketch_model::WatchHit::registers`],
    /// `shift` bits up (8 for ah, bh, ch, dh).
    Register {
        number: u8,
        shift: u8,
    },
    Immediate(u64),
    Unknown,
}

/// The address that the instruction accessed, computable from the registers
/// after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm {
    Registers {
        base: Option<u8>,
        index: Option<u8>,
        scale: u64,
        displacement: u64,
    },
    /// Relative to the program counter: an address as the file states it.
    Static(StaticAddress),
}

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessEffect {
    /// Bytes accessed.
    pub width: u16,
    /// `Some` if it reads: where the value read is afterwards.
    pub read: Option<Datum>,
    /// `Some` if it writes: where the value written is afterwards.
    pub written: Option<Datum>,
    /// `None` if the access overwrote a register that its address is made of.
    pub address: Option<AddressForm>,
}

/// An instruction that may have made the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundAccess {
    pub at: StaticAddress,
    /// A repeated string instruction traps with the counter still at itself; it
    /// is then as likely as the one before it.
    pub or_at: Option<StaticAddress>,
    /// `None` if the instruction does not tell.
    pub effect: Option<AccessEffect>,
}

/// Finds the access whose instruction ends at `after`.
pub fn access_ending_at(function: &FunctionCode, after: StaticAddress) -> Option<FoundAccess> {
    let (before, next) = around(function, after)?;
    let repeating = next.filter(is_repeated_string);
    let effect = effect_of(&before);
    match (effect, repeating) {
        (None, None) => None,
        (None, Some(string)) => Some(FoundAccess {
            at: StaticAddress(string.ip()),
            or_at: None,
            effect: None,
        }),
        (Some(_), Some(string)) => Some(FoundAccess {
            at: StaticAddress(before.ip()),
            or_at: Some(StaticAddress(string.ip())),
            effect: None,
        }),
        (Some(effect), None) => Some(FoundAccess {
            at: StaticAddress(before.ip()),
            or_at: None,
            effect,
        }),
    }
}

/// Whether a call instruction ends at `after`: whether it is a return address.
pub fn call_ends_at(function: &FunctionCode, after: StaticAddress) -> bool {
    around(function, after).is_some_and(|(before, _)| {
        matches!(
            before.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        )
    })
}

/// The instruction that ends at `at`, and the one that begins there.
fn around(
    function: &FunctionCode,
    at: StaticAddress,
) -> Option<(Instruction, Option<Instruction>)> {
    let mut decoder = Decoder::with_ip(64, &function.bytes, function.start.0, DecoderOptions::NONE);
    while decoder.can_decode() && decoder.ip() < at.0 {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        if instruction.next_ip() == at.0 {
            let next = decoder.can_decode().then(|| decoder.decode());
            return Some((instruction, next.filter(|i| !i.is_invalid())));
        }
    }
    None
}

fn is_repeated_string(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// `None` if it touches no memory; `Some(None)` if it does, but not tellably.
fn effect_of(instruction: &Instruction) -> Option<Option<AccessEffect>> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let touched: Vec<UsedMemory> = info
        .used_memory()
        .iter()
        .filter(|m| !matches!(m.access(), OpAccess::None | OpAccess::NoMemAccess))
        .copied()
        .collect();
    if touched.is_empty() {
        return None;
    }
    // `push m` and `pop m` also touch the stack: the explicit operand counts.
    let explicit = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    let on_stack = |m: &UsedMemory| m.base() == Register::RSP && touched.len() > 1 && explicit;
    let mut candidates = touched.iter().filter(|m| !on_stack(m));
    let (Some(memory), None) = (candidates.next(), candidates.next()) else {
        return Some(None);
    };
    let (reads, writes) = match memory.access() {
        OpAccess::Read => (true, false),
        OpAccess::Write => (false, true),
        OpAccess::ReadWrite => (true, true),
        // `cmpxchg` and its like may or may not have written; flags that would
        // tell are not in the sample.
        _ => return Some(None),
    };
    let width = memory.memory_size().size();
    Some(Some(AccessEffect {
        width: width.min(usize::from(u16::MAX)) as u16,
        read: reads.then(|| value_read(instruction)),
        written: writes.then(|| value_written(instruction, reads, width)),
        address: address_form(instruction, memory),
    }))
}

fn value_read(instruction: &Instruction) -> Datum {
    match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => {
            register_operand(instruction, 0)
        }
        // They leave what was in memory in their register operand.
        Mnemonic::Xchg => {
            let register = u32::from(instruction.op0_kind() == OpKind::Memory);
            register_operand(instruction, register)
        }
        Mnemonic::Xadd => register_operand(instruction, 1),
        _ => Datum::Unknown,
    }
}

fn value_written(instruction: &Instruction, reads: bool, width: usize) -> Datum {
    if reads || !matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Movnti) {
        return Datum::Unknown;
    }
    match instruction.op1_kind() {
        OpKind::Register => register_operand(instruction, 1),
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Datum::Immediate(truncated(instruction.immediate(1), width)),
        _ => Datum::Unknown,
    }
}

/// The low `width` bytes.
pub fn truncated(value: u64, width: usize) -> u64 {
    match width {
        0..=7 => value & ((1u64 << (8 * width)) - 1),
        _ => value,
    }
}

fn register_operand(instruction: &Instruction, operand: u32) -> Datum {
    if instruction.op_kind(operand) != OpKind::Register {
        return Datum::Unknown;
    }
    let register = instruction.op_register(operand);
    let high = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    match number_of(register) {
        Some(number) => Datum::Register {
            number,
            shift: if high { 8 } else { 0 },
        },
        None => Datum::Unknown,
    }
}

/// The position of a general register in a sample.
pub fn number_of(register: Register) -> Option<u8> {
    const ORDER: [Register; 16] = [
        Register::RAX,
        Register::RBX,
        Register::RCX,
        Register::RDX,
        Register::RSI,
        Register::RDI,
        Register::RBP,
        Register::RSP,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    let full = register.full_register();
    ORDER.iter().position(|r| *r == full).map(|n| n as u8)
}

fn address_form(instruction: &Instruction, memory: &UsedMemory) -> Option<AddressForm> {
    if !matches!(
        memory.segment(),
        Register::DS | Register::SS | Register::ES | Register::CS | Register::None
    ) {
        return None;
    }
    if instruction.is_ip_rel_memory_operand() {
        return Some(AddressForm::Static(StaticAddress(memory.displacement())));
    }
    let mut factory = InstructionInfoFactory::new();
    let overwritten: Vec<Register> = factory
        .info(instruction)
        .used_registers()
        .iter()
        .filter(|r| !matches!(r.access(), OpAccess::Read | OpAccess::CondRead))
        .map(|r| r.register().full_register())
        .collect();
    let part = |register: Register| -> Option<Option<u8>> {
        if register == Register::None {
            return Some(None);
        }
        let kept = !overwritten.contains(&register.full_register());
        number_of(register).filter(|_| kept).map(Some)
    };
    Some(AddressForm::Registers {
        base: part(memory.base())?,
        index: part(memory.index())?,
        scale: memory.scale() as u64,
        displacement: memory.displacement(),
    })
}
