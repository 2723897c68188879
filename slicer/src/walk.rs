//! The order of a slice: shortest dependence paths over a graph of nodes.
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

use sketch_model::{DependenceKind, StatementId, Why};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::hash::Hash;

/// A dependence: what the node at hand depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependence<N> {
    pub on: N,
    pub kind: DependenceKind,
    /// From a function's body to its caller.
    pub through_entry: bool,
}

/// What can be walked: instructions of a program, or a made-up graph in tests.
pub(crate) trait DependenceGraph {
    type Node: Copy + Eq + Hash + Ord;
    fn statement(&self, node: Self::Node) -> Option<StatementId>;
    fn dependences(&self, node: Self::Node) -> Vec<Dependence<Self::Node>>;
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
        Some(DependenceKind::Control) => 4,
    }
}

/// Everything the seeds depend on, in slice order.
pub(crate) fn walk<G: DependenceGraph>(graph: &G, seeds: &[Seed<G::Node>]) -> Vec<Reached> {
    let mut heap = BinaryHeap::new();
    for seed in seeds {
        let (kind, parent) = (seed.why.map(|w| w.0), seed.why.map(|w| w.1));
        heap.push(Reverse((
            seed.distance,
            rank(kind),
            seed.statement,
            seed.node,
            parent,
            Kind(kind),
        )));
    }
    let mut visited: HashSet<G::Node> = HashSet::new();
    let mut reached: HashMap<StatementId, Reached> = HashMap::new();
    while let Some(Reverse((distance, _, statement, node, parent, Kind(kind)))) = heap.pop() {
        if !visited.insert(node) {
            continue;
        }
        let seeded = kind.is_none() || kind == Some(DependenceKind::Stack);
        if seeded || graph.statement(node).is_some() {
            reached.entry(statement).or_insert_with(|| Reached {
                statement,
                distance,
                why: kind.zip(parent).map(|(kind, parent)| Why { kind, parent }),
            });
        }
        for dependence in graph.dependences(node) {
            if visited.contains(&dependence.on) {
                continue;
            }
            let target = graph.statement(dependence.on).unwrap_or(statement);
            let cost = u32::from(target != statement) + u32::from(dependence.through_entry);
            heap.push(Reverse((
                distance.saturating_add(cost),
                rank(Some(dependence.kind)),
                target,
                dependence.on,
                Some(statement),
                Kind(Some(dependence.kind)),
            )));
        }
    }
    let mut result: Vec<Reached> = reached.into_values().collect();
    let order = |r: &Reached| {
        (
            r.distance,
            rank(r.why.as_ref().map(|w| w.kind)),
            r.statement,
        )
    };
    result.sort_unstable_by_key(order);
    result
}

/// A kind, comparable so that it can lie in the heap; equal ranks are decided
/// by the node before it comes to this.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind(Option<DependenceKind>);

impl Kind {
    fn number(self) -> u8 {
        self.0.map_or(0, |kind| kind as u8 + 1)
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Kind) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Kind) -> std::cmp::Ordering {
        self.number().cmp(&other.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A graph of statements; node 0 is the failing one.
    #[derive(Clone, Debug)]
    struct Made {
        /// Nodes from this number on have no line.
        named: u32,
        edges: Vec<(u32, u32, u8)>,
    }

    impl DependenceGraph for Made {
        type Node = u32;
        fn statement(&self, node: u32) -> Option<StatementId> {
            // Two nodes to a statement, so that inner steps occur.
            (node < self.named).then_some(StatementId(node / 2))
        }
        fn dependences(&self, node: u32) -> Vec<Dependence<u32>> {
            let out = self.edges.iter().filter(|e| e.0 == node);
            out.map(|(_, on, kind)| Dependence {
                on: *on,
                kind: [
                    DependenceKind::Data,
                    DependenceKind::Memory,
                    DependenceKind::Control,
                ][*kind as usize % 3],
                through_entry: *kind >= 3,
            })
            .collect()
        }
    }

    fn slice(graph: &Made) -> Vec<Reached> {
        let seeds = [0, 1].map(|node| Seed {
            node,
            distance: 0,
            statement: StatementId(0),
            why: None,
        });
        walk(graph, &seeds)
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
                    nodes.extend(graph.dependences(node).iter().map(|d| d.on));
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
        fn the_order_of_edges_does_not_matter(graph in made()) {
            let mut reversed = graph.clone();
            reversed.edges.reverse();
            prop_assert_eq!(slice(&graph), slice(&reversed));
        }
    }
}
