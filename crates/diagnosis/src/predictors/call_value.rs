//! Values that a call is given and gives back: was one ever of this shape?
//!
//! They say what no access does where the optimiser keeps a value in a register:
//! that `malloc` was asked for nothing, that a read returned less than nothing.
//! They are value predictors whose location is an argument or the result.
//!
//! Only zero and negative. Numbers that are passed on are often counters and sizes,
//! and in a small population some such number always separates the runs; and "not
//! zero" says of a constant, such as a failed assertion's text, that the call was made.
//!
//! A call of which a value was not recorded (it was inlined, it has not returned,
//! the value fits no register) may have had any value: it is then unobserved.
//! The same holds in a failing run for calls made too often to be kept one by one;
//! a successful one is judged by the first hundreds, as accesses are.

use super::{Coverage, Detector, Found, RecordedRun, value};
use crate::sketch::sentences::Names;
use sketch_model::{
    EventKind, LocationName, ObservedValue, Predictor, Source, StatementId, ValueShape,
};
use std::collections::BTreeSet;

/// As many arguments as a call's hook records.
const ARGUMENTS: u16 = 4;

pub struct CallValue;

impl Detector for CallValue {
    fn name(&self) -> &'static str {
        "call value"
    }

    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found) {
        observe(recorded, found);
    }

    fn asks(&self, predictor: &Predictor) -> bool {
        predictor.is_of_call()
    }

    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool {
        value::can_deny(coverage, predictor)
    }

    fn sentence(&self, predictor: &Predictor, names: &Names) -> Option<String> {
        let saw = match predictor {
            Predictor::Value {
                location: LocationName::Argument(_),
                ..
            } => "passed",
            _ => "saw",
        };
        value::sentence(predictor, saw, names)
    }
}

fn observe(recorded: &RecordedRun<'_>, found: &mut Found) {
    let (run, plan) = (recorded.run(), recorded.plan);
    let events = run.trace.events.iter();
    for event in events.filter(|e| e.kind == EventKind::Call) {
        let Source::Probe(site) = event.source else {
            continue;
        };
        let (Some(statement), Some(site)) = (event.statement(), plan.site(site)) else {
            continue;
        };
        let mut told = BTreeSet::new();
        for passed in &event.passed {
            let location = location(passed);
            for shape in shapes(passed) {
                let at = (statement, site.column, &location);
                value::hold(found, at, shape, site.caller);
            }
            told.insert(location);
        }
        let untold = locations().filter(|location| !told.contains(location));
        blur(found, statement, site.column, untold);
    }
    if !run.trace.failed {
        return;
    }
    for site in run.unseen_calls.iter().filter_map(|site| plan.site(*site)) {
        blur(found, site.statement, site.column, locations());
    }
}

fn location(passed: &sketch_model::CallValue) -> LocationName {
    match passed.argument {
        Some(number) => LocationName::Argument(number),
        None => LocationName::Result,
    }
}

fn locations() -> impl Iterator<Item = LocationName> {
    let arguments = (1..=ARGUMENTS).map(LocationName::Argument);
    arguments.chain([LocationName::Result])
}

fn blur(
    found: &mut Found,
    statement: StatementId,
    column: u32,
    locations: impl Iterator<Item = LocationName>,
) {
    let places = locations.map(|location| (statement, column, location));
    found.coverage.blurred.extend(places);
}

fn shapes(passed: &sketch_model::CallValue) -> impl Iterator<Item = ValueShape> {
    let value = ObservedValue {
        value: passed.value,
        size: passed.size,
        exact: true,
    };
    let telling = |shape: &ValueShape| matches!(shape, ValueShape::Zero | ValueShape::Negative);
    value::shapes(value).into_iter().filter(telling)
}
