//! PSB packets: the only places where decoding may begin.
//!
//! A PSB is `02 82` eight times (Intel SDM vol. 3C, "Packet Stream Boundary").
//! A payload that happens to end in `02 82` lengthens the run at its front, so
//! of a longer run the last sixteen bytes are the PSB, as libipt has it too.

use std::ops::Range;

const PAIR: [u8; 2] = [0x02, 0x82];
const PSB_BYTES: usize = 16;

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

/// Cuts a trace at its PSBs. Bytes before the first one belong to no part.
pub fn split_points(trace: &[u8]) -> Vec<Range<u64>> {
    let mut starts = Vec::new();
    let mut from = 0;
    while let Some(at) = next_psb(trace, from) {
        starts.push(at);
        from = at + PSB_BYTES as u64;
    }
    let ends = starts.iter().skip(1).copied().chain([trace.len() as u64]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(a, b)| a..b)
        .collect()
}
