//! What a statement offers to hooks: accesses, branches, synchronisation, calls.
//!
//! Only memory that another thread could touch counts: an address that is
//! derived from a slot of the same function has no point, even if the slot's
//! address escapes: there is no escape analysis. An atomic read-modify-write is a
//! load and a store at one column. Copies and fills of whole objects have no
//! point: no single value describes them.

use crate::ir::library::sync_op;
use crate::ir::program::*;
use crate::memory::places::{Place, Root};
use sketch_model::{LocationName, PointKind, StatementId, TrackPoint};

impl Program {
    pub(crate) fn points(&self, id: StatementId) -> Vec<TrackPoint> {
        let mut points: Vec<TrackPoint> = Vec::new();
        for at in self.members(id) {
            for point in self.points_of(*at) {
                let known = |p: &TrackPoint| p.kind == point.kind && p.column == point.column;
                if !points.iter().any(known) {
                    points.push(point);
                }
            }
        }
        points
    }

    pub(crate) fn points_of(&self, at: InstructionRef) -> Vec<TrackPoint> {
        let function = self.function(at);
        let column = function.instructions[at.instruction as usize].column;
        let plain = |kind| {
            vec![TrackPoint {
                kind,
                column,
                location: None,
                size: 0,
            }]
        };
        let access = |kinds: &[PointKind], operand: usize, field, size| {
            let resolver = self.stores.resolver(&self.functions, at.function);
            let place = resolver.place(function.operand(at.instruction, operand), field);
            let location = self.location_name(place);
            let point = |kind: &PointKind| TrackPoint {
                kind: *kind,
                column,
                location: location.clone(),
                size,
            };
            match place.root {
                Root::Slot(_) => Vec::new(),
                _ => kinds.iter().map(point).collect(),
            }
        };
        match function.op(at.instruction) {
            Op::Load { size, field } => access(&[PointKind::Load], 0, field, size),
            Op::Store { size, field } => access(&[PointKind::Store], 1, field, size),
            Op::Update { size, field } => {
                access(&[PointKind::Load, PointKind::Store], 0, field, size)
            }
            Op::Branch => plain(PointKind::Branch),
            Op::Call(Callee::Direct(id)) => {
                let called = &self.functions[id as usize].name;
                match sync_op(called) {
                    Some(op) => vec![TrackPoint {
                        kind: PointKind::Sync(op),
                        column,
                        location: self.object_of(at, called),
                        size: 0,
                    }],
                    None => plain(PointKind::Call),
                }
            }
            Op::Call(Callee::Indirect) => plain(PointKind::Call),
            _ => Vec::new(),
        }
    }

    /// The name of what a synchronisation call is about.
    fn object_of(&self, at: InstructionRef, called: &str) -> Option<LocationName> {
        let object = sync_functions::named(called)?.object;
        let function = self.function(at);
        let resolver = self.stores.resolver(&self.functions, at.function);
        let place = resolver.place(function.operand(at.instruction, object.into()), None);
        match place.root {
            Root::Slot(_) => None,
            _ => self
                .location_name(place)
                .filter(|name| *name != LocationName::Unnamed),
        }
    }

    fn location_name(&self, place: Place) -> Option<LocationName> {
        Some(match (place.field, place.root) {
            (Some(id), _) => {
                let field = &self.symbols.fields[id as usize];
                LocationName::Field {
                    record: self.symbols.records[field.record as usize].clone(),
                    field: field.name.clone(),
                }
            }
            (None, Root::Global(id)) => {
                LocationName::Global(self.symbols.globals[id as usize].clone())
            }
            _ => LocationName::Unnamed,
        })
    }
}
