//! The memory of the points-to analysis: objects, their locations, and what the
//! solver asks about them.
//!
//! A location is an object with a field of a named record, or without one. The
//! latter stands for everything of the object that has no such name, and meets
//! the fields that lie at the same address or may have been reached under
//! another type. Copies of whole objects are kept as pairs of sides, because
//! fields of the source may appear after the copy was met.

use crate::ir::program::*;
use crate::memory::solver::{Location, Memory, Node, Solver};
use std::collections::{HashMap, HashSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    Slot(InstructionRef),
    Global(GlobalId),
    Made(InstructionRef),
    Function(FunctionId),
}

/// Locations, with the node for what lies at each.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub ids: HashMap<(Object, Option<FieldId>), Location>,
    pub all: Vec<(Object, Option<FieldId>, Node)>,
    pub of_object: HashMap<Object, Vec<Location>>,
    /// Fields at the start of their records.
    pub leading: HashSet<FieldId>,
}

impl Objects {
    pub fn location(
        &mut self,
        object: Object,
        field: Option<FieldId>,
        solver: &mut Solver,
    ) -> (Location, bool) {
        if let Some(known) = self.ids.get(&(object, field)) {
            return (*known, false);
        }
        let id = self.all.len() as Location;
        self.ids.insert((object, field), id);
        self.all.push((object, field, solver.add_node()));
        self.of_object.entry(object).or_default().push(id);
        (id, true)
    }

    /// The locations that may be the same memory: the whole object without a
    /// field meets every field, for it may have been reached under another type.
    pub fn met_by(&self, at: Location) -> Vec<Location> {
        let (object, field, _) = self.all[at as usize];
        let Some(_) = field else {
            let all = self.of_object.get(&object).into_iter().flatten();
            let meets = |l: &&Location| {
                self.all[**l as usize]
                    .1
                    .is_none_or(|f| self.leading.contains(&f))
            };
            return all.filter(meets).copied().collect();
        };
        let whole = self.ids.get(&(object, None)).copied();
        std::iter::once(at).chain(whole).collect()
    }

    pub fn contents(&self, at: Location) -> Node {
        self.all[at as usize].2
    }
}

/// What the solver asks about.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    pub objects: Objects,
    /// Loads and stores without a field; fields that appear later are added to them.
    pub sides: Vec<CopySides>,
    pub copies_of: HashMap<Object, Vec<u32>>,
    pub calls: Vec<PendingCall>,
}

#[derive(Debug, Default)]
pub(crate) struct CopySides {
    pub from: HashSet<Object>,
    pub to: HashSet<Object>,
}

#[derive(Debug)]
pub(crate) struct PendingCall {
    pub at: InstructionRef,
    pub candidates: Vec<FunctionId>,
    /// For each candidate, inclusions of arguments and result.
    pub flows: Vec<Vec<(Node, Node)>>,
    pub found: Vec<FunctionId>,
}

impl Heap {
    pub fn make(
        &mut self,
        object: Object,
        field: Option<FieldId>,
        solver: &mut Solver,
    ) -> Location {
        let (location, new) = self.objects.location(object, field, solver);
        if new {
            self.connect(location, solver);
        }
        location
    }

    /// A location that appears late still takes part in the copies of its object,
    /// and shares its contents with what it overlaps.
    fn connect(&mut self, location: Location, solver: &mut Solver) {
        let (object, field, _) = self.objects.all[location as usize];
        for copy in self.copies_of.get(&object).cloned().unwrap_or_default() {
            let sides = &self.sides[copy as usize];
            let (from, to): (Vec<Object>, Vec<Object>) = (
                sides.from.iter().copied().collect(),
                sides.to.iter().copied().collect(),
            );
            if from.contains(&object) {
                for target in to {
                    let there = self.make(target, field, solver);
                    let (a, b) = (
                        self.objects.contents(location),
                        self.objects.contents(there),
                    );
                    solver.add_copy(a, b);
                }
            }
        }
    }

    fn nodes_met(&mut self, at: Location, solver: &mut Solver) -> Vec<Node> {
        let (object, field, _) = self.objects.all[at as usize];
        if field.is_some() {
            self.make(object, None, solver);
        }
        let met = self.objects.met_by(at);
        met.into_iter().map(|l| self.objects.contents(l)).collect()
    }
}

impl Memory for Heap {
    fn read(&mut self, at: Location, solver: &mut Solver) -> Vec<Node> {
        self.nodes_met(at, solver)
    }

    fn written(&mut self, at: Location, _: &mut Solver) -> Vec<Node> {
        // Readers look at what overlaps; writers need not.
        vec![self.objects.contents(at)]
    }

    fn step(&mut self, from: Location, field: u32, solver: &mut Solver) -> Location {
        let object = self.objects.all[from as usize].0;
        self.make(object, Some(field), solver)
    }

    fn copied(
        &mut self,
        copy: u32,
        at: Location,
        to: bool,
        solver: &mut Solver,
    ) -> Vec<(Node, Node)> {
        let object = self.objects.all[at as usize].0;
        let sides = &mut self.sides[copy as usize];
        let side = if to { &mut sides.to } else { &mut sides.from };
        if !side.insert(object) {
            return Vec::new();
        }
        self.copies_of.entry(object).or_default().push(copy);
        let sides = &self.sides[copy as usize];
        let pairs: Vec<(Object, Object)> = if to {
            sides.from.iter().map(|from| (*from, object)).collect()
        } else {
            sides.to.iter().map(|to| (object, *to)).collect()
        };
        let mut result = Vec::new();
        for (from, to) in pairs {
            let locations = self.objects.of_object.get(&from).cloned();
            for location in locations.unwrap_or_default() {
                let field = self.objects.all[location as usize].1;
                let there = self.make(to, field, solver);
                let ends = (
                    self.objects.contents(location),
                    self.objects.contents(there),
                );
                result.push(ends);
            }
        }
        result
    }

    fn called(&mut self, call: u32, at: Location) -> Vec<(Node, Node)> {
        let Object::Function(id) = self.objects.all[at as usize].0 else {
            return Vec::new();
        };
        let call = &mut self.calls[call as usize];
        let position = call.candidates.iter().position(|c| *c == id);
        match position {
            Some(position) if !call.found.contains(&id) => {
                call.found.push(id);
                call.flows[position].clone()
            }
            _ => Vec::new(),
        }
    }
}
