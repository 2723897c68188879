//! Writes what a processor would write: packets by libipt's encoder, and the
//! rules of the Intel SDM (vol. 3C, "Intel Processor Trace") for when each one
//! is due.
//!
//! Outcomes of conditional branches gather in TNT packets. Addresses are
//! compressed against the last one. A return to where its call said is one
//! taken bit; the stack of calls has 64 places and empties at a PSB, at an
//! overflow and when tracing is turned on. A PSB comes after so many bytes,
//! wherever execution then stands.
//!
//! Deliberately absent: MTC, CYC and CBR packets (time is told by TSC packets),
//! transactions, and power and virtualisation events.

use iced_x86::{FlowControl, Instruction};
use libipt::{
    enc_dec_builder::PtEncoderDecoder,
    packet::{
        Compression, Encoder, Exec, Fup, Mode, Ovf, Payload, Psb, Psbend, Tip, TipPgd, TipPge,
        Tnt8, Tnt64, Tsc,
    },
};

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
const PIECE: usize = 1 << 16;

pub struct PtWriter {
    setup: Setup,
    bytes: Vec<u8>,
    /// What the encoder writes into, and how much of it is used.
    piece: Box<[u8]>,
    encoder: Encoder<()>,
    outcomes: u64,
    count: u32,
    last_ip: Option<u64>,
    calls: Vec<u64>,
    since_psb: usize,
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
        let mut piece = vec![0; PIECE].into_boxed_slice();
        let builder = Encoder::builder();
        // SAFETY: the piece is on the heap, is never replaced, and lives as long
        // as the encoder, which is the only one that writes into it.
        let builder = unsafe { builder.buffer_from_raw(piece.as_mut_ptr(), PIECE) };
        let encoder = builder.build().unwrap();
        let mut writer = Self {
            setup,
            bytes: Vec::new(),
            piece,
            encoder,
            outcomes: 0,
            count: 0,
            last_ip: None,
            calls: Vec::new(),
            since_psb: 0,
            tsc: 1_000_000,
        };
        writer.psb(None);
        writer
    }

    pub fn position(&self) -> usize {
        self.bytes.len() + self.encoder.offset().unwrap() as usize
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.take_piece();
        self.bytes
    }

    fn take_piece(&mut self) {
        let used = self.encoder.offset().unwrap() as usize;
        self.bytes.extend_from_slice(&self.piece[..used]);
        self.encoder.set_offset(0).unwrap();
    }

    fn room(&mut self) {
        if self.encoder.offset().unwrap() as usize > PIECE - 64 {
            self.take_piece();
        }
    }

    /// Tracing is turned on: at the beginning, by a filter or back from the kernel.
    pub fn turn_on(&mut self, ip: u64) {
        self.room();
        if self.setup.timed {
            self.since_psb += self.encoder.next(Tsc::new(self.tsc)).unwrap() as usize;
        }
        self.mode();
        let (ip, how) = self.compressed(ip);
        self.since_psb += self.encoder.next(TipPge::new(ip, how)).unwrap() as usize;
        self.calls.clear();
    }

    /// An interrupt, a fault or a signal before the instruction at `ip`.
    pub fn interrupted(&mut self, ip: u64) {
        self.flush();
        let (ip, how) = self.compressed(ip);
        self.encoder.next(Fup::new(ip, how)).unwrap();
        self.turn_off();
    }

    /// Into the kernel, of which nothing is traced, not even the address.
    fn turn_off(&mut self) {
        self.flush();
        self.encoder
            .next(TipPgd::new(0, Compression::Suppressed))
            .unwrap();
    }

    /// The instruction was executed, and `next` comes after it.
    pub fn retired(&mut self, instruction: &Instruction, next: u64, leave: Option<Leave>) {
        self.tsc += 3;
        self.room();
        if leave == Some(Leave::Kernel) {
            return self.turn_off();
        }
        if leave == Some(Leave::Filter) {
            // In place of what the branch itself would have written.
            self.flush();
            let (ip, how) = self.compressed(next);
            self.encoder.next(TipPgd::new(ip, how)).unwrap();
            return;
        }
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => self.outcome(next != instruction.next_ip()),
            FlowControl::IndirectBranch => self.tip(next),
            FlowControl::Call => self.call(instruction),
            FlowControl::IndirectCall => {
                self.call(instruction);
                self.tip(next);
            }
            FlowControl::Return => {
                let expected = self.calls.pop();
                if self.setup.compressed_returns && expected == Some(next) {
                    self.outcome(true);
                } else {
                    self.tip(next);
                }
            }
            FlowControl::Next | FlowControl::UnconditionalBranch => {}
            other => panic!("{other:?} is not modelled: {instruction:?}"),
        }
        if self.since_psb >= self.setup.psb_every {
            self.psb(Some(next));
        }
    }

    /// The processor lost packets and goes on at `ip`.
    pub fn overflowed(&mut self, ip: u64) {
        self.flush();
        self.encoder.next(Ovf::new()).unwrap();
        // Like a PSB it leaves nothing to compress against.
        self.last_ip = None;
        let (ip, how) = self.compressed(ip);
        self.encoder.next(Fup::new(ip, how)).unwrap();
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

    fn outcome(&mut self, taken: bool) {
        self.outcomes = self.outcomes << 1 | u64::from(taken);
        self.count += 1;
        if self.count == self.setup.tnt_capacity {
            self.flush();
        }
    }

    fn tip(&mut self, ip: u64) {
        self.flush();
        let (ip, how) = self.compressed(ip);
        self.since_psb += self.encoder.next(Tip::new(ip, how)).unwrap() as usize;
    }

    fn flush(&mut self) {
        self.room();
        let (outcomes, count) = (self.outcomes, self.count as u8);
        (self.outcomes, self.count) = (0, 0);
        self.since_psb += match count {
            0 => return,
            1..=6 => self.encoder.next(Tnt8::new(outcomes as u8, count)),
            _ => self.encoder.next(Tnt64::new(outcomes, count)),
        }
        .unwrap() as usize;
    }

    fn psb(&mut self, ip: Option<u64>) {
        self.flush();
        self.room();
        self.encoder.next(Psb::new()).unwrap();
        (self.last_ip, self.since_psb) = (None, 0);
        self.calls.clear();
        if self.setup.timed {
            self.encoder.next(Tsc::new(self.tsc)).unwrap();
        }
        if let Some(ip) = ip {
            self.mode();
            let (ip, how) = self.compressed(ip);
            self.encoder.next(Fup::new(ip, how)).unwrap();
        }
        self.encoder.next(Psbend::new()).unwrap();
    }

    fn mode(&mut self) {
        let mode = Mode::new(Payload::Exec(Exec::CSL));
        self.encoder.next(mode).unwrap();
    }

    /// SDM, "IP Compression".
    fn compressed(&mut self, ip: u64) -> (u64, Compression) {
        let last = self.last_ip.replace(ip);
        let same_above = |bits: u32| last.is_some_and(|last| last >> bits == ip >> bits);
        if same_above(16) {
            (ip & 0xffff, Compression::Update16)
        } else if same_above(32) {
            (ip & 0xffff_ffff, Compression::Update32)
        } else {
            (ip & 0xffff_ffff_ffff, Compression::Sext48)
        }
    }
}
