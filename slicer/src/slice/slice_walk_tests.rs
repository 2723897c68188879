//! The walk over made-up graphs: what must hold of any graph, and what contexts do.

use super::*;
use crate::dependences::Node;
use crate::slice::order::STEP;
use proptest::prelude::*;
use std::collections::HashSet;

const WAYS: [Travel; 7] = [
    Travel::Value,
    Travel::Memory,
    Travel::Control,
    Travel::Site,
    Travel::Argument,
    Travel::Return,
    Travel::OutParameter,
];

/// A graph of statements; node 0 is the failing one.
#[derive(Clone, Debug)]
struct Made {
    /// Nodes from this number on have no line.
    named: u32,
    functions: u32,
    edges: Vec<(u32, u32, u8)>,
}

impl Made {
    fn statement(&self, node: u32) -> Option<StatementId> {
        // Two nodes to a statement, so that inner steps occur.
        (node < self.named).then_some(StatementId(node / 2))
    }

    fn dependences(&self, node: u32) -> Vec<Edge> {
        let out = self.edges.iter().filter(|e| e.0 == node);
        out.map(|(_, on, way)| Edge::new(*on, WAYS[usize::from(*way)]))
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
                function: node % self.functions,
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
            // One list is enough: both would say everything twice.
            let none = graph.list_count() as u32;
            graph.starts.push(graph.edges.len() as u32);
            graph.lists.push([id, none]);
        }
        graph
    }

    fn walked(&self, shared: bool, most: usize, libraries: &[bool]) -> Walked {
        let seeds = [0, 1].map(|node| Seed {
            node,
            context: Context::Free,
            distance: 0,
            listed: Some(0),
            statement: StatementId(0),
            why: None,
        });
        let rules = Rules {
            libraries,
            calls: &|_, _| true,
            most,
            states: MOST_STATES,
        };
        walk(&self.graph(shared), &mut Contexts::none(), &seeds, &rules)
    }
}

fn slice_of(graph: &Made, shared: bool) -> Vec<Reached> {
    graph.walked(shared, usize::MAX, &[]).reached
}

fn slice(graph: &Made) -> Vec<Reached> {
    slice_of(graph, true)
}

fn ids(reached: &[Reached]) -> HashSet<StatementId> {
    reached.iter().map(|r| r.statement).collect()
}

fn closure(graph: &Made) -> HashSet<u32> {
    let mut nodes = vec![0, 1];
    let mut seen = HashSet::new();
    while let Some(node) = nodes.pop() {
        if seen.insert(node) {
            nodes.extend(graph.dependences(node).iter().map(|d| d.on()));
        }
    }
    seen
}

fn of_ways(ways: u8, functions: u32) -> impl Strategy<Value = Made> {
    (2..20u32).prop_flat_map(move |named| {
        let node = 0..named + 4;
        let edges = prop::collection::vec((node.clone(), node, 0..ways), 0..40);
        edges.prop_map(move |edges| Made {
            named,
            functions,
            edges,
        })
    })
}

/// Within one function, so that there are no contexts.
fn made() -> impl Strategy<Value = Made> {
    of_ways(4, 1)
}

/// With calls to and fro.
fn calling() -> impl Strategy<Value = Made> {
    of_ways(7, 3)
}

proptest! {
    #[test]
    fn the_slice_begins_with_its_criterion(graph in calling()) {
        let slice = slice(&graph);
        prop_assert_eq!(slice[0].statement, StatementId(0));
        prop_assert_eq!(slice[0].distance, 0);
        prop_assert_eq!(&slice[0].why, &None);
    }

    #[test]
    fn distances_grow_and_parents_come_earlier(graph in calling()) {
        let slice = slice(&graph);
        for pair in slice.windows(2) {
            prop_assert!(pair[0].distance <= pair[1].distance);
        }
        for entry in &slice[1..] {
            let why = entry.why.as_ref().unwrap();
            let parent = slice.iter().find(|r| r.statement == why.parent).unwrap();
            prop_assert!(parent.distance + STEP <= entry.distance);
        }
    }

    #[test]
    fn everything_a_visited_node_needs_is_in(graph in made()) {
        let in_slice = ids(&slice(&graph));
        for statement in closure(&graph).iter().filter_map(|node| graph.statement(*node)) {
            prop_assert!(in_slice.contains(&statement));
        }
    }

    #[test]
    fn contexts_reach_nothing_that_is_not_reached_without_them(graph in calling()) {
        let nodes = closure(&graph);
        let reachable: HashSet<_> =
            nodes.iter().filter_map(|node| graph.statement(*node)).collect();
        for statement in ids(&slice(&graph)) {
            prop_assert!(statement == StatementId(0) || reachable.contains(&statement));
        }
    }

    #[test]
    fn a_bounded_walk_is_what_the_whole_one_begins_with(graph in calling(), most in 1..12usize) {
        let whole = slice(&graph);
        let walked = graph.walked(true, most, &[]);
        prop_assert_eq!(&walked.reached[..], &whole[..most.min(whole.len())]);
        prop_assert_eq!(walked.cut, whole.len() > most);
    }

    #[test]
    fn lines_of_libraries_are_passed_and_not_listed(graph in made(), of in 1..10usize) {
        let mut libraries = vec![false; 16];
        libraries[of] = true;
        let library = StatementId(of as u32);
        let mut without = ids(&slice(&graph));
        without.remove(&library);
        let walked = graph.walked(true, usize::MAX, &libraries);
        prop_assert_eq!(ids(&walked.reached), without);
        for entry in &walked.reached {
            prop_assert!(entry.why.as_ref().is_none_or(|why| why.parent != library));
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
    fn sharing_lists_changes_nothing(graph in calling(), copies in 0..40u32) {
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

/// A small function with two callers: what is come to from one leads back to it.
#[test]
fn a_call_is_left_to_the_call_that_was_entered() {
    // 0 calls 2's function for its result; 2 is given its parameter by 0 and by 4.
    let graph = Made {
        named: 8,
        functions: 2,
        edges: vec![(0, 3, 5), (3, 0, 4), (3, 4, 4), (4, 6, 0)],
    };
    assert!(
        !ids(&slice(&graph)).contains(&StatementId(2)),
        "the other caller"
    );
    let mut other = graph.clone();
    other.edges[0].2 = 0;
    assert!(
        ids(&slice(&other)).contains(&StatementId(2)),
        "by memory: any caller"
    );
}
