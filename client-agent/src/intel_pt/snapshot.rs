//! A buffer that was written round and round → its bytes, oldest first.
//!
//! In snapshot mode the kernel tells where in the buffer the next byte would go,
//! and not how often it came round. It hands out zeroed memory, so a byte behind
//! that place that is not zero was written in an earlier round.

use super::kernel::RawTrace;

/// A trace in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub bytes: Vec<u8>,
    /// There was more before, which is lost.
    pub overwritten: bool,
}

pub fn in_order(mut trace: RawTrace) -> Snapshot {
    let size = trace.bytes.len();
    if size == 0 {
        let overwritten = false;
        let bytes = Vec::new();
        return Snapshot { bytes, overwritten };
    }
    let at = (trace.head % size as u64) as usize;
    let beyond = trace.head >= size as u64;
    let overwritten = beyond || trace.bytes[at..].iter().any(|byte| *byte != 0);
    if overwritten {
        trace.bytes.rotate_left(at);
    } else {
        trace.bytes.truncate(at);
    }
    Snapshot {
        bytes: trace.bytes,
        overwritten,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ordered(head: u64, bytes: &[u8]) -> (Vec<u8>, bool) {
        let bytes = bytes.to_vec();
        let snapshot = in_order(RawTrace { head, bytes });
        (snapshot.bytes, snapshot.overwritten)
    }

    #[test]
    fn a_buffer_is_read_from_its_oldest_byte() {
        assert_eq!(ordered(0, &[0; 4]), (vec![], false));
        assert_eq!(ordered(2, &[1, 2, 0, 0]), (vec![1, 2], false));
        assert_eq!(ordered(2, &[5, 6, 3, 4]), (vec![3, 4, 5, 6], true));
        // It came round exactly.
        assert_eq!(ordered(0, &[1, 2, 3, 4]), (vec![1, 2, 3, 4], true));
        // A head that counts on.
        assert_eq!(ordered(6, &[5, 6, 3, 4]), (vec![3, 4, 5, 6], true));
        assert_eq!(ordered(7, &[]), (vec![], false));
    }

    proptest! {
        /// Writes a stream byte by byte as the unit does; what comes back is its end.
        #[test]
        fn what_comes_back_is_the_end_of_what_was_written(
            stream in proptest::collection::vec(1u8.., 0..300),
            size in 1usize..64,
        ) {
            let mut bytes = vec![0; size];
            for (at, byte) in stream.iter().enumerate() {
                bytes[at % size] = *byte;
            }
            let head = (stream.len() % size) as u64;
            let (got, overwritten) = ordered(head, &bytes);
            let kept = stream.len().min(size);
            prop_assert_eq!(got, &stream[stream.len() - kept..]);
            prop_assert_eq!(overwritten, stream.len() >= size);
        }
    }
}
