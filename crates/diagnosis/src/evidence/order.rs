//! Which of two events happened first, and by what evidence.
//!
//! Evidence is, in this order:
//! 1. program order within a thread;
//! 2. disjoint intervals across threads;
//! 3. chains of the two: if `a` precedes `a'` in its thread and the interval of
//!    `a'` ends before that of `b` begins, then `a` precedes `b`. Such chains
//!    need no search: an event cannot have happened later than any later event
//!    of its thread must have, nor earlier than any earlier one. With intervals
//!    tightened so, comparing them *is* the transitive closure;
//! 4. the value that was read, see [`super::value_evidence`], per location.
//!
//! Without evidence two events are unordered, and stay so.
//!
//! Synchronisation records (lock, unlock, create, join, and those that a plan
//! holds for order alone) order events through their intervals, like all others:
//! an unlock begins before the lock that waited for it returns, so what the one
//! thread did before its unlock ends before what the other does with the lock
//! begins. No rule of their own is needed where both ends are recorded, and
//! where one is missing none would be sound: that critical sections of one mutex
//! exclude each other is not true of a section with a wait on a condition in it,
//! which need not be recorded; and which thread a creation made, a record does
//! not say. Also absent: order through values of *other* locations.
//!
//! Intervals are only as good as the hooks that measure them: those fence the
//! readings of the clock against the access and wait for a store to become
//! visible (`crates/instrumenter/src/hooks/emit.rs`), and the clocks of all processors are
//! taken to agree, as on machines with an invariant time-stamp counter.

use super::decoded_run::DecodedRun;
use super::hot_accesses::{END, end_of, may_be_same};
use super::shared_location::{Access, At, Effect, SharedLocation, is_tractable};
use sketch_model::{EventKind, Interval, LocationName, Source, ThreadIndex, TraceEvent, Tsc};
use std::collections::{BTreeMap, BTreeSet};

/// Where an event stands among the accesses of a shared location.
#[derive(Clone, Copy, Debug)]
struct Place {
    location: usize,
    at: At,
}

/// All that is known about the order of one run's events.
pub struct Evidence<'a> {
    pub run: &'a DecodedRun,
    /// By event number, tightened by program order.
    bounds: Vec<Interval>,
    /// Memory that at least two threads touched and at least one wrote.
    pub locations: Vec<SharedLocation>,
    places: Vec<Option<Place>>,
    /// Locations with too many accesses to be analysed.
    pub saturated: BTreeSet<LocationName>,
}

impl<'a> Evidence<'a> {
    pub fn new(run: &'a DecodedRun) -> Self {
        let threads = by_thread(&run.trace.events);
        let bounds = tightened(&run.trace.events, &threads);
        let mut evidence = Evidence {
            run,
            places: vec![None; bounds.len()],
            bounds,
            locations: Vec::new(),
            saturated: BTreeSet::new(),
        };
        for group in overlapping(&run.trace.events) {
            evidence.add_location(&group, &threads);
        }
        evidence
    }

    pub fn event(&self, number: usize) -> &'a TraceEvent {
        &self.run.trace.events[number]
    }

    /// Whether event `a` provably happened before event `b`.
    pub fn before(&self, a: usize, b: usize) -> bool {
        let (first, second) = (self.event(a), self.event(b));
        if first.thread == second.thread {
            return first.position < second.position;
        }
        if self.bounds[a].latest < self.bounds[b].earliest {
            return true;
        }
        match (self.places[a], self.places[b]) {
            (Some(x), Some(y)) if x.location == y.location => {
                self.locations[x.location].before(x.at, y.at)
            }
            _ => false,
        }
    }

    /// Whether there is evidence either way.
    pub fn ordered(&self, a: usize, b: usize) -> bool {
        self.before(a, b) || self.before(b, a)
    }

    /// The middle of the time in which the event can have happened: for drawing
    /// unordered events, never for claiming an order.
    pub fn midpoint(&self, event: usize) -> u64 {
        let Interval { earliest, latest } = self.bounds[event];
        earliest.0 / 2 + latest.0 / 2
    }

    fn add_location(&mut self, group: &[usize], threads: &BTreeMap<ThreadIndex, Vec<usize>>) {
        let events = &self.run.trace.events;
        let touching: BTreeSet<ThreadIndex> = group.iter().map(|e| events[*e].thread).collect();
        let written = group
            .iter()
            .any(|e| effect(&events[*e]) != Some(Effect::Read));
        if touching.len() < 2 || !written {
            return;
        }
        let holes = &self.run.holes;
        if !is_tractable(group.len() + holes.len(), touching.len() + holes.len()) {
            let names = group.iter().filter_map(|e| events[*e].location.clone());
            self.saturated.extend(names);
            return;
        }
        let mut lists: BTreeMap<ThreadIndex, Vec<(u64, Access)>> = BTreeMap::new();
        for number in group {
            let event = &events[*number];
            if let Some(access) = self.access(*number) {
                // Odd numbers leave room for holes before each event.
                let key = 2 * u64::from(event.position) + 1;
                lists.entry(event.thread).or_default().push((key, access));
            }
        }
        for hole in holes {
            let around = threads.get(&hole.thread).map_or(&[][..], Vec::as_slice);
            let list = lists.entry(hole.thread).or_default();
            list.push((2 * u64::from(hole.before), self.hole(hole.before, around)));
        }
        // Of threads that tired of writing: behind which event, and from when on, they may
        // have gone on.
        let mut go_on: BTreeMap<ThreadIndex, (u32, Tsc)> = BTreeMap::new();
        for lost in self.run.thinned.iter().filter(|lost| lost.writes) {
            let names = group.iter().map(|e| events[*e].location.as_ref());
            let concerned = { names }.any(|name| may_be_same(name, &lost.location));
            if let Some(end) = end_of(self.run, lost).filter(|_| concerned) {
                let list = lists.entry(lost.thread).or_default();
                list.push((2 * u64::from(end), may_write(lost.lost)));
                if lost.goes_on() {
                    let first = go_on.entry(lost.thread);
                    let (from, earliest) = first.or_insert((end, lost.lost.earliest));
                    *from = end.min(*from);
                    *earliest = lost.lost.earliest.min(*earliest);
                }
            }
        }
        for (thread, (from, earliest)) in go_on {
            let list = lists.entry(thread).or_default();
            let later = list.iter().map(|(key, _)| *key);
            let later = later.filter(|key| key % 2 == 1 && key / 2 > u64::from(from));
            let mut places: Vec<u64> = later.map(|key| key - 1).collect();
            places.push(u64::MAX);
            let lost = may_write(Interval {
                earliest,
                latest: END,
            });
            list.extend(places.into_iter().map(|place| (place, lost.clone())));
        }
        let threads: Vec<Vec<Access>> = lists
            .into_values()
            .map(|mut list| {
                list.sort_by_key(|(key, _)| *key);
                list.into_iter().map(|(_, access)| access).collect()
            })
            .collect();
        let location = self.locations.len();
        for (thread, list) in threads.iter().enumerate() {
            for (index, access) in list.iter().enumerate() {
                if let Some(event) = access.event {
                    let at = At { thread, index };
                    self.places[event] = Some(Place { location, at });
                }
            }
        }
        self.locations.push(SharedLocation::new(threads));
    }

    fn access(&self, number: usize) -> Option<Access> {
        let event = self.event(number);
        let exact = event.value.filter(|v| v.exact);
        Some(Access {
            event: Some(number),
            effect: effect(event)?,
            bounds: self.bounds[number],
            range: range(event)?,
            value: exact.map(|v| v.value),
        })
    }

    /// What a thread lost may have written anything, at any time between the
    /// events around it.
    fn hole(&self, before: u32, thread: &[usize]) -> Access {
        let next = thread.partition_point(|e| self.event(*e).position < before);
        let earliest = next.checked_sub(1).map(|i| self.bounds[thread[i]].earliest);
        let latest = thread.get(next).map(|e| self.bounds[*e].latest);
        may_write(Interval {
            earliest: earliest.unwrap_or(Tsc(0)),
            latest: latest.unwrap_or(END),
        })
    }
}

/// A write that is not recorded, of which nothing is known but when.
fn may_write(bounds: Interval) -> Access {
    Access {
        event: None,
        effect: Effect::MayWrite,
        bounds,
        range: (0, u64::MAX),
        value: None,
    }
}

fn by_thread(events: &[TraceEvent]) -> BTreeMap<ThreadIndex, Vec<usize>> {
    let mut threads: BTreeMap<ThreadIndex, Vec<usize>> = BTreeMap::new();
    for (number, event) in events.iter().enumerate() {
        threads.entry(event.thread).or_default().push(number);
    }
    for list in threads.values_mut() {
        list.sort_by_key(|e| events[*e].position);
    }
    threads
}

fn tightened(events: &[TraceEvent], threads: &BTreeMap<ThreadIndex, Vec<usize>>) -> Vec<Interval> {
    let mut bounds: Vec<Interval> = events.iter().map(|e| e.when).collect();
    for list in threads.values() {
        let mut floor = Tsc(0);
        for event in list {
            floor = floor.max(bounds[*event].earliest);
            bounds[*event].earliest = floor;
        }
        let mut ceiling = Tsc(u64::MAX);
        for event in list.iter().rev() {
            ceiling = ceiling.min(bounds[*event].latest);
            bounds[*event].latest = ceiling;
        }
    }
    bounds
}

/// What an event does to memory; `None` if it touches none that we compare.
fn effect(event: &TraceEvent) -> Option<Effect> {
    match (event.kind, event.source) {
        (EventKind::Read, _) => Some(Effect::Read),
        (EventKind::Write, _) => Some(Effect::Write),
        // A library touched the location on the statement's behalf.
        (EventKind::Call, Source::Watchpoint) => Some(Effect::MayWrite),
        _ => None,
    }
}

/// The bytes that an access touched, end excluded. Without a size the first
/// byte stands for all: hits carry the watched address itself.
fn range(event: &TraceEvent) -> Option<(u64, u64)> {
    let start = event.address?.0;
    let size = event.value.map_or(1, |v| u64::from(v.size.max(1)));
    Some((start, start.saturating_add(size)))
}

/// Groups of accesses whose bytes overlap, directly or through each other.
fn overlapping(events: &[TraceEvent]) -> Vec<Vec<usize>> {
    let mut ranges: Vec<((u64, u64), usize)> = events
        .iter()
        .enumerate()
        .filter(|(_, e)| effect(e).is_some())
        .filter_map(|(number, e)| range(e).map(|r| (r, number)))
        .collect();
    ranges.sort_unstable();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut end = 0;
    for ((from, to), number) in ranges {
        match groups.last_mut() {
            Some(group) if from < end => group.push(number),
            _ => groups.push(vec![number]),
        }
        end = end.max(to);
    }
    groups
}
