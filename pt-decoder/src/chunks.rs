//! A trace from any reader, in chunks that can be decoded apart.
//!
//! Chunks begin at PSBs. Decoded alone, a chunk would know nothing of the code
//! between its last branch and the address that the next PSB states, so each one
//! carries the head of the next (PSB to PSBEND) behind its own bytes: with it the
//! decoder runs up to that address and stops there, where the next one begins.
//!
//! Memory is bounded: a chunk grows to a few megabytes, and if there is no PSB
//! for much longer, the bytes in between are given up as a gap. perf asks for a
//! PSB every few kilobytes.

use crate::{
    packets::{Mode, Packet, PacketItem, Packets},
    psb::next_psb,
};
use std::io::{self, Read};

/// A chunk ends at the first PSB behind so many bytes.
const USUAL: usize = 1 << 20;
/// A chunk without a PSB is given up beyond this.
pub(crate) const LARGEST: usize = 32 << 20;
/// PSBEND comes within so many bytes of its PSB, or not at all.
const LONGEST_HEAD: usize = 512;
const READ: usize = 1 << 18;

/// Bytes to be decoded on their own.
pub(crate) struct Chunk {
    /// Where in the whole trace they begin.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// How many of them are its own; the rest is the head of the next chunk.
    pub(crate) own: usize,
    pub(crate) last: bool,
}

/// Reads chunks.
pub(crate) struct Chunks<R> {
    reader: R,
    usual: usize,
    buffer: Vec<u8>,
    /// Where in the trace the buffer begins.
    offset: u64,
    ended: bool,
}

impl<R: Read> Chunks<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self::of_size(reader, USUAL)
    }

    pub(crate) fn of_size(reader: R, usual: usize) -> Self {
        Self {
            reader,
            usual,
            buffer: Vec::new(),
            offset: 0,
            ended: false,
        }
    }

    /// The next chunk; `None` at the end of the trace.
    pub(crate) fn next(&mut self) -> io::Result<Option<Chunk>> {
        let mut searched = self.usual.max(1);
        loop {
            // The head of the next chunk must be there as well.
            self.fill(searched + READ)?;
            if let Some(cut) = next_psb(&self.buffer, searched as u64) {
                let cut = cut as usize;
                if cut + LONGEST_HEAD <= self.buffer.len() || self.ended {
                    return Ok(Some(self.cut(cut)));
                }
            }
            if self.ended {
                let end = self.buffer.len();
                return Ok((end > 0).then(|| self.cut(end)));
            }
            if self.buffer.len() >= LARGEST {
                return Ok(Some(self.cut(LARGEST)));
            }
            // A PSB may lie across the end of what is there.
            searched = (self.buffer.len() - LONGEST_HEAD).max(searched);
        }
    }

    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        while !self.ended && self.buffer.len() < wanted {
            let before = self.buffer.len();
            self.buffer.resize(wanted.max(before + READ), 0);
            let count = loop {
                match self.reader.read(&mut self.buffer[before..]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            self.buffer.truncate(before + *count.as_ref().unwrap_or(&0));
            self.ended = count? == 0;
        }
        Ok(())
    }

    fn cut(&mut self, at: usize) -> Chunk {
        let rest = self.buffer.split_off(at);
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        let own = bytes.len();
        bytes.extend_from_slice(&self.buffer[..head(&self.buffer)]);
        let offset = self.offset;
        self.offset += own as u64;
        Chunk {
            offset,
            bytes,
            own,
            last: self.ended && self.buffer.is_empty(),
        }
    }
}

/// How many bytes from a PSB at the beginning to behind its PSBEND; none if it is
/// no place to begin at: it does not end, or code runs there in no stated mode.
pub(crate) fn head(trace: &[u8]) -> usize {
    let near = &trace[..trace.len().min(LONGEST_HEAD)];
    if next_psb(near, 0) != Some(0) {
        return 0;
    }
    let (mut ended, mut runs, mut mode) = (false, false, false);
    for item in Packets::new(near) {
        match item {
            PacketItem::Packet { offset, .. } if ended => return offset as usize,
            PacketItem::Packet { packet, .. } => match packet {
                Packet::PsbEnd if runs && !mode => return 0,
                Packet::PsbEnd => ended = true,
                Packet::Fup(_) => runs = true,
                Packet::Mode(Mode::Exec { .. }) => mode = true,
                Packet::Ovf => return 0,
                _ => {}
            },
            PacketItem::Gap(_) => return 0,
        }
    }
    if ended { near.len() } else { 0 }
}
