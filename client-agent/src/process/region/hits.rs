//! Bytes of hits that came by SIGTRAP → hits. Pure, and total, as all that reads what
//! a process left.

use super::words::Words;
use runtime::layout::{HIT_ROOM, Hit, Hits, WATCH_SLOTS, WATCH_STACK_BYTES};
use sketch_model::{RuntimeAddress, WatchHit};
use std::mem::{offset_of, size_of};

/// What was received, and what is known to be lost, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalledHits {
    pub hits: Vec<WatchHit>,
    pub gaps: Vec<String>,
}

impl SignalledHits {
    pub fn read(bytes: &[u8]) -> SignalledHits {
        let words = Words(bytes);
        let taken = words.u64(offset_of!(Hits, taken));
        let places = taken.min(HIT_ROOM as u64) as usize;
        let hits: Vec<WatchHit> = (0..places)
            .filter_map(|place| hit(words, offset_of!(Hits, hits) + place * size_of::<Hit>()))
            .collect();
        let mut gaps = Vec::new();
        for (count, what) in [
            (
                (places - hits.len()) as u64,
                "watchpoint hits were still being written when the process ended",
            ),
            (
                taken - places as u64,
                "watchpoint hits found no room in the memory for hits",
            ),
            (
                words.u64(offset_of!(Hits, late)),
                "watchpoint hits came too late, with SIGTRAP blocked, and tell nothing",
            ),
            (
                words.u64(offset_of!(Hits, sandboxed)),
                "watchpoint hits were not written down because the program has a seccomp filter",
            ),
        ] {
            if count > 0 {
                gaps.push(format!("{count} {what}"));
            }
        }
        SignalledHits { hits, gaps }
    }
}

/// The hit at an offset, if it is whole.
fn hit(words: Words<'_>, at: usize) -> Option<WatchHit> {
    let slot = words.u32(at + offset_of!(Hit, slot));
    if words.u32(at + offset_of!(Hit, whole)) == 0 || slot >= WATCH_SLOTS as u32 {
        return None;
    }
    let registers = |number| words.u64(at + offset_of!(Hit, registers) + 8 * number);
    let stack = words.bytes(
        at + offset_of!(Hit, stack),
        words.u32(at + offset_of!(Hit, stack_length)),
        WATCH_STACK_BYTES as usize,
    );
    Some(WatchHit {
        slot: slot as u8,
        tid: words.i32(at + offset_of!(Hit, tid)),
        handled_ns: words.u64(at + offset_of!(Hit, time)),
        after_pc: RuntimeAddress(words.u64(at + offset_of!(Hit, ip))),
        address: RuntimeAddress(words.u64(at + offset_of!(Hit, address))),
        registers: std::array::from_fn(registers),
        stack: stack
            .chunks_exact(8)
            .map(|chunk| Words(chunk).u64(0))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use runtime::layout::HITS_SIZE;

    fn put(bytes: &mut [u8], at: usize, word: u64) {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    #[test]
    fn a_hit_is_read_field_by_field_and_half_a_hit_is_counted() {
        let mut bytes = vec![0; HITS_SIZE];
        put(&mut bytes, offset_of!(Hits, taken), 2);
        put(&mut bytes, offset_of!(Hits, late), 3);
        let at = offset_of!(Hits, hits);
        put(&mut bytes, at + offset_of!(Hit, whole), 1 | 2 << 32);
        put(&mut bytes, at + offset_of!(Hit, tid), 77 | 16 << 32);
        put(&mut bytes, at + offset_of!(Hit, time), 99);
        put(&mut bytes, at + offset_of!(Hit, ip), 0x40_1000);
        put(&mut bytes, at + offset_of!(Hit, address), 0x60_0000);
        for number in 0..16 {
            let register = offset_of!(Hit, registers) + 8 * number;
            put(&mut bytes, at + register, 100 + number as u64);
        }
        put(&mut bytes, at + offset_of!(Hit, stack), 0xaa);
        put(&mut bytes, at + offset_of!(Hit, stack) + 8, 0xbb);
        let read = SignalledHits::read(&bytes);
        assert_eq!(
            read.hits,
            [WatchHit {
                slot: 2,
                tid: 77,
                handled_ns: 99,
                after_pc: RuntimeAddress(0x40_1000),
                address: RuntimeAddress(0x60_0000),
                registers: std::array::from_fn(|number| 100 + number as u64),
                stack: vec![0xaa, 0xbb],
            }]
        );
        assert_eq!(
            read.gaps,
            [
                "1 watchpoint hits were still being written when the process ended",
                "3 watchpoint hits came too late, with SIGTRAP blocked, and tell nothing",
            ]
        );
    }

    #[test]
    fn what_found_no_room_is_counted() {
        let mut bytes = vec![0xff; HITS_SIZE];
        put(&mut bytes, offset_of!(Hits, taken), HIT_ROOM as u64 + 5);
        let read = SignalledHits::read(&bytes);
        assert_eq!(read.hits, [], "no slot has that number");
        let said = "5 watchpoint hits found no room in the memory for hits".to_string();
        assert!(read.gaps.contains(&said), "{:?}", read.gaps);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
            SignalledHits::read(&bytes);
        }
    }
}
