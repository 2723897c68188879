//! What counts as a change from one sketch to the next, and what is a figure.

use crate::common::{first_failure, pbzip2};
use sketch_model::{Emphasis, FailureSketch, Gap, LocationName, StatementId};
use viewer::{Change, changes};

#[test]
fn figures_are_no_changes() {
    let old = pbzip2();
    assert_eq!(changes(&old, &old), []);
    let mut new = old.clone();
    new.version += 1;
    new.provenance.failing_runs += 7;
    new.provenance.all_runs += 900;
    new.provenance.looks += 1;
    new.summary = new.summary.replace('1', "23");
    new.threads[0].tid += 1;
    new.steps[0].times += 5;
    new.predictors[0].score.support.failing_true += 7;
    new.predictors[0].score.f_measure -= 0.01;
    assert_eq!(changes(&old, &new), []);
    // A gap whose number moved is the same gap.
    let never_ran = |idle| Gap::StatementsNeverRan { idle, tracked: 20 };
    let mut one = old.clone();
    one.gaps.push(never_ran(3));
    let mut other = old.clone();
    other.gaps.push(never_ran(11));
    assert_eq!(changes(&one, &other), []);
}

#[test]
fn whatever_a_reader_sees_is_a_change() {
    let old = pbzip2();
    type Edit = fn(&mut FailureSketch);
    let edits: [(&str, Edit); 9] = [
        ("a step's mark", |s| {
            let marked = s.steps[0].emphasis == Emphasis::RootCause;
            s.steps[0].emphasis = match marked {
                true => Emphasis::Context,
                false => Emphasis::RootCause,
            };
        }),
        ("the order of steps", |s| s.steps.reverse()),
        ("an arrow", |s| s.arrows.clear()),
        ("a thread's role", |s| s.threads[0].role.push('!')),
        ("the stack", |s| s.stack.push("main (a.c:1)".into())),
        ("the message", |s| s.said = Some("assertion failed".into())),
        ("a predictor", |s| s.predictors.truncate(1)),
        ("the words", |s| s.summary.push_str(" Or so it seems.")),
        ("what is watched", |s| {
            s.provenance
                .watched
                .push(LocationName::Global("done".into()));
        }),
    ];
    for (what, edit) in edits {
        let mut new = old.clone();
        edit(&mut new);
        assert_ne!(new, old, "{what} was edited");
        assert_ne!(changes(&old, &new), [], "{what}");
    }
}

#[test]
fn changes_are_named_by_what_they_mean() {
    let old = pbzip2();
    let mut new = old.clone();
    let (before, after) = (new.provenance.sigma, new.provenance.sigma * 2);
    new.provenance.sigma = after;
    new.provenance.iteration += 1;
    new.steps[0].statement.id = StatementId(9_999);
    let (begun, drawn) = (new.provenance.iteration, vec![&new.steps[0]]);
    let gone = old.steps.iter();
    let gone = gone.filter(|s| new.steps.iter().all(|n| n.statement.id != s.statement.id));
    let gone: Vec<_> = gone.take(1).collect();
    let mut expected = vec![
        Change::Sigma { before, after },
        Change::Iteration(begun),
        Change::Drawn(drawn),
    ];
    if !gone.is_empty() {
        expected.push(Change::NoLongerDrawn(gone));
    }
    assert_eq!(changes(&old, &new), expected);
    let static_alone = first_failure();
    let first = changes(&static_alone, &old).into_iter().next();
    assert_eq!(first, Some(Change::Settled));
}
