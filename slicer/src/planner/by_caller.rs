//! Accesses in small functions, told apart by who called.
//!
//! An accessor such as `Token::next` is called from everywhere, and somewhere in
//! every run it returns null. What separates failing from successful runs is
//! *which* call did. After optimisation such a function stands inlined in its
//! callers, so the access there gets a site of its own for every tracked
//! statement that calls it; the first site keeps the other places.
//!
//! Limit: only the call itself is told apart, not what called that; and where a
//! call was not inlined, its site stands nowhere.

use crate::ir::program::{FunctionId, Program};
use sketch_model::{Implied, PointKind, Purpose, Site, SiteId, StatementId, TrackingPlan, Witness};

/// Functions of more instructions are hardly ever inlined in several places.
const SMALL: usize = 48;
/// Callers that are told apart, nearest the failure first.
const MOST_CALLERS: usize = 4;
/// Sites that a plan gets on top.
const MOST_SITES: usize = 64;

/// Adds the sites, behind all others.
pub(crate) fn split_by_caller(program: &Program, plan: &mut TrackingPlan) {
    let mut added: Vec<Site> = Vec::new();
    for site in &plan.sites {
        let accesses = matches!(site.kind, PointKind::Load | PointKind::Store);
        if !accesses || site.purpose != Purpose::Statement {
            continue;
        }
        for caller in callers(program, plan, site.statement) {
            added.push(Site {
                id: SiteId((plan.sites.len() + added.len()) as u32),
                caller: Some(caller),
                ..site.clone()
            });
        }
    }
    added.truncate(MOST_SITES);
    for Implied { by, .. } in &mut plan.implied {
        let more: Vec<Witness> = by
            .iter()
            .flat_map(|it| also(*it, &plan.sites, &added))
            .collect();
        by.extend(more);
    }
    plan.sites.extend(added);
}

/// The tracked statements that call the function of a statement, if it is a small
/// one with several callers.
fn callers(program: &Program, plan: &TrackingPlan, statement: StatementId) -> Vec<StatementId> {
    let Some(function) = function_of(program, statement) else {
        return Vec::new();
    };
    let calls = program.calls.callers(function);
    let small = program.functions[function as usize].instructions.len() <= SMALL;
    if !small || calls.len() < 2 {
        return Vec::new();
    }
    let calling: Vec<StatementId> = calls
        .iter()
        .filter(|call| call.callback.is_none())
        .filter_map(|call| program.statement_of(call.at))
        .collect();
    let tracked = plan.statements.iter().map(|s| s.id);
    let tracked = tracked.filter(|id| calling.contains(id));
    tracked.take(MOST_CALLERS).collect()
}

fn function_of(program: &Program, statement: StatementId) -> Option<FunctionId> {
    program.members(statement).first().map(|at| at.function)
}

/// What tells by a site tells by those that were split off it.
fn also<'a>(
    witness: Witness,
    sites: &'a [Site],
    added: &'a [Site],
) -> impl Iterator<Item = Witness> + 'a {
    let from = sites.iter().find(|site| site.id == witness.site());
    let split = added.iter().filter(move |new| {
        from.is_some_and(|from| {
            (from.statement, from.kind, from.column) == (new.statement, new.kind, new.column)
        })
    });
    split.map(move |new| match witness {
        Witness::JustBefore(_) => Witness::JustBefore(new.id),
        Witness::Before(_) => Witness::Before(new.id),
        Witness::After(_) => Witness::After(new.id),
    })
}
