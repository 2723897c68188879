//! Writes what a processor would write: the rules of the Intel SDM (vol. 3C, "Intel
//! Processor Trace") for when each packet is due.
//!
//! Outcomes of conditional branches gather in TNT packets. A return to where its
//! call said is one taken bit; the stack of calls has 64 places and empties at a
//! PSB, at an overflow and when tracing is turned on. A PSB comes after so many
//! bytes, wherever execution then stands.
//!
//! Time is told by TSC packets. How packets are written: `intel_pt/packet_writer.rs`.

use crate::intel_pt::packet_writer::{AddressBytes, PacketWriter};
use iced_x86::{FlowControl, Instruction};

/// How the processor is set up and how it happens to pack.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub compressed_returns: bool,
    /// Outcomes per TNT packet: up to 6 fit the short one, 47 the long.
    pub tnt_capacity: u32,
    /// A PSB after so many bytes.
    pub psb_every: usize,
    /// TSC packets with PSBs and when tracing is turned on.
    pub timed: bool,
}

pub const USUAL: Setup = Setup {
    compressed_returns: true,
    tnt_capacity: 6,
    psb_every: 2048,
    timed: true,
};

const CALLS: usize = 64;

pub struct PtWriter {
    setup: Setup,
    packets: PacketWriter,
    calls: Vec<u64>,
    /// Where the last PSB ends.
    behind_psb: usize,
    pub tsc: u64,
}

/// What an instruction was followed by, if not by what follows from the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It entered the kernel (`syscall`).
    Kernel,
    /// The next address lies outside of the filter.
    Filter,
}

impl PtWriter {
    pub fn new(setup: Setup) -> Self {
        let mut writer = Self {
            setup,
            packets: PacketWriter::new(setup.tnt_capacity, AddressBytes::Fewest),
            calls: Vec::new(),
            behind_psb: 0,
            tsc: 1_000_000,
        };
        writer.psb(None);
        writer
    }

    pub fn position(&self) -> usize {
        self.packets.position()
    }

    pub fn finish(self) -> Vec<u8> {
        self.packets.finish()
    }

    /// Tracing is turned on: at the beginning, by a filter or back from the kernel.
    pub fn turn_on(&mut self, ip: u64) {
        self.time();
        self.packets.mode_64();
        self.packets.tip_pge(ip);
        self.calls.clear();
    }

    /// An interrupt, a fault or a signal before the instruction at `ip`.
    pub fn interrupted(&mut self, ip: u64) {
        self.packets.fup(ip);
        self.packets.tip_pgd(None);
    }

    /// The instruction was executed, and `next` comes after it.
    pub fn retired(&mut self, instruction: &Instruction, next: u64, leave: Option<Leave>) {
        self.tsc += 3;
        match leave {
            Some(Leave::Kernel) => return self.packets.tip_pgd(None),
            // In place of what the branch itself would have written.
            Some(Leave::Filter) => return self.packets.tip_pgd(Some(next)),
            None => {}
        }
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => {
                self.packets.outcome(next != instruction.next_ip());
            }
            FlowControl::IndirectBranch => self.packets.tip(next),
            FlowControl::Call => self.call(instruction),
            FlowControl::IndirectCall => {
                self.call(instruction);
                self.packets.tip(next);
            }
            FlowControl::Return => {
                let expected = self.calls.pop();
                if self.setup.compressed_returns && expected == Some(next) {
                    self.packets.outcome(true);
                } else {
                    self.packets.tip(next);
                }
            }
            FlowControl::Next | FlowControl::UnconditionalBranch => {}
            other => panic!("{other:?} is not modelled: {instruction:?}"),
        }
        if self.packets.position() - self.behind_psb >= self.setup.psb_every {
            self.psb(Some(next));
        }
    }

    /// The processor lost packets and goes on at `ip`.
    pub fn overflowed(&mut self, ip: u64) {
        self.packets.ovf();
        self.packets.fup(ip);
        self.calls.clear();
    }

    fn call(&mut self, instruction: &Instruction) {
        // A call of the next instruction only reads the program counter.
        if instruction.is_call_near() && instruction.near_branch_target() == instruction.next_ip() {
            return;
        }
        if self.calls.len() == CALLS {
            self.calls.remove(0);
        }
        self.calls.push(instruction.next_ip());
    }

    fn psb(&mut self, ip: Option<u64>) {
        self.packets.psb();
        self.time();
        if let Some(ip) = ip {
            self.packets.mode_64();
            self.packets.fup(ip);
        }
        self.packets.psb_end();
        self.calls.clear();
        self.behind_psb = self.packets.position();
    }

    fn time(&mut self) {
        if self.setup.timed {
            self.packets.tsc(self.tsc);
        }
    }
}
