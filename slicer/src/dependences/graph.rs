//! The dependences of a program as one compact graph: what a slice walks.
//!
//! `dependences` says what one node depends on, and takes its time; here its
//! answers are kept for every node that some slice can meet, so that a slice is
//! a walk over numbers. Nodes are numbered in their own order, so that whatever
//! is decided by a node is decided the same way here. A node's dependences are
//! two lists, those inside its function and those outside, and equal lists are
//! kept once: all that runs whenever a function does depends on the same calls,
//! all that loads a field on the same stores. That is what keeps a program with
//! thousands of loads and stores of one field from costing their product.
//!
//! Deliberately absent: choices that only a failure can make; the walk makes those. A
//! slice that follows other edges (those of `points_to`) has its own graph made from
//! what it starts from.

use crate::dependences::{Aspect, Dependences, Node};
use crate::ir::program::{Function, InstructionRef, Op, Program};
use crate::memory::alias::Alias;
use crate::slice::order::{TRAVELS, Travel};
use crate::slice::slice_walk::Dependence;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::{Deserialize, Serialize};
use sketch_model::StatementId;
use std::hash::BuildHasher;

/// Position in [`Graph::nodes`].
pub(crate) type NodeId = u32;
/// Position in [`Graph::starts`].
pub(crate) type ListId = u32;

/// What is unknown about a node, beside its dependences.
pub(crate) const HAS_ASSEMBLY: u8 = 0x80;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Graph {
    /// In ascending order.
    pub nodes: Vec<Node>,
    /// The statement of each node, plus one; 0 for none.
    pub statements: Vec<u32>,
    /// Loads through unknown pointers that each node makes, and [`HAS_ASSEMBLY`].
    pub unknown: Vec<u8>,
    /// The two lists of each node.
    pub lists: Vec<[ListId; 2]>,
    /// Where each list starts in `edges`; one more than there are lists.
    pub starts: Vec<u32>,
    pub edges: Vec<Edge>,
    /// The pointer analysis was too much for the program; its edges are those of
    /// a coarser one.
    pub gave_up: bool,
}

/// A node and how it is come to: 28 and 4 bits of one number. 2^28 nodes would take four
/// gigabytes themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Edge(u32);

impl Edge {
    pub fn new(on: NodeId, travel: Travel) -> Edge {
        Edge(on << 4 | travel.number())
    }

    pub fn on(self) -> NodeId {
        self.0 >> 4
    }

    /// `None` in a graph that is damaged.
    pub fn checked_travel(self) -> Option<Travel> {
        TRAVELS.get((self.0 & 0xf) as usize).copied()
    }

    pub fn travel(self) -> Travel {
        // Graphs that were read are checked for it.
        self.checked_travel().unwrap_or(Travel::Value)
    }

    fn with_node(self, on: NodeId) -> Edge {
        Edge(on << 4 | self.0 & 0xf)
    }
}

impl Graph {
    /// The graph of everything that a slice of the program can start from.
    pub fn whole(program: &Program) -> Graph {
        let mut from = Vec::new();
        for (function, body) in (0..).zip(&program.functions) {
            for (instruction, info) in (0..).zip(&body.instructions) {
                let at = InstructionRef {
                    function,
                    instruction,
                };
                if info.statement.is_some() {
                    let aspect = Aspect::Whole;
                    from.push(Node { at, aspect });
                }
                if let Op::Call(_) = info.op {
                    let aspect = Aspect::Site;
                    from.push(Node { at, aspect });
                }
            }
        }
        Graph::of(&Dependences::new(program, Alias::default()), from)
    }

    /// The graph of everything that some nodes lead to.
    pub fn of(dependences: &Dependences<'_>, from: impl IntoIterator<Item = Node>) -> Graph {
        let mut maker = Maker::new(dependences.program);
        maker.graph.gave_up = dependences.gave_up();
        for node in from {
            maker.number(node);
        }
        let mut next = 0;
        while next < maker.graph.nodes.len() {
            maker.add(dependences, next);
            next += 1;
        }
        maker.finish()
    }

    pub fn find(&self, node: Node) -> Option<NodeId> {
        let found = self.nodes.binary_search(&node);
        found.ok().map(|position| position as NodeId)
    }

    pub fn statement(&self, node: NodeId) -> Option<StatementId> {
        let number = self.statements[node as usize].checked_sub(1);
        number.map(StatementId)
    }

    pub fn list(&self, id: ListId) -> &[Edge] {
        let start = self.starts[id as usize] as usize;
        let end = self.starts[id as usize + 1] as usize;
        &self.edges[start..end]
    }

    pub fn list_count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }
}

/// A graph in the making; nodes are numbered as they are met.
struct Maker {
    graph: Graph,
    numbers: Numbers,
    /// Lists by a hash of their contents. Of two lists with one hash only the
    /// first is shared.
    known: FxHashMap<u64, ListId>,
    buffer: Vec<Edge>,
}

impl Maker {
    fn new(program: &Program) -> Maker {
        let mut graph = Graph::default();
        graph.starts.push(0);
        Maker {
            graph,
            numbers: Numbers::new(&program.functions),
            known: FxHashMap::default(),
            buffer: Vec::new(),
        }
    }

    fn number(&mut self, node: Node) -> NodeId {
        let nodes = &mut self.graph.nodes;
        self.numbers.get(node, || {
            nodes.push(node);
            (nodes.len() - 1) as NodeId
        })
    }

    fn add(&mut self, dependences: &Dependences<'_>, position: usize) {
        let node = self.graph.nodes[position];
        let before = (dependences.unnamed_loads.get(), dependences.assembly.get());
        let mut found = dependences.of(node);
        let loads = dependences.unnamed_loads.get() - before.0;
        let assembly = dependences.assembly.get() > before.1;
        let flag = if assembly { HAS_ASSEMBLY } else { 0 };
        let loads = loads.min(u64::from(HAS_ASSEMBLY - 1)) as u8;
        self.graph.unknown.push(loads | flag);
        let statement = dependences.statement(node);
        let statement = statement.map_or(0, |id| id.0 + 1);
        self.graph.statements.push(statement);
        let outside = |d: &Dependence<Node>| d.on.at.function != node.at.function;
        found.sort_unstable_by_key(|d| (outside(d), d.on, d.travel));
        found.dedup();
        let (inner, outer) = found.split_at(found.partition_point(|d| !outside(d)));
        let lists = [self.list(inner), self.list(outer)];
        self.graph.lists.push(lists);
    }

    /// The number of a list, which is new or known.
    fn list(&mut self, dependences: &[Dependence<Node>]) -> ListId {
        let mut edges = std::mem::take(&mut self.buffer);
        edges.clear();
        for d in dependences {
            edges.push(Edge::new(self.number(d.on), d.travel));
        }
        let hash = FxBuildHasher.hash_one(&edges);
        let next = self.graph.list_count() as ListId;
        let known = *self.known.entry(hash).or_insert(next);
        let is_known = known != next && self.graph.list(known) == edges;
        if !is_known {
            self.graph.edges.extend(&edges);
            self.graph.starts.push(self.graph.edges.len() as u32);
        }
        self.buffer = edges;
        if is_known { known } else { next }
    }

    /// Numbers the nodes in their own order.
    fn finish(self) -> Graph {
        drop((self.numbers, self.known));
        let mut graph = self.graph;
        let mut order: Vec<NodeId> = (0..graph.nodes.len() as NodeId).collect();
        order.sort_unstable_by_key(|id| graph.nodes[*id as usize]);
        let mut place = vec![0; order.len()];
        for (new, id) in (0..).zip(&order) {
            place[*id as usize] = new;
        }
        for edge in &mut graph.edges {
            *edge = edge.with_node(place[edge.on() as usize]);
        }
        fn ordered<T: Copy>(values: &[T], order: &[NodeId]) -> Vec<T> {
            order.iter().map(|id| values[*id as usize]).collect()
        }
        graph.nodes = ordered(&graph.nodes, &order);
        graph.statements = ordered(&graph.statements, &order);
        graph.unknown = ordered(&graph.unknown, &order);
        graph.lists = ordered(&graph.lists, &order);
        graph.edges.shrink_to_fit();
        graph
    }
}

/// The numbers of nodes. Most are one of three aspects of an instruction, and
/// have a place without hashing.
struct Numbers {
    /// Where each function's instructions begin in `plain`.
    bases: Vec<u32>,
    plain: Vec<[NodeId; 3]>,
    others: FxHashMap<Node, NodeId>,
}

const NONE: NodeId = NodeId::MAX;

impl Numbers {
    fn new(functions: &[Function]) -> Numbers {
        let mut bases = Vec::with_capacity(functions.len());
        let mut count = 0;
        for function in functions {
            bases.push(count);
            count += function.instructions.len() as u32;
        }
        Numbers {
            bases,
            plain: vec![[NONE; 3]; count as usize],
            others: FxHashMap::default(),
        }
    }

    fn get(&mut self, node: Node, make: impl FnOnce() -> NodeId) -> NodeId {
        let aspect = match node.aspect {
            Aspect::Whole => 0,
            Aspect::Site => 1,
            Aspect::Result => 2,
            _ => return *self.others.entry(node).or_insert_with(make),
        };
        let position = self.bases[node.at.function as usize] + node.at.instruction;
        let number = &mut self.plain[position as usize][aspect];
        if *number == NONE {
            *number = make();
        }
        *number
    }
}
