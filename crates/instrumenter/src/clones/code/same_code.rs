//! Whether an object's code of a function is P's code of it, instruction by instruction.
//!
//! The two may differ in what a linker writes, and in the length of jumps: P's
//! assembler knew the distance to a function of the same module where the
//! object's only knows a name, and short jumps move the padding behind them. So
//! instructions are compared in pairs, padding aside, and jumps by where they
//! lead. What comes out is where in P each instruction of the object stands.

use build_store::register::relocations::masked_bytes;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use object::elf::RelocationType;
use std::collections::HashMap;

/// Instructions of the object, by offset from the function's start, and of P.
pub struct Pairs {
    pairs: Vec<(Instruction, Instruction)>,
}

impl Pairs {
    /// The pair whose first instruction has the byte at `offset`.
    pub fn at(&self, offset: u64) -> Option<&(Instruction, Instruction)> {
        let after = self.pairs.partition_point(|(own, _)| own.ip() <= offset);
        let found = self.pairs.get(after.checked_sub(1)?)?;
        (offset < found.0.next_ip()).then_some(found)
    }
}

/// Pairs the instructions of `code` with those of `linked`, which stands at
/// `address`; `None` if they are not the same function. `relocations` are places
/// and kinds within `code`.
pub fn pair(
    code: &[u8],
    relocations: &[(u64, RelocationType)],
    linked: &[u8],
    address: u64,
) -> Option<Pairs> {
    let (own, own_order) = decode(code, 0);
    let (theirs, their_order) = decode(linked, address);
    if own.len() != theirs.len() {
        return None;
    }
    let bytes_of = |instruction: &Instruction, start: u64, bytes: &[u8]| {
        let at = (instruction.ip() - start) as usize;
        bytes.get(at..at + instruction.len()).map(<[u8]>::to_vec)
    };
    for (one, other) in own.iter().zip(&theirs) {
        let within: Vec<_> = relocations
            .iter()
            .filter(|(at, _)| (one.ip()..one.next_ip()).contains(at))
            .collect();
        if is_jump(one) && is_jump(other) {
            let same_target = || {
                let target = own_order.get(&one.near_branch_target());
                target.is_some() && target == their_order.get(&other.near_branch_target())
            };
            if one.mnemonic() != other.mnemonic() || (within.is_empty() && !same_target()) {
                return None;
            }
            continue;
        }
        // A jump through the GOT that the linker made a direct one.
        if one.mnemonic() == Mnemonic::Jmp && is_jump(other) && !within.is_empty() {
            continue;
        }
        let (own_bytes, their_bytes) = (bytes_of(one, 0, code)?, bytes_of(other, address, linked)?);
        let same = own_bytes.len() == their_bytes.len()
            && own_bytes
                .iter()
                .zip(&their_bytes)
                .enumerate()
                .all(|(at, (a, b))| {
                    let at = one.ip() + at as u64;
                    let written = |(place, kind): &&(u64, RelocationType)| {
                        masked_bytes(*kind, *place).contains(&at)
                    };
                    a == b || within.iter().copied().any(|r| written(&r))
                });
        if !same {
            return None;
        }
    }
    Some(Pairs {
        pairs: own.into_iter().zip(theirs).collect(),
    })
}

/// A jump or call to an address that stands in the instruction.
pub fn is_jump(instruction: &Instruction) -> bool {
    instruction.op_count() == 1 && instruction.op0_kind() == OpKind::NearBranch64
}

/// All instructions that do something, and for each address the number of the first
/// that is executed from there.
fn decode(code: &[u8], address: u64) -> (Vec<Instruction>, HashMap<u64, usize>) {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let (mut instructions, mut order) = (Vec::new(), HashMap::new());
    while decoder.can_decode() {
        let instruction = decoder.decode();
        order.insert(instruction.ip(), instructions.len());
        // A landing mark stands only where a function can be called through a
        // pointer, which is not known of one that was taken out of its module.
        if ![Mnemonic::Nop, Mnemonic::Endbr64].contains(&instruction.mnemonic()) {
            instructions.push(instruction);
        }
    }
    // What cannot be reached may jump to where the function ends.
    order.insert(decoder.ip(), instructions.len());
    (instructions, order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::{R_X86_64_PC32, R_X86_64_PLT32};

    #[test]
    fn jumps_of_other_length_and_padding_are_the_same_code() {
        // jmp near <relocated>; nop dword; ret — jmp short; ret
        let own = [0xe9, 0, 0, 0, 0, 0x0f, 0x1f, 0x00, 0xc3];
        let linked = [0xeb, 0x40, 0xc3];
        let pairs = pair(&own, &[(1, R_X86_64_PLT32)], &linked, 0x1000).unwrap();
        assert_eq!(pairs.at(3).unwrap().1.near_branch_target(), 0x1042);
        assert_eq!(pairs.at(8).unwrap().1.ip(), 0x1002);
        // A jump within the function must lead to the same instruction.
        assert!(pair(&own, &[], &linked, 0x1000).is_none());
    }

    #[test]
    fn only_what_a_linker_writes_may_differ() {
        // mov eax, [rip + x]; add eax, 1
        let own = [0x8b, 0x05, 0, 0, 0, 0, 0x83, 0xc0, 1];
        let linked = [0x8b, 0x05, 9, 9, 0, 0, 0x83, 0xc0, 1];
        let other = [0x8b, 0x05, 9, 9, 0, 0, 0x83, 0xc0, 2];
        let relocations = [(2, R_X86_64_PC32)];
        assert!(pair(&own, &relocations, &linked, 0).is_some());
        assert!(pair(&own, &relocations, &other, 0).is_none());
        assert!(pair(&own, &[], &linked, 0).is_none());
    }
}
