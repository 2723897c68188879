//! Accesses that are too many to be worth a hook: memory without a name, in a loop.
//!
//! `text[i] = c` in a loop touches bytes of some buffer, one after the other. No
//! single one of them explains a failure, each costs as much as an access that
//! might, and together they push everything else out of a thread's record and
//! slow the loop down so much that races change. What has a name (a field, a
//! global) keeps its hooks, in loops as well: flags, counts and pointers that
//! threads share have names.
//!
//! Which part of a plan's statements is left out can be seen in the plan: such a
//! statement has fewer sites than accesses. Its branches and calls stay.

use crate::dependences::control::Loops;
use crate::ir::program::{FunctionId, Program};
use sketch_model::{LocationName, PointKind, Slice, SliceEntry, TrackPoint};
use std::collections::HashMap;

/// The entries that a plan of this σ takes, without those points.
pub(crate) fn without_bulk(
    program: &Program,
    slice: &Slice,
    sigma: u32,
    discovered: &[SliceEntry],
) -> (Slice, Vec<SliceEntry>) {
    let mut loops: HashMap<FunctionId, Loops> = HashMap::new();
    let mut lighter = |entry: &SliceEntry| {
        let mut entry = entry.clone();
        if entry.points.iter().any(is_nameless) {
            let looping = is_in_a_loop(program, &entry, &mut loops);
            entry
                .points
                .retain(|point| !(looping && is_nameless(point)));
        }
        entry
    };
    let nearest = slice.entries.iter().take(sigma as usize);
    let slice = Slice {
        schema: slice.schema,
        build: slice.build.clone(),
        entries: nearest.map(&mut lighter).collect(),
        gaps: Vec::new(),
    };
    (slice, discovered.iter().map(lighter).collect())
}

fn is_nameless(point: &TrackPoint) -> bool {
    matches!(point.kind, PointKind::Load | PointKind::Store)
        && matches!(point.location, None | Some(LocationName::Unnamed))
}

fn is_in_a_loop(
    program: &Program,
    entry: &SliceEntry,
    loops: &mut HashMap<FunctionId, Loops>,
) -> bool {
    program.members(entry.statement.id).iter().any(|at| {
        let function = program.function(*at);
        let block = function.instructions[at.instruction as usize].block;
        let of = loops
            .entry(at.function)
            .or_insert_with(|| Loops::of(function));
        of.hold(block)
    })
}
