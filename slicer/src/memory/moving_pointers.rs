//! Pointers that walk: `at = &head; while (*at != it) at = &(*at)->next; *at = …`.
//!
//! A local that is given one address after another has no one place. What is read
//! or written through it lies at any of the places that it is given; only places
//! with a name are of use, since nothing else can be looked up.

use crate::ir::program::*;
use crate::memory::places::{Place, Resolver, Root};

/// How many merges and locals deep a pointer is followed.
const MAX_DEPTH: u32 = 3;
/// A pointer that may be at more places tells nothing.
const MOST_PLACES: usize = 8;

/// The named places that `pointer` may be at, if it has no one place. Empty if there
/// are none, or too many.
pub(crate) fn places_walked(resolver: &Resolver<'_>, pointer: Operand) -> Vec<Place> {
    let mut places = Vec::new();
    collect(resolver, pointer, MAX_DEPTH, &mut places);
    if places.len() > MOST_PLACES {
        places.clear();
    }
    places
}

fn collect(resolver: &Resolver<'_>, pointer: Operand, depth: u32, places: &mut Vec<Place>) {
    let function = resolver.function;
    let Operand::Instruction(id) = pointer else {
        return;
    };
    let given: Vec<Operand> = match function.op(id) {
        Op::Cast => vec![function.operand(id, 0)],
        Op::Phi => function.operands(id).to_vec(),
        Op::Select => function.operands(id)[1..].to_vec(),
        Op::Load { .. } => match function.operand(id, 0) {
            Operand::Instruction(slot) if matches!(function.op(slot), Op::Alloca { .. }) => {
                stored_to(function, slot)
            }
            _ => return,
        },
        _ => return,
    };
    for value in given {
        let place = resolver.place(value, None);
        let named = place.field.is_some() || matches!(place.root, Root::Global(_));
        if named {
            if !places.contains(&place) {
                places.push(place);
            }
        } else if place.root == Root::Unknown && depth > 0 {
            collect(resolver, value, depth - 1, places);
        }
    }
}

/// The values that are stored to a slot.
fn stored_to(function: &Function, slot: InstructionId) -> Vec<Operand> {
    let ids = 0..function.instructions.len() as InstructionId;
    ids.filter(|id| {
        matches!(function.op(*id), Op::Store { .. })
            && function.operand(*id, 1) == Operand::Instruction(slot)
    })
    .map(|id| function.operand(id, 0))
    .collect()
}
