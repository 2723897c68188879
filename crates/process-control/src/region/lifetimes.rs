//! The table of freed blocks: bytes of the region → blocks that were free at the end, and
//! some whose memory was handed out again before. Pure, and total.
//!
//! An entry that was being written counts for nothing. Nor does a block in whose memory
//! another one was freed later: that one must have been handed out in between.

use super::words::Words;
use inprocess_layout::{
    FREED_BLOCKS, FREED_SETS, FREED_STACK_WORDS, FREED_WAYS, Freed, LARGE_BLOCK, LARGE_BLOCKS,
    LIFETIMES_OBSERVED, LIFETIMES_OWN_ALLOCATOR, Lifetimes, Region, key_of,
};
use sketch_model::{Gap, LifetimeObstacle};
use std::mem::{offset_of, size_of};

/// What the C library's allocator puts in front of a block that is a mapping of its own.
const MAPPED_HEADER: u64 = 16;
const PAGE: u64 = 4096;

/// A freed block with the stack of the free, not yet unwound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreedRemains {
    pub tid: i32,
    pub at: u64,
    pub until: Option<u64>,
    pub start: u64,
    pub size: u64,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
    /// From the stack pointer upward; the first word is the return address.
    pub stack: Vec<u64>,
}

impl FreedRemains {
    /// One past its last byte.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    /// Whether it was a mapping of its own: freeing it gave its addresses back to the
    /// kernel, which may have used them for anything since.
    pub fn was_mapped_alone(&self) -> bool {
        self.size > LARGE_BLOCK && self.start % PAGE == MAPPED_HEADER
    }

    /// A word of the kept stack.
    pub fn stack_word(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.stack_pointer)?;
        let index = usize::try_from(at / 8).ok().filter(|_| at % 8 == 0)?;
        self.stack.get(index).copied()
    }
}

/// The blocks; `None` if the table was not kept, for which there is a gap then.
pub(super) fn read(region: &[u8], gaps: &mut Vec<Gap>) -> Option<Vec<FreedRemains>> {
    let words = Words(region);
    let table = offset_of!(Region, lifetimes);
    if region.len() <= table {
        return None;
    }
    let because = match words.u32(table + offset_of!(Lifetimes, observed)) {
        LIFETIMES_OBSERVED => None,
        LIFETIMES_OWN_ALLOCATOR => Some(LifetimeObstacle::OwnAllocator),
        _ => Some(LifetimeObstacle::NotPreloaded),
    };
    if let Some(because) = because {
        gaps.push(Gap::LifetimesNotObserved { because });
        return None;
    }
    let count = words.u64(table + offset_of!(Lifetimes, replaced));
    if count > 0 {
        gaps.push(Gap::FreedBlocksForgotten { count });
    }
    let all = 0..FREED_BLOCKS + LARGE_BLOCKS;
    Some(plausible(all.filter_map(|at| entry(words, at)).collect()))
}

/// The bytes of the region that hold the entries of a set; `None` if it never had one.
pub(super) fn used_set(region: &[u8], set: usize) -> Option<(usize, usize)> {
    let table = offset_of!(Region, lifetimes);
    let next = table + offset_of!(Lifetimes, next) + set * size_of::<u32>();
    let entries = if set < FREED_SETS {
        FREED_WAYS
    } else {
        LARGE_BLOCKS
    };
    let first = table + offset_of!(Lifetimes, blocks) + set * FREED_WAYS * size_of::<Freed>();
    (Words(region).u32(next) != 0).then_some((first, entries * size_of::<Freed>()))
}

fn entry(words: Words<'_>, number: usize) -> Option<FreedRemains> {
    let table = offset_of!(Region, lifetimes);
    let at = table + offset_of!(Lifetimes, blocks) + number * size_of::<Freed>();
    let word = |field: usize| words.u64(at + field);
    let start = word(offset_of!(Freed, address));
    let is_free = match number.checked_sub(FREED_BLOCKS) {
        None => {
            let keys = table + offset_of!(Lifetimes, keys);
            words.u32(keys + number * size_of::<u32>()) == key_of(start)
        }
        Some(place) => {
            let used = words.u32(table + offset_of!(Lifetimes, large));
            let starts = table + offset_of!(Lifetimes, large_starts);
            used & 1 << place != 0 && words.u64(starts + place * size_of::<u64>()) == start
        }
    };
    let until = word(offset_of!(Freed, until));
    let freed_at = word(offset_of!(Freed, at));
    let whole = words.u32(at + offset_of!(Freed, busy)) == 0 && freed_at != 0 && start != 0;
    if !whole || (!is_free && until <= freed_at) {
        return None;
    }
    let kept = usize::try_from(word(offset_of!(Freed, words))).ok()?;
    let stack = (0..kept.min(FREED_STACK_WORDS))
        .map(|n| word(offset_of!(Freed, stack) + n * size_of::<u64>()));
    Some(FreedRemains {
        tid: words.i32(at + offset_of!(Freed, tid)),
        at: freed_at,
        until: (!is_free).then_some(until),
        start,
        size: word(offset_of!(Freed, size)),
        stack_pointer: word(offset_of!(Freed, stack_pointer)),
        frame_pointer: word(offset_of!(Freed, frame_pointer)),
        stack: stack.collect(),
    })
}

/// Without the blocks in whose memory another one was freed while they were free.
fn plausible(mut blocks: Vec<FreedRemains>) -> Vec<FreedRemains> {
    blocks.sort_by_key(|block| (block.start, block.at));
    let mut stale = vec![false; blocks.len()];
    for (at, block) in blocks.iter().enumerate() {
        let after = blocks.iter().enumerate().skip(at + 1);
        for (other_at, other) in after.take_while(|(_, other)| other.start < block.end()) {
            let (early, late) = if block.at <= other.at {
                (at, other_at)
            } else {
                (other_at, at)
            };
            let until = blocks[early].until;
            stale[early] |= until.is_none_or(|until| blocks[late].at < until);
        }
    }
    let mut stale = stale.into_iter();
    blocks.retain(|_| !stale.next().unwrap_or(false));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(start: u64, size: u64, at: u64, until: Option<u64>) -> FreedRemains {
        FreedRemains {
            tid: 7,
            at,
            until,
            start,
            size,
            stack_pointer: 0x1000,
            frame_pointer: 0,
            stack: vec![1, 2],
        }
    }

    #[test]
    fn a_block_in_which_another_was_freed_later_was_handed_out_in_between() {
        let stale = block(0x1000, 64, 10, None);
        let later = block(0x1020, 16, 20, None);
        let apart = block(0x2000, 16, 5, None);
        let ended = block(0x1000, 64, 10, Some(15));
        assert_eq!(
            plausible(vec![stale, later.clone(), apart.clone()]),
            [later.clone(), apart]
        );
        assert_eq!(plausible(vec![ended.clone(), later.clone()]).len(), 2);
    }

    #[test]
    fn only_whole_words_of_the_kept_stack_are_read() {
        let block = block(0x2000, 16, 5, None);
        let read = [0xff8, 0x1000, 0x1004, 0x1008, 0x1010].map(|at| block.stack_word(at));
        assert_eq!(read, [None, Some(1), None, Some(2), None]);
    }

    proptest! {
        #[test]
        fn of_blocks_that_share_memory_one_is_free_at_most(
            all in proptest::collection::vec((0u64..64, 1u64..32, 0u64..100), 0..40)
        ) {
            let all = all.into_iter().map(|(start, size, at)| block(start * 16, size * 16, at, None));
            let left = plausible(all.collect());
            for (n, a) in left.iter().enumerate() {
                for b in &left[n + 1..] {
                    prop_assert!(a.end() <= b.start || b.end() <= a.start);
                }
            }
        }
    }
}
