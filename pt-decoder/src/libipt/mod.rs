//! The only module that touches libipt (crate `libipt`).
//!
//! Gives its packet and block decoders a lifetime, our types and no panics. The
//! crate panics on what libipt 2.1 knows and it does not: CFE and EVD packets,
//! events of event tracing, an instruction class. Such packets are therefore
//! recognised before it sees them, events are asked for by type one at a time,
//! and the class is never asked for. Its `Tnt64::payload` drops all but eight
//! bits, so long TNT packets are read from the bytes.

mod block_engine;
mod blocks;
mod packet_engine;
mod prepared_image;

pub use blocks::{Blocks, ExecutedBlock, ExecutionItem, TraceSetup};
pub(crate) use packet_engine::PacketEngine;
pub(crate) use prepared_image::PreparedImage;

use crate::gap::GapReason;
use ::libipt::{
    enc_dec_builder::{EncoderDecoderBuilder, PtEncoderDecoder},
    error::{PtError, PtErrorCode},
};

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
            | Code::NoEnable => GapReason::Contradiction(error.msg().into()),
            _ => GapReason::Decoder(error.msg().into()),
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
        .map_err(|error| GapReason::Decoder(error.msg().into()))
}
