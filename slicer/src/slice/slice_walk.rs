//! The walk that makes a slice: cheapest dependence paths over the graph.
//!
//! Nodes are instructions, but what people count are statements: nodes without a line
//! (compiler temporaries) are passed through and remember the statement they served, and
//! so are lines of libraries, which cost a step and are not listed. What an edge costs is
//! said in `order`, what is known of who called in `contexts`: a node is visited once for
//! each context that it is come to in.
//!
//! Within one distance the failing stack comes first, then stores of locations
//! that were loaded (a bug between threads is a store that nobody expected),
//! then values and arguments, then control; ties go by statement id, that is by
//! file and line. The order depends on nothing else, so plans are reproducible.
//!
//! A walk ends with the statement that is one too many, so a prefix costs no more than
//! itself, and it is what the whole slice begins with. A list of dependences that was
//! followed in the same context from so much nearer by that nothing in it can be reached
//! more cheaply is not followed again.

use crate::dependences::Aspect;
use crate::dependences::graph::{Edge, Graph, HAS_ASSEMBLY, ListId, NodeId};
use crate::ir::program::{FunctionId, InstructionRef};
use crate::slice::contexts::{Context, ContextId, Contexts, FREE};
use crate::slice::order::{Travel, cost, passing};
use rustc_hash::{FxHashMap, FxHashSet};
use sketch_model::{DependenceKind, StatementId, Why};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// More than two ways of one edge differ in cost because of the statement they start from.
const SLACK: u32 = 20;
/// States after which contexts are no longer told apart: a whole slice of a big program
/// would otherwise take as many as there are calls.
pub(crate) const MOST_STATES: usize = 1 << 20;

/// A dependence: what the node at hand depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependence<N> {
    pub on: N,
    pub travel: Travel,
}

/// A node to start from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed<N> {
    pub node: N,
    pub context: Context,
    /// From where on its dependences are looked for.
    pub distance: u32,
    /// Where the statement is listed, if it is.
    pub listed: Option<u32>,
    /// The statement that counts as the node's if it has none that is listed.
    pub statement: StatementId,
    pub why: Option<(DependenceKind, StatementId)>,
}

/// A statement that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub statement: StatementId,
    pub distance: u32,
    pub why: Option<Why>,
}

/// What a walk found, and what it could not follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// In slice order.
    pub reached: Vec<Reached>,
    /// There is at least one statement more than were asked for.
    pub cut: bool,
    pub unnamed_loads: u64,
    pub assembly: u64,
    /// As the graph's.
    pub gave_up: bool,
}

/// What a walk must know beside the graph.
pub(crate) struct Rules<'r> {
    /// By statement: its line is a library's. Statements beyond the end are not.
    pub libraries: &'r [bool],
    /// Whether a call may call a function.
    pub calls: &'r dyn Fn(InstructionRef, FunctionId) -> bool,
    /// How many statements are wanted.
    pub most: usize,
    /// How many nodes are visited before contexts are no longer told apart.
    pub states: usize,
}

pub(crate) fn rank(kind: Option<DependenceKind>) -> u8 {
    match kind {
        None => 0,
        Some(DependenceKind::Stack) => 1,
        Some(DependenceKind::Memory | DependenceKind::Free) => 2,
        Some(
            DependenceKind::Data
            | DependenceKind::Argument
            | DependenceKind::ThreadStart
            | DependenceKind::Return,
        ) => 3,
        Some(
            DependenceKind::Control
            | DependenceKind::Wait
            | DependenceKind::Wake
            | DependenceKind::Lock,
        ) => 4,
    }
}

/// A node on its way to be visited. The order of the fields is the order in
/// which nodes of one distance come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    rank: u8,
    /// The listed statement that it is or serves.
    statement: StatementId,
    node: NodeId,
    context: ContextId,
    /// The statement whose line it is on, listed or not.
    line: StatementId,
    parent: Option<StatementId>,
    kind: Option<DependenceKind>,
    does: Does,
}

/// What an arrival is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    List,
    Explore,
    Both,
}

/// Arrivals by distance. Those of the distance at hand lie sorted, and what is
/// added to them on the way lies in a heap: most of a walk is sorted in bulk.
#[derive(Default)]
struct Queue {
    distance: u32,
    sorted: std::vec::IntoIter<Arrival>,
    added: BinaryHeap<Reverse<Arrival>>,
    later: BTreeMap<u32, Vec<Arrival>>,
}

impl Queue {
    fn push(&mut self, distance: u32, arrival: Arrival) {
        if distance == self.distance {
            self.added.push(Reverse(arrival));
        } else {
            self.later.entry(distance).or_default().push(arrival);
        }
    }

    fn pop(&mut self) -> Option<(u32, Arrival)> {
        loop {
            let first = self.sorted.as_slice().first();
            let added = self.added.peek().map(|Reverse(arrival)| arrival);
            let next = match (first, added) {
                (Some(first), Some(added)) if added < first => self.added.pop().map(|r| r.0),
                (Some(_), _) => self.sorted.next(),
                (None, Some(_)) => self.added.pop().map(|r| r.0),
                (None, None) => None,
            };
            if let Some(arrival) = next {
                return Some((self.distance, arrival));
            }
            let (distance, mut arrivals) = self.later.pop_first()?;
            arrivals.sort_unstable();
            self.distance = distance;
            self.sorted = arrivals.into_iter();
        }
    }
}

/// What the seeds depend on, as far as the rules ask for it.
pub(crate) fn walk(
    graph: &Graph,
    contexts: &mut Contexts,
    seeds: &[Seed<NodeId>],
    rules: &Rules<'_>,
) -> Walked {
    let mut walk = Walk {
        graph,
        contexts,
        rules,
        queue: Queue::default(),
        visited: FxHashSet::default(),
        nearest: FxHashMap::default(),
        followed: FxHashMap::default(),
    };
    for seed in seeds {
        walk.add_seed(seed);
    }
    let mut result = Walked {
        gave_up: graph.gave_up,
        ..Walked::default()
    };
    let mut listed: FxHashSet<StatementId> = FxHashSet::default();
    let mut counted: FxHashSet<NodeId> = FxHashSet::default();
    let mut last = u32::MAX;
    while let Some((distance, here)) = walk.queue.pop() {
        if distance > last {
            break;
        }
        let explores = here.does != Does::List;
        if explores && !walk.visited.insert((here.node, here.context)) {
            continue;
        }
        if here.does != Does::Explore && listed.insert(here.statement) {
            let why = here.kind.zip(here.parent);
            result.reached.push(Reached {
                statement: here.statement,
                distance,
                why: why.map(|(kind, parent)| Why { kind, parent }),
            });
            if result.reached.len() > rules.most {
                last = distance;
            }
        }
        if !explores {
            continue;
        }
        if counted.insert(here.node) {
            let unknown = graph.unknown[here.node as usize];
            result.unnamed_loads += u64::from(unknown & !HAS_ASSEMBLY);
            result.assembly += u64::from(unknown & HAS_ASSEMBLY != 0);
        }
        walk.follow(distance, here);
    }
    let order = |r: &Reached| {
        let kind = r.why.as_ref().map(|w| w.kind);
        (r.distance, rank(kind), r.statement)
    };
    result.reached.sort_unstable_by_key(order);
    result.cut = result.reached.len() > rules.most;
    result.reached.truncate(rules.most);
    result
}

struct Walk<'w> {
    graph: &'w Graph,
    contexts: &'w mut Contexts,
    rules: &'w Rules<'w>,
    queue: Queue,
    visited: FxHashSet<(NodeId, ContextId)>,
    /// The best distance and rank that each node was met with.
    nearest: FxHashMap<(NodeId, ContextId), (u32, u8)>,
    /// The distance that each list was first followed from, by whether its callers were
    /// those that the context names.
    followed: FxHashMap<(ListId, ContextId, bool), u32>,
}

impl Walk<'_> {
    fn add_seed(&mut self, seed: &Seed<NodeId>) {
        let (kind, parent) = seed.why.unzip();
        let own = self.graph.statement(seed.node);
        let arrival = Arrival {
            rank: rank(kind),
            statement: seed.statement,
            node: seed.node,
            context: self.contexts.number(seed.context),
            line: own.unwrap_or(seed.statement),
            parent,
            kind,
            does: Does::Both,
        };
        let mut push = |distance, does| self.queue.push(distance, Arrival { does, ..arrival });
        match seed.listed {
            Some(listed) if listed == seed.distance => push(listed, Does::Both),
            Some(listed) => {
                push(listed, Does::List);
                push(seed.distance, Does::Explore);
            }
            None => push(seed.distance, Does::Explore),
        }
    }

    fn follow(&mut self, distance: u32, here: Arrival) {
        let lists = self.graph.lists[here.node as usize];
        let edges = lists.map(|list| self.graph.list(list));
        // Asked once for both lists: some hold thousands of calls.
        let caller = self.contexts.caller(here.context);
        let named = caller.is_some_and(|caller| {
            let mut all = edges.iter().copied().flatten();
            all.any(|edge| edge.travel().is_up() && caller.is(self.at(*edge)))
        });
        for (list, edges) in lists.into_iter().zip(edges) {
            let shares = !edges
                .iter()
                .any(|edge| matches!(edge.travel(), Travel::Return | Travel::OutParameter));
            if shares {
                let key = (list, here.context, named);
                let before = self.followed.entry(key).or_insert(distance);
                if *before < distance && distance - *before >= SLACK {
                    continue;
                }
            }
            self.follow_list(distance, here, lists[0], edges, named);
        }
    }

    fn at(&self, edge: Edge) -> InstructionRef {
        self.graph.nodes[edge.on() as usize].at
    }

    fn follow_list(
        &mut self,
        distance: u32,
        here: Arrival,
        inner: ListId,
        edges: &[Edge],
        named: bool,
    ) {
        let count = |of: &dyn Fn(Travel) -> bool| {
            edges.iter().filter(|edge| of(edge.travel())).count() as u32
        };
        let stores = count(&|t| matches!(t, Travel::Memory | Travel::OutParameter));
        let frees = count(&|t| t == Travel::Freed);
        let sites = count(&|t| matches!(t, Travel::Site | Travel::Start));
        let givers = count(&|t| matches!(t, Travel::Argument | Travel::Thread));
        for edge in edges {
            let travel = edge.travel();
            let choices = match travel {
                Travel::Memory | Travel::OutParameter => stores,
                Travel::Freed => frees,
                _ if named => 1,
                Travel::Site | Travel::Start => sites,
                Travel::Argument | Travel::Thread => givers,
                _ => 1,
            };
            let (from, to) = (self.graph.nodes[here.node as usize].at, self.at(*edge));
            match travel {
                _ if travel.is_up() => {
                    if named && !self.contexts.caller(here.context).is_some_and(|c| c.is(to)) {
                        continue;
                    }
                    if self.contexts.is_refuted(to, from.function) {
                        continue;
                    }
                    let context = match named {
                        true => self.contexts.up(here.context),
                        false => FREE,
                    };
                    self.arrive(distance, here, *edge, context, choices);
                }
                Travel::Return => {
                    if to.function != from.function && self.contexts.is_refuted(from, to.function) {
                        continue;
                    }
                    let context = self.contexts.down(from, here.context);
                    self.arrive(distance, here, *edge, context, choices);
                }
                Travel::OutParameter => {
                    let calls = self.calls_of(inner, to.function);
                    if calls.is_empty() {
                        let context = self.contexts.home(to.function);
                        self.arrive(distance, here, *edge, context, choices);
                    }
                    for call in calls {
                        if !self.contexts.is_refuted(call, to.function) {
                            let context = self.contexts.down(call, here.context);
                            self.arrive(distance, here, *edge, context, choices);
                        }
                    }
                }
                _ => {
                    let context = match to.function == from.function {
                        true => here.context,
                        false => self.contexts.home(to.function),
                    };
                    self.arrive(distance, here, *edge, context, choices);
                }
            }
        }
    }

    /// The calls that handed an address to a function: those whose argument stands
    /// beside what the function stored there.
    fn calls_of(&self, inner: ListId, callee: FunctionId) -> Vec<InstructionRef> {
        let nodes = self.graph.list(inner).iter();
        let nodes = nodes.map(|edge| &self.graph.nodes[edge.on() as usize]);
        let arguments = nodes.filter(|node| matches!(node.aspect, Aspect::Argument(_)));
        let calls = arguments.map(|node| node.at);
        calls.filter(|at| (self.rules.calls)(*at, callee)).collect()
    }

    fn arrive(
        &mut self,
        distance: u32,
        here: Arrival,
        edge: Edge,
        context: ContextId,
        choices: u32,
    ) {
        let (node, travel) = (edge.on(), edge.travel());
        let context = match self.visited.len() > self.rules.states {
            true => FREE,
            false => context,
        };
        let state = (node, context);
        if self.visited.contains(&state) {
            return;
        }
        let own = self.graph.statement(node);
        let line = own.unwrap_or(here.line);
        let is_library = |id: StatementId| self.rules.libraries.get(id.0 as usize) == Some(&true);
        let (statement, price, does) = match own {
            Some(own) if is_library(own) => {
                let price = passing(travel, own == here.line, choices);
                (here.statement, price, Does::Explore)
            }
            Some(own) => (own, cost(travel, own == here.line, choices), Does::Both),
            None => (here.statement, cost(travel, true, choices), Does::Explore),
        };
        let distance = distance.saturating_add(price);
        let kind = travel.kind();
        let rank = rank(Some(kind));
        let best = self.nearest.entry(state).or_insert((u32::MAX, u8::MAX));
        if *best < (distance, rank) {
            return;
        }
        *best = (distance, rank);
        let arrival = Arrival {
            rank,
            statement,
            node,
            context,
            line,
            parent: Some(here.statement),
            kind: Some(kind),
            does,
        };
        self.queue.push(distance, arrival);
    }
}

#[cfg(test)]
#[path = "slice_walk_tests.rs"]
mod tests;
