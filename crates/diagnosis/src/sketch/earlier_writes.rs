//! Where the value that a predictor is about was written before.
//!
//! "Main stored NULL before the consumer read it" is half of the story; the other
//! half is what main's store replaced: the write of the value that the program
//! counted on. So beside the accesses of the best predictors the sketch draws
//! the last write to the same memory that provably came before them, if it was
//! recorded in the drawn run.

use crate::evidence::order::Evidence;
use sketch_model::{EventKind, StatementId, TraceEvent};
use std::collections::BTreeSet;

/// The events of those writes. `pattern` holds the events of the best order
/// predictor, `causes` the statements of the best value and branch predictors.
pub fn origins(
    evidence: &Evidence<'_>,
    pattern: &[usize],
    causes: &BTreeSet<StatementId>,
) -> Vec<usize> {
    let events = &evidence.run.trace.events;
    let mut beginnings: Vec<usize> = pattern.first().copied().into_iter().collect();
    for cause in causes {
        let reads = (0..events.len()).filter(|number| {
            let event = &events[*number];
            event.statement() == Some(*cause) && event.kind == EventKind::Read
        });
        // The last read is what led to the failure.
        let last = reads.max_by_key(|number| (events[*number].thread, events[*number].position));
        beginnings.extend(last);
    }
    let mut origins: Vec<usize> = Vec::new();
    for beginning in beginnings {
        let writes = (0..events.len()).filter(|number| {
            events[*number].kind == EventKind::Write
                && touch_the_same(&events[*number], &events[beginning])
                && evidence.before(*number, beginning)
        });
        let last = writes.max_by_key(|number| evidence.midpoint(*number));
        origins.extend(last.filter(|number| !origins.contains(number)));
    }
    origins
}

fn touch_the_same(a: &TraceEvent, b: &TraceEvent) -> bool {
    a.address.is_some() && a.address == b.address
}
