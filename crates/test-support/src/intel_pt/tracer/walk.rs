//! Long traces without a processor: a random walk through real code.
//!
//! At each conditional branch a coin is thrown, an indirect jump or call goes to
//! some function, a return goes where its call said or, with an empty stack, to
//! some function. The code is a real program's, so blocks, calls and loops are
//! of real size; only the outcomes are invented, which no decoder can tell.

use super::{code::Code, truth::Path, writer::PtWriter};
use crate::intel_pt::Step;
use iced_x86::{FlowControl, Instruction};
use pt_decoder::CodeImage;
use std::collections::HashMap;

/// Deeper calls begin anew.
const DEEPEST: usize = 500;
/// So many jumps without a branch that needs trace are an endless loop.
const LONGEST: usize = 200;

pub struct Walk<'f> {
    code: Code,
    functions: &'f [u64],
    /// The first branch at or behind an address, and the instructions up to it.
    branches: HashMap<u64, Option<(Instruction, u64)>>,
    random: u64,
    stack: Vec<u64>,
    pub instructions: u64,
    /// What was walked, if asked for.
    pub path: Option<Path>,
}

impl<'f> Walk<'f> {
    pub fn new(image: CodeImage, functions: &'f [u64], seed: u64) -> Self {
        Self {
            code: Code::new(image),
            functions,
            branches: HashMap::new(),
            random: seed | 1,
            stack: Vec::new(),
            instructions: 0,
            path: None,
        }
    }

    /// xorshift64: the same walk for the same seed.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn some_function(&mut self) -> u64 {
        let number = self.random() % self.functions.len() as u64;
        self.functions[number as usize]
    }

    /// `None` where the code cannot be followed.
    fn branch_from(&mut self, ip: u64) -> Option<(Instruction, u64)> {
        if let Some(known) = self.branches.get(&ip) {
            return *known;
        }
        let (mut at, mut count) = (ip, 0);
        let found = loop {
            let Some(instruction) = self.code.decoded(at) else {
                break None;
            };
            count += 1;
            match instruction.flow_control() {
                FlowControl::Next => at = instruction.next_ip(),
                FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => {
                    break None;
                }
                FlowControl::Call if !instruction.is_call_near() => break None,
                _ => break Some((instruction, count)),
            }
            if count > 2000 {
                break None;
            }
        };
        self.branches.insert(ip, found);
        found
    }

    /// Writes about `bytes` bytes of trace and pauses at the end.
    pub fn write(&mut self, writer: &mut PtWriter, bytes: usize) {
        let mut ip = self.some_function();
        writer.turn_on(ip);
        let mut free = 0;
        let until = writer.position() + bytes;
        while writer.position() < until {
            let found = self.branch_from(ip);
            let known = found.filter(|_| free < LONGEST && self.stack.len() < DEEPEST);
            let Some((branch, count)) = known else {
                self.interrupt(writer, ip);
                free = 0;
                ip = self.some_function();
                writer.turn_on(ip);
                continue;
            };
            self.instructions += count;
            self.note(ip, branch.ip());
            free += 1;
            let next = match branch.flow_control() {
                FlowControl::ConditionalBranch => {
                    free = 0;
                    match self.random() & 1 {
                        0 => branch.next_ip(),
                        _ => branch.near_branch_target(),
                    }
                }
                FlowControl::UnconditionalBranch => branch.near_branch_target(),
                FlowControl::Call => {
                    self.stack.push(branch.next_ip());
                    branch.near_branch_target()
                }
                FlowControl::IndirectCall => {
                    free = 0;
                    self.stack.push(branch.next_ip());
                    self.some_function()
                }
                FlowControl::Return => {
                    free = 0;
                    match self.stack.pop() {
                        Some(to) => to,
                        None => self.some_function(),
                    }
                }
                _ => {
                    free = 0;
                    self.some_function()
                }
            };
            writer.retired(&branch, next, None);
            ip = next;
        }
        self.interrupt(writer, ip);
    }

    fn interrupt(&mut self, writer: &mut PtWriter, ip: u64) {
        writer.interrupted(ip);
        self.stack.clear();
        if let Some(path) = &mut self.path {
            path.push(Step::Paused);
        }
    }

    /// Notes what was executed, both ends included.
    fn note(&mut self, from: u64, to: u64) {
        let Some(path) = &mut self.path else { return };
        let mut at = from;
        while at <= to {
            path.push(Step::At(at));
            at = self.code.at(at).next_ip();
        }
    }
}
