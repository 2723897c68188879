//! Code as a graph of blocks, made as a trace first runs through it.
//!
//! A node is contiguous code up to its first instruction that goes elsewhere. Its
//! successors are remembered as numbers of nodes, so following a branch that was
//! followed before is two array accesses. Instructions are decoded once.

use crate::{address_hash::AddressHasher, image::CodeImage};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use sketch_model::RuntimeAddress;
use std::{collections::HashMap, hash::BuildHasherDefault};

/// No node.
pub(crate) const NONE: u32 = u32::MAX;
/// Longer code is several nodes.
const LONGEST: u32 = 64;
/// The longest instruction.
const INSTRUCTION: usize = 15;
/// Nodes that are remembered; a program has fewer, bytes from outside may not.
const MOST: usize = 1 << 20;

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The code goes on, in another node.
    Through,
    Jump,
    Call,
    /// A call of the next instruction, which serves to learn where it lies.
    CallNext,
    Conditional,
    Return,
    IndirectJump,
    IndirectCall,
    /// A system call, an interrupt, a far branch.
    Far,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) start: u64,
    /// Its last instruction.
    pub(crate) last: u64,
    /// Behind it.
    pub(crate) behind: u64,
    /// Where its last instruction goes if it jumps.
    pub(crate) target: u64,
    jumped: u32,
    passed: u32,
    pub(crate) instructions: u32,
    pub(crate) end: End,
}

/// The nodes of one image.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    numbers: HashMap<u64, u32, BuildHasherDefault<AddressHasher>>,
}

impl Graph {
    /// The node that begins at an address; `None` where no code is known.
    pub(crate) fn at(&mut self, code: &CodeImage, at: u64) -> Option<u32> {
        if let Some(number) = self.numbers.get(&at) {
            return Some(*number);
        }
        let node = read(code, at)?;
        if self.nodes.len() >= MOST {
            return None;
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(node);
        self.numbers.insert(at, number);
        Some(number)
    }

    /// The node behind a jump that was taken; [`NONE`] where no code is known.
    #[inline]
    pub(crate) fn jumped(&mut self, code: &CodeImage, number: u32) -> u32 {
        match self.nodes[number as usize].jumped {
            NONE => {
                let target = self.nodes[number as usize].target;
                let next = self.at(code, target).unwrap_or(NONE);
                self.nodes[number as usize].jumped = next;
                next
            }
            known => known,
        }
    }

    /// The node behind the end of another.
    #[inline]
    pub(crate) fn passed(&mut self, code: &CodeImage, number: u32) -> u32 {
        match self.nodes[number as usize].passed {
            NONE => {
                let behind = self.nodes[number as usize].behind;
                let next = self.at(code, behind).unwrap_or(NONE);
                self.nodes[number as usize].passed = next;
                next
            }
            known => known,
        }
    }
}

impl Graph {
    /// The node at the target of an indirect branch, which is mostly the last one.
    #[inline]
    pub(crate) fn led(&mut self, code: &CodeImage, number: u32, to: u64) -> u32 {
        let node = &self.nodes[number as usize];
        if node.target == to && node.jumped != NONE {
            return node.jumped;
        }
        let next = self.at(code, to).unwrap_or(NONE);
        let node = &mut self.nodes[number as usize];
        (node.target, node.jumped) = (to, next);
        next
    }
}

/// The instructions from `from` up to `to`: the last of them and how many. `None`
/// if none begins at `to`.
pub(crate) fn up_to(code: &CodeImage, from: u64, to: u64) -> Option<(u64, u32)> {
    let (mut at, mut last, mut count) = (from, from, 0);
    while at < to {
        last = at;
        at = instruction(code, at)?.next_ip();
        count += 1;
    }
    (at == to && count > 0).then_some((last, count))
}

/// The address behind the first `count` instructions.
pub(crate) fn behind(code: &CodeImage, from: u64, count: u64) -> Option<u64> {
    let mut at = from;
    for _ in 0..count {
        at = instruction(code, at)?.next_ip();
    }
    Some(at)
}

fn instruction(code: &CodeImage, at: u64) -> Option<Instruction> {
    let mut bytes = [0; INSTRUCTION];
    let known = code.read(RuntimeAddress(at), &mut bytes);
    let mut decoder = Decoder::with_ip(64, &bytes[..known], at, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid() && instruction.next_ip() > at).then_some(instruction)
}

fn read(code: &CodeImage, from: u64) -> Option<Node> {
    let (mut at, mut count) = (from, 0);
    let mut node = Node {
        start: from,
        last: from,
        behind: from,
        target: 0,
        jumped: NONE,
        passed: NONE,
        instructions: 0,
        end: End::Through,
    };
    while count < LONGEST {
        let Some(instruction) = instruction(code, at) else {
            break;
        };
        count += 1;
        node.last = at;
        at = instruction.next_ip();
        if let Some(end) = end_of(&instruction) {
            node.end = end;
            if matches!(
                end,
                End::Jump | End::Call | End::Conditional | End::CallNext
            ) {
                node.target = instruction.near_branch_target();
            }
            break;
        }
    }
    node.behind = at;
    node.instructions = count;
    (count > 0).then_some(node)
}

/// How an instruction ends a node; `None` if execution goes on behind it. Faults
/// (`ud2`) and transactions show as packets of their own.
fn end_of(it: &Instruction) -> Option<End> {
    use iced_x86::FlowControl as Flow;
    if it.is_jmp_short_or_near() {
        return Some(End::Jump);
    }
    if it.is_call_near() {
        return Some(match it.near_branch_target() == it.next_ip() {
            true => End::CallNext,
            false => End::Call,
        });
    }
    if it.is_jcc_short_or_near() || it.is_jcx_short() || it.is_loop() || it.is_loopcc() {
        return Some(End::Conditional);
    }
    if it.is_jmp_near_indirect() {
        return Some(End::IndirectJump);
    }
    if it.is_call_near_indirect() {
        return Some(End::IndirectCall);
    }
    if it.mnemonic() == Mnemonic::Ret {
        return Some(End::Return);
    }
    match it.flow_control() {
        Flow::Next | Flow::Exception | Flow::XbeginXabortXend => None,
        _ => Some(End::Far),
    }
}
