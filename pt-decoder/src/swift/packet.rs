//! Packets as the swift decoder needs them: their lengths, and the payloads of
//! those that move control flow or time. Encodings: Intel SDM vol. 3C, "Packet
//! Definitions".
//!
//! Deliberately absent: everything rare. `None` stands for it, and for a packet
//! that is cut off.

/// A packet of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swift {
    /// Outcomes with a stop bit above them.
    Tnt(u64),
    Tip(Address),
    PacketsOn(Address),
    PacketsOff(Address),
    Fup(Address),
    Psb,
    PsbEnd,
    /// 64-bit code.
    Mode64,
    Tsc(u64),
    Tma {
        ctc: u16,
        fast: u16,
    },
    Mtc(u8),
    /// Tells nothing that is used here.
    Nothing,
}

/// An address as it was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    payload: u64,
    kind: u8,
}

impl Address {
    /// Undoes the compression; `None` if the address was suppressed.
    #[inline]
    pub(crate) fn expand(self, last: &mut u64) -> Option<u64> {
        *last = match self.kind {
            0 => return None,
            1 => *last >> 16 << 16 | self.payload,
            2 => *last >> 32 << 32 | self.payload,
            3 => ((self.payload << 16) as i64 >> 16) as u64,
            4 => *last >> 48 << 48 | self.payload,
            _ => self.payload,
        };
        Some(*last)
    }
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// The packet at the beginning of `rest`, and its length.
#[inline]
pub(crate) fn packet(rest: &[u8]) -> Option<(Swift, usize)> {
    let first = *rest.first()?;
    if first & 1 == 0 {
        return match first {
            0x00 => Some((Swift::Nothing, 1)),
            0x02 => extended(rest),
            // The lowest bit is no outcome.
            _ => Some((Swift::Tnt(u64::from(first >> 1)), 1)),
        };
    }
    match first & 0x1f {
        0x0d => address(rest).map(|(it, length)| (Swift::Tip(it), length)),
        0x11 => address(rest).map(|(it, length)| (Swift::PacketsOn(it), length)),
        0x01 => address(rest).map(|(it, length)| (Swift::PacketsOff(it), length)),
        0x1d => address(rest).map(|(it, length)| (Swift::Fup(it), length)),
        _ => timing(first, rest),
    }
}

#[inline]
fn address(rest: &[u8]) -> Option<(Address, usize)> {
    let kind = rest[0] >> 5;
    let length = match kind {
        0 => 0,
        1 => 2,
        2 => 4,
        3 | 4 => 6,
        6 => 8,
        _ => return None,
    };
    let payload = little(rest.get(1..1 + length)?);
    Some((Address { payload, kind }, 1 + length))
}

fn timing(first: u8, rest: &[u8]) -> Option<(Swift, usize)> {
    match first {
        0x19 => Some((Swift::Tsc(little(rest.get(1..8)?)), 8)),
        0x59 => Some((Swift::Mtc(*rest.get(1)?), 2)),
        0x99 => match rest.get(1)? {
            1 => Some((Swift::Mode64, 2)),
            _ => None,
        },
        // A short cycle count; a long one goes on in further bytes.
        _ if first & 0b111 == 0b011 => Some((Swift::Nothing, 1)),
        _ => None,
    }
}

fn extended(rest: &[u8]) -> Option<(Swift, usize)> {
    Some(match *rest.get(1)? {
        0xa3 => {
            let payload = little(rest.get(2..8)?);
            // No stop bit, no outcomes.
            if payload < 2 {
                return None;
            }
            (Swift::Tnt(payload), 8)
        }
        0x82 => {
            let whole = rest.get(..16)?;
            let pairs = whole.chunks_exact(2);
            if !pairs.into_iter().all(|pair| pair == [0x02, 0x82]) {
                return None;
            }
            (Swift::Psb, 16)
        }
        0x23 => (Swift::PsbEnd, 2),
        // The ratio of bus and core.
        0x03 => {
            rest.get(..4)?;
            (Swift::Nothing, 4)
        }
        0x73 => {
            let fields = rest.get(2..7)?;
            // Reserved bits are not: some models write broken ones (SKZ84).
            if fields[2] != 0 || fields[4] > 1 {
                return None;
            }
            let tma = Swift::Tma {
                ctc: little(&fields[..2]) as u16,
                fast: little(&fields[3..5]) as u16 & 0x1ff,
            };
            (tma, 7)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_outcomes_have_their_stop_bit() {
        // Two outcomes, taken and not: 1 10 and the empty bit.
        assert_eq!(packet(&[0b1100]), Some((Swift::Tnt(0b110), 1)));
        let long = [0x02, 0xa3, 0b110, 0, 0, 0, 0, 0];
        assert_eq!(packet(&long), Some((Swift::Tnt(0b110), 8)));
        assert_eq!(packet(&[0x02, 0xa3, 1, 0, 0, 0, 0, 0]), None);
        assert_eq!(packet(&long[..7]), None);
    }

    #[test]
    fn what_is_rare_is_nothing_for_it() {
        for rare in [
            &[0x02, 0xf3][..],               // OVF
            &[0x99, 0x21],                   // MODE.TSX
            &[0x99, 0x02],                   // 32-bit code
            &[0x02, 0x43, 0, 0, 0, 0, 0, 0], // PIP
            &[0x02, 0x13, 0, 0],             // CFE
            &[0xad],                         // TIP of a kind that does not exist
        ] {
            assert_eq!(packet(rare), None, "{rare:x?}");
        }
    }
}
