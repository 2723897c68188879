//! The order of a slice: shortest dependence paths over the graph.
//!
//! Nodes are instructions, but what people count are statements: a step within
//! a statement costs nothing, a step to another statement costs one, and a
//! step from a function's body to where it is called costs two, because it
//! passes the function's entry, which is no statement. That keeps the chain a
//! reader expects in order: the use, the argument, the thread's creation, the
//! making of what it is given. Nodes without a line (compiler temporaries) are
//! passed through for free and remember the statement they served.
//!
//! Within one distance the failing stack comes first, then stores of locations
//! that were loaded (a bug between threads is a store that nobody expected),
//! then values and arguments, then control; ties go by statement id, that is by
//! file and line. The order depends on nothing else, so plans are reproducible.
//!
//! A list of dependences that was followed from nearer by is not followed again:
//! each of its nodes was reached from there, and no later than it would be now.

use crate::dependences::graph::{Graph, HAS_ASSEMBLY, KINDS, NodeId, number_of};
use sketch_model::{DependenceKind, StatementId, Why};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A dependence: what the node at hand depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependence<N> {
    pub on: N,
    pub kind: DependenceKind,
    /// From a function's body to its caller.
    pub through_entry: bool,
}

/// A node to start from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed<N> {
    pub node: N,
    pub distance: u32,
    /// The statement that counts as the node's if it has none.
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
    pub unnamed_loads: u64,
    pub assembly: u64,
    /// As the graph's.
    pub gave_up: bool,
}

pub(crate) fn rank(kind: Option<DependenceKind>) -> u8 {
    match kind {
        None => 0,
        Some(DependenceKind::Stack) => 1,
        Some(DependenceKind::Memory) => 2,
        Some(
            DependenceKind::Data
            | DependenceKind::Argument
            | DependenceKind::ThreadStart
            | DependenceKind::Return,
        ) => 3,
        Some(DependenceKind::Control | DependenceKind::Wait) => 4,
    }
}

/// A node on its way to be visited. The order of the fields is the order in
/// which nodes of one distance come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    rank: u8,
    statement: StatementId,
    node: NodeId,
    parent: Option<StatementId>,
    /// By its number in `KINDS`.
    kind: Option<u8>,
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

/// Everything the seeds depend on.
pub(crate) fn walk(graph: &Graph, seeds: &[Seed<NodeId>]) -> Walked {
    let mut queue = Queue::default();
    for seed in seeds {
        let (kind, parent) = seed.why.unzip();
        let arrival = Arrival {
            rank: rank(kind),
            statement: seed.statement,
            node: seed.node,
            parent,
            kind: kind.map(number_of),
        };
        queue.push(seed.distance, arrival);
    }
    let mut result = Walked {
        gave_up: graph.gave_up,
        ..Walked::default()
    };
    let mut visited = vec![false; graph.nodes.len()];
    // The best distance and rank that each node was met with.
    let mut nearest: Vec<(u32, u8)> = vec![(u32::MAX, u8::MAX); graph.nodes.len()];
    let mut followed: Vec<u32> = vec![u32::MAX; graph.list_count()];
    let statements = graph.statements.iter().max().map_or(0, |most| *most);
    let seeded = seeds.iter().map(|seed| seed.statement.0 + 1).max();
    let mut is_reached = vec![false; statements.max(seeded.unwrap_or(0)) as usize];
    while let Some((distance, here)) = queue.pop() {
        if std::mem::replace(&mut visited[here.node as usize], true) {
            continue;
        }
        let unknown = graph.unknown[here.node as usize];
        result.unnamed_loads += u64::from(unknown & !HAS_ASSEMBLY);
        result.assembly += u64::from(unknown & HAS_ASSEMBLY != 0);
        let kind = here.kind.map(|number| KINDS[usize::from(number)]);
        let seeded = kind.is_none() || kind == Some(DependenceKind::Stack);
        let counts = seeded || graph.statement(here.node).is_some();
        let statement = here.statement;
        if counts && !std::mem::replace(&mut is_reached[statement.0 as usize], true) {
            let why = kind.zip(here.parent);
            result.reached.push(Reached {
                statement,
                distance,
                why: why.map(|(kind, parent)| Why { kind, parent }),
            });
        }
        for list in graph.lists[here.node as usize] {
            if followed[list as usize] < distance {
                continue;
            }
            followed[list as usize] = distance;
            for edge in graph.list(list) {
                if visited[edge.on() as usize] {
                    continue;
                }
                let target = graph.statement(edge.on()).unwrap_or(statement);
                let cost = u32::from(target != statement) + u32::from(edge.through_entry());
                let (distance, rank) = (distance.saturating_add(cost), rank(Some(edge.kind())));
                let best = &mut nearest[edge.on() as usize];
                if *best < (distance, rank) {
                    continue;
                }
                *best = (distance, rank);
                let arrival = Arrival {
                    rank,
                    statement: target,
                    node: edge.on(),
                    parent: Some(statement),
                    kind: Some(edge.kind_number()),
                };
                queue.push(distance, arrival);
            }
        }
    }
    let order = |r: &Reached| {
        let kind = r.why.as_ref().map(|w| w.kind);
        (r.distance, rank(kind), r.statement)
    };
    result.reached.sort_unstable_by_key(order);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependences::graph::Edge;
    use crate::dependences::{Aspect, Node};
    use crate::ir::program::InstructionRef;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// A graph of statements; node 0 is the failing one.
    #[derive(Clone, Debug)]
    struct Made {
        /// Nodes from this number on have no line.
        named: u32,
        edges: Vec<(u32, u32, u8)>,
    }

    impl Made {
        fn statement(&self, node: u32) -> Option<StatementId> {
            // Two nodes to a statement, so that inner steps occur.
            (node < self.named).then_some(StatementId(node / 2))
        }

        fn dependences(&self, node: u32) -> Vec<Edge> {
            let out = self.edges.iter().filter(|e| e.0 == node);
            out.map(|(_, on, kind)| {
                let kinds = [
                    DependenceKind::Data,
                    DependenceKind::Memory,
                    DependenceKind::Control,
                ];
                Edge::new(*on, kinds[*kind as usize % 3], *kind >= 3)
            })
            .collect()
        }

        /// Nodes with the same dependences share a list, if `shared`.
        fn graph(&self, shared: bool) -> Graph {
            let mut graph = Graph {
                starts: vec![0],
                ..Graph::default()
            };
            for node in 0..self.named + 4 {
                let at = InstructionRef {
                    function: 0,
                    instruction: node,
                };
                graph.nodes.push(Node {
                    at,
                    aspect: Aspect::Whole,
                });
                let statement = self.statement(node);
                graph.statements.push(statement.map_or(0, |id| id.0 + 1));
                graph.unknown.push(0);
                let edges = self.dependences(node);
                let mut ids = 0..graph.list_count() as u32;
                let known = ids.find(|id| shared && graph.list(*id) == edges);
                let id = known.unwrap_or_else(|| {
                    graph.edges.extend(edges);
                    graph.starts.push(graph.edges.len() as u32);
                    graph.list_count() as u32 - 1
                });
                graph.lists.push([id, id]);
            }
            graph
        }
    }

    fn slice_of(graph: &Made, shared: bool) -> Vec<Reached> {
        let seeds = [0, 1].map(|node| Seed {
            node,
            distance: 0,
            statement: StatementId(0),
            why: None,
        });
        walk(&graph.graph(shared), &seeds).reached
    }

    fn slice(graph: &Made) -> Vec<Reached> {
        slice_of(graph, true)
    }

    fn ids(reached: &[Reached]) -> HashSet<StatementId> {
        reached.iter().map(|r| r.statement).collect()
    }

    fn made() -> impl Strategy<Value = Made> {
        (2..20u32).prop_flat_map(|named| {
            let node = 0..named + 4;
            let edges = prop::collection::vec((node.clone(), node, 0..4u8), 0..40);
            edges.prop_map(move |edges| Made { named, edges })
        })
    }

    proptest! {
        #[test]
        fn the_slice_begins_with_its_criterion(graph in made()) {
            let slice = slice(&graph);
            prop_assert_eq!(slice[0].statement, StatementId(0));
            prop_assert_eq!(slice[0].distance, 0);
            prop_assert_eq!(&slice[0].why, &None);
        }

        #[test]
        fn distances_grow_and_parents_come_earlier(graph in made()) {
            let slice = slice(&graph);
            for pair in slice.windows(2) {
                prop_assert!(pair[0].distance <= pair[1].distance);
            }
            for entry in &slice[1..] {
                let why = entry.why.as_ref().unwrap();
                let parent = slice.iter().find(|r| r.statement == why.parent).unwrap();
                prop_assert!(parent.distance < entry.distance);
            }
        }

        #[test]
        fn everything_a_visited_node_needs_is_in(graph in made()) {
            let in_slice = ids(&slice(&graph));
            let mut nodes = vec![0, 1];
            let mut seen = HashSet::new();
            while let Some(node) = nodes.pop() {
                if seen.insert(node) {
                    if let Some(statement) = graph.statement(node) {
                        prop_assert!(in_slice.contains(&statement));
                    }
                    nodes.extend(graph.dependences(node).iter().map(|d| d.on()));
                }
            }
        }

        #[test]
        fn an_edge_more_never_shrinks_a_slice(graph in made(), from in 0..24u32, to in 0..24u32) {
            let before = ids(&slice(&graph));
            let mut more = graph.clone();
            let limit = graph.named + 4;
            more.edges.push((from % limit, to % limit, 0));
            prop_assert!(before.is_subset(&ids(&slice(&more))));
        }

        #[test]
        fn sharing_lists_changes_nothing(graph in made(), copies in 0..40u32) {
            // Two nodes made to depend on the same, so that lists are shared.
            let mut graph = graph;
            let limit = graph.named + 4;
            let (from, to) = (copies % limit, copies * 7 % limit);
            graph.edges.retain(|e| e.0 != to);
            let same: Vec<_> = graph.edges.iter().filter(|e| e.0 == from).copied().collect();
            graph.edges.extend(same.iter().map(|e| (to, e.1, e.2)));
            prop_assert_eq!(slice_of(&graph, true), slice_of(&graph, false));
        }

        #[test]
        fn the_order_of_edges_does_not_matter(graph in made()) {
            let mut reversed = graph.clone();
            reversed.edges.reverse();
            prop_assert_eq!(slice(&graph), slice(&reversed));
        }
    }
}
