//! What tests of the decoder share: one small program whose path and trace are
//! known, and a writer of packets.
//!
//! Deliberately absent: programs in general (`tracer/`).

pub mod packet_writer;
pub mod second_decoder;
pub mod tracer;

use iced_x86::{Decoder, DecoderOptions};
use packet_writer::{AddressBytes, PacketWriter};
use pt_decoder::{CodeImage, CodeSource, ExecutedBlock, ExecutionItem, GapReason};
use sketch_model::{MappedCode, RuntimeAddress};
use std::sync::Arc;

pub const BASE: u64 = 0x7f12_3456_7000;

/// ```text
/// 00  31 c9                 xor  ecx, ecx
/// 02  ff c1          loop:  inc  ecx
/// 04  83 f9 NN              cmp  ecx, NN
/// 07  75 f9                 jne  loop
/// 09  48 8d 05 10 00 00 00  lea  rax, [rip + f]
/// 10  ff d0                 call rax
/// 12  e8 09 00 00 00        call f
/// 17  eb 05                 jmp  out
/// 19  cc cc cc cc cc
/// 1e  0f 05          out:   syscall
/// 20  55             f:     push rbp
/// 21  5d                    pop  rbp
/// 22  c3                    ret
/// ```
pub fn program(rounds: u8) -> CodeImage {
    let code = [
        0x31, 0xc9, 0xff, 0xc1, 0x83, 0xf9, rounds, 0x75, 0xf9, 0x48, 0x8d, 0x05, 0x10, 0, 0, 0,
        0xff, 0xd0, 0xe8, 9, 0, 0, 0, 0xeb, 5, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0x0f, 0x05, 0x55,
        0x5d, 0xc3,
    ];
    let mut image = CodeImage::new();
    image.add(RuntimeAddress(BASE), code).unwrap();
    image
}

/// The code as it was in memory.
pub struct InMemory<'i>(pub &'i CodeImage);

impl CodeSource for InMemory<'_> {
    fn code(&self, mapped: &MappedCode) -> Result<Arc<[u8]>, String> {
        let mut bytes = vec![0; mapped.length as usize];
        let known = self.0.read(mapped.start, &mut bytes);
        bytes.truncate(known);
        Ok(bytes.into())
    }
}

/// One instruction, or what interrupted the list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    At(u64),
    Paused,
    Gap(GapReason),
}

/// The instructions of the blocks. libipt may cut a block where its cache of
/// decoded code begins anew, so lists of blocks are compared by instruction.
pub fn steps(items: &[ExecutionItem], image: &CodeImage) -> Vec<Step> {
    let mut steps = Vec::new();
    for item in items {
        match item {
            ExecutionItem::Block(block) => {
                let mut at = block.start.0;
                for left in (0..block.instructions).rev() {
                    steps.push(Step::At(at));
                    if left == 0 {
                        assert_eq!(at, block.last.0, "{block:x?} is not contiguous");
                    }
                    at += length(at, image);
                }
            }
            ExecutionItem::Paused => steps.push(Step::Paused),
            ExecutionItem::Gap(gap) => steps.push(Step::Gap(gap.reason.clone())),
        }
    }
    steps
}

fn length(at: u64, image: &CodeImage) -> u64 {
    let mut bytes = [0; 15];
    let known = image.read(RuntimeAddress(at), &mut bytes);
    let mut decoder = Decoder::with_ip(64, &bytes[..known], at, DecoderOptions::NONE);
    decoder.decode().len() as u64
}

pub fn block(start: u64, last: u64, instructions: u32) -> ExecutionItem {
    ExecutionItem::Block(ExecutedBlock {
        start: RuntimeAddress(BASE + start),
        last: RuntimeAddress(BASE + last),
        instructions,
    })
}

/// What the program executes.
pub fn true_path(rounds: u8) -> Vec<ExecutionItem> {
    let mut path = vec![block(0x00, 0x07, 4)];
    path.extend((1..rounds).map(|_| block(0x02, 0x07, 3)));
    path.extend([
        block(0x09, 0x10, 2),
        block(0x20, 0x22, 3),
        block(0x12, 0x12, 1),
        block(0x20, 0x22, 3),
        block(0x17, 0x17, 1),
        block(0x1e, 0x1e, 1),
        ExecutionItem::Paused,
    ]);
    path
}

/// How a processor was set up and how it happened to pack.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    pub compressed_returns: bool,
    pub tnt_capacity: u32,
    /// A PSB after so many rounds.
    pub psb_every: usize,
    /// Bytes of an address that a packet repeats: 2, 4, 6 or 8.
    pub address_bytes: u8,
}

pub const PLAIN: Recording = Recording {
    compressed_returns: false,
    tnt_capacity: 6,
    psb_every: usize::MAX,
    address_bytes: 6,
};

impl Recording {
    pub fn writer(self) -> PacketWriter {
        PacketWriter::new(self.tnt_capacity, AddressBytes::Always(self.address_bytes))
    }

    /// A trace that has just begun, with the program.
    pub fn begun(self) -> PacketWriter {
        let mut out = self.writer();
        out.psb();
        out.mode_64();
        out.psb_end();
        out.tip_pge(BASE);
        out
    }
}

/// What a processor writes while the program runs.
pub fn record(rounds: u8, how: Recording) -> Vec<u8> {
    let mut out = how.begun();
    for round in 1..=usize::from(rounds) {
        let again = round < usize::from(rounds);
        out.outcome(again);
        if round % how.psb_every == 0 {
            out.psb_plus(BASE + if again { 0x02 } else { 0x09 });
        }
    }
    out.tip(BASE + 0x20);
    for to in [0x12, 0x17] {
        // SDM, "Indirect Transfer Compression for Returns": a return to where
        // its call said is one taken bit. The stack of calls empties at a PSB,
        // and both calls lie behind the last one.
        if how.compressed_returns {
            out.outcome(true);
        } else {
            out.tip(BASE + to);
        }
    }
    out.tip_pgd(None);
    out.finish()
}
