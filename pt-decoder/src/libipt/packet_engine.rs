//! libipt's packet decoder, and what its crate gets wrong about packets.

use super::{Fault, over};
use crate::{
    gap::GapReason,
    packets::{Mode, Packet, TntBits},
};
use ::libipt::packet::{self, Compression, PacketDecoder, Payload};
use sketch_model::RuntimeAddress;

/// libipt's packet decoder over a trace.
pub(crate) struct PacketEngine<'t> {
    decoder: PacketDecoder<()>,
    trace: &'t [u8],
    last_ip: u64,
}

impl<'t> PacketEngine<'t> {
    pub(crate) fn new(trace: &'t [u8]) -> Result<Self, GapReason> {
        Ok(Self {
            decoder: over(trace, |builder| builder)?,
            trace,
            last_ip: 0,
        })
    }

    pub(crate) fn sync_at(&mut self, offset: u64) -> bool {
        self.decoder.sync_set(offset).is_ok()
    }

    /// The offset of the next packet.
    pub(crate) fn offset(&self) -> u64 {
        self.decoder.offset().unwrap_or(0)
    }

    pub(crate) fn next(&mut self) -> Result<Packet, Fault> {
        let offset = self.offset();
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| self.trace.get(at..))
            .unwrap_or_default();
        if let Some((name, length)) = unknown_to_the_crate(rest) {
            if rest.len() < length {
                return Err(Fault::End);
            }
            self.decoder.sync_set(offset + length as u64)?;
            return Ok(Packet::Other(name));
        }
        Ok(match self.decoder.decode_next()? {
            packet::Packet::Psb(_) => {
                self.last_ip = 0;
                Packet::Psb
            }
            packet::Packet::Psbend(_) => Packet::PsbEnd,
            packet::Packet::Tip(it) => Packet::Tip(self.address(it.tip(), it.compression())),
            packet::Packet::TipPge(it) => {
                Packet::TipPge(self.address(it.tippge(), it.compression()))
            }
            packet::Packet::TipPgd(it) => {
                Packet::TipPgd(self.address(it.tippgd(), it.compression()))
            }
            packet::Packet::Fup(it) => Packet::Fup(self.address(it.fup(), it.compression())),
            packet::Packet::Tnt8(it) => Packet::Tnt(TntBits {
                bits: it.payload().into(),
                count: it.bitsize(),
            }),
            packet::Packet::Tnt64(_) => Packet::Tnt(long_tnt(rest)?),
            packet::Packet::Ovf(_) => Packet::Ovf,
            packet::Packet::Mode(it) => Packet::Mode(match it.payload() {
                Payload::Exec(bits) => Mode::Exec {
                    long: bits.contains(packet::Exec::CSL),
                    default_32: bits.contains(packet::Exec::CSD),
                },
                Payload::Tsx(bits) => Mode::Transaction {
                    inside: bits.contains(packet::Tsx::INTX),
                    aborted: bits.contains(packet::Tsx::ABRT),
                },
            }),
            packet::Packet::Tsc(it) => Packet::Tsc(it.tsc()),
            packet::Packet::Tma(it) => Packet::Tma {
                ctc: it.ctc(),
                fast_counter: it.fc(),
            },
            packet::Packet::Mtc(it) => Packet::Mtc(it.ctc()),
            packet::Packet::Cyc(it) => Packet::Cyc(it.value()),
            packet::Packet::Cbr(it) => Packet::Cbr(it.ratio()),
            packet::Packet::Pad(_) => Packet::Pad,
            packet::Packet::Stop(_) => Packet::Stop,
            packet::Packet::Pip(_) => Packet::Other("PIP"),
            packet::Packet::Vmcs(_) => Packet::Other("VMCS"),
            packet::Packet::Mnt(_) => Packet::Other("MNT"),
            packet::Packet::Exstop(_) => Packet::Other("EXSTOP"),
            packet::Packet::Mwait(_) => Packet::Other("MWAIT"),
            packet::Packet::Pwre(_) => Packet::Other("PWRE"),
            packet::Packet::Pwrx(_) => Packet::Other("PWRX"),
            packet::Packet::Ptw(_) => Packet::Other("PTW"),
            packet::Packet::Invalid(_) | packet::Packet::Unknown(_) => {
                return Err(Fault::Broken(GapReason::BadPacket));
            }
        })
    }

    /// Undoes IP compression (SDM vol. 3C, "IP Compression").
    fn address(&mut self, payload: u64, compression: Compression) -> Option<RuntimeAddress> {
        let keep_above = |bits: u32| self.last_ip >> bits << bits | payload;
        self.last_ip = match compression {
            Compression::Suppressed => return None,
            Compression::Update16 => keep_above(16),
            Compression::Update32 => keep_above(32),
            Compression::Update48 => keep_above(48),
            Compression::Sext48 => ((payload << 16) as i64 >> 16) as u64,
            Compression::Full => payload,
        };
        Some(RuntimeAddress(self.last_ip))
    }
}

/// Name and length of a packet that libipt decodes and its crate panics on.
fn unknown_to_the_crate(rest: &[u8]) -> Option<(&'static str, usize)> {
    match rest {
        [0x02, 0x13, ..] => Some(("CFE", 4)),
        [0x02, 0x53, ..] => Some(("EVD", 11)),
        _ => None,
    }
}

/// `02 a3` and six bytes: a stop bit above the outcomes.
fn long_tnt(packet: &[u8]) -> Result<TntBits, Fault> {
    let payload = packet.get(2..8).map(|bytes| {
        let mut wide = [0; 8];
        wide[..6].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    });
    let stop = payload.and_then(u64::checked_ilog2).unwrap_or(0);
    match (payload, u8::try_from(stop)) {
        (Some(payload), Ok(count)) if count > 0 => Ok(TntBits {
            bits: payload & !(1 << count),
            count,
        }),
        _ => Err(Fault::Broken(GapReason::BadPacket)),
    }
}
