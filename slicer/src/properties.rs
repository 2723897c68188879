//! What must hold of every slice, tried on every annotated program.
//!
//! The made-up graphs of `walk` show that the walk is right; these show that the
//! dependences of real programs meet what the walk takes for granted, in both
//! alias modes: the slice begins with its criterion, it holds what anything in it
//! depends on and nothing else (less, where contexts are told apart), prefixes nest, and
//! more edges give no smaller slice.

#[path = "../tests/it/common/mod.rs"]
mod common;

use crate::dependences::graph::{Edge, Graph, ListId, NodeId};
use crate::dependences::{Aspect, Dependences, Node};
use crate::ir::program::InstructionRef;
use crate::slice::contexts::Contexts;
use crate::slice::order::Travel;
use crate::slice::slice_walk::{MOST_STATES, Reached, Rules, walk};
use crate::slice::{numbered, seeds_of};
use common::corpus::{Annotated, MODES, programs};
use sketch_model::StatementId;
use std::collections::{BTreeSet, HashSet};

/// A graph with one edge more.
fn wider(mut graph: Graph, from: NodeId, to: NodeId) -> Graph {
    let mut edges = graph.list(graph.lists[from as usize][0]).to_vec();
    edges.push(Edge::new(to, Travel::Value));
    graph.lists[from as usize][0] = graph.list_count() as ListId;
    graph.edges.extend(edges);
    graph.starts.push(graph.edges.len() as u32);
    graph
}

fn ids(reached: &[Reached]) -> BTreeSet<StatementId> {
    reached.iter().map(|r| r.statement).collect()
}

/// Everything reachable from the nodes, by asking for it.
fn closure(graph: &Dependences<'_>, mut work: Vec<Node>) -> HashSet<Node> {
    let mut seen = HashSet::new();
    while let Some(node) = work.pop() {
        if seen.insert(node) {
            work.extend(graph.of(node).iter().map(|d| d.on));
        }
    }
    seen
}

fn check(annotated: &Annotated, mode: crate::Alias) {
    let name = format!("{} with alias {mode}", annotated.name);
    let program = &annotated.program;
    let criterion = annotated.criterion();
    let criteria = std::slice::from_ref(&criterion);
    let dependences = Dependences::new(program, mode);
    let seeds = seeds_of(program, criteria);
    let starts = seeds.iter().map(|seed| seed.node);
    // With no states contexts are not told apart.
    let walked = |graph: &Graph, states: usize| {
        let seeds = numbered(graph, &seeds).expect("the graph was made for them");
        let calls = |call: InstructionRef, callee| program.calls.targets(call).contains(&callee);
        let rules = Rules {
            libraries: &program.libraries,
            calls: &calls,
            most: usize::MAX,
            states,
        };
        let mut contexts = match states {
            0 => Contexts::none(),
            _ => Contexts::of(program, criteria),
        };
        walk(graph, &mut contexts, &seeds, &rules).reached
    };
    let slice_of = |graph: &Graph| walked(graph, 0);
    let graph = Graph::of(&dependences, starts.clone());
    let slice = slice_of(&graph);
    let told_apart = ids(&walked(&graph, MOST_STATES));
    assert!(told_apart.is_subset(&ids(&slice)), "{name}: contexts");

    assert_eq!(slice[0].statement, criterion.failing, "{name}: first");
    assert_eq!(
        (slice[0].distance, &slice[0].why),
        (0, &None),
        "{name}: first"
    );

    let nodes = closure(&dependences, starts.clone().collect());
    let mut needed: BTreeSet<StatementId> = nodes
        .iter()
        .filter_map(|node| dependences.statement(*node))
        .filter(|id| !program.is_library(*id))
        .collect();
    let listed = seeds.iter().filter(|seed| seed.listed.is_some());
    needed.extend(listed.map(|seed| seed.statement));
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

    // From the last node of the slice to a statement that is not in it. Code of
    // the C++ library that only carries values on has no statement of its own.
    let whole = |at: &InstructionRef| Node {
        at: *at,
        aspect: Aspect::Whole,
    };
    let statements = program.statements.iter().map(|info| info.id);
    let own = statements.filter(|id| !program.is_library(*id));
    let outside = own.filter(|id| !needed.contains(id)).find_map(|id| {
        let mut members = program.members(id).iter().map(whole);
        let to = members.find(|node| dependences.statement(*node) == Some(id))?;
        Some((id, to))
    });
    if let (Some((outside, to)), Some(from)) = (outside, nodes.iter().max().copied()) {
        let graph = Graph::of(&dependences, starts.chain([to]));
        let (from, to) = (graph.find(from), graph.find(to));
        let (from, to) = from.zip(to).expect("the graph was made for them");
        let more = ids(&slice_of(&wider(graph, from, to)));
        assert!(more.is_superset(&needed), "{name}: an edge more");
        assert!(more.contains(&outside), "{name}: the edge counts");
    }
}

#[test]
fn slices_of_real_programs_are_closed_and_nest() {
    for path in programs() {
        let annotated = Annotated::load(&path);
        MODES.into_iter().for_each(|mode| check(&annotated, mode));
    }
}
