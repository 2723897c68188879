//! Value predictors: did an access at this place ever see a value of this shape?
//!
//! Shapes rather than values: pointers differ from run to run, their being null
//! does not. Small constants are kept as themselves, because counts, states and
//! error codes are small.
//!
//! Only exact values count. An access whose value is unknown makes the other
//! shapes at that place unobserved in the run: it may have had any of them.
//! Statements known from watchpoints alone have no column; they use 0.

use super::{Aspect, Coverage, Detector, Found, RecordedRun, may_be};
use crate::evidence::instruction::truncated;
use crate::sketch::sentences::Names;
use sketch_model::{
    EventKind, LocationName, ObservedValue, Predictor, SeenShapes, Source, StatementId, ValueShape,
};

/// Constants up to this magnitude are predictors of their own.
const SMALL: u64 = 255;

pub struct Value;

impl Detector for Value {
    fn name(&self) -> &'static str {
        "value"
    }

    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found) {
        observe_events(recorded, found);
        observe_thinned(recorded, found);
    }

    /// All shapes but the one that is [`super::unset_memory`]'s.
    fn asks(&self, predictor: &Predictor) -> bool {
        matches!(predictor, Predictor::Value { location, shape, .. }
            if !location.is_of_call() && *shape != ValueShape::Unwritten)
    }

    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool {
        can_deny(coverage, predictor)
    }

    fn sentence(&self, predictor: &Predictor, names: &Names) -> Option<String> {
        sentence(predictor, "saw", names)
    }
}

fn observe_events(recorded: &RecordedRun<'_>, found: &mut Found) {
    let plan = recorded.plan;
    for event in &recorded.run().trace.events {
        let unknown_effect = event.kind == EventKind::Call && event.source == Source::Watchpoint;
        if !matches!(event.kind, EventKind::Read | EventKind::Write) && !unknown_effect {
            continue;
        }
        let Some(statement) = event.statement() else {
            continue;
        };
        let (column, caller) = match event.source {
            Source::Probe(site) => plan.site(site).map_or((0, None), |s| (s.column, s.caller)),
            Source::Watchpoint | Source::Trace | Source::Allocator | Source::Implied(_) => {
                (0, None)
            }
        };
        let location = event.location.clone().unwrap_or(LocationName::Unnamed);
        match event.value.filter(|v| v.exact) {
            None => {
                let place = (statement, column, location);
                found.coverage.blurred.insert(place);
            }
            Some(value) => {
                for shape in shapes(value) {
                    hold(found, (statement, column, &location), shape, caller);
                }
            }
        }
    }
}

/// It held for calls from anywhere, and for the caller if that is known.
pub(super) fn hold(
    found: &mut Found,
    (statement, column, location): (StatementId, u32, &LocationName),
    shape: ValueShape,
    caller: Option<StatementId>,
) {
    let by = |caller| Predictor::Value {
        statement,
        column,
        location: location.clone(),
        shape,
        caller,
    };
    found.held.insert(by(None));
    if caller.is_some() {
        found.held.insert(by(caller));
    }
}

/// What is known of accesses that were made too often to be kept one by one.
fn observe_thinned(recorded: &RecordedRun<'_>, found: &mut Found) {
    for access in &recorded.run().thinned {
        let SeenShapes {
            zero,
            non_zero,
            negative,
        } = access.shapes;
        let place = (access.statement, access.column, access.location.clone());
        if !zero && !non_zero {
            // Withheld.
            found.coverage.blurred.insert(place);
            continue;
        }
        if non_zero {
            found.coverage.summarised.insert(place);
        }
        let shapes = [
            (zero, ValueShape::Zero),
            (non_zero, ValueShape::NonZero),
            (negative, ValueShape::Negative),
        ];
        let site = recorded.plan.site(access.site);
        let caller = site.and_then(|site| site.caller);
        for (_, shape) in shapes.into_iter().filter(|(seen, _)| *seen) {
            let at = (access.statement, access.column, &access.location);
            hold(found, at, shape, caller);
        }
    }
}

/// The shapes of a value, by its width. `Equals` holds the value as it is read
/// signed or unsigned alike: its bits, sign-extended to eight bytes if negative.
pub fn shapes(value: ObservedValue) -> Vec<ValueShape> {
    let width = usize::from(value.size.clamp(1, 8));
    let bits = truncated(value.value, width);
    if bits == 0 {
        return vec![ValueShape::Zero];
    }
    let signed = signed(bits, width);
    let mut shapes = vec![ValueShape::NonZero];
    if signed < 0 {
        shapes.push(ValueShape::Negative);
    }
    if signed.unsigned_abs() <= SMALL {
        shapes.push(ValueShape::Equals(signed as u64));
    }
    shapes
}

/// The value as a signed number of its width.
pub fn signed(bits: u64, width: usize) -> i64 {
    let unused = 64 - 8 * width.clamp(1, 8) as u32;
    ((bits << unused) as i64) >> unused
}

/// Whether a run could have shown a value predictor of any class.
pub(super) fn can_deny(coverage: &Coverage, predictor: &Predictor) -> bool {
    let Predictor::Value {
        statement,
        column,
        location,
        shape,
        caller,
    } = predictor
    else {
        return false;
    };
    let place = (*statement, *column, location.clone());
    if !coverage.complete || coverage.blurred.contains(&place) {
        return false;
    }
    // Of a summary one knows zero, non-zero and negative, and no more.
    let needs_each_value = matches!(shape, ValueShape::Equals(_) | ValueShape::Unwritten);
    if needs_each_value && coverage.summarised.contains(&place) {
        return false;
    }
    let of_call = location.is_of_call();
    let hooked = coverage.hooked_for(*caller, *statement, |h| match h.aspect {
        Aspect::Load | Aspect::Store => {
            !of_call && h.column == *column && may_be(&h.location, location)
        }
        Aspect::Call => of_call && h.column == *column,
        Aspect::Branch => false,
    });
    match shape {
        // A watchpoint begins after the first writes: it cannot tell what had none.
        ValueShape::Unwritten => hooked && coverage.sees_written(location),
        _ => hooked || (caller.is_none() && coverage.watched(*statement, location)),
    }
}

/// "`x = y;` (main, a.c:3), called by `f();` (main, a.c:9), saw queue.length as 0"
pub(super) fn sentence(predictor: &Predictor, saw: &str, names: &Names) -> Option<String> {
    let Predictor::Value {
        statement,
        location,
        shape,
        caller,
        ..
    } = predictor
    else {
        return None;
    };
    let by = caller.map(|caller| format!(", called by {},", names.phrase(caller)));
    Some(format!(
        "{}{} {saw} {location} {}",
        names.phrase(*statement),
        by.unwrap_or_default(),
        shape_words(*shape)
    ))
}

fn shape_words(shape: ValueShape) -> String {
    match shape {
        ValueShape::Zero => "as 0".to_owned(),
        ValueShape::NonZero => "not 0".to_owned(),
        ValueShape::Negative | ValueShape::Unwritten => shape.to_string(),
        ValueShape::Equals(value) => format!("as {}", value as i64),
    }
}
