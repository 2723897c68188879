//! What must hold of every slice, tried on every annotated program.
//!
//! The made-up graphs of `walk` show that the walk is right; these show that the
//! dependences of real programs meet what the walk takes for granted, in each
//! alias mode: the slice begins with its criterion, it holds what anything in it
//! depends on and nothing else, prefixes nest, and more edges give no smaller slice.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/corpus.rs"]
mod corpus;

use crate::criteria::proven_targets;
use crate::dependences::{Dependences, Node};
use crate::slice::seeds_of;
use crate::walk::{Dependence, DependenceGraph, Reached, walk};
use corpus::{Annotated, MODES, programs};
use sketch_model::{DependenceKind, StatementId};
use std::collections::{BTreeSet, HashSet};

/// A graph with one edge more.
struct Wider<'a, 'p> {
    graph: &'a Dependences<'p>,
    from: Node,
    to: Node,
}

impl DependenceGraph for Wider<'_, '_> {
    type Node = Node;

    fn statement(&self, node: Node) -> Option<StatementId> {
        self.graph.statement(node)
    }

    fn dependences(&self, node: Node) -> Vec<Dependence<Node>> {
        let mut edges = self.graph.dependences(node);
        if node == self.from {
            edges.push(Dependence {
                on: self.to,
                kind: DependenceKind::Data,
                through_entry: false,
            });
        }
        edges
    }
}

fn ids(reached: &[Reached]) -> BTreeSet<StatementId> {
    reached.iter().map(|r| r.statement).collect()
}

/// Everything reachable from the nodes, by asking for it.
fn closure(graph: &Dependences<'_>, mut work: Vec<Node>) -> HashSet<Node> {
    let mut seen = HashSet::new();
    while let Some(node) = work.pop() {
        if seen.insert(node) {
            work.extend(graph.dependences(node).iter().map(|d| d.on));
        }
    }
    seen
}

fn check(annotated: &Annotated, mode: crate::Alias) {
    let name = format!("{} with alias {mode}", annotated.name);
    let program = &annotated.program;
    let criterion = annotated.criterion();
    let proven = proven_targets(program, std::slice::from_ref(&criterion));
    let graph = Dependences::new(program, mode, proven);
    let seeds = seeds_of(program, &criterion);
    let slice = walk(&graph, &seeds);

    assert_eq!(slice[0].statement, criterion.failing, "{name}: first");
    assert_eq!(
        (slice[0].distance, &slice[0].why),
        (0, &None),
        "{name}: first"
    );

    let nodes = closure(&graph, seeds.iter().map(|seed| seed.node).collect());
    let mut needed: BTreeSet<StatementId> = nodes
        .iter()
        .filter_map(|node| graph.statement(*node))
        .collect();
    needed.extend(seeds.iter().map(|seed| seed.statement));
    assert_eq!(ids(&slice), needed, "{name}: closed, and nothing beside");

    // A prefix is a slice of its own: whatever wanted a statement came before it.
    let mut before = HashSet::new();
    for (entry, next) in slice
        .iter()
        .zip(slice.iter().skip(1).map(Some).chain([None]))
    {
        let wanted = entry
            .why
            .as_ref()
            .is_none_or(|why| before.contains(&why.parent));
        assert!(
            wanted,
            "{name}: {:?} comes before its parent",
            entry.statement
        );
        assert!(
            next.is_none_or(|n| n.distance >= entry.distance),
            "{name}: order"
        );
        assert!(before.insert(entry.statement), "{name}: twice");
    }

    // From the last statement of the slice to one that is not in it.
    let outside = program
        .statements
        .iter()
        .find(|info| !needed.contains(&info.id));
    let from = nodes.iter().max().copied();
    if let (Some(outside), Some(from)) = (outside, from) {
        let mut others = program.members(outside.id).iter();
        let to = others.next().map(|at| Node { at: *at, ..from });
        let to = to.map(|node| Node {
            aspect: crate::dependences::Aspect::Whole,
            ..node
        });
        let Some(to) = to else { return };
        let wider = Wider {
            graph: &graph,
            from,
            to,
        };
        let more = ids(&walk(&wider, &seeds));
        assert!(more.is_superset(&needed), "{name}: an edge more");
        assert!(more.contains(&outside.id), "{name}: the edge counts");
    }
}

#[test]
fn slices_of_real_programs_are_closed_and_nest() {
    for path in programs() {
        let annotated = Annotated::load(&path);
        MODES.into_iter().for_each(|mode| check(&annotated, mode));
    }
}
