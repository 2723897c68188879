//! Order predictors: the seven patterns of accesses to one location by two
//! threads.
//!
//! * Two accesses by different threads, nothing written in between: **WR** (the
//!   read sees that write), **RW**, **WW**.
//! * Two consecutive accesses of one thread to the location and one of another
//!   thread between them, where no serial execution gives the same result:
//!   **RWR**, **WWR**, **RWW**, **WRW**. The remaining combinations (RRR, RRW,
//!   WRR, WWW) equal some serial execution and are no predictors.
//!
//! A pattern *held* if evidence orders all its accesses and excludes every
//! recorded write in between. It is *open* if the accesses are there and
//! nothing excludes the pattern, but evidence is missing: an unordered pair, an
//! unordered write that may lie between, a hole in a record, a hit that may
//! belong to several statements. Open counts neither way.

use super::{Aspect, Coverage, Detector, Found, RecordedRun};
use crate::evidence::hot_accesses;
use crate::evidence::hot_accesses::may_be_same;
use crate::evidence::order::Evidence;
use crate::evidence::shared_location::{At, Effect, SharedLocation};
use crate::sketch::sentences::Names;
use sketch_model::{LocationName, OrderPattern, Predictor, StatementId};
use std::collections::BTreeSet;

/// More candidates than this are not spelled out one by one.
const MAX_READINGS: usize = 16;

/// How many occurrences of one run are looked at. Honest runs stay far below; a
/// record of intervals that order nothing must not cost minutes.
const MAX_OCCURRENCES: usize = 500_000;

/// One occurrence of a pattern.
pub struct Occurrence<'a> {
    pub pattern: OrderPattern,
    /// Events of the trace, in the pattern's order.
    pub events: &'a [usize],
    /// Whether evidence proves it, or merely leaves room for it.
    pub proven: bool,
}

pub struct Order;

impl Detector for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found) {
        observe(recorded.evidence, found);
    }

    fn asks(&self, predictor: &Predictor) -> bool {
        let sleeps = OrderPattern::Rws;
        matches!(predictor, Predictor::Order { pattern, .. } if *pattern != sleeps)
    }

    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool {
        can_deny(coverage, predictor)
    }

    fn occurrence(&self, evidence: &Evidence<'_>, predictor: &Predictor) -> Option<Vec<usize>> {
        last_occurrence(evidence, predictor)
    }

    fn sentence(&self, predictor: &Predictor, names: &Names) -> Option<String> {
        match predictor {
            Predictor::Order {
                pattern,
                location,
                statements,
            } => {
                let phrases: Vec<String> = statements.iter().map(|s| names.phrase(*s)).collect();
                Some(claim(*pattern, location, &phrases))
            }
            _ => None,
        }
    }
}

fn observe(evidence: &Evidence<'_>, found: &mut Found) {
    let run = evidence.run;
    found.coverage.saturated = evidence.saturated.clone();
    // What a failing run lost may have been what it failed of. A successful one is
    // a sample of what the program does when all is well, and so are the accesses
    // that were kept of it: hundreds, from its very beginning.
    if run.trace.failed {
        found.coverage.unknown_order = hot_accesses::unknown_order(run);
    }
    let cut_short = occurrences(evidence, &mut |occurrence| {
        let predictors = predictors(evidence, &occurrence);
        match predictors.as_slice() {
            [only] if occurrence.proven => {
                if !found.held.contains(only) {
                    found.held.insert(only.clone());
                }
            }
            possible => found.open.extend(possible.iter().cloned()),
        }
    });
    found.coverage.saturated.extend(cut_short);
}

/// The events of the last proven occurrence of a predictor, in its order.
fn last_occurrence(evidence: &Evidence<'_>, predictor: &Predictor) -> Option<Vec<usize>> {
    let mut best: Option<(u64, Vec<usize>)> = None;
    occurrences(evidence, &mut |occurrence| {
        if !occurrence.proven || predictors(evidence, &occurrence) != [predictor.clone()] {
            return;
        }
        let time = occurrence
            .events
            .last()
            .map_or(0, |e| evidence.midpoint(*e));
        if best.as_ref().is_none_or(|(latest, _)| time >= *latest) {
            best = Some((time, occurrence.events.to_vec()));
        }
    });
    best.map(|(_, events)| events)
}

/// Finds every occurrence in the run, and returns the locations for which the
/// search was cut short.
pub fn occurrences(
    evidence: &Evidence<'_>,
    found: &mut dyn FnMut(Occurrence<'_>),
) -> BTreeSet<LocationName> {
    let mut cut_short = BTreeSet::new();
    let count = std::cell::Cell::new(0);
    for location in &evidence.locations {
        let mut report = |pattern: OrderPattern, accesses: &[At], proven: bool| {
            count.set(count.get() + 1);
            let overlap = accesses
                .windows(2)
                .all(|pair| location.access(pair[0]).overlaps(location.access(pair[1])));
            let events: Vec<usize> = accesses
                .iter()
                .filter_map(|at| location.access(*at).event)
                .collect();
            if overlap && events.len() == accesses.len() {
                found(Occurrence {
                    pattern,
                    events: &events,
                    proven,
                });
            }
        };
        for at in location.all() {
            if count.get() > MAX_OCCURRENCES {
                let events = location.all().filter_map(|at| location.access(at).event);
                cut_short.extend(events.filter_map(|e| evidence.event(e).location.clone()));
                break;
            }
            pairs_ending_at(location, at, &mut report);
            triples_around(location, at, &mut report);
        }
    }
    cut_short
}

type Report<'a> = dyn FnMut(OrderPattern, &[At], bool) + 'a;

fn pairs_ending_at(location: &SharedLocation, second: At, report: &mut Report<'_>) {
    use Effect::{Read, Write};
    let pattern_of = |first: At| match (
        location.access(first).effect,
        location.access(second).effect,
    ) {
        (Write, Read) => Some(OrderPattern::Wr),
        (Read, Write) => Some(OrderPattern::Rw),
        (Write, Write) => Some(OrderPattern::Ww),
        _ => None,
    };
    for thread in (0..location.threads.len()).filter(|t| *t != second.thread) {
        let before = location.first_not_before(second, thread);
        let unordered = before..location.first_after(second, thread).max(before);
        // Back from the last access that is before: a certain write hides all
        // that precedes it.
        for index in (0..before).rev() {
            let first = At { thread, index };
            if let Some(pattern) = pattern_of(first)
                && !location.write_between(first, second)
            {
                let proven = !location.write_possible_between(first, second);
                report(pattern, &[first, second], proven);
            }
            if location.access(first).effect == Write {
                break;
            }
        }
        for index in unordered {
            let first = At { thread, index };
            if let Some(pattern) = pattern_of(first)
                && !location.write_between(first, second)
            {
                report(pattern, &[first, second], false);
            }
        }
    }
}

fn triples_around(location: &SharedLocation, first: At, report: &mut Report<'_>) {
    use Effect::{MayWrite, Read, Write};
    if location.access(first).effect == MayWrite {
        return;
    }
    // The thread's next access; something unknown in between leaves doubt.
    let list = &location.threads[first.thread];
    let mut rest = first.index + 1;
    while list.get(rest).is_some_and(|a| a.effect == MayWrite) {
        rest += 1;
    }
    if rest >= list.len() {
        return;
    }
    let third = At {
        thread: first.thread,
        index: rest,
    };
    let consecutive = rest == first.index + 1;
    for thread in (0..location.threads.len()).filter(|t| *t != first.thread) {
        let possible =
            location.first_not_before(first, thread)..location.first_after(third, thread);
        let proven = location.first_after(first, thread)..location.first_not_before(third, thread);
        for index in possible {
            let second = At { thread, index };
            let effects = [first, second, third].map(|at| location.access(at).effect);
            let pattern = match effects {
                [Read, Write, Read] => OrderPattern::Rwr,
                [Write, Write, Read] => OrderPattern::Wwr,
                [Read, Write, Write] => OrderPattern::Rww,
                [Write, Read, Write] => OrderPattern::Wrw,
                _ => continue,
            };
            let certain = consecutive && proven.contains(&index);
            report(pattern, &[first, second, third], certain);
        }
    }
}

/// The predictors that an occurrence may be: one, unless a hit is ambiguous.
fn predictors(evidence: &Evidence<'_>, occurrence: &Occurrence<'_>) -> Vec<Predictor> {
    let events = occurrence.events.iter().map(|e| evidence.event(*e));
    let location = location_of(events.clone().map(|e| e.location.as_ref()));
    let mut readings: Vec<Vec<StatementId>> = vec![Vec::new()];
    for event in events {
        let mut longer = Vec::new();
        for reading in &readings {
            for candidate in &event.candidates {
                let mut statements = reading.clone();
                statements.push(*candidate);
                longer.push(statements);
            }
        }
        longer.truncate(MAX_READINGS);
        readings = longer;
    }
    let predictor = |statements| Predictor::Order {
        pattern: occurrence.pattern,
        location: location.clone(),
        statements,
    };
    readings.into_iter().map(predictor).collect()
}

/// Accesses to the same bytes may name them differently; the first proper name
/// by alphabet speaks for all, so that it does not depend on the run.
fn location_of<'a>(names: impl Iterator<Item = Option<&'a LocationName>>) -> LocationName {
    names
        .flatten()
        .filter(|name| **name != LocationName::Unnamed)
        .min()
        .cloned()
        .unwrap_or(LocationName::Unnamed)
}

/// What each place of a pattern does.
fn aspects(pattern: OrderPattern) -> &'static [Aspect] {
    use Aspect::{Load as R, Store as W};
    match pattern {
        OrderPattern::Rwr => &[R, W, R],
        OrderPattern::Wwr => &[W, W, R],
        OrderPattern::Rww => &[R, W, W],
        OrderPattern::Wrw => &[W, R, W],
        OrderPattern::Ww => &[W, W],
        OrderPattern::Wr => &[W, R],
        // The sleep is no access to the location.
        OrderPattern::Rw | OrderPattern::Rws => &[R, W],
    }
}

/// Whether a run could have shown an order predictor of any class.
pub(super) fn can_deny(coverage: &Coverage, predictor: &Predictor) -> bool {
    let Predictor::Order {
        pattern,
        location,
        statements,
    } = predictor
    else {
        return false;
    };
    let lost = |statement: &StatementId| {
        let unknown = coverage.unknown_order.iter();
        { unknown }.any(|(s, name)| s == statement && may_be_same(Some(name), location))
    };
    if !coverage.complete || coverage.saturated.contains(location) || statements.iter().any(lost) {
        return false;
    }
    statements
        .iter()
        .zip(aspects(*pattern))
        .all(|(statement, aspect)| {
            let hooked = coverage.hooked(*statement, |h| {
                h.aspect == *aspect && super::may_be(&h.location, location)
            });
            hooked || coverage.watched(*statement, location)
        })
}

fn claim(pattern: OrderPattern, location: &LocationName, phrases: &[String]) -> String {
    let does = |at: usize| match aspects(pattern).get(at) {
        Some(Aspect::Store) => "wrote",
        _ => "read",
    };
    match phrases {
        [a, b] => format!("{a} {} {location} before {b} {} it", does(0), does(1)),
        [a, b, c] => format!(
            "{b} {} {location} after {a} {} it and before the same thread's {c} {} it",
            does(1),
            does(0),
            does(2)
        ),
        _ => format!("the order {pattern} on {location} occurred"),
    }
}
