//! Which thread ran on a processor at a time, by the kernel's switch records.
//!
//! A stretch of user-space trace between two entries into the kernel belongs to
//! one thread. Its time is known from the timing packet before it, so it may
//! have begun a little later than that; where a switch falls into this little,
//! the answer is "either of these", never a guess.

use sketch_model::{SidebandEvent, SidebandKind};
use std::collections::BTreeMap;

/// A thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId {
    pub pid: i32,
    pub tid: i32,
}

/// From when to when a thread ran, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    from: u64,
    to: u64,
    thread: ThreadId,
}

/// Who ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Running {
    One(ThreadId),
    /// No switch record names a thread then.
    Unknown,
    Several(Vec<ThreadId>),
}

/// Who ran where and when.
#[derive(Clone, Debug, Default)]
pub struct ProcessorTimeline {
    processors: BTreeMap<u32, Vec<Slot>>,
}

impl ProcessorTimeline {
    /// From records in any order.
    pub fn new(sideband: &[SidebandEvent]) -> Self {
        let mut switches: Vec<_> = sideband
            .iter()
            .filter_map(|event| {
                let begins = match event.kind {
                    SidebandKind::SwitchIn | SidebandKind::ItraceStart => true,
                    SidebandKind::SwitchOut => false,
                    _ => return None,
                };
                let thread = ThreadId {
                    pid: event.pid,
                    tid: event.tid,
                };
                Some((event.cpu?, event.time_ns?, begins, thread))
            })
            .collect();
        switches.sort_by_key(|(cpu, time, ..)| (*cpu, *time));
        let mut timeline = Self::default();
        for (cpu, time, begins, thread) in switches {
            let slots = timeline.processors.entry(cpu).or_default();
            note_switch(slots, time, begins, thread);
        }
        timeline
    }

    /// Whether there is any record of the processor.
    pub fn knows(&self, cpu: u32) -> bool {
        self.processors.contains_key(&cpu)
    }

    /// Who may have run from `from` to `to`, both included.
    pub fn running(&self, cpu: u32, from: u64, to: u64) -> Running {
        let slots = self.processors.get(&cpu).map_or(&[][..], Vec::as_slice);
        let first = slots.partition_point(|slot| slot.to < from);
        let mut found: Vec<_> = slots[first..]
            .iter()
            .take_while(|slot| slot.from <= to)
            .map(|slot| slot.thread)
            .collect();
        found.dedup();
        match found.as_slice() {
            [] => Running::Unknown,
            [one] => Running::One(*one),
            _ => Running::Several(found),
        }
    }
}

fn note_switch(slots: &mut Vec<Slot>, time: u64, begins: bool, thread: ThreadId) {
    let open = slots.last_mut().filter(|slot| slot.to == u64::MAX);
    match (open, begins) {
        // Tracing is said to start within a slot, too.
        (Some(open), true) if open.thread == thread => {}
        (open, true) => {
            if let Some(open) = open {
                open.to = time.saturating_sub(1);
            }
            slots.push(Slot {
                from: time,
                to: u64::MAX,
                thread,
            });
        }
        (Some(open), false) if open.thread == thread => open.to = time,
        (_, false) => {
            // It began before the records do, or its beginning is lost.
            let from = slots
                .last()
                .map_or(0, |slot| slot.to.saturating_add(1).min(time));
            slots.push(Slot {
                from,
                to: time,
                thread,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: i32) -> ThreadId {
        ThreadId { pid: 7, tid }
    }

    fn timeline(switches: &[(u64, i32, bool)]) -> ProcessorTimeline {
        let events: Vec<_> = switches
            .iter()
            .map(|(time, tid, begins)| SidebandEvent {
                time_ns: Some(*time),
                cpu: Some(3),
                pid: 7,
                tid: *tid,
                kind: match begins {
                    true => SidebandKind::SwitchIn,
                    false => SidebandKind::SwitchOut,
                },
            })
            .collect();
        ProcessorTimeline::new(&events)
    }

    #[test]
    fn a_thread_runs_from_its_switch_in_to_its_switch_out() {
        let it = timeline(&[(10, 1, true), (20, 1, false), (25, 2, true)]);
        assert_eq!(it.running(3, 5, 5), Running::Unknown);
        assert_eq!(it.running(3, 10, 20), Running::One(thread(1)));
        assert_eq!(it.running(3, 21, 24), Running::Unknown);
        assert_eq!(it.running(3, 30, 40), Running::One(thread(2)));
        assert_eq!(it.running(4, 12, 12), Running::Unknown);
    }

    #[test]
    fn between_two_threads_nobody_guesses() {
        let it = timeline(&[(10, 1, true), (20, 1, false), (20, 2, true)]);
        let both = Running::Several(vec![thread(1), thread(2)]);
        assert_eq!(it.running(3, 19, 21), both);
    }

    #[test]
    fn a_switch_out_alone_reaches_back() {
        let it = timeline(&[(20, 1, false), (30, 2, false)]);
        assert_eq!(it.running(3, 0, 20), Running::One(thread(1)));
        assert_eq!(it.running(3, 25, 30), Running::One(thread(2)));
    }
}
