//! The packets of a trace, one by one, each with its offset.
//!
//! This reading needs no code image. It serves checks of recordings against a
//! second decoder and everything that asks what the processor wrote rather than
//! what ran. Packet meanings: Intel SDM vol. 3C, "Trace Packets and Data Types".
//!
//! PSB packets are the only places where decoding may begin. One is `02 82` eight
//! times (SDM, "Packet Stream Boundary"). A payload that happens to end in `02 82`
//! lengthens the run at its front, so of a longer run the last sixteen bytes are
//! the PSB, as libipt has it too.
//!
//! Deliberately absent: payloads that no part of Failsketch reads (paging,
//! power and virtualisation packets appear by name).

use crate::{
    gap::{GapReason, TraceGap},
    libipt::{Fault, PacketEngine},
};
use sketch_model::RuntimeAddress;

const PAIR: [u8; 2] = [0x02, 0x82];
const PSB_BYTES: usize = 16;

/// Outcomes of conditional branches and compressed returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TntBits {
    /// The newest outcome is bit 0; 1 means taken.
    pub bits: u64,
    pub count: u8,
}

impl TntBits {
    /// The outcomes, oldest first.
    pub fn taken(self) -> impl Iterator<Item = bool> {
        (0..self.count)
            .rev()
            .map(move |at| self.bits >> at & 1 == 1)
    }
}

/// What a MODE packet reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The code segment's L and D bits: (1, 0) is 64-bit code.
    Exec {
        long: bool,
        default_32: bool,
    },
    Transaction {
        inside: bool,
        aborted: bool,
    },
}

/// One packet. An address is `None` where the processor suppressed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    Psb,
    PsbEnd,
    Tip(Option<RuntimeAddress>),
    TipPge(Option<RuntimeAddress>),
    TipPgd(Option<RuntimeAddress>),
    Fup(Option<RuntimeAddress>),
    Tnt(TntBits),
    Ovf,
    Mode(Mode),
    Tsc(u64),
    Tma {
        ctc: u16,
        fast_counter: u16,
    },
    Mtc(u8),
    Cyc(u64),
    Cbr(u8),
    Pad,
    Stop,
    /// A packet of no interest here, by its name in the manual.
    Other(&'static str),
}

/// What the packet reading yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketItem {
    Packet { offset: u64, packet: Packet },
    Gap(TraceGap),
}

/// Walks a trace packet by packet. After an error it goes on at a PSB that lies
/// behind every PSB it has seen, so it ends on any bytes.
pub struct Packets<'t> {
    trace: &'t [u8],
    /// `None` once there is nothing left to read.
    engine: Option<PacketEngine<'t>>,
    pending: Option<TraceGap>,
}

impl<'t> Packets<'t> {
    pub fn new(trace: &'t [u8]) -> Self {
        let mut packets = Self {
            trace,
            engine: None,
            pending: None,
        };
        if !trace.is_empty() {
            match PacketEngine::new(trace) {
                Ok(engine) => {
                    packets.engine = Some(engine);
                    packets.resume(0, 0, GapReason::NoSync);
                }
                Err(reason) => packets.pending = Some(TraceGap::to_the_end(0, reason)),
            }
        }
        packets
    }

    /// Moves to the first PSB at `from` or later and notes the gap up to there.
    fn resume(&mut self, offset: u64, from: u64, reason: GapReason) {
        let resumes = next_psb(self.trace, from)
            .filter(|psb| self.engine.as_mut().is_some_and(|it| it.sync_at(*psb)));
        if resumes.is_none() {
            self.engine = None;
        }
        self.pending = TraceGap::between(offset, resumes, reason);
    }
}

impl Iterator for Packets<'_> {
    type Item = PacketItem;

    fn next(&mut self) -> Option<PacketItem> {
        if self.pending.is_none() {
            let engine = self.engine.as_mut()?;
            let offset = engine.offset();
            match engine.next() {
                Ok(packet) => return Some(PacketItem::Packet { offset, packet }),
                Err(Fault::End) => {
                    self.engine = None;
                    if offset < self.trace.len() as u64 {
                        let gap = TraceGap::to_the_end(offset, GapReason::Truncated);
                        self.pending = Some(gap);
                    }
                }
                Err(Fault::Broken(reason)) => {
                    self.resume(offset, behind_packet_at(offset), reason);
                }
            }
        }
        self.pending.take().map(PacketItem::Gap)
    }
}

/// The offset of the first PSB that begins at `from` or later.
pub fn next_psb(trace: &[u8], from: u64) -> Option<u64> {
    let mut at = usize::try_from(from).ok()?;
    while let Some(rest) = trace.get(at..).filter(|rest| rest.len() >= PSB_BYTES) {
        let pairs = rest
            .chunks_exact(PAIR.len())
            .take_while(|pair| **pair == PAIR)
            .count();
        if pairs * PAIR.len() >= PSB_BYTES {
            return Some((at + pairs * PAIR.len() - PSB_BYTES) as u64);
        }
        // A shorter run holds no PSB, nor does any end of it; and no run can
        // begin on the second byte of a pair.
        at += (pairs * PAIR.len()).max(1);
    }
    None
}

/// From where to look for a PSB after the packet at `offset` proved broken: the
/// packets just before it may have been misread bytes of that PSB.
pub(crate) fn behind_packet_at(offset: u64) -> u64 {
    offset.saturating_sub(PSB_BYTES as u64 - 1)
}

/// Where the PSBs of a trace begin.
pub fn psb_offsets(trace: &[u8]) -> Vec<u64> {
    let behind = |psb: &u64| next_psb(trace, psb + PSB_BYTES as u64);
    std::iter::successors(next_psb(trace, 0), behind).collect()
}
