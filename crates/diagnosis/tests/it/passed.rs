//! Values that calls are given and give back: what a run can say of them.

use crate::support::records::{probe, record, thread};
use crate::support::{everything_placed, plan};
use diagnosis::{Answer, decode, observe};
use formats::address_map::AddressMap;
use sketch_model::*;
use test_support::records::failing;

/// A call at statement 1 that is given `size` and, if it came back, gave `result`.
fn call(size: u64, result: Option<u64>) -> Vec<ProbeEvent> {
    let value = |kind, number: u64, value| ProbeEvent {
        address: RuntimeAddress(number),
        ..probe(1, kind, 10, 10, value)
    };
    let mut events = vec![
        probe(1, ProbeKind::Call, 10, 10, 0),
        value(ProbeKind::Argument, 1, size),
    ];
    events.extend(result.map(|result| value(ProbeKind::Result, 0, result)));
    events
}

#[test]
fn what_a_call_was_given_and_gave_back_is_a_value() {
    let mut plan = plan(&[1]);
    for site in plan
        .sites
        .iter_mut()
        .filter(|s| s.kind == PointKind::Branch)
    {
        site.kind = PointKind::Call;
    }
    let of_call = |location: &LocationName, shape| Predictor::Value {
        statement: StatementId(1),
        column: 7,
        location: location.clone(),
        shape,
        caller: None,
    };
    let answers = |record: &RunRecord, location: &LocationName| {
        // No hit is to be attributed here.
        let no_code = AddressMap::default();
        let run = decode(record, &plan, &no_code).expect("a tracked run");
        let seen = observe(&run, &plan, &everything_placed());
        [ValueShape::Zero, ValueShape::Negative].map(|s| seen.answer(&of_call(location, s)))
    };
    use Answer::{Held, NotHeld, Unobserved};
    let (argument, result) = (LocationName::Argument(1), LocationName::Result);

    let whole = record(vec![thread(0, call(0, Some(-8i64 as u64)))], vec![]);
    assert_eq!(answers(&whole, &argument), [Held, NotHeld]);
    assert_eq!(answers(&whole, &result), [NotHeld, Held]);
    // There is no second argument on record: whether there was one, nobody knows.
    assert_eq!(answers(&whole, &LocationName::Argument(2)), [Unobserved; 2]);

    let inside = record(vec![thread(0, call(0, None))], vec![]);
    assert_eq!(answers(&inside, &argument), [Held, NotHeld]);
    assert_eq!(answers(&inside, &result), [Unobserved; 2]);

    let uncalled = record(vec![thread(0, vec![])], vec![]);
    assert_eq!(answers(&uncalled, &argument), [NotHeld; 2]);

    // Calls beyond those on record may have been given anything.
    let mut hot = record(vec![thread(0, call(3, Some(8)))], vec![]);
    hot.threads[0].edges = vec![EdgeCount {
        site: SiteId(5),
        successor: None,
        count: 1000,
        first: Tsc(10),
        last: Tsc(99),
    }];
    assert_eq!(answers(&hot, &argument), [NotHeld; 2]);
    hot.outcome = failing("r1").outcome;
    assert_eq!(answers(&hot, &argument), [Unobserved; 2]);
}
