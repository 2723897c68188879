//! Keeps the end of each trace and its sideband records (mappings, thread switches),
//! within fixed limits.
//!
//! In snapshot mode the kernel tells where in the buffer the next byte would go,
//! and not how often it came round. It hands out zeroed memory, so a byte behind
//! that place that is not zero was written in an earlier round.
//!
//! Switches come by the thousand a second, and only those of the last moments
//! matter: the trace itself reaches no further back. Of all other records (mappings,
//! names, threads) the first ones are the ones that decoding needs.

use super::{kernel::RawTrace, request::LAYOUT};
use formats::perf_records::parse_ring;
use sketch_model::{Gap, SidebandEvent, SidebandKind};
use std::collections::VecDeque;

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

/// Of either sort. A record has about a hundred bytes of JSON for each.
const MOST: usize = 1 << 15;

#[derive(Debug, Default)]
pub struct Store {
    switches: VecDeque<SidebandEvent>,
    others: Vec<SidebandEvent>,
    forgotten_switches: u64,
    forgotten_others: u64,
    lost: u64,
    unreadable: u64,
}

impl Store {
    /// Takes the records of a stretch of ring.
    pub fn add(&mut self, ring: &[u8]) {
        let contents = parse_ring(ring, LAYOUT);
        self.unreadable += contents.unreadable;
        for event in contents.events {
            self.keep(event);
        }
    }

    pub fn keep(&mut self, event: SidebandEvent) {
        match event.kind {
            SidebandKind::SwitchIn | SidebandKind::SwitchOut => {
                if self.switches.len() == MOST {
                    self.switches.pop_front();
                    self.forgotten_switches += 1;
                }
                self.switches.push_back(event);
                return;
            }
            SidebandKind::Lost(count) => self.lost = self.lost.saturating_add(count),
            _ => {}
        }
        match self.others.len() < MOST {
            true => self.others.push(event),
            false => self.forgotten_others += 1,
        }
    }

    /// What was kept, in the order of time, and what was not.
    pub fn finish(self) -> (Vec<SidebandEvent>, Vec<Gap>) {
        let mut events = self.others;
        events.extend(self.switches);
        events.sort_by_key(|event| event.time_ns);
        let mut gaps = Vec::new();
        for gap in [
            Gap::SidebandLost { count: self.lost },
            Gap::SidebandUnreadable {
                count: self.unreadable,
            },
            Gap::SwitchesNotKept {
                count: self.forgotten_switches,
            },
            Gap::MappingsNotKept {
                count: self.forgotten_others,
            },
        ] {
            gap.add_to(&mut gaps);
        }
        (events, gaps)
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

    fn event(time: u64, kind: SidebandKind) -> SidebandEvent {
        SidebandEvent {
            time_ns: Some(time),
            cpu: Some(0),
            pid: 1,
            tid: 1,
            kind,
        }
    }

    #[test]
    fn the_last_switches_and_the_first_others_are_kept() {
        let mut store = Store::default();
        for time in 0..MOST as u64 + 3 {
            store.keep(event(time, SidebandKind::SwitchIn));
            store.keep(event(time, SidebandKind::ItraceStart));
        }
        store.keep(event(0, SidebandKind::Lost(5)));
        let (events, gaps) = store.finish();
        assert_eq!(events.len(), 2 * MOST);
        let times = |kind: &SidebandKind| {
            let of_kind = events.iter().filter(|event| event.kind == *kind);
            let times: Vec<_> = of_kind.filter_map(|event| event.time_ns).collect();
            (times[0], times[times.len() - 1])
        };
        let most = MOST as u64;
        assert_eq!(times(&SidebandKind::SwitchIn), (3, most + 2));
        assert_eq!(times(&SidebandKind::ItraceStart), (0, most - 1));
        assert!(events.is_sorted_by_key(|event| event.time_ns));
        assert_eq!(
            gaps,
            [
                Gap::SidebandLost { count: 5 },
                Gap::SwitchesNotKept { count: 3 },
                Gap::MappingsNotKept { count: 4 },
            ]
        );
    }
}
