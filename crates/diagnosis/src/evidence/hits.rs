//! Places watchpoint hits among the probe events of their thread.
//!
//! A hit is handled in the thread that made the access, after the access and
//! before the thread's next instruction. So the access lies between the
//! thread's previous event and the moment of handling, and that is its interval.
//! The moment is read on another clock than hooks use; [`ClockTie`] gives it
//! as a range of the counter, of which the late end is taken.
//!
//! Where a statement has a probe *and* its location is watched, one access
//! leaves two records. They are one if thread, address, effect and statement
//! agree and the hit was handled within the probe's interval or shortly after;
//! the probe is kept, because it is tighter and knows the value. Each probe
//! takes at most one hit.
//!
//! An access whose effect is unknown (made inside a library) becomes a `Call`
//! event with an address: "this statement made a call that touched it". Order
//! analysis treats it as something that may have written.
//!
//! Limits: if the clocks disagree by more than the tie admits, a hit can be
//! placed on the wrong side of a probe of its own thread. A thread id that is
//! used twice in a run joins two threads' hits.
//!
//! [`ClockTie`]: sketch_model::ClockTie

use super::attribution::{Attribution, Attributor};
use super::instruction::{AddressForm, Datum, truncated};
use super::trace::Timeline;
use sketch_model::{
    EventKind, Interval, LocationName, ObservedValue, RunRecord, Source, TraceEvent, TrackingPlan,
    Tsc, WatchHit,
};
use std::collections::BTreeMap;

/// How long after an access its hit may be handled for the two records to be
/// the same access: the cost of a hit, and a little (12–24 µs on the development machine).
const HANDLING_NS: u64 = 50_000;

/// How many hook records are compared with one hit. An honest record has a few in
/// reach; a forged one must not cost quadratic time.
const NEAR_PROBES: usize = 1024;

/// What could not be used, for the reader of the sketch.
#[derive(Debug, Default)]
pub struct PlacedHits {
    pub without_time: u64,
    /// By watched location: hits without a statement.
    pub unattributed: BTreeMap<LocationName, u64>,
}

/// A hit with everything that is known of it.
struct TimedHit<'a> {
    hit: &'a WatchHit,
    attribution: Attribution,
    handled: (Tsc, Tsc),
    /// Counter ticks that [`HANDLING_NS`] lasts.
    slack: u64,
    watched_size: u16,
    location: LocationName,
}

/// Merges the record's hits into the timelines.
pub fn place(
    record: &RunRecord,
    plan: &TrackingPlan,
    attributor: &mut Attributor<'_>,
    timelines: &mut [Timeline],
) -> PlacedHits {
    let mut result = PlacedHits::default();
    let mut by_tid: BTreeMap<i32, Vec<TimedHit<'_>>> = BTreeMap::new();
    for hit in &record.watch.hits {
        let clock = &record.clock;
        let Some(handled) = clock.tsc_at(hit.handled_ns) else {
            result.without_time += 1;
            continue;
        };
        let later = clock.tsc_at(hit.handled_ns.saturating_add(HANDLING_NS));
        let slack = later.map_or(0, |(_, latest)| latest.0.saturating_sub(handled.1.0));
        let attribution = attributor.attribute(hit);
        let location = watched_location(plan, hit.slot);
        if attribution.candidates.is_empty() {
            *result.unattributed.entry(location.clone()).or_default() += 1;
        }
        by_tid.entry(hit.tid).or_default().push(TimedHit {
            hit,
            attribution,
            handled,
            slack,
            watched_size: watched_size(plan, hit.slot),
            location,
        });
    }
    for timeline in timelines {
        if let Some(mut hits) = by_tid.remove(&timeline.thread.tid) {
            hits.sort_by_key(|h| h.hit.handled_ns);
            merge(timeline, &hits, record.clock.start_tsc);
        }
    }
    result
}

fn watched_location(plan: &TrackingPlan, slot: u8) -> LocationName {
    let name = plan.watched.get(usize::from(slot)).cloned();
    name.unwrap_or(LocationName::Unnamed)
}

fn watched_size(plan: &TrackingPlan, slot: u8) -> u16 {
    let armed = plan.sites.iter().filter(|s| s.arm_slot == Some(slot));
    armed.map(|s| s.size.clamp(1, 8) as u16).max().unwrap_or(1)
}

fn merge(timeline: &mut Timeline, hits: &[TimedHit<'_>], run_start: Tsc) {
    let probes = std::mem::take(&mut timeline.events);
    let same = same_accesses(&probes, hits);
    let mut left = hits.iter().zip(same).filter(|(_, s)| !s).map(|(h, _)| h);
    let mut next_hit = left.next();
    // Nothing that follows happened before this: the thread was past it.
    let mut floor = (run_start, run_start);
    let mut merged = Vec::with_capacity(probes.len() + hits.len());
    for probe in probes {
        while let Some(hit) = next_hit.filter(|h| h.midpoint() <= probe.when.latest.0) {
            floor = hit.add_events(timeline, floor, &mut merged);
            next_hit = left.next();
        }
        floor = (probe.when.earliest, probe.when.latest);
        merged.push(probe);
    }
    while let Some(hit) = next_hit {
        floor = hit.add_events(timeline, floor, &mut merged);
        next_hit = left.next();
    }
    timeline.events = merged;
}

/// For each hit, whether a probe recorded the same access.
fn same_accesses(probes: &[TraceEvent], hits: &[TimedHit<'_>]) -> Vec<bool> {
    let mut taken = vec![false; probes.len()];
    let mut from = 0;
    let mut same = Vec::with_capacity(hits.len());
    for hit in hits {
        let (first, last) = hit.handled;
        while probes
            .get(from)
            .is_some_and(|p| p.when.latest.0.saturating_add(hit.slack) < first.0)
        {
            from += 1;
        }
        let mut find = |wanted: Option<EventKind>| -> bool {
            let near = (from..probes.len())
                .take(NEAR_PROBES)
                .take_while(|i| probes[*i].when.earliest <= last);
            let matching = near.filter(|i| !taken[*i] && hit.is_access(&probes[*i], wanted));
            // The nearest in time is the last that fits.
            let found = matching.last();
            if let Some(i) = found {
                taken[i] = true;
            }
            found.is_some()
        };
        same.push(match &hit.attribution.effect {
            None => find(None),
            Some(effect) => {
                let read = effect.read.is_some() && find(Some(EventKind::Read));
                let written = effect.written.is_some() && find(Some(EventKind::Write));
                read || written
            }
        });
    }
    same
}

impl TimedHit<'_> {
    fn midpoint(&self) -> u64 {
        let (first, last) = self.handled;
        first.0 + last.0.saturating_sub(first.0) / 2
    }

    fn is_access(&self, probe: &TraceEvent, wanted: Option<EventKind>) -> bool {
        let kind = match wanted {
            Some(kind) => probe.kind == kind,
            None => matches!(probe.kind, EventKind::Read | EventKind::Write),
        };
        let candidates = &self.attribution.candidates;
        let statement = candidates.is_empty()
            || probe
                .candidates
                .iter()
                .any(|statement| candidates.contains(statement));
        kind && statement && self.overlaps(probe)
    }

    fn overlaps(&self, probe: &TraceEvent) -> bool {
        let (Some(address), Some(value)) = (probe.address, probe.value) else {
            return false;
        };
        let watched = self.hit.address.0;
        address.0 < watched.saturating_add(u64::from(self.watched_size))
            && watched < address.0.saturating_add(u64::from(value.size.max(1)))
    }

    /// Adds the hit's events and returns the new floor.
    fn add_events(
        &self,
        timeline: &Timeline,
        floor: (Tsc, Tsc),
        events: &mut Vec<TraceEvent>,
    ) -> (Tsc, Tsc) {
        let (first, last) = self.handled;
        // The thread was past its previous event, unless the clocks are too
        // rough to tell which came first.
        let earliest = if floor.1 <= first { floor.1 } else { floor.0 };
        let when = Interval {
            earliest: earliest.min(last),
            latest: last,
        };
        let effect = self.attribution.effect;
        let mut add = |kind: EventKind, value: Option<ObservedValue>| {
            events.push(TraceEvent {
                thread: timeline.thread.index,
                position: 0,
                candidates: self.attribution.candidates.clone(),
                kind,
                address: Some(self.hit.address),
                location: Some(self.location.clone()),
                value,
                passed: Vec::new(),
                when,
                source: Source::Watchpoint,
            });
        };
        match effect {
            None => add(EventKind::Call, None),
            Some(effect) => {
                if let Some(datum) = effect.read {
                    add(EventKind::Read, self.value(datum, effect.width));
                }
                if let Some(datum) = effect.written {
                    add(EventKind::Write, self.value(datum, effect.width));
                }
            }
        }
        (earliest.min(first), first)
    }

    /// The value, if it certainly is the watched location's.
    fn value(&self, datum: Datum, width: u16) -> Option<ObservedValue> {
        if !(1..=8).contains(&width) || !self.accessed_exactly(width) {
            return None;
        }
        let value = match datum {
            Datum::Unknown => return None,
            Datum::Immediate(value) => value,
            Datum::Register { number, shift } => {
                self.hit.registers.get(usize::from(number))? >> shift
            }
        };
        Some(ObservedValue {
            value: truncated(value, usize::from(width)),
            size: width,
            exact: true,
        })
    }

    /// Whether the access began at the watched address. Where its address can no
    /// longer be computed, equal width tells: compilers align accesses naturally.
    fn accessed_exactly(&self, width: u16) -> bool {
        let register = |number: Option<u8>| -> Option<u64> {
            number.map_or(Some(0), |n| self.hit.registers.get(usize::from(n)).copied())
        };
        let accessed = match self.attribution.effect.and_then(|e| e.address) {
            None => return width == self.watched_size,
            Some(AddressForm::Static(address)) => {
                Some(address.0.wrapping_add(self.attribution.bias))
            }
            Some(AddressForm::Registers {
                base,
                index,
                scale,
                displacement,
            }) => register(base).zip(register(index)).map(|(base, index)| {
                base.wrapping_add(index.wrapping_mul(scale))
                    .wrapping_add(displacement)
            }),
        };
        accessed == Some(self.hit.address.0)
    }
}
