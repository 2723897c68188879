//! Inclusion constraints and their least solution (Andersen 1994), over numbers.
//!
//! Nodes are pointers, each with a set of locations; a location has a node of
//! its own for what lies there. `copy` is plain inclusion, `load`, `store`,
//! `step` and `clone` wait for locations to arrive and then add inclusions.
//! Propagation is by difference, and cycles of inclusions become one node when
//! the sets have grown, because all of a cycle's sets are equal.
//!
//! What locations mean (objects, fields) is the business of `points_to`: this
//! file asks it through [`Memory`]. The work is bounded: a program whose sets
//! grow without measure gives no solution rather than a late one.

use std::collections::{HashSet, VecDeque};

/// What a meeting of a location and a constraint costs, in moves of locations.
const MEETING: u64 = 50;

pub(crate) type Node = u32;
pub(crate) type Location = u32;

/// What a constraint does when a location arrives at its node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    /// To this node flows what lies at the location.
    Load(Node),
    /// From this node it flows there.
    Store(Node),
    /// To this node goes the location of a field of the object.
    Step(Node, u32),
    /// The node is the source of this copy of whole objects.
    CopyFrom(u32),
    CopyTo(u32),
    /// The node is what this call calls.
    Call(u32),
}

/// What locations mean: the solver asks when it meets them.
pub(crate) trait Memory {
    /// Inclusions for reading at a location: nodes whose contents may be read.
    fn read(&mut self, at: Location, solver: &mut Solver) -> Vec<Node>;
    /// Inclusions for writing at a location.
    fn written(&mut self, at: Location, solver: &mut Solver) -> Vec<Node>;
    /// The location of a field of the object that a location lies in.
    fn step(&mut self, from: Location, field: u32, solver: &mut Solver) -> Location;
    /// A location was added to one side of a copy of objects: the new inclusions.
    fn copied(
        &mut self,
        copy: u32,
        at: Location,
        to: bool,
        solver: &mut Solver,
    ) -> Vec<(Node, Node)>;
    /// A location was added to a called pointer: the new inclusions.
    fn called(&mut self, call: u32, at: Location) -> Vec<(Node, Node)>;
}

#[derive(Debug, Default)]
pub(crate) struct Solver {
    /// Union-find: nodes of one cycle are one.
    merged: Vec<Node>,
    sets: Vec<Vec<Location>>,
    fresh: Vec<Vec<Location>>,
    copies: Vec<Vec<Node>>,
    waiting: Vec<Vec<Waiting>>,
    known: HashSet<(Node, Node)>,
    queue: VecDeque<Node>,
    queued: Vec<bool>,
    /// Locations moved so far, and when to look for cycles next.
    work: u64,
    next_look: u64,
}

impl Solver {
    pub fn add_node(&mut self) -> Node {
        let id = self.sets.len() as Node;
        self.add_nodes(1);
        id
    }

    pub fn add_nodes(&mut self, count: usize) {
        let from = self.sets.len();
        self.merged.extend(from as Node..(from + count) as Node);
        self.sets.resize(from + count, Vec::new());
        self.fresh.resize(from + count, Vec::new());
        self.copies.resize(from + count, Vec::new());
        self.waiting.resize(from + count, Vec::new());
        self.queued.resize(from + count, false);
    }

    pub fn find(&self, mut node: Node) -> Node {
        while self.merged[node as usize] != node {
            node = self.merged[node as usize];
        }
        node
    }

    /// The locations that a node may be.
    pub fn set(&self, node: Node) -> &[Location] {
        &self.sets[self.find(node) as usize]
    }

    pub fn add_location(&mut self, node: Node, location: Location) {
        self.arrive(node, &[location]);
    }

    pub fn add_copy(&mut self, from: Node, to: Node) {
        let (from, to) = (self.find(from), self.find(to));
        if from != to && self.known.insert((from, to)) {
            self.copies[from as usize].push(to);
            let all = self.sets[from as usize].clone();
            self.arrive(to, &all);
        }
    }

    pub fn add_waiting(&mut self, node: Node, what: Waiting) {
        let node = self.find(node);
        self.waiting[node as usize].push(what);
    }

    /// Adds sorted locations to a node; what is new there is propagated later.
    fn arrive(&mut self, node: Node, locations: &[Location]) {
        let node = self.find(node);
        let set = &mut self.sets[node as usize];
        let is_new = |l: &Location| set.binary_search(l).is_err();
        let new: Vec<Location> = locations.iter().copied().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        self.work += (set.len() + new.len()) as u64;
        *set = merged(set, &new);
        self.fresh[node as usize].extend(&new);
        if !std::mem::replace(&mut self.queued[node as usize], true) {
            self.queue.push_back(node);
        }
    }

    /// Solves; `false` if the budget was spent before the end.
    pub fn solve(&mut self, memory: &mut dyn Memory, budget: u64) -> bool {
        self.next_look = self.work;
        while let Some(node) = self.queue.pop_front() {
            if self.work > budget {
                return false;
            }
            self.queued[node as usize] = false;
            if self.find(node) != node {
                continue;
            }
            let mut fresh = std::mem::take(&mut self.fresh[node as usize]);
            fresh.sort_unstable();
            fresh.dedup();
            for waiting in self.waiting[node as usize].clone() {
                self.work += fresh.len() as u64 * MEETING;
                if self.work > budget {
                    return false;
                }
                for location in &fresh {
                    self.meet(memory, waiting, *location);
                }
            }
            for to in self.copies[node as usize].clone() {
                self.arrive(to, &fresh);
            }
            if self.work > self.next_look {
                self.merge_cycles();
                self.next_look = self.work + self.work / 2 + 100_000;
            }
        }
        true
    }

    fn meet(&mut self, memory: &mut dyn Memory, waiting: Waiting, at: Location) {
        match waiting {
            Waiting::Load(to) => {
                for from in memory.read(at, self) {
                    self.add_copy(from, to);
                }
            }
            Waiting::Store(from) => {
                for to in memory.written(at, self) {
                    self.add_copy(from, to);
                }
            }
            Waiting::Step(to, field) => {
                let location = memory.step(at, field, self);
                self.add_location(to, location);
            }
            Waiting::CopyFrom(copy) | Waiting::CopyTo(copy) => {
                let to = matches!(waiting, Waiting::CopyTo(_));
                for (from, to) in memory.copied(copy, at, to, self) {
                    self.add_copy(from, to);
                }
            }
            Waiting::Call(call) => {
                for (from, to) in memory.called(call, at) {
                    self.add_copy(from, to);
                }
            }
        }
    }

    /// Makes one node of each cycle of inclusions.
    fn merge_cycles(&mut self) {
        let groups = cycles(self.sets.len(), &|node| {
            if self.find(node) == node {
                let next = self.copies[node as usize].iter();
                next.map(|to| self.find(*to)).collect()
            } else {
                Vec::new()
            }
        });
        for group in groups {
            let into = group[0];
            for node in &group[1..] {
                self.merged[*node as usize] = into;
                let copies = std::mem::take(&mut self.copies[*node as usize]);
                self.copies[into as usize].extend(copies);
                let waiting = std::mem::take(&mut self.waiting[*node as usize]);
                self.waiting[into as usize].extend(waiting);
            }
            let mut all: Vec<Location> = Vec::new();
            for node in &group {
                all.extend(std::mem::take(&mut self.sets[*node as usize]));
                self.fresh[*node as usize].clear();
            }
            all.sort_unstable();
            all.dedup();
            let mut targets: Vec<Node> = std::mem::take(&mut self.copies[into as usize]);
            targets.iter_mut().for_each(|to| *to = self.find(*to));
            targets.retain(|to| *to != into);
            targets.sort_unstable();
            targets.dedup();
            self.known.extend(targets.iter().map(|to| (into, *to)));
            self.copies[into as usize] = targets;
            self.arrive(into, &all);
        }
    }
}

/// Two sorted lists as one.
fn merged(one: &[Location], other: &[Location]) -> Vec<Location> {
    let mut result = Vec::with_capacity(one.len() + other.len());
    let (mut i, mut j) = (0, 0);
    while i < one.len() && j < other.len() {
        if one[i] < other[j] {
            result.push(one[i]);
            i += 1;
        } else {
            result.push(other[j]);
            j += 1;
        }
    }
    result.extend(&one[i..]);
    result.extend(&other[j..]);
    result
}

/// The strongly connected components of two nodes and more (Tarjan, without
/// recursion: chains of inclusions are as long as programs are).
fn cycles(count: usize, next: &dyn Fn(Node) -> Vec<Node>) -> Vec<Vec<Node>> {
    const UNSEEN: u32 = u32::MAX;
    let mut number = vec![UNSEEN; count];
    let mut low = vec![0_u32; count];
    let mut on_stack = vec![false; count];
    let (mut stack, mut found, mut counter) = (Vec::new(), Vec::new(), 0_u32);
    let mut path: Vec<(Node, Vec<Node>)> = Vec::new();
    for root in 0..count as Node {
        if number[root as usize] != UNSEEN {
            continue;
        }
        let mut enter = Some(root);
        loop {
            if let Some(node) = enter.take() {
                (number[node as usize], low[node as usize]) = (counter, counter);
                counter += 1;
                stack.push(node);
                on_stack[node as usize] = true;
                path.push((node, next(node)));
            }
            let Some((node, rest)) = path.last_mut() else {
                break;
            };
            let node = *node;
            match rest.pop() {
                Some(to) if number[to as usize] == UNSEEN => enter = Some(to),
                Some(to) if on_stack[to as usize] => {
                    low[node as usize] = low[node as usize].min(number[to as usize]);
                }
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        low[*parent as usize] = low[*parent as usize].min(low[node as usize]);
                    }
                    if low[node as usize] == number[node as usize] {
                        let from = stack.iter().rposition(|n| *n == node).unwrap_or(0);
                        let group = stack.split_off(from);
                        group.iter().for_each(|n| on_stack[*n as usize] = false);
                        if group.len() > 1 {
                            found.push(group);
                        }
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Locations 0..8, each with the node of the same number for its contents.
    struct Flat;

    impl Memory for Flat {
        fn read(&mut self, at: Location, _: &mut Solver) -> Vec<Node> {
            vec![at]
        }
        fn written(&mut self, at: Location, _: &mut Solver) -> Vec<Node> {
            vec![at]
        }
        fn step(&mut self, from: Location, _: u32, _: &mut Solver) -> Location {
            from
        }
        fn copied(&mut self, _: u32, _: Location, _: bool, _: &mut Solver) -> Vec<(Node, Node)> {
            Vec::new()
        }
        fn called(&mut self, _: u32, _: Location) -> Vec<(Node, Node)> {
            Vec::new()
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Constraint {
        Address(Node, Location),
        Copy(Node, Node),
        Load(Node, Node),
        Store(Node, Node),
    }

    fn constraint() -> impl Strategy<Value = Constraint> {
        let node = 8..24_u32;
        prop_oneof![
            (node.clone(), 0..8_u32).prop_map(|(n, l)| Constraint::Address(n, l)),
            (node.clone(), node.clone()).prop_map(|(a, b)| Constraint::Copy(a, b)),
            (node.clone(), node.clone()).prop_map(|(a, b)| Constraint::Load(a, b)),
            (node.clone(), node).prop_map(|(a, b)| Constraint::Store(a, b)),
        ]
    }

    /// The least solution, by doing everything again until nothing changes.
    fn by_hand(constraints: &[Constraint]) -> Vec<HashSet<Location>> {
        let mut sets = vec![HashSet::new(); 24];
        loop {
            let before = sets.clone();
            let mut include = |from: HashSet<Location>, to: Node| sets[to as usize].extend(from);
            for constraint in constraints {
                let of = |node: Node| before[node as usize].clone();
                match *constraint {
                    Constraint::Address(node, location) => {
                        include(HashSet::from([location]), node);
                    }
                    Constraint::Copy(from, to) => include(of(from), to),
                    Constraint::Load(pointer, to) => {
                        of(pointer).into_iter().for_each(|l| include(of(l), to));
                    }
                    Constraint::Store(from, pointer) => {
                        of(pointer).into_iter().for_each(|l| include(of(from), l));
                    }
                }
            }
            if sets == before {
                return sets;
            }
        }
    }

    proptest! {
        #[test]
        fn the_solution_is_the_least_one(
            constraints in prop::collection::vec(constraint(), 0..60)
        ) {
            let mut solver = Solver::default();
            solver.add_nodes(24);
            for constraint in &constraints {
                match *constraint {
                    Constraint::Address(node, location) => solver.add_location(node, location),
                    Constraint::Copy(from, to) => solver.add_copy(from, to),
                    Constraint::Load(p, to) => solver.add_waiting(p, Waiting::Load(to)),
                    Constraint::Store(from, p) => solver.add_waiting(p, Waiting::Store(from)),
                }
            }
            prop_assert!(solver.solve(&mut Flat, u64::MAX));
            for (node, wanted) in by_hand(&constraints).iter().enumerate() {
                let found: HashSet<Location> = solver.set(node as Node).iter().copied().collect();
                prop_assert_eq!(&found, wanted);
            }
        }
    }

    #[test]
    fn a_spent_budget_is_said() {
        let mut solver = Solver::default();
        solver.add_nodes(24);
        for node in 8..20 {
            solver.add_copy(node, node + 1);
        }
        (0..8).for_each(|l| solver.add_location(8, l));
        assert!(!solver.solve(&mut Flat, 10));
    }
}
