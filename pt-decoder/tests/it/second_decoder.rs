//! The second decoder of packets, which shares no code with libipt.

use iptr_decoder::{
    DecodeOptions, DecoderContext, HandlePacket, IpReconstructionPattern, PtwPayload,
    utils::reconstruct_ip_and_update_last,
};
use pt_decoder::{Mode, Packet, TntBits};
use sketch_model::RuntimeAddress;
use std::{convert::Infallible, num::NonZero};

/// The second decoder's packets in our words.
#[derive(Default)]
struct Second {
    last_ip: u64,
    packets: Vec<Packet>,
}

type Seen = Result<(), Infallible>;

impl Second {
    fn see(&mut self, packet: Packet) -> Seen {
        self.packets.push(packet);
        Ok(())
    }

    fn address(&mut self, pattern: IpReconstructionPattern) -> Option<RuntimeAddress> {
        reconstruct_ip_and_update_last(&mut self.last_ip, pattern)
            .then_some(RuntimeAddress(self.last_ip))
    }
}

fn tnt(payload: u64, count: u32) -> Packet {
    Packet::Tnt(TntBits {
        bits: payload & ((1 << count) - 1),
        count: count as u8,
    })
}

#[rustfmt::skip]
impl HandlePacket for Second {
    type Error = Infallible;
    fn at_decode_begin(&mut self) -> Seen { Ok(()) }
    fn on_short_tnt_packet(&mut self, _: &DecoderContext, byte: NonZero<u8>, highest: u32) -> Seen {
        self.see(tnt(u64::from(byte.get()) >> 1, highest))
    }
    fn on_long_tnt_packet(&mut self, _: &DecoderContext, bytes: NonZero<u64>, highest: u32) -> Seen {
        self.see(tnt(bytes.get(), highest.wrapping_add(1)))
    }
    fn on_tip_packet(&mut self, _: &DecoderContext, ip: IpReconstructionPattern) -> Seen {
        let ip = self.address(ip);
        self.see(Packet::Tip(ip))
    }
    fn on_tip_pge_packet(&mut self, _: &DecoderContext, ip: IpReconstructionPattern) -> Seen {
        let ip = self.address(ip);
        self.see(Packet::TipPge(ip))
    }
    fn on_tip_pgd_packet(&mut self, _: &DecoderContext, ip: IpReconstructionPattern) -> Seen {
        let ip = self.address(ip);
        self.see(Packet::TipPgd(ip))
    }
    fn on_fup_packet(&mut self, _: &DecoderContext, ip: IpReconstructionPattern) -> Seen {
        let ip = self.address(ip);
        self.see(Packet::Fup(ip))
    }
    fn on_psb_packet(&mut self, _: &DecoderContext) -> Seen {
        self.last_ip = 0;
        self.see(Packet::Psb)
    }
    fn on_mode_packet(&mut self, _: &DecoderContext, leaf: u8, bits: u8) -> Seen {
        let (low, high) = (bits & 1 == 1, bits & 2 == 2);
        self.see(Packet::Mode(match leaf {
            0 => Mode::Exec { long: low, default_32: high },
            _ => Mode::Transaction { inside: low, aborted: high },
        }))
    }
    fn on_cyc_packet(&mut self, _: &DecoderContext, bytes: &[u8]) -> Seen {
        // Five bits of the first byte are the lowest, then seven of each.
        let above = bytes[1..].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte >> 1));
        self.see(Packet::Cyc(above << 5 | u64::from(bytes[0] >> 3)))
    }
    fn on_tma_packet(&mut self, _: &DecoderContext, ctc: u16, low: u8, fc8: bool) -> Seen {
        self.see(Packet::Tma { ctc, fast_counter: u16::from(fc8) << 8 | u16::from(low) })
    }
    fn on_psbend_packet(&mut self, _: &DecoderContext) -> Seen { self.see(Packet::PsbEnd) }
    fn on_pad_packet(&mut self, _: &DecoderContext) -> Seen { self.see(Packet::Pad) }
    fn on_ovf_packet(&mut self, _: &DecoderContext) -> Seen { self.see(Packet::Ovf) }
    fn on_trace_stop_packet(&mut self, _: &DecoderContext) -> Seen { self.see(Packet::Stop) }
    fn on_mtc_packet(&mut self, _: &DecoderContext, ctc: u8) -> Seen { self.see(Packet::Mtc(ctc)) }
    fn on_tsc_packet(&mut self, _: &DecoderContext, tsc: u64) -> Seen { self.see(Packet::Tsc(tsc)) }
    fn on_cbr_packet(&mut self, _: &DecoderContext, it: u8) -> Seen { self.see(Packet::Cbr(it)) }
    fn on_pip_packet(&mut self, _: &DecoderContext, _: u64, _: bool) -> Seen { self.see(Packet::Other("PIP")) }
    fn on_vmcs_packet(&mut self, _: &DecoderContext, _: u64) -> Seen { self.see(Packet::Other("VMCS")) }
    fn on_mnt_packet(&mut self, _: &DecoderContext, _: u64) -> Seen { self.see(Packet::Other("MNT")) }
    fn on_ptw_packet(&mut self, _: &DecoderContext, _: bool, _: PtwPayload) -> Seen { self.see(Packet::Other("PTW")) }
    fn on_exstop_packet(&mut self, _: &DecoderContext, _: bool) -> Seen { self.see(Packet::Other("EXSTOP")) }
    fn on_mwait_packet(&mut self, _: &DecoderContext, _: u8, _: u8) -> Seen { self.see(Packet::Other("MWAIT")) }
    fn on_pwre_packet(&mut self, _: &DecoderContext, _: bool, _: u8, _: u8) -> Seen { self.see(Packet::Other("PWRE")) }
    fn on_pwrx_packet(&mut self, _: &DecoderContext, _: u8, _: u8, _: u8) -> Seen { self.see(Packet::Other("PWRX")) }
    fn on_evd_packet(&mut self, _: &DecoderContext, _: u8, _: u64) -> Seen { self.see(Packet::Other("EVD")) }
    fn on_cfe_packet(&mut self, _: &DecoderContext, _: bool, _: u8, _: u8) -> Seen { self.see(Packet::Other("CFE")) }
}

pub fn read_by_second(trace: &[u8], sync: bool) -> (Vec<Packet>, bool) {
    let mut second = Second::default();
    let whole = iptr_decoder::decode(trace, *DecodeOptions::default().sync(sync), &mut second);
    (second.packets, whole.is_ok())
}
