//! Which writes of a stack slot reach a point of its function.
//!
//! Locals are where flow-sensitivity pays: a variable that is set again before
//! it is used does not drag its old value into the slice. The search goes
//! backward from the point over the control-flow graph and stops at writes
//! that cover the place entirely; a call that gets the slot's address may
//! write it and covers nothing. From a `setjmp` the search also goes to where a
//! `longjmp` may have come from.

use crate::dependences::library_flow::Resume;
use crate::ir::program::*;
use crate::memory::places::{Place, Resolver, Root};
use crate::memory::stores::written_place;
use rustc_hash::FxHashMap as HashMap;

/// An instruction that may write a slot, or where a parameter points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotWrite {
    pub at: InstructionId,
    pub place: Place,
    /// For a call: the argument that carries the slot's address.
    pub argument: Option<u32>,
    /// It writes the whole slot.
    whole: bool,
}

/// The writes of every slot of a function, in instruction order.
#[derive(Debug, Default)]
pub(crate) struct SlotWrites {
    by_slot: HashMap<InstructionId, Vec<SlotWrite>>,
    /// What is written where parameters point, in instruction order.
    by_parameter: HashMap<u32, Vec<SlotWrite>>,
}

impl SlotWrites {
    pub fn of(resolver: &Resolver<'_>) -> SlotWrites {
        let function = resolver.function;
        let mut result = SlotWrites::default();
        for at in 0..function.instructions.len() as InstructionId {
            if let Some(place) = written_place(resolver, at) {
                let copied = match function.op(at) {
                    Op::Copy { record } | Op::Fill { record } => record,
                    _ => None,
                };
                let whole = place.exact && copied.is_some() && copied == place.record;
                result.add(place, at, None, whole);
            }
            if let Op::Call(_) = function.op(at) {
                for (number, operand) in function.operands(at).iter().enumerate() {
                    let place = resolver.place(*operand, None);
                    result.add(place, at, Some(number as u32), false);
                }
            }
        }
        result
    }

    fn add(&mut self, place: Place, at: InstructionId, argument: Option<u32>, whole: bool) {
        let list = match place.root {
            Root::Slot(slot) => self.by_slot.entry(slot).or_default(),
            Root::Parameter(number) => self.by_parameter.entry(number).or_default(),
            _ => return,
        };
        list.push(SlotWrite {
            at,
            place,
            argument,
            whole: whole && place.field.is_none(),
        });
    }

    /// All that may write where a parameter points, in instruction order.
    pub fn of_parameter(&self, number: u32) -> &[SlotWrite] {
        self.by_parameter.get(&number).map_or(&[], Vec::as_slice)
    }

    /// All writes of a slot, in instruction order.
    pub fn of_slot(&self, slot: InstructionId) -> &[SlotWrite] {
        self.by_slot.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// The writes of `wanted`, a place in a slot, that may be the last before `point`.
    pub fn reaching(
        &self,
        function: &Function,
        fields: &[Field],
        predecessors: &[Vec<BlockId>],
        wanted: Place,
        point: InstructionId,
        resumes: &[Resume],
    ) -> Vec<SlotWrite> {
        let Root::Slot(slot) = wanted.root else {
            return Vec::new();
        };
        let Some(writes) = self.by_slot.get(&slot) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut scanned = vec![false; function.blocks.len()];
        let start = function.instructions[point as usize].block;
        let mut work = vec![(start, point)];
        while let Some((number, end)) = work.pop() {
            let first = function.blocks[number as usize].first;
            let low = writes.partition_point(|w| w.at < first);
            let high = writes.partition_point(|w| w.at < end);
            let mut resume = resumes.iter().find(|r| r.block == number && r.at < end);
            let mut before: Vec<BlockId> = Vec::new();
            let mut covered = false;
            for write in writes[low..high].iter().rev() {
                if let Some(passed) = resume.take_if(|r| write.at < r.at) {
                    before.extend(&passed.from);
                }
                if overlaps(fields, write.place, wanted) {
                    found.push(*write);
                }
                if covers(write, wanted) {
                    covered = true;
                    break;
                }
            }
            if !covered {
                before.extend(resume.iter().flat_map(|r| &r.from));
                before.extend(&predecessors[number as usize]);
            }
            for previous in &before {
                if !std::mem::replace(&mut scanned[*previous as usize], true) {
                    work.push((*previous, function.blocks[*previous as usize].end));
                }
            }
        }
        found.sort_unstable_by_key(|w| (w.at, w.argument));
        found.dedup();
        found
    }
}

/// Two places in one slot meet unless they are different fields of one record;
/// fields of different records may lie within each other.
fn overlaps(fields: &[Field], a: Place, b: Place) -> bool {
    match (a.field, b.field) {
        (Some(a), Some(b)) => a == b || fields[a as usize].record != fields[b as usize].record,
        _ => true,
    }
}

fn covers(write: &SlotWrite, wanted: Place) -> bool {
    let same = write.place.exact && wanted.exact && write.place.field == wanted.field;
    write.argument.is_none() && (write.whole || same)
}
