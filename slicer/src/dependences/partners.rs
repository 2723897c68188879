//! Who the other one is: what wakes a thread that waits, who else takes a lock.
//!
//! No value flows from a signal to the wait that it ends, nor from one holder of a lock
//! to the next, yet a hand-over between threads goes wrong at just these pairs. Partners
//! are told by place: the same field, the same global, whatever the object. Where a
//! function only passes its parameter on (a wrapper around `pthread_mutex_lock`, a guard
//! of the C++ library), the place is the one that its caller names.
//!
//! Deliberately absent: who holds a lock in the failing run. The hooks that order threads
//! tell that (`order_points.rs`).

use crate::dependences::{Aspect, Node};
use crate::ir::library::sync_op;
use crate::ir::program::*;
use crate::memory::places::{Place, Root};
use crate::slice::contexts::Contexts;
use crate::slice::criteria::Criterion;
use crate::slice::order::partner;
use crate::slice::slice_walk::{Reached, Seed};
use sketch_model::{DependenceKind, StatementId, SyncOp};
use std::collections::{BTreeMap, BTreeSet};
use sync_functions::SYNC_FUNCTIONS;

/// Statements of a slice whose waits count.
const NEAR: usize = 200;
/// How many wrappers deep a place is looked for.
const DEEPEST: u32 = 5;
/// A wrapper that is called from more places is not looked through.
const MOST_CALLERS: usize = 256;

/// The C++ library's condition variables, whose code is not in the bitcode.
const OF_CPP: [(&str, SyncOp); 3] = [
    (
        "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
        SyncOp::CondWait,
    ),
    (
        "_ZNSt18condition_variable10notify_oneEv",
        SyncOp::CondSignal,
    ),
    (
        "_ZNSt18condition_variable10notify_allEv",
        SyncOp::CondSignal,
    ),
];

/// What a library function does to the order of threads, and which operand names with
/// what.
pub(crate) fn synchronises(name: &str) -> Option<(SyncOp, u32)> {
    let of_cpp = OF_CPP.iter().find(|(known, _)| *known == name);
    if let Some((_, operation)) = of_cpp {
        return Some((*operation, 0));
    }
    let object = sync_functions::named(name)?.object;
    Some((sync_op(name)?, u32::from(object)))
}

pub(crate) fn is_wait(operation: SyncOp) -> bool {
    matches!(operation, SyncOp::CondWait | SyncOp::SemaphoreWait)
}

fn is_wake(operation: SyncOp) -> bool {
    matches!(operation, SyncOp::CondSignal | SyncOp::SemaphorePost)
}

fn is_lock(operation: SyncOp) -> bool {
    matches!(
        operation,
        SyncOp::MutexLock | SyncOp::ReadLock | SyncOp::WriteLock
    )
}

/// What a condition, semaphore or lock is told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Field(FieldId),
    Global(GlobalId),
    ThroughField(FieldId),
    ThroughGlobal(GlobalId),
}

impl Name {
    fn of(place: Place) -> Option<Name> {
        match (place.field, place.root) {
            (Some(field), _) => Some(Name::Field(field)),
            (None, Root::Global(id)) => Some(Name::Global(id)),
            (None, Root::ThroughField(id)) => Some(Name::ThroughField(id)),
            (None, Root::ThroughGlobal(id)) => Some(Name::ThroughGlobal(id)),
            _ => None,
        }
    }
}

/// A synchronising call by the name of what it is about.
struct Use {
    operation: SyncOp,
    name: Name,
    /// The call that names it.
    at: InstructionRef,
    statement: StatementId,
    /// The statements on the way to the library function, that one included.
    through: Vec<StatementId>,
}

/// The seeds of what wakes the waits of a slice, and of the other holders of the locks
/// that its criteria wait for.
pub(crate) fn partners(
    program: &Program,
    contexts: &Contexts,
    criteria: &[Criterion],
    slice: &[Reached],
    waits: &[Seed<Node>],
) -> Vec<Seed<Node>> {
    let mut near: BTreeMap<StatementId, u32> = BTreeMap::new();
    let reached = slice.iter().take(NEAR).map(|r| (r.statement, r.distance));
    for (id, distance) in reached.chain(waits.iter().map(|w| (w.statement, w.distance))) {
        let known = near.entry(id).or_insert(distance);
        *known = distance.min(*known);
    }
    let hung: BTreeSet<StatementId> = criteria
        .iter()
        .filter(|criterion| criterion.waits)
        .map(|criterion| criterion.failing)
        .collect();
    let uses = uses(program);
    let mut seeds = Vec::new();
    for one in &uses {
        let distances = one.through.iter().filter_map(|id| near.get(id));
        let Some(distance) = distances.min() else {
            continue;
        };
        let locks = is_lock(one.operation) && one.through.iter().any(|id| hung.contains(id));
        let (kind, fits): (DependenceKind, fn(SyncOp) -> bool) = if is_wait(one.operation) {
            (DependenceKind::Wake, is_wake)
        } else if locks {
            (DependenceKind::Lock, is_lock)
        } else {
            continue;
        };
        let others: Vec<&Use> = uses
            .iter()
            .filter(|other| fits(other.operation) && other.name == one.name)
            .filter(|other| other.statement != one.statement)
            .collect();
        let different: BTreeSet<StatementId> = others.iter().map(|o| o.statement).collect();
        let distance = distance.saturating_add(partner(different.len() as u32));
        for other in others {
            let (at, aspect) = (other.at, Aspect::Site);
            seeds.push(Seed {
                node: Node { at, aspect },
                context: contexts.home_of(at.function),
                distance,
                listed: Some(distance),
                statement: other.statement,
                why: Some((kind, one.statement)),
            });
        }
    }
    seeds
}

/// Every wait, wake and lock of the program that has a name.
fn uses(program: &Program) -> Vec<Use> {
    let table = SYNC_FUNCTIONS.iter().map(|function| function.name);
    let names = table.chain(OF_CPP.iter().map(|(name, _)| *name));
    let mut found = Vec::new();
    for name in names {
        let (Some((operation, object)), Some(id)) =
            (synchronises(name), program.calls.declared(name))
        else {
            continue;
        };
        if !is_wait(operation) && !is_wake(operation) && !is_lock(operation) {
            continue;
        }
        for site in program.calls.callers(id) {
            if site.callback.is_none() {
                let mut finder = Finder {
                    program,
                    operation,
                    seen: BTreeSet::new(),
                    through: Vec::new(),
                    found: &mut found,
                };
                finder.follow(site.at, object, DEEPEST);
            }
        }
    }
    found
}

/// Follows what names a lock from the library function up to whoever names it.
struct Finder<'f> {
    program: &'f Program,
    operation: SyncOp,
    seen: BTreeSet<(InstructionRef, u32)>,
    through: Vec<StatementId>,
    found: &'f mut Vec<Use>,
}

impl Finder<'_> {
    fn follow(&mut self, at: InstructionRef, operand: u32, depth: u32) {
        if !self.seen.insert((at, operand)) {
            return;
        }
        let program = self.program;
        let statement = program.statement_of(at);
        let own = statement.filter(|id| !program.is_library(*id));
        self.through.extend(own);
        let function = program.function(at);
        let resolver = program.stores.resolver(&program.functions, at.function);
        let pointer = function.operand(at.instruction, operand as usize);
        let place = resolver.place(pointer, None);
        match (place.root, place.field, own) {
            // A wrapper of the program, or anything in a library: its caller knows.
            (Root::Parameter(number), None, _) | (Root::Parameter(number), Some(_), None) => {
                self.follow_callers(at.function, number, depth);
            }
            (Root::ThroughField(field), None, None) => self.follow_kept(field, depth),
            _ => {
                if let (Some(statement), Some(name)) = (own, Name::of(place)) {
                    self.found.push(Use {
                        operation: self.operation,
                        name,
                        at,
                        statement,
                        through: self.through.clone(),
                    });
                }
            }
        }
        if own.is_some() {
            self.through.pop();
        }
    }

    fn follow_callers(&mut self, function: FunctionId, parameter: u32, depth: u32) {
        let sites = self.program.calls.callers(function);
        if depth == 0 || sites.len() > MOST_CALLERS {
            return;
        }
        for site in sites.iter().filter(|site| site.callback.is_none()) {
            self.follow(site.at, parameter, depth - 1);
        }
    }

    /// A guard keeps the address of its lock: whoever made the guard gave it.
    fn follow_kept(&mut self, field: FieldId, depth: u32) {
        let program = self.program;
        for write in program.stores.field_writes(field) {
            let function = program.function(write.at);
            if !matches!(function.op(write.at.instruction), Op::Store { .. }) {
                continue;
            }
            let id = write.at.function;
            let resolver = program.stores.resolver(&program.functions, id);
            let value = function.operand(write.at.instruction, 0);
            if let Root::Parameter(number) = resolver.place(value, None).root {
                self.follow_callers(id, number, depth);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_name_and_by_what_names_them() {
        assert_eq!(
            synchronises("pthread_cond_wait"),
            Some((SyncOp::CondWait, 0))
        );
        let notify = synchronises("_ZNSt18condition_variable10notify_oneEv");
        assert_eq!(notify, Some((SyncOp::CondSignal, 0)));
        assert_eq!(synchronises("printf"), None);
    }
}
