//! Values from nowhere: a read that saw something other than zero where nothing had
//! been written.
//!
//! Memory that the program uses without having set it holds what somebody left there,
//! and whether that matters changes from run to run. That a field was not set on a
//! rare path, or that it was not zero, separates the runs badly; that it was not set
//! *and* not zero separates them well. It is a value predictor with a shape of its own,
//! because only a run as a whole knows it, not the value.
//!
//! Asked only of locations that hooks see written at all: of others nothing ever
//! would have been written. Whoever fills memory behind the hooks' back (a library, a
//! copy of a whole record) does so in successful runs too, which is what the ranking
//! compares with. Where writes were lost, the run cannot tell.

use super::{Coverage, Detector, Found, Hook, RecordedRun, value};
use crate::evidence::order::Evidence;
use crate::sketch::sentences::Names;
use sketch_model::{
    EventKind, LocationName, Predictor, RuntimeAddress, Source, StatementId, TraceEvent, ValueShape,
};
use std::collections::{BTreeSet, HashMap};

/// Accesses are at most this wide, so two that overlap share a word.
const WORD: u64 = 8;

pub struct UnsetMemory;

impl Detector for UnsetMemory {
    fn name(&self) -> &'static str {
        "unset memory"
    }

    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found) {
        observe(recorded, found);
    }

    fn asks(&self, predictor: &Predictor) -> bool {
        let unset = ValueShape::Unwritten;
        matches!(predictor, Predictor::Value { shape, .. } if *shape == unset)
    }

    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool {
        value::can_deny(coverage, predictor)
    }

    fn sentence(&self, predictor: &Predictor, names: &Names) -> Option<String> {
        value::sentence(predictor, "saw", names)
    }
}

fn observe(recorded: &RecordedRun<'_>, found: &mut Found) {
    let (evidence, plan) = (recorded.evidence, recorded.plan);
    let hooks = found.coverage.hooks.clone();
    let written: BTreeSet<&LocationName> = hooks.iter().filter_map(Hook::writes).collect();
    let lost = evidence.run.thinned.iter().filter(|lost| lost.writes);
    let lost: BTreeSet<&LocationName> = lost.map(|lost| &lost.location).collect();
    let writes = writes(&evidence.run.trace.events);
    // What was written before a thread's first read is so before its later ones.
    let mut asked = BTreeSet::new();
    for (number, event) in evidence.run.trace.events.iter().enumerate() {
        let Some((statement, location, address)) = read(event) else {
            continue;
        };
        let Source::Probe(site) = event.source else {
            continue;
        };
        if !written.contains(location)
            || !asked.insert((event.thread, site, address))
            || was_written(evidence, &writes, number, address)
        {
            continue;
        }
        let (column, caller) = plan.site(site).map_or((0, None), |s| (s.column, s.caller));
        let shape = ValueShape::Unwritten;
        if !found.coverage.complete || lost.contains(location) {
            let open = |caller| Predictor::Value {
                statement,
                column,
                location: location.clone(),
                shape,
                caller,
            };
            found.open.extend([open(None), open(caller)]);
        } else {
            value::hold(found, (statement, column, location), shape, caller);
        }
    }
}

/// A read that saw something other than zero in a place with a name.
fn read(event: &TraceEvent) -> Option<(StatementId, &LocationName, u64)> {
    let value = event.value.filter(|v| v.exact)?;
    let seen = event.kind == EventKind::Read && value::shapes(value)[0] != ValueShape::Zero;
    let location = event.location.as_ref()?;
    let named = seen && *location != LocationName::Unnamed;
    let RuntimeAddress(address) = event.address.filter(|_| named)?;
    Some((event.statement()?, location, address))
}

/// Whether anything was written there that is not known to have come later.
fn was_written(
    evidence: &Evidence<'_>,
    writes: &HashMap<u64, Vec<usize>>,
    read: usize,
    address: u64,
) -> bool {
    let size = evidence.event(read).value.map_or(1, |v| u64::from(v.size));
    words(address, size).any(|word| {
        let there = writes.get(&word).into_iter().flatten();
        there.copied().any(|write| !evidence.before(read, write))
    })
}

/// Writes, and calls that may have written, by the words that they touch.
fn writes(events: &[TraceEvent]) -> HashMap<u64, Vec<usize>> {
    let mut writes: HashMap<u64, Vec<usize>> = HashMap::new();
    for (number, event) in events.iter().enumerate() {
        let unknown_effect = event.kind == EventKind::Call && event.source == Source::Watchpoint;
        if event.kind != EventKind::Write && !unknown_effect {
            continue;
        }
        let Some(RuntimeAddress(address)) = event.address else {
            continue;
        };
        let size = event.value.map_or(WORD, |v| u64::from(v.size));
        for word in words(address, size) {
            writes.entry(word).or_default().push(number);
        }
    }
    writes
}

fn words(address: u64, size: u64) -> impl Iterator<Item = u64> {
    let last = address.saturating_add(size.clamp(1, WORD) - 1) / WORD;
    address / WORD..=last
}
