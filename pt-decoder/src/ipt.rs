//! The only file that touches libipt (crate `libipt`).
//!
//! Gives its packet and block decoders a lifetime, our types and no panics. The
//! crate panics on what libipt 2.1 knows and it does not: CFE and EVD packets,
//! events of event tracing, an instruction class. Such packets are therefore
//! recognised before it sees them, events are asked for by type one at a time,
//! and the class is never asked for. Its `Tnt64::payload` drops all but eight
//! bits, so long TNT packets are read from the bytes.

use crate::{
    blocks::{CpuModel, ExecutedBlock},
    gap::GapReason,
    image::CodeImage,
    packets::{Mode, Packet, TntBits},
};
use libipt::{
    block::BlockDecoder,
    enc_dec_builder::{Cpu, EncoderDecoderBuilder, PtEncoderDecoder},
    error::{PtError, PtErrorCode},
    event::{AsyncDisabled, Disabled, Enabled, Event, Overflow},
    packet::{self, Compression, PacketDecoder, Payload},
    status::Status,
};
use sketch_model::RuntimeAddress;
use std::{cell::Cell, marker::PhantomData, rc::Rc};

/// Why a decoder could not go on.
#[derive(Debug)]
pub(crate) enum Fault {
    End,
    Broken(GapReason),
}

impl From<PtError> for Fault {
    fn from(error: PtError) -> Self {
        use PtErrorCode as Code;
        Fault::Broken(match error.code() {
            Code::Eos => return Fault::End,
            Code::BadOpc | Code::BadPacket => GapReason::BadPacket,
            Code::BadContext
            | Code::BadQuery
            | Code::Noip
            | Code::IpSuppressed
            | Code::BadInsn
            | Code::RetstackEmpty
            | Code::BadRetcomp
            | Code::BadStatusUpdate
            | Code::NoEnable => GapReason::Contradiction(error.msg()),
            _ => GapReason::Decoder(error.msg()),
        })
    }
}

fn over<T: PtEncoderDecoder>(
    trace: &[u8],
    configure: impl FnOnce(EncoderDecoderBuilder<T>) -> EncoderDecoderBuilder<T>,
) -> Result<T, GapReason> {
    // SAFETY: libipt's decoders only read the buffer, despite the pointer's
    // type. The engines below hold the slice's lifetime next to the decoder.
    let builder = unsafe { T::builder().buffer_from_raw(trace.as_ptr().cast_mut(), trace.len()) };
    configure(builder)
        .build()
        .map_err(|error| GapReason::Decoder(error.msg()))
}

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

/// What a call of the block decoder said beyond its result.
#[derive(Clone, Copy)]
pub(crate) struct Outlook {
    pub(crate) event_pending: bool,
    /// No trace is left: what the decoder would say next is not confirmed.
    pub(crate) trace_used_up: bool,
}

impl From<Status> for Outlook {
    fn from(status: Status) -> Self {
        Self {
            event_pending: status.event_pending(),
            trace_used_up: status.eos(),
        }
    }
}

/// The events that matter to a list of blocks.
pub(crate) enum FlowEvent {
    TracingOn,
    TracingOff,
    Overflow { tracing: bool },
    Other,
}

/// libipt's block decoder over a trace and an image.
pub(crate) struct BlockEngine<'t> {
    decoder: BlockDecoder<'t>,
    unreadable: Rc<Cell<u64>>,
    /// The decoder reads the trace and, by callback, the image.
    borrowed: PhantomData<(&'t [u8], &'t CodeImage)>,
}

impl<'t> BlockEngine<'t> {
    pub(crate) fn new(
        trace: &'t [u8],
        image: &'t CodeImage,
        cpu: Option<CpuModel>,
    ) -> Result<Self, GapReason> {
        // Ending blocks at direct calls and jumps keeps each one contiguous.
        let mut decoder = over::<BlockDecoder<'t>>(trace, |builder| {
            let builder = builder.set_end_on_call(true).set_end_on_jump(true);
            match cpu {
                Some(it) => builder.cpu(Cpu::intel(it.family, it.model, it.stepping)),
                None => builder,
            }
        })?;
        let unreadable = Rc::new(Cell::new(0));
        let miss = Rc::clone(&unreadable);
        // Must not unwind: C calls it. `read` cannot panic.
        decoder
            .image()
            .set_callback(Some(move |buffer: &mut [u8], address: u64, _| match image
                .read(RuntimeAddress(address), buffer)
            {
                0 => {
                    miss.set(address);
                    -(PtErrorCode::Nomap as i32)
                }
                // At most the 15 bytes of an instruction are asked for.
                count => count as i32,
            }));
        Ok(Self {
            decoder,
            unreadable,
            borrowed: PhantomData,
        })
    }

    pub(crate) fn sync_at(&mut self, offset: u64) -> Result<(), Fault> {
        self.decoder.set_sync(offset).map_err(|it| self.fault(it))
    }

    /// How far the trace has been used.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.decoder.offset().ok()
    }

    /// The pending event, or `None` if there is none after all.
    pub(crate) fn event(&mut self) -> Result<Option<(FlowEvent, Outlook)>, Fault> {
        match self.decoder.event() {
            Ok((event, status)) => Ok(Some((flow_event(event), status.into()))),
            Err(error) if error.code() == PtErrorCode::BadQuery => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// The next block; `None` if only an event was reached.
    pub(crate) fn block(&mut self) -> Result<(Option<ExecutedBlock>, Outlook), Fault> {
        let (block, status) = self.decoder.decode_next().map_err(|it| self.fault(it))?;
        let block = (block.ninsn() > 0).then(|| ExecutedBlock {
            start: RuntimeAddress(block.ip()),
            last: RuntimeAddress(block.end_ip()),
            instructions: block.ninsn().into(),
        });
        Ok((block, status.into()))
    }

    fn fault(&self, error: PtError) -> Fault {
        if error.code() == PtErrorCode::Nomap {
            let at = RuntimeAddress(self.unreadable.get());
            return Fault::Broken(GapReason::NoCode { at });
        }
        error.into()
    }
}

fn flow_event(event: Event) -> FlowEvent {
    if Enabled::try_from(event).is_ok() {
        FlowEvent::TracingOn
    } else if Disabled::try_from(event).is_ok() || AsyncDisabled::try_from(event).is_ok() {
        FlowEvent::TracingOff
    } else if Overflow::try_from(event).is_ok() {
        FlowEvent::Overflow {
            tracing: !event.ip_suppressed(),
        }
    } else {
        FlowEvent::Other
    }
}
