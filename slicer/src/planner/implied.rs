//! Fewer hooks for the same knowledge, and what tells of statements without any.
//!
//! Accesses, branches and synchronisation carry a value, and so do calls that are
//! given or give back a number; any other call site only tells that it was reached.
//! It needs no hook if a site that is kept follows it in the same block with nothing
//! recorded in between: the call must be of a library function that calls nothing
//! of the program's, and so must all calls up to the other site. That site's record
//! then tells the same, at the same place in the thread's order. The failing
//! statement's sites neither go nor stand for others: the run may end before they
//! are recorded.
//!
//! Tracked statements without any site are known through dominance: a record of
//! a site that the statement dominates proves that it ran; one of a site that it
//! postdominates proves that it was going to run, if the thread lived on. Of the
//! sites that would do, only the earliest are named.
//!
//! Limit: a call that does not return (`exit` under a condition of its own) has
//! a follower that never runs, and nothing then implies it.

use crate::dependences::dominance::Dominances;
use crate::ir::program::{Callee, InstructionRef, Op, Operand, Program};
use sketch_model::{Implied, PointKind, Site, SiteId, StatementId, TrackingPlan, Witness};
use std::collections::{BTreeMap, BTreeSet};

/// Drops the call sites that others imply, numbers the rest by position, and
/// says for each tracked statement without a site what tells of it.
pub(crate) fn prune(program: &Program, plan: &mut TrackingPlan, dominances: &mut Dominances<'_>) {
    let failing = plan.statements.first().map(|s| s.id);
    let followed = implied_calls(program, &plan.sites, failing);
    let mut numbers: BTreeMap<SiteId, SiteId> = BTreeMap::new();
    let mut sites = Vec::with_capacity(plan.sites.len());
    for site in std::mem::take(&mut plan.sites) {
        if followed.contains_key(&site.id) {
            continue;
        }
        let id = SiteId(sites.len() as u32);
        numbers.insert(site.id, id);
        sites.push(Site { id, ..site });
    }
    let hooked: BTreeSet<StatementId> = sites.iter().map(|s| s.statement).collect();
    let mut just_before: BTreeMap<StatementId, SiteId> = BTreeMap::new();
    for (statement, by) in followed.values() {
        if let Some(id) = numbers.get(by).filter(|_| !hooked.contains(statement)) {
            just_before.entry(*statement).or_insert(*id);
        }
    }
    let places: Vec<Vec<InstructionRef>> = sites.iter().map(|s| places(program, s)).collect();
    let unhooked = plan.statements.iter().map(|s| s.id);
    plan.implied = unhooked
        .filter(|id| !hooked.contains(id))
        .map(|statement| Implied {
            statement,
            by: match just_before.get(&statement) {
                Some(site) => vec![Witness::JustBefore(*site)],
                None => witnesses(program, statement, &places, dominances),
            },
        })
        .filter(|implied| !implied.by.is_empty())
        .collect();
    plan.sites = sites;
}

/// Where a site stands. More than one instruction of a line may share a column.
fn places(program: &Program, site: &Site) -> Vec<InstructionRef> {
    let is_it = |at: &&InstructionRef| {
        let points = program.points_of(**at);
        let fits = |p: &sketch_model::TrackPoint| p.kind == site.kind && p.column == site.column;
        points.iter().any(fits)
    };
    let members = program.members(site.statement).iter();
    members.filter(is_it).copied().collect()
}

/// For each call site that can go: its statement, and the site that follows it.
fn implied_calls(
    program: &Program,
    sites: &[Site],
    failing: Option<StatementId>,
) -> BTreeMap<SiteId, (StatementId, SiteId)> {
    let mut standing: BTreeMap<InstructionRef, Vec<&Site>> = BTreeMap::new();
    let mut count: BTreeMap<SiteId, usize> = BTreeMap::new();
    for site in sites {
        for at in places(program, site) {
            standing.entry(at).or_default().push(site);
            *count.entry(site.id).or_default() += 1;
        }
    }
    // Only what stands at one place can go or stand for another.
    let single = |site: &&&Site| count.get(&site.id) == Some(&1) && Some(site.statement) != failing;
    let mut gone = BTreeMap::new();
    // Backward, so that a follower is known to stay.
    for (at, here) in standing.iter().rev() {
        let Some(call) = here
            .iter()
            .find(|s| s.kind == PointKind::Call)
            .filter(|s| single(s))
        else {
            continue;
        };
        if !is_closed_call(program, *at) || tells_a_number(program, *at) {
            continue;
        }
        let body = program.function(*at);
        let block = body.instructions[at.instruction as usize].block;
        let end = body.blocks[block as usize].end;
        for instruction in at.instruction + 1..end {
            let next = InstructionRef {
                function: at.function,
                instruction,
            };
            let sites = standing.get(&next).map_or(&[][..], Vec::as_slice);
            let mut kept = sites
                .iter()
                .filter(|s| !gone.contains_key(&s.id))
                .peekable();
            if kept.peek().is_some() {
                if let Some(follower) = kept.find(single) {
                    gone.insert(call.id, (call.statement, follower.id));
                }
                break;
            }
            if matches!(body.op(instruction), Op::Call(_)) && !is_closed_call(program, next) {
                break;
            }
        }
    }
    gone
}

/// Whether a call stays within libraries and comes back.
fn is_closed_call(program: &Program, at: InstructionRef) -> bool {
    let Op::Call(Callee::Direct(callee)) = program.op(at) else {
        return false;
    };
    let body = program.function(at);
    let block = body.instructions[at.instruction as usize].block;
    !program.functions[callee as usize].is_defined()
        && program.calls.routines(at).is_empty()
        && body.terminator(block) != Some(at.instruction)
}

/// Whether a call of a known function is given a number that is not written there,
/// or returns one: a size, a count, an error. Pointers are recorded where they are
/// stored or followed.
fn tells_a_number(program: &Program, at: InstructionRef) -> bool {
    let Op::Call(Callee::Direct(callee)) = program.op(at) else {
        return false;
    };
    let signature = &program.functions[callee as usize].signature;
    let Some((result, parameters)) = signature.split_once(" (") else {
        return false;
    };
    let is_number = |name: &str| name.starts_with('i');
    let given = parameters.split(", ").map(|p| p.trim_end_matches(')'));
    let operands = program.function(at).operands(at.instruction);
    let computed = |operand: &Operand| !matches!(operand, Operand::Constant);
    let mut given = given.zip(operands);
    is_number(result) || given.any(|(name, operand)| is_number(name) && computed(operand))
}

fn witnesses(
    program: &Program,
    statement: StatementId,
    places: &[Vec<InstructionRef>],
    dominances: &mut Dominances<'_>,
) -> Vec<Witness> {
    let is_code =
        |at: &&InstructionRef| !matches!(program.op(**at), Op::Marker | Op::Alloca { .. });
    let members = program.members(statement).to_vec();
    let code: Vec<InstructionRef> = members.iter().filter(is_code).copied().collect();
    let members = if code.is_empty() { members } else { code };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (number, at) in places.iter().enumerate() {
        let all = |holds: &mut dyn FnMut(InstructionRef, InstructionRef) -> bool| {
            let mut somewhere = |place: &InstructionRef| members.iter().any(|m| holds(*m, *place));
            !at.is_empty() && at.iter().all(&mut somewhere)
        };
        if all(&mut |m, place| dominances.dominates(m, place)) {
            before.push(number);
        } else if all(&mut |m, place| dominances.postdominates(m, place)) {
            after.push(number);
        }
    }
    let mut nearest = |candidates: &[usize], forward: bool| -> Vec<SiteId> {
        let mut beats = |a: usize, b: usize| {
            let every = places[b].iter().all(|y| {
                places[a].iter().any(|x| {
                    x != y
                        && if forward {
                            dominances.dominates(*x, *y)
                        } else {
                            dominances.postdominates(*x, *y)
                        }
                })
            });
            a != b && every
        };
        let mut left: Vec<SiteId> = Vec::new();
        for b in candidates {
            if !candidates.iter().any(|a| beats(*a, *b)) {
                left.push(SiteId(*b as u32));
            }
        }
        left
    };
    let mut found: Vec<Witness> = nearest(&before, true)
        .into_iter()
        .map(Witness::Before)
        .collect();
    found.extend(nearest(&after, false).into_iter().map(Witness::After));
    found
}
