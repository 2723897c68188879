//! Records within a segment: length, checksum, bytes. Pure.
//!
//! A crash can leave the last frame short or, on some file systems, with zeros
//! where its bytes should be; the checksum tells both from a whole one. Reading
//! ends at the first frame that is not whole: nothing behind it was ever
//! acknowledged.

/// Length of the payload, four bytes, and the first bytes of its SHA-256 in hex.
const HEADER: usize = 4 + CHECK;
const CHECK: usize = 16;
/// A record that is larger is refused, and a length that is larger is damage.
pub const LARGEST: usize = 64 << 20;

/// A record as it is written.
pub fn frame(record: &[u8]) -> Vec<u8> {
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(HEADER + record.len());
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(&check(record));
    framed.extend_from_slice(record);
    framed
}

/// The whole records of a segment, and how many bytes behind them are not.
pub fn unframe(mut segment: &[u8]) -> (Vec<&[u8]>, usize) {
    let mut records = Vec::new();
    while let Some((record, rest)) = first(segment) {
        records.push(record);
        segment = rest;
    }
    (records, segment.len())
}

fn first(segment: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_le_bytes(*segment.first_chunk::<4>()?) as usize;
    if length == 0 || length > LARGEST {
        return None;
    }
    let (header, rest) = segment.split_at_checked(HEADER)?;
    let (record, rest) = rest.split_at_checked(length)?;
    (check(record) == header[4..]).then_some((record, rest))
}

fn check(record: &[u8]) -> [u8; CHECK] {
    let mut check = [0; CHECK];
    check.copy_from_slice(&code_patch::sha256_hex(record).as_bytes()[..CHECK]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_framed_comes_back_whatever_follows(
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in 0usize..60,
        ) {
            let mut segment: Vec<u8> = records.iter().flat_map(|r| frame(r)).collect();
            let whole = segment.len();
            let torn = frame(b"the frame that a crash tore");
            segment.extend_from_slice(&torn[..cut.min(torn.len() - 1)]);
            let (read, behind) = unframe(&segment);
            prop_assert_eq!(read, records.iter().map(Vec::as_slice).collect::<Vec<_>>());
            prop_assert_eq!(behind, segment.len() - whole);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            unframe(&bytes);
        }
    }

    #[test]
    fn zeros_are_no_record() {
        let mut segment = frame(b"kept");
        segment.extend_from_slice(&[0; 64]);
        assert_eq!(unframe(&segment), (vec![b"kept".as_slice()], 64));
    }
}
