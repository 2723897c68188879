//! Values beside a statement, as a reader wants to see them.
//!
//! A record has bits and a width, no type. Narrow values are shown as signed
//! numbers. Eight bytes are shown as an address, and zero as NULL, unless the
//! location also held small numbers in this run: then it is a counter or a
//! size, and zero is 0.

use crate::evidence::order::Evidence;
use crate::predictors::value::signed;
use sketch_model::{CallValue, EventKind, LocationName, ObservedValue, SketchValue};

/// Below this nothing is an address: the first page is never mapped.
const FIRST_PAGE: u64 = 4096;

/// The values of some events: the last for each location, read and written apart.
pub fn values(evidence: &Evidence<'_>, events: &[usize]) -> Vec<SketchValue> {
    let mut values: Vec<SketchValue> = Vec::new();
    for number in events {
        let event = evidence.event(*number);
        for passed in &event.passed {
            let of = match passed.argument {
                Some(number) => format!("argument {number}"),
                None => "result".to_owned(),
            };
            values.retain(|v| v.of != of);
            values.push(SketchValue {
                of,
                shown: shown_of_call(passed),
                exact: true,
                written: false,
            });
        }
        let (written, value) = match (event.kind, event.value) {
            (EventKind::Read, Some(value)) => (false, value),
            (EventKind::Write, Some(value)) => (true, value),
            _ => continue,
        };
        let location = event.location.clone().unwrap_or(LocationName::Unnamed);
        let of = location.to_string();
        let numeric = value.size >= 8 && holds_small_numbers(evidence, &location);
        values.retain(|v| (&v.of, v.written) != (&of, written));
        values.push(SketchValue {
            of,
            shown: shown(value, numeric),
            exact: value.exact,
            written,
        });
    }
    values
}

/// A string says more than where it is.
fn shown_of_call(passed: &CallValue) -> String {
    let value = ObservedValue {
        value: passed.value,
        size: passed.size,
        exact: true,
    };
    match &passed.text {
        Some(text) => text.clone(),
        None => shown(value, !passed.pointer),
    }
}

fn holds_small_numbers(evidence: &Evidence<'_>, location: &LocationName) -> bool {
    let events = evidence.run.trace.events.iter();
    events
        .filter(|e| e.location.as_ref() == Some(location))
        .filter_map(|e| e.value)
        .any(|v| v.size >= 8 && is_small(v.value))
}

fn is_small(value: u64) -> bool {
    value != 0 && (value as i64).unsigned_abs() < FIRST_PAGE
}

fn shown(value: ObservedValue, numeric: bool) -> String {
    match value.size {
        0..8 => signed(value.value, usize::from(value.size.max(1))).to_string(),
        _ if value.value == 0 => if numeric { "0" } else { "NULL" }.to_owned(),
        _ if is_small(value.value) => (value.value as i64).to_string(),
        _ => format!("{:#x}", value.value),
    }
}
