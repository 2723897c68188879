//! The slice in statements: seeds from the failure, the walk, and for each
//! statement what readers and hooks need of it.

pub(crate) mod criteria;
pub(crate) mod slice_walk;

use crate::dependences::graph::{Graph, NodeId};
use crate::dependences::waits::waits;
use crate::dependences::{Aspect, Dependences, Node};
use crate::ir::program::{Callee, InstructionRef, Op, Program};
use crate::memory::alias::Alias;
use criteria::{Criterion, Endings, Proven, proven_targets};
use sketch_model::{
    DependenceKind, Gap, Schema, Slice, SliceEntry, SourceLocation, Statement, StatementId, Why,
};
use slice_walk::{Seed, Walked, walk};
use std::collections::BTreeSet;

/// The text of a source line, where the source is at hand.
pub(crate) type SourceText<'a> = &'a dyn Fn(&SourceLocation) -> Option<String>;

/// The distance of statements that no dependence brought in.
const DISCOVERED: u32 = u32::MAX;

/// Everything that can have led to the failing statement, nearest first, with
/// the default alias mode.
///
/// `stack` holds the statements of the callers, innermost first. A statement id
/// that is not the program's gives a slice that says so and is otherwise empty.
pub fn backward_slice(
    program: &Program,
    failing: StatementId,
    stack: &[StatementId],
    source: SourceText<'_>,
) -> Slice {
    let criterion = Criterion::at(failing, stack);
    slice_from(program, &[criterion], Alias::default(), source)
}

/// Everything that can have led to any of the criteria, nearest first; the first
/// criterion's statement comes before all others, what was waited for on the way
/// behind them.
pub fn slice_from(
    program: &Program,
    criteria: &[Criterion],
    alias: Alias,
    source: SourceText<'_>,
) -> Slice {
    let mut gaps = program.gaps();
    let mut seeds = Vec::new();
    for criterion in criteria {
        let failing = criterion.failing;
        if program.statements.get(failing.0 as usize).is_none() {
            gaps.push(Gap::StatementNotInBuild {
                statement: failing,
                statements: program.statements.len() as u64,
            });
        } else {
            seeds.extend(seeds_of(program, criterion));
        }
    }
    let proven = proven_targets(program, criteria);
    let walked = walked_from(program, alias, proven.clone(), &seeds);
    gaps.extend(not_followed(&walked));
    let mut reached = walked.reached;
    let first = criteria.first().map(|c| c.failing);
    // Stable: nothing else moves.
    reached.sort_by_key(|r| Some(r.statement) != first);
    let nearer: Vec<StatementId> = reached.iter().map(|r| r.statement).collect();
    let farthest = reached.iter().map(|r| r.distance).max().unwrap_or(0);
    let waits = waits(program, &nearer, farthest);
    if !waits.is_empty() {
        let behind = walked_from(program, alias, proven, &waits);
        let known: BTreeSet<StatementId> = nearer.into_iter().collect();
        reached.extend(
            behind
                .reached
                .into_iter()
                .filter(|r| !known.contains(&r.statement)),
        );
    }
    let entries = reached
        .into_iter()
        .map(|r| make_entry(program, r.statement, r.distance, r.why, source))
        .collect();
    Slice {
        schema: Schema::default(),
        build: program.build.clone(),
        entries,
        gaps,
    }
}

/// Walks the program's own graph, or one made for the seeds if these want
/// other edges than usual, or nodes that it does not have.
fn walked_from(program: &Program, alias: Alias, proven: Proven, seeds: &[Seed<Node>]) -> Walked {
    if alias == Alias::default() && proven.is_empty() {
        let graph = program.graph();
        if let Some(seeds) = numbered(graph, seeds) {
            return walk(graph, &seeds);
        }
    }
    let dependences = Dependences::new(program, alias, proven);
    let graph = Graph::of(&dependences, seeds.iter().map(|seed| seed.node));
    walk(&graph, &numbered(&graph, seeds).unwrap_or_default())
}

pub(crate) fn numbered(graph: &Graph, seeds: &[Seed<Node>]) -> Option<Vec<Seed<NodeId>>> {
    let number = |seed: &Seed<Node>| {
        Some(Seed {
            node: graph.find(seed.node)?,
            distance: seed.distance,
            statement: seed.statement,
            why: seed.why,
        })
    };
    seeds.iter().map(number).collect()
}

/// What a walk could not follow.
fn not_followed(walked: &Walked) -> Vec<Gap> {
    let mut gaps = Vec::new();
    if walked.gave_up {
        gaps.push(Gap::PointsToOverBudget);
    }
    if walked.unnamed_loads > 0 {
        let count = walked.unnamed_loads;
        gaps.push(Gap::LoadsUnresolved { count });
    }
    if walked.assembly > 0 {
        let count = walked.assembly;
        gaps.push(Gap::AssemblyOpaque { count });
    }
    gaps
}

/// A statement that a watchpoint found, in the form that plans take.
pub fn entry_for(program: &Program, id: StatementId, source: SourceText<'_>) -> SliceEntry {
    make_entry(program, id, DISCOVERED, None, source)
}

pub(crate) fn seeds_of(program: &Program, criterion: &Criterion) -> Vec<Seed<Node>> {
    let Criterion { failing, stack, .. } = criterion;
    let failing = *failing;
    let mut seeds = Vec::new();
    for node in failing_nodes(program, criterion) {
        seeds.push(Seed {
            node,
            distance: 0,
            statement: failing,
            why: None,
        });
    }
    let mut inner = failing;
    for (position, frame) in stack.iter().enumerate() {
        if program.statements.get(frame.0 as usize).is_none() {
            continue;
        }
        for at in calling_instructions(program, *frame, inner) {
            seeds.push(Seed {
                node: Node {
                    at,
                    aspect: Aspect::Site,
                },
                distance: position as u32 + 1,
                statement: *frame,
                why: Some((DependenceKind::Stack, inner)),
            });
        }
        inner = *frame;
    }
    seeds
}

/// What of the failing statement the slice is about: all of it, or only that
/// its calls that never return were made.
fn failing_nodes(program: &Program, criterion: &Criterion) -> Vec<Node> {
    let members = program.members(criterion.failing);
    let node = |aspect: Aspect| move |at: &InstructionRef| Node { at: *at, aspect };
    if criterion.reached {
        let endings = Endings::of(program);
        let ending = members.iter().filter(|at| endings.ends(program, **at));
        let ending: Vec<Node> = ending.map(node(Aspect::Site)).collect();
        if !ending.is_empty() {
            return ending;
        }
    }
    members.iter().map(node(Aspect::Whole)).collect()
}

/// The instructions of a frame's statement that called the frame below it:
/// calls of that very function, else any call, else all.
fn calling_instructions(
    program: &Program,
    frame: StatementId,
    inner: StatementId,
) -> Vec<InstructionRef> {
    let callee = &program.statements[inner.0 as usize].function;
    let members = program.members(frame);
    let pick = |fits: &dyn Fn(InstructionRef) -> bool| -> Vec<InstructionRef> {
        members.iter().copied().filter(|at| fits(*at)).collect()
    };
    let calls_it = |at: InstructionRef| {
        let targets = program.calls.targets(at).iter();
        let mut names = targets.map(|id| &program.functions[*id as usize].name);
        names.any(|name| name == callee)
    };
    let calls = |at: InstructionRef| {
        matches!(
            program.op(at),
            Op::Call(Callee::Direct(_) | Callee::Indirect | Callee::Assembly)
        )
    };
    let exact = pick(&calls_it);
    let any = if exact.is_empty() {
        pick(&calls)
    } else {
        exact
    };
    if any.is_empty() {
        members.to_vec()
    } else {
        any
    }
}

fn make_entry(
    program: &Program,
    id: StatementId,
    distance: u32,
    why: Option<Why>,
    source: SourceText<'_>,
) -> SliceEntry {
    let info = program.statements.get(id.0 as usize);
    let location = info.map_or_else(
        || SourceLocation {
            file: String::new(),
            line: 0,
        },
        |info| info.location.clone(),
    );
    let text = source(&location).unwrap_or_default().trim().to_owned();
    // Almost always one function, and its roles are sorted.
    let mut functions: Vec<u32> = program.members(id).iter().map(|at| at.function).collect();
    functions.dedup();
    let roles = functions.iter().flat_map(|f| program.calls.roles(*f));
    let mut roles: Vec<String> = roles.cloned().collect();
    if functions.len() > 1 {
        roles.sort_unstable();
        roles.dedup();
    }
    SliceEntry {
        statement: Statement {
            id,
            function: info.map_or_else(String::new, |info| info.function.clone()),
            location,
            text,
        },
        distance,
        why,
        roles,
        points: program.points(id),
    }
}
