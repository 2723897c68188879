//! One thread's slot → what the thread recorded. Pure, and total.

use super::words::Words;
use inprocess_layout::{
    ACCESSED, ACCESSED_UNTIMED, EDGES, Edge, Event, HEAD_EVENTS, KIND_ARGUMENT, KIND_BRANCH,
    KIND_CALL, KIND_READ, KIND_RESULT, KIND_SYNC_BEGIN, KIND_SYNC_END, KIND_TEXT, KIND_WRITE,
    REACHED, RING_EVENTS, SAW_NEGATIVE, SAW_NON_ZERO, SAW_ZERO, SYNC_BEGUN, SYNC_ENDED, TIRED,
    ThreadSlot,
};
use sketch_model::{
    EdgeCount, ProbeEvent, ProbeKind, RuntimeAddress, SeenShapes, SiteId, Thinned, ThreadIndex,
    ThreadRecord, Tsc,
};
use std::{
    collections::VecDeque,
    mem::{offset_of, size_of},
};

/// Ended threads kept: the first ones, and the last ones.
const FIRST: usize = 64;
const LAST: usize = 64;
/// What accounts of accesses are kept under.
const ACCESSES: [u32; 4] = [ACCESSED, ACCESSED_UNTIMED, SYNC_BEGUN, SYNC_ENDED];

/// A thread, its number not yet given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRemains {
    pub claimed_at: u64,
    pub record: ThreadRecord,
    /// Events that were being written when the process ended.
    pub unfinished: u64,
}

/// What threads left that ended before the process did.
#[derive(Debug, Default)]
pub struct EndedThreads {
    first: Vec<ThreadRemains>,
    last: VecDeque<ThreadRemains>,
    /// Threads between the first and the last.
    pub forgotten: u32,
}

impl EndedThreads {
    pub fn keep(&mut self, thread: Option<ThreadRemains>) {
        let Some(thread) = thread else {
            return;
        };
        if self.first.len() < FIRST {
            self.first.push(thread);
            return;
        }
        if self.last.len() == LAST {
            self.last.pop_front();
            self.forgotten = self.forgotten.saturating_add(1);
        }
        self.last.push_back(thread);
    }

    pub fn into_threads(self) -> impl Iterator<Item = ThreadRemains> {
        self.first.into_iter().chain(self.last)
    }
}

/// A slot's events; `None` if no thread owns it (a thread that a signal
/// interrupted while claiming may leave one unused).
pub fn read_slot(slot: &[u8]) -> Option<ThreadRemains> {
    let words = Words(slot);
    let tid = words.i32(offset_of!(ThreadSlot, tid));
    let count = words.u64(offset_of!(ThreadSlot, count));
    if tid == 0 && count == 0 {
        return None;
    }
    let after_head = count.saturating_sub(HEAD_EVENTS as u64);
    let tail_length = after_head.min(RING_EVENTS as u64);
    let mut unfinished = 0;
    let mut take = |at: usize, lap: u64| {
        let event = read_event(words, at, lap);
        unfinished += u64::from(event.is_none());
        event
    };
    let mut head: Vec<ProbeEvent> = (0..count.min(HEAD_EVENTS as u64))
        .filter_map(|index| {
            let at = offset_of!(ThreadSlot, head) + index as usize * size_of::<Event>();
            take(at, 0)
        })
        .collect();
    let mut tail: Vec<ProbeEvent> = (after_head - tail_length..after_head)
        .filter_map(|index| {
            let place = (index % RING_EVENTS as u64) as usize;
            let at = offset_of!(ThreadSlot, ring) + place * size_of::<Event>();
            take(at, index / RING_EVENTS as u64)
        })
        .collect();
    // Whoever reads the record must know that unfinished ones are missing, too.
    let mut dropped = (after_head - tail_length).saturating_add(unfinished);
    let mut uncounted = words.u64(offset_of!(ThreadSlot, edges_full));
    if words.u64(offset_of!(ThreadSlot, late)) != 0 {
        // Its first events came before its slot: what follows them is a tail, and a
        // record has room for one hole, so that a second one swallows what is between.
        let after_first = std::mem::take(&mut head);
        if dropped == 0 {
            tail.splice(0..0, after_first);
        } else {
            dropped = dropped.saturating_add(after_first.len() as u64);
        }
        dropped = dropped.saturating_add(1);
        uncounted = uncounted.saturating_add(1);
    }
    Some(ThreadRemains {
        claimed_at: words.u64(offset_of!(ThreadSlot, claimed_at)),
        unfinished,
        record: ThreadRecord {
            index: ThreadIndex(0),
            tid,
            head,
            dropped,
            tail,
            edges: read_edges(words),
            uncounted,
            thinned: read_thinned(words),
        },
    })
}

fn read_edges(words: Words<'_>) -> Vec<EdgeCount> {
    let mut edges: Vec<EdgeCount> = (0..EDGES)
        .filter_map(|number| {
            let at = offset_of!(ThreadSlot, edges) + number * size_of::<Edge>();
            let site = words.u32(at + offset_of!(Edge, site)).checked_sub(1)?;
            let successor = words.u32(at + offset_of!(Edge, successor));
            if ACCESSES.contains(&successor) {
                return None;
            }
            Some(EdgeCount {
                site: SiteId(site),
                successor: (successor != REACHED).then_some(successor),
                count: words.u64(at + offset_of!(Edge, count)),
                first: Tsc(words.u64(at + offset_of!(Edge, first))),
                last: Tsc(words.u64(at + offset_of!(Edge, last))),
            })
        })
        .filter(|edge| edge.count > 0)
        .collect();
    edges.sort_by_key(|edge| (edge.site, edge.successor));
    edges
}

/// The accesses of which not all are events.
fn read_thinned(words: Words<'_>) -> Vec<Thinned> {
    let saturated = (0..EDGES).filter_map(|number| {
        let at = offset_of!(ThreadSlot, edges) + number * size_of::<Edge>();
        let used = words.u32(at + offset_of!(Edge, site)) != 0;
        let access = ACCESSES.contains(&words.u32(at + offset_of!(Edge, successor)));
        let missed = words.u64(at + offset_of!(Edge, missed));
        let count = words.u64(at + offset_of!(Edge, count));
        (used && access && missed > 0).then_some((at, count))
    });
    let mut thinned: Vec<Thinned> = saturated
        .map(|(at, count)| {
            let shapes = words.u64(at + offset_of!(Edge, shapes));
            Thinned {
                count,
                latest: read_event(words, at + offset_of!(Edge, latest), 0),
                tired: shapes & TIRED != 0,
                shapes: SeenShapes {
                    zero: shapes & SAW_ZERO != 0,
                    non_zero: shapes & SAW_NON_ZERO != 0,
                    negative: shapes & SAW_NEGATIVE != 0,
                },
            }
        })
        .collect();
    thinned.sort_by_key(|t| t.latest.map(|event| (event.site, event.before)));
    thinned
}

/// An event, unless it was never finished or belongs to another lap of the ring.
fn read_event(words: Words<'_>, at: usize, lap: u64) -> Option<ProbeEvent> {
    let kind = words.u16(at + offset_of!(Event, kind));
    if kind >> 8 != (lap & 0xff) as u16 {
        return None;
    }
    Some(ProbeEvent {
        site: SiteId(words.u32(at + offset_of!(Event, site))),
        kind: match kind & 0xff {
            KIND_READ => ProbeKind::Read,
            KIND_WRITE => ProbeKind::Write,
            KIND_BRANCH => ProbeKind::Branch,
            KIND_CALL => ProbeKind::Call,
            KIND_SYNC_BEGIN => ProbeKind::SyncBegin,
            KIND_SYNC_END => ProbeKind::SyncEnd,
            KIND_ARGUMENT => ProbeKind::Argument,
            KIND_RESULT => ProbeKind::Result,
            KIND_TEXT => ProbeKind::Text,
            _ => return None,
        },
        size: words.u16(at + offset_of!(Event, size)),
        before: Tsc(words.u64(at + offset_of!(Event, before))),
        after: Tsc(words.u64(at + offset_of!(Event, after))),
        address: RuntimeAddress(words.u64(at + offset_of!(Event, address))),
        value: words.u64(at + offset_of!(Event, value)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_ended_threads_the_first_and_the_last_are_kept() {
        let mut ended = EndedThreads::default();
        for tid in 1..=1000 {
            let mut slot = vec![0; size_of::<ThreadSlot>()];
            slot[offset_of!(ThreadSlot, tid)..][..4].copy_from_slice(&i32::to_le_bytes(tid));
            ended.keep(read_slot(&slot));
        }
        assert_eq!(ended.forgotten, 1000 - 128);
        let tids: Vec<_> = ended.into_threads().map(|t| t.record.tid).collect();
        assert_eq!(tids, (1..=64).chain(937..=1000).collect::<Vec<_>>());
    }

    #[test]
    fn a_thread_that_got_its_slot_late_has_lost_its_first_events() {
        let mut slot = vec![0; size_of::<ThreadSlot>()];
        let mut put = |at: usize, value: &[u8]| slot[at..at + value.len()].copy_from_slice(value);
        put(offset_of!(ThreadSlot, tid), &7u32.to_le_bytes());
        put(offset_of!(ThreadSlot, count), &1u64.to_le_bytes());
        put(offset_of!(ThreadSlot, late), &1u64.to_le_bytes());
        let first = offset_of!(ThreadSlot, head) + offset_of!(Event, kind);
        put(first, &KIND_WRITE.to_le_bytes());
        let thread = read_slot(&slot).expect("a thread").record;
        assert_eq!(
            (thread.head.len(), thread.dropped, thread.tail.len()),
            (0, 1, 1)
        );
        assert_eq!(thread.uncounted, 1);
    }

    #[test]
    fn what_a_thread_tired_of_is_named() {
        let mut slot = vec![0; size_of::<ThreadSlot>()];
        slot[offset_of!(ThreadSlot, tid)..][..4].copy_from_slice(&7u32.to_le_bytes());
        let mut put = |number: usize, site: u32, way: u32, shapes: u64| {
            let at = offset_of!(ThreadSlot, edges) + number * size_of::<Edge>();
            slot[at..at + 4].copy_from_slice(&site.to_le_bytes());
            slot[at + 4..at + 8].copy_from_slice(&way.to_le_bytes());
            slot[at + offset_of!(Edge, missed)] = 32;
            slot[at + offset_of!(Edge, shapes)] = shapes as u8;
            let latest = at + offset_of!(Edge, latest);
            slot[latest] = site as u8 - 1;
            slot[latest + offset_of!(Event, kind)] = KIND_READ as u8;
        };
        put(3, 5, ACCESSED, SAW_NON_ZERO | TIRED);
        put(4, 5, ACCESSED_UNTIMED, SAW_ZERO);
        let read = read_slot(&slot).expect("a thread").record;
        assert!(read.edges.is_empty(), "{:?}", read.edges);
        let mut thinned: Vec<_> = read
            .thinned
            .iter()
            .map(|t| (t.tired, t.shapes.zero))
            .collect();
        thinned.sort_unstable();
        assert_eq!(thinned, [(false, true), (true, false)]);
    }

    #[test]
    fn edges_are_read_with_their_counts() {
        let mut slot = vec![0; size_of::<ThreadSlot>()];
        slot[offset_of!(ThreadSlot, tid)..][..4].copy_from_slice(&7u32.to_le_bytes());
        let mut put = |number: usize, site: u32, successor: u32, count: u64| {
            let at = offset_of!(ThreadSlot, edges) + number * size_of::<Edge>();
            slot[at..at + 4].copy_from_slice(&site.to_le_bytes());
            slot[at + 4..at + 8].copy_from_slice(&successor.to_le_bytes());
            slot[at + 8..at + 16].copy_from_slice(&count.to_le_bytes());
        };
        put(9, 5, 1, 1_000_000);
        put(200, 5, 0, 3);
        put(0, 2, REACHED, 8);
        let read = read_slot(&slot).expect("a thread");
        let edges: Vec<_> = read
            .record
            .edges
            .iter()
            .map(|e| (e.site.0, e.successor, e.count))
            .collect();
        assert_eq!(
            edges,
            [(1, None, 8), (4, Some(0), 3), (4, Some(1), 1_000_000)]
        );
    }
}
