//! Keeps the sideband records of a trace (mappings, thread switches), within fixed limits.
//!
//! Switches come by the thousand a second, and only those of the last moments
//! matter: the trace itself reaches no further back. Of all others (mappings,
//! names, threads) the first ones are the ones that decoding needs.

use super::attribute::LAYOUT;
use formats::perf_records::parse_ring;
use sketch_model::{Gap, SidebandEvent, SidebandKind};
use std::collections::VecDeque;

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
