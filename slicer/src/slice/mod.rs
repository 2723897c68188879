//! The slice in statements: seeds from the failure, the walk, and for each
//! statement what readers and hooks need of it.
//!
//! It walks twice. What was waited for on the way, and what wakes whoever waits, is only
//! known once it is known what lies on the way; it then starts from where it belongs in
//! the order, beside the failure itself.

pub(crate) mod contexts;
pub(crate) mod criteria;
pub(crate) mod order;
pub(crate) mod slice_walk;

use crate::dependences::graph::{Graph, NodeId};
use crate::dependences::partners::partners;
use crate::dependences::waits::waits;
use crate::dependences::{Aspect, Dependences, Node};
use crate::ir::program::{Callee, FunctionId, InstructionRef, Op, Program};
use crate::memory::alias::Alias;
use contexts::{Context, Contexts};
use criteria::{Criterion, Endings};
use order::{FRAME, FRAME_LISTED};
use sketch_model::{
    DependenceKind, Gap, Slice, SliceEntry, SourceLocation, Statement, StatementId, Why,
};
use slice_walk::{MOST_STATES, Reached, Rules, Seed, Walked, walk};
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// The text of a source line, where the source is at hand.
pub(crate) type SourceText<'a> = &'a dyn Fn(&SourceLocation) -> Option<String>;

/// The distance of statements that no dependence brought in.
const DISCOVERED: u32 = u32::MAX;
/// Statements before which waits are looked for.
const GATED: usize = 300;

/// How much of a slice is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// The nearest so many statements.
    Nearest(usize),
}

impl Extent {
    /// What a campaign begins with: far more than is ever tracked of most programs.
    pub const USUAL: Extent = Extent::Nearest(1024);

    /// Enough for the nearest `sigma` statements.
    pub fn enough_for(sigma: usize) -> Extent {
        let Extent::Nearest(usual) = Extent::USUAL else {
            return Extent::Whole;
        };
        let most = usual.max(sigma.checked_next_power_of_two().unwrap_or(usize::MAX));
        Extent::Nearest(most)
    }

    fn most(self) -> usize {
        match self {
            Extent::Whole => usize::MAX,
            Extent::Nearest(most) => most.max(1),
        }
    }
}

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
    let alias = Alias::default();
    slice_from(program, &[criterion], alias, Extent::Whole, source)
}

/// What can have led to any of the criteria, nearest first, as much of it as is wanted;
/// the first criterion's statement comes before all others.
pub fn slice_from(
    program: &Program,
    criteria: &[Criterion],
    alias: Alias,
    extent: Extent,
    source: SourceText<'_>,
) -> Slice {
    let mut gaps = program.gaps();
    for criterion in criteria {
        if !is_statement(program, criterion.failing) {
            gaps.push(Gap::StatementNotInBuild {
                statement: criterion.failing,
                statements: program.statements.len() as u64,
            });
        }
    }
    let known: Vec<Criterion> = criteria
        .iter()
        .filter(|criterion| is_statement(program, criterion.failing))
        .cloned()
        .collect();
    let mut contexts = Contexts::of(program, &known);
    let mut seeds = seeds_of(program, &known);
    let walker = Walker {
        program,
        alias,
        dependences: OnceCell::new(),
    };
    let near = walker.walked(&mut contexts, &seeds, GATED);
    let waited = waits(program, &contexts, &near.reached);
    let woken = partners(program, &contexts, &known, &near.reached, &waited);
    seeds.extend(waited.into_iter().chain(woken));
    let most = extent.most();
    let walked = walker.walked(&mut contexts, &seeds, most);
    gaps.extend(not_followed(&walked));
    if walked.cut {
        let statements = walked.reached.len() as u64;
        gaps.push(Gap::SliceCut { statements });
    }
    let mut reached = walked.reached;
    let first = known.first().map(|c| c.failing);
    // Stable: nothing else moves.
    reached.sort_by_key(|r| Some(r.statement) != first);
    name_frames(&mut reached, &seeds);
    let entries = reached
        .into_iter()
        .map(|r| make_entry(program, r.statement, r.distance, r.why, source))
        .collect();
    Slice {
        schema: Slice::SCHEMA,
        build: program.build.clone(),
        entries,
        gaps,
    }
}

/// Says of each frame of the stacks that it is one, however near it came by other ways;
/// unless the frame below it came later.
fn name_frames(reached: &mut [Reached], seeds: &[Seed<Node>]) {
    let places = (0..).zip(reached.iter());
    let places: BTreeMap<StatementId, usize> = places.map(|(at, r)| (r.statement, at)).collect();
    let is_frame = |seed: &&Seed<Node>| seed.listed.is_some();
    for seed in seeds.iter().filter(is_frame) {
        let Some((DependenceKind::Stack, below)) = seed.why else {
            continue;
        };
        let (frame, below_at) = (places.get(&seed.statement), places.get(&below));
        if let (Some(frame), Some(below_at)) = (frame, below_at)
            && below_at < frame
            && reached[*frame].why.is_some()
        {
            let kind = DependenceKind::Stack;
            let parent = below;
            reached[*frame].why = Some(Why { kind, parent });
        }
    }
}

pub(crate) fn is_statement(program: &Program, id: StatementId) -> bool {
    (id.0 as usize) < program.statements.len()
}

/// Walks the program's own graph, or ones made for the seeds if these want other edges
/// than usual, or nodes that it does not have.
struct Walker<'p> {
    program: &'p Program,
    alias: Alias,
    /// For such graphs; a points-to analysis takes its time.
    dependences: OnceCell<Dependences<'p>>,
}

impl Walker<'_> {
    fn walked(&self, contexts: &mut Contexts, seeds: &[Seed<Node>], most: usize) -> Walked {
        let program = self.program;
        let calls = |call: InstructionRef, callee: FunctionId| {
            program.calls.targets(call).contains(&callee)
        };
        let rules = Rules {
            libraries: &program.libraries,
            calls: &calls,
            most,
            states: MOST_STATES,
        };
        if self.alias == Alias::default() {
            let graph = program.graph();
            if let Some(seeds) = numbered(graph, seeds) {
                return walk(graph, contexts, &seeds, &rules);
            }
        }
        let make = || Dependences::new(program, self.alias);
        let dependences = self.dependences.get_or_init(make);
        let graph = Graph::of(dependences, seeds.iter().map(|seed| seed.node));
        let seeds = numbered(&graph, seeds).unwrap_or_default();
        walk(&graph, contexts, &seeds, &rules)
    }
}

pub(crate) fn numbered(graph: &Graph, seeds: &[Seed<Node>]) -> Option<Vec<Seed<NodeId>>> {
    let number = |seed: &Seed<Node>| {
        Some(Seed {
            node: graph.find(seed.node)?,
            context: seed.context,
            distance: seed.distance,
            listed: seed.listed,
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

/// The failing statements, and the calls of the frames above them. A frame in a library
/// is walked through and not listed.
pub(crate) fn seeds_of(program: &Program, criteria: &[Criterion]) -> Vec<Seed<Node>> {
    let mut seeds = Vec::new();
    for (number, criterion) in (0..).zip(criteria) {
        let context = |frame| Context::Frame {
            criterion: number,
            frame,
        };
        let failing = criterion.failing;
        seeds.extend(
            failing_nodes(program, criterion)
                .into_iter()
                .map(|node| Seed {
                    node,
                    context: context(0),
                    distance: 0,
                    listed: Some(0),
                    statement: failing,
                    why: None,
                }),
        );
        // The frame below, and the nearest one below that is listed.
        let (mut inner, mut shown) = (failing, failing);
        let callers = criterion.stack.iter().copied();
        let callers = callers.filter(|id| is_statement(program, *id));
        for (position, frame) in (1..).zip(callers) {
            let listed = !program.is_library(frame);
            for at in calling_instructions(program, frame, inner) {
                let aspect = Aspect::Site;
                seeds.push(Seed {
                    node: Node { at, aspect },
                    context: context(position),
                    distance: FRAME.saturating_mul(position),
                    listed: listed.then_some(FRAME_LISTED + position - 1),
                    statement: if listed { frame } else { shown },
                    why: Some((DependenceKind::Stack, shown)),
                });
            }
            inner = frame;
            shown = if listed { frame } else { shown };
        }
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
pub(crate) fn calling_instructions(
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
