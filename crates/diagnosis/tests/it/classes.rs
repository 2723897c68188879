//! The registry of predictor classes: each form of predictor has a class that words it
//! and that says which runs can deny it.

use diagnosis::predictors::{ALL, sentence};
use diagnosis::sketch::sentences::Names;
use sketch_model::*;
use std::collections::BTreeSet;

fn order(pattern: OrderPattern, statements: &[u32]) -> Predictor {
    Predictor::Order {
        pattern,
        location: LocationName::Global("queue".into()),
        statements: statements.iter().map(|id| StatementId(*id)).collect(),
    }
}

fn value(location: LocationName, shape: ValueShape) -> Predictor {
    Predictor::Value {
        statement: StatementId(1),
        column: 3,
        location,
        shape,
        caller: None,
    }
}

fn branch() -> Predictor {
    Predictor::Branch {
        statement: StatementId(1),
        column: 3,
        successor: 0,
    }
}

fn asking(predictor: &Predictor) -> Vec<&'static str> {
    let classes = ALL.iter().filter(|class| class.asks(predictor));
    classes.map(|class| class.name()).collect()
}

#[test]
fn every_form_of_predictor_has_its_class() {
    let memory = || LocationName::Global("queue".into());
    for (predictor, expected) in [
        (branch(), vec!["branch"]),
        (value(memory(), ValueShape::Zero), vec!["value"]),
        (value(memory(), ValueShape::Unwritten), vec!["unset memory"]),
        (
            value(LocationName::Argument(1), ValueShape::Zero),
            vec!["call value"],
        ),
        (order(OrderPattern::Rwr, &[1, 2, 3]), vec!["order"]),
        (order(OrderPattern::Rws, &[1, 2, 3]), vec!["missed wakeup"]),
        // A lock is memory as well: the plan tells them apart.
        (order(OrderPattern::Wr, &[1, 2]), vec!["deadlock", "order"]),
    ] {
        assert_eq!(asking(&predictor), expected, "{predictor:?}");
    }
    let names: BTreeSet<&str> = ALL.iter().map(|class| class.name()).collect();
    assert_eq!(names.len(), ALL.len(), "two classes have one name");
}

#[test]
fn each_class_words_its_own_predictors() {
    let names = Names::default();
    let memory = || LocationName::Global("queue".into());
    let argument = value(LocationName::Argument(1), ValueShape::Negative);
    for (predictor, expected) in [
        (
            branch(),
            "statement 1 took outcome 0 of its branch at column 3",
        ),
        (
            value(memory(), ValueShape::Equals(7)),
            "statement 1 saw queue as 7",
        ),
        (argument, "statement 1 passed argument 1 negative"),
        (
            order(OrderPattern::Wr, &[1, 2]),
            "statement 1 wrote queue before statement 2 read it",
        ),
        (
            order(OrderPattern::Wrw, &[1, 2, 3]),
            "statement 2 read queue after statement 1 wrote it and before the same thread's \
             statement 3 wrote it",
        ),
        (
            order(OrderPattern::Rws, &[1, 2, 3]),
            "statement 2 wrote queue after statement 1 read it, and the reader's statement 3 \
             then waited and was never woken (missed wakeup)",
        ),
    ] {
        assert_eq!(sentence(&predictor, &names), expected);
    }
}

#[test]
fn a_branch_is_worded_by_its_condition() {
    let text = "if (allDone == 1) {";
    let statement = Statement {
        id: StatementId(1),
        function: "consumer".into(),
        location: SourceLocation {
            file: "/src/pbzip2.c".into(),
            line: 152,
        },
        text: text.into(),
    };
    let names = Names {
        statements: [(StatementId(1), statement)].into(),
        roles: [(StatementId(1), "consumer".into())].into(),
        ..Names::default()
    };
    assert_eq!(
        sentence(&branch(), &names),
        "the condition `allDone == 1` (consumer, pbzip2.c:152) was true"
    );
}

#[test]
fn the_order_of_two_lock_calls_is_worded_as_a_deadlock() {
    let names = Names {
        locks: [StatementId(1), StatementId(2)].into(),
        ..Names::default()
    };
    assert_eq!(
        sentence(&order(OrderPattern::Wr, &[1, 2]), &names),
        "statement 1 held queue and statement 2 never got it (deadlock)"
    );
    assert_eq!(
        sentence(&order(OrderPattern::Wr, &[1, 3]), &names),
        "statement 1 wrote queue before statement 3 read it"
    );
}
