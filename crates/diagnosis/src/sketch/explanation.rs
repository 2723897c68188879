//! Which statements explain a failure, given what separates its runs.
//!
//! A ranking names causes; a reader also wants to see how a cause became the
//! failure, and how the program came to the cause. From the slice, which says of
//! each statement why it is there, the explanation takes
//!
//! * the failing statement, and the call that led into its function;
//! * the causes, and the chain of dependences from each of them to the failure;
//! * what made the program come to a cause or to the failure: the branches that
//!   decide over it, the call that leads to it, and the branches that decide over those;
//! * what made a value that is a cause, [`MAKING_DEPTH`] deep, unless an order explains
//!   how it came to be;
//! * the creation of a thread, where creating and created thread both take part.
//!
//! It serves twice: the next plan tracks these statements whatever their distance,
//! and the sketch draws those of them that ran. Without a cause there is nothing
//! to explain, and the caller draws what is nearest.
//!
//! Deliberately absent: statements that merely ran. A sketch of all tracked
//! statements grows with σ; an explanation grows with what is understood.

use crate::ranking::stop_rule::{best_overall, is_good, is_significant};
use sketch_model::{
    DependenceKind, PredictorClass, RankedPredictor, Ranking, Slice, SliceEntry, StatementId,
};
use std::collections::BTreeSet;

/// How many steps the making of a value is followed back.
const MAKING_DEPTH: usize = 3;

/// The predictors that may be called causes: the best of each class, if good
/// and significant. A symptom is one only if there is nothing better.
pub fn causes(ranking: &Ranking) -> Vec<&RankedPredictor> {
    let overall = best_overall(ranking);
    PredictorClass::ALL
        .into_iter()
        .filter_map(|class| ranking.best(class))
        .filter(|best| is_good(best) && is_significant(best))
        .filter(|best| !best.symptom || overall.is_some_and(|o| o.predictor == best.predictor))
        .collect()
}

/// The statements that explain how what `named` say led to the failure; `caller` is
/// the call that led into the failing function. Empty if none is named.
pub fn explanation<'a>(
    slice: &Slice,
    failing: StatementId,
    caller: Option<StatementId>,
    named: impl Iterator<Item = &'a RankedPredictor>,
) -> BTreeSet<StatementId> {
    let (mut causes, mut spoken_of) = (BTreeSet::new(), BTreeSet::<StatementId>::new());
    let (mut values, mut of_order) = (BTreeSet::new(), false);
    for named in named {
        causes.extend(named.predictor.causes());
        spoken_of.extend(named.predictor.statements());
        match named.class {
            PredictorClass::Value => values.extend(named.predictor.statements()),
            PredictorClass::Order | PredictorClass::Lifetime => of_order = true,
            PredictorClass::Branch => {}
        }
    }
    let mut explaining = explained(slice, failing, caller, &causes);
    explaining.extend(spoken_of);
    if !of_order {
        explaining.extend(made(slice, &values));
    }
    explaining
}

fn explained(
    slice: &Slice,
    failing: StatementId,
    caller: Option<StatementId>,
    causes: &BTreeSet<StatementId>,
) -> BTreeSet<StatementId> {
    if causes.is_empty() {
        return BTreeSet::new();
    }
    let mut core: BTreeSet<StatementId> = causes.clone();
    core.insert(failing);
    let mut explaining: BTreeSet<StatementId> = core.iter().copied().chain(caller).collect();
    for cause in causes {
        explaining.extend(chain(slice, *cause));
    }
    explaining.extend(led_to(slice, &core));
    explaining.extend(creations(slice, &core));
    explaining
}

/// What a thread that made an access has to do with a failure in another one: what
/// made it come there, and the creation of either thread.
pub fn part(slice: &Slice, failing: StatementId, access: StatementId) -> BTreeSet<StatementId> {
    let mut part = led_to(slice, &BTreeSet::from([access]));
    part.extend(creations(slice, &BTreeSet::from([access, failing])));
    part
}

fn led_to(slice: &Slice, core: &BTreeSet<StatementId>) -> BTreeSet<StatementId> {
    let by_stack: BTreeSet<StatementId> = slice
        .entries
        .iter()
        .filter_map(|entry| entry.why.as_ref())
        .filter(|why| why.kind == DependenceKind::Stack)
        .map(|why| why.parent)
        .collect();
    // Callers of callers say where a program is, not why.
    let led = grown(slice, core, 1, |entry, reached| {
        leads_to(entry, reached, &by_stack)
    });
    grown(slice, &led, 1, decides)
}

/// What made the values that some statements saw: [`MAKING_DEPTH`] steps of "computed
/// from", "stored by" and "returned by".
fn made(slice: &Slice, seen: &BTreeSet<StatementId>) -> BTreeSet<StatementId> {
    grown(slice, seen, MAKING_DEPTH, makes)
}

/// Some statements, and those that join them in so many steps.
fn grown(
    slice: &Slice,
    from: &BTreeSet<StatementId>,
    depth: usize,
    joins: impl Fn(&SliceEntry, &BTreeSet<StatementId>) -> bool,
) -> BTreeSet<StatementId> {
    let mut reached = from.clone();
    for _ in 0..depth {
        let joining = slice.entries.iter().filter(|entry| joins(entry, &reached));
        let further: Vec<StatementId> = joining.map(|entry| entry.statement.id).collect();
        reached.extend(further);
    }
    reached
}

fn makes(entry: &SliceEntry, reached: &BTreeSet<StatementId>) -> bool {
    entry.why.as_ref().is_some_and(|why| {
        let makes = matches!(
            why.kind,
            DependenceKind::Data | DependenceKind::Memory | DependenceKind::Return
        );
        makes && reached.contains(&why.parent)
    })
}

fn decides(entry: &SliceEntry, reached: &BTreeSet<StatementId>) -> bool {
    let why = entry.why.as_ref();
    why.is_some_and(|why| why.kind == DependenceKind::Control && reached.contains(&why.parent))
}

/// From a statement to the failure, both included, along the slice's own reasons.
fn chain(slice: &Slice, from: StatementId) -> Vec<StatementId> {
    let mut chain = vec![from];
    let mut at = from;
    while let Some(why) = slice.entry(at).and_then(|entry| entry.why.as_ref()) {
        if chain.contains(&why.parent) {
            break;
        }
        at = why.parent;
        chain.push(at);
    }
    chain
}

/// Of what is known from the stack who called it (`by_stack`), other callers are not
/// of interest.
fn leads_to(
    entry: &SliceEntry,
    reached: &BTreeSet<StatementId>,
    by_stack: &BTreeSet<StatementId>,
) -> bool {
    entry.why.as_ref().is_some_and(|why| {
        let leads = match why.kind {
            DependenceKind::Control | DependenceKind::Stack => true,
            DependenceKind::Argument => !by_stack.contains(&why.parent),
            _ => false,
        };
        leads && reached.contains(&why.parent)
    })
}

/// Where a thread that takes part creates another one that does.
fn creations(slice: &Slice, core: &BTreeSet<StatementId>) -> Vec<StatementId> {
    let roles = |entry: &SliceEntry| -> BTreeSet<String> { entry.roles.iter().cloned().collect() };
    let taking_part: Vec<BTreeSet<String>> = core
        .iter()
        .filter_map(|id| slice.entry(*id))
        .map(roles)
        .collect();
    let takes_part = |role: &String| taking_part.iter().any(|r| r.len() == 1 && r.contains(role));
    let creates = |entry: &&SliceEntry| {
        let Some(why) = &entry.why else { return false };
        let started = slice.entry(why.parent);
        why.kind == DependenceKind::ThreadStart
            && entry.roles.iter().any(takes_part)
            && started.is_some_and(|s| s.roles.iter().any(takes_part))
    };
    let creating = slice.entries.iter().filter(creates);
    creating.map(|entry| entry.statement.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use DependenceKind::{Argument, Control, Data, Memory, ThreadStart};
    use sketch_model::{BuildId, SourceLocation, Statement, Why};

    fn entry(id: u32, why: Option<(DependenceKind, u32)>, role: &str) -> SliceEntry {
        SliceEntry {
            statement: Statement {
                id: StatementId(id),
                function: "f".into(),
                location: SourceLocation {
                    file: "p.c".into(),
                    line: id,
                },
                text: String::new(),
            },
            distance: 0,
            why: why.map(|(kind, parent)| Why {
                kind,
                parent: StatementId(parent),
            }),
            roles: vec![role.into()],
            points: Vec::new(),
        }
    }

    /// 1 fails in the worker; 2 decides over it, 3 calls its function; 4 (main)
    /// stores what it reads, 5 is what 4 stores, 6 calls 4's function, 7 decides over that
    /// call, 8 over that decision; 9 starts the worker.
    fn slice() -> Slice {
        Slice {
            schema: Slice::SCHEMA,
            build: BuildId("ab".into()),
            entries: vec![
                entry(1, None, "worker"),
                entry(2, Some((Control, 1)), "worker"),
                entry(3, Some((Argument, 1)), "worker"),
                entry(4, Some((Memory, 1)), "main"),
                entry(5, Some((Data, 4)), "main"),
                entry(6, Some((Argument, 4)), "main"),
                entry(7, Some((Control, 6)), "main"),
                entry(8, Some((Control, 7)), "main"),
                entry(9, Some((ThreadStart, 3)), "main"),
            ],
            gaps: Vec::new(),
        }
    }

    fn explained(causes: &[u32]) -> Vec<u32> {
        let causes = causes.iter().map(|id| StatementId(*id)).collect();
        let all = super::explained(&slice(), StatementId(1), Some(StatementId(3)), &causes);
        all.into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn causes_are_shown_with_what_led_to_them_and_what_they_led_to() {
        assert_eq!(explained(&[4]), [1, 2, 3, 4, 6, 7, 9]);
    }

    #[test]
    fn the_chain_from_a_far_cause_is_whole() {
        assert_eq!(explained(&[5]), [1, 2, 3, 4, 5, 9]);
    }

    #[test]
    fn a_thread_that_takes_no_part_is_not_created() {
        assert_eq!(explained(&[2]), [1, 2, 3]);
    }

    #[test]
    fn other_callers_than_the_failing_stacks_explain_nothing() {
        let mut slice = slice();
        slice.entries[2] = entry(3, Some((DependenceKind::Stack, 1)), "worker");
        slice.entries.push(entry(10, Some((Argument, 1)), "worker"));
        slice.entries.push(entry(11, Some((Argument, 4)), "main"));
        let causes = BTreeSet::from([StatementId(4)]);
        let all = super::explained(&slice, StatementId(1), Some(StatementId(3)), &causes);
        let all: Vec<u32> = all.into_iter().map(|id| id.0).collect();
        assert_eq!(all, [1, 2, 3, 4, 6, 7, 9, 11]);
    }

    #[test]
    fn a_value_is_explained_by_what_made_it() {
        let made = super::made(&slice(), &BTreeSet::from([StatementId(1)]));
        let made: Vec<u32> = made.into_iter().map(|id| id.0).collect();
        assert_eq!(made, [1, 4, 5]);
    }

    #[test]
    fn nothing_is_explained_without_a_cause() {
        assert_eq!(explained(&[]), [0; 0]);
    }
}
