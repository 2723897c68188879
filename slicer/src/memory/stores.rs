//! Which instructions may write a named location, anywhere in the program.
//!
//! Built once per program in one pass, so that following a load costs a look-up
//! and not a scan: a slice asks this for every load it meets.

use crate::ir::program::*;
use crate::memory::freed::freed;
use crate::memory::moving_pointers::places_walked;
use crate::memory::places::{Place, Resolver, Returned, Root, SingleStores, single_stores};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use serde::{Deserialize, Serialize};

/// How many accessors deep a returned address is followed.
const ACCESSOR_ROUNDS: u32 = 6;

/// A write: a store, an atomic update, a copy or fill of a whole object, or a call that
/// frees one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Write {
    pub at: InstructionRef,
    pub place: Place,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoreIndex {
    by_field: HashMap<FieldId, Vec<Write>>,
    by_global: HashMap<GlobalId, Vec<Write>>,
    /// Writes through a pointer that a global or field holds.
    through_global: HashMap<GlobalId, Vec<Write>>,
    through_field: HashMap<FieldId, Vec<Write>>,
    /// Writes through a parameter of a function.
    by_parameter: HashMap<(FunctionId, u32), Vec<Write>>,
    /// Calls that get the address of a global, with the operand's position.
    pub(crate) passed_globals: HashMap<GlobalId, Vec<(InstructionRef, u32)>>,
    /// Copies and fills of whole records, and calls that free one.
    by_record: HashMap<RecordId, Vec<Write>>,
    pub(crate) fields_of: HashMap<RecordId, Vec<FieldId>>,
    /// Slots whose address is stored or passed on.
    pub(crate) escaping: HashSet<InstructionRef>,
    pub(crate) single: Vec<SingleStores>,
    pub(crate) returned: Vec<Option<Returned>>,
}

impl StoreIndex {
    pub fn build(functions: &[Function], fields: &[Field]) -> StoreIndex {
        let mut index = StoreIndex {
            single: functions.iter().map(single_stores).collect(),
            ..StoreIndex::default()
        };
        index.find_returned(functions);
        for (id, field) in fields.iter().enumerate() {
            let list = index.fields_of.entry(field.record).or_default();
            list.push(id as FieldId);
        }
        for (id, function) in functions.iter().enumerate() {
            for instruction in 0..function.instructions.len() as InstructionId {
                let at = InstructionRef {
                    function: id as FunctionId,
                    instruction,
                };
                index.add(function, at);
            }
        }
        for (write, records) in freed(&index, functions, fields) {
            index.add_write(write, None);
            for record in records {
                index.by_record.entry(record).or_default().push(write);
            }
        }
        index
    }

    /// Accessors call accessors: a few rounds settle the usual depth.
    fn find_returned(&mut self, functions: &[Function]) {
        self.returned = vec![None; functions.len()];
        for _ in 0..ACCESSOR_ROUNDS {
            let ids = 0..functions.len() as FunctionId;
            let next: Vec<Option<Returned>> = ids
                .map(|id| self.resolver(functions, id).returned())
                .collect();
            if next == self.returned {
                break;
            }
            self.returned = next;
        }
    }

    fn add(&mut self, function: &Function, at: InstructionRef) {
        let id = at.instruction;
        let resolver = Resolver {
            function,
            single: &self.single[at.function as usize],
            returned: &self.returned,
        };
        let written = written_place(&resolver, id);
        let unnamed = written.filter(|w| w.root == Root::Unknown && w.field.is_none());
        let walked = match (unnamed, function.op(id)) {
            (Some(_), Op::Store { .. }) => places_walked(&resolver, function.operand(id, 1)),
            (Some(_), Op::Update { .. }) => places_walked(&resolver, function.operand(id, 0)),
            _ => Vec::new(),
        };
        for place in written.into_iter().chain(walked) {
            self.add_write(Write { at, place }, copied_record(function.op(id)));
        }
        let passed_on = match function.op(id) {
            Op::Store { .. } => &function.operands(id)[..1],
            Op::Update { .. } => function.operands(id).get(1..).unwrap_or_default(),
            Op::Call(_) => function.operands(id),
            _ => &[],
        };
        let resolver = Resolver {
            function,
            single: &self.single[at.function as usize],
            returned: &self.returned,
        };
        for (position, operand) in passed_on.iter().enumerate() {
            let place = resolver.place(*operand, None);
            match place.root {
                Root::Slot(slot) => {
                    self.escaping.insert(InstructionRef {
                        function: at.function,
                        instruction: slot,
                    });
                }
                Root::Global(id) if matches!(function.op(at.instruction), Op::Call(_)) => {
                    let list = self.passed_globals.entry(id).or_default();
                    list.push((at, position as u32));
                }
                _ => {}
            }
        }
    }

    fn add_write(&mut self, write: Write, record: Option<RecordId>) {
        let Place { root, field, .. } = write.place;
        if let Some(record) = record {
            self.by_record.entry(record).or_default().push(write);
        } else if let Some(field) = field {
            self.by_field.entry(field).or_default().push(write);
        }
        match root {
            Root::Global(id) => self.by_global.entry(id).or_default().push(write),
            Root::Parameter(number) => {
                let key = (write.at.function, number);
                self.by_parameter.entry(key).or_default().push(write);
            }
            Root::ThroughGlobal(id) if field.is_none() => {
                self.through_global.entry(id).or_default().push(write);
            }
            Root::ThroughField(id) if field.is_none() => {
                self.through_field.entry(id).or_default().push(write);
            }
            _ => {}
        }
    }

    pub fn resolver<'a>(&'a self, functions: &'a [Function], id: FunctionId) -> Resolver<'a> {
        Resolver {
            function: &functions[id as usize],
            single: &self.single[id as usize],
            returned: &self.returned,
        }
    }

    /// Every write that the index names.
    pub fn all_writes(&self) -> impl Iterator<Item = &Write> {
        let by_field = self.by_field.values().chain(self.through_field.values());
        let by_global = self.by_global.values().chain(self.through_global.values());
        let others = self.by_parameter.values().chain(self.by_record.values());
        by_field.chain(by_global).chain(others).flatten()
    }

    pub fn escapes(&self, slot: InstructionRef) -> bool {
        self.escaping.contains(&slot)
    }

    pub fn fields_of(&self, record: RecordId) -> &[FieldId] {
        self.fields_of.get(&record).map_or(&[], Vec::as_slice)
    }

    /// Writes of a field itself, whatever object it belongs to.
    pub fn field_writes(&self, field: FieldId) -> &[Write] {
        self.by_field.get(&field).map_or(&[], Vec::as_slice)
    }

    /// Copies and fills of whole records, and calls that free one.
    pub fn record_writes(&self, record: RecordId) -> &[Write] {
        self.by_record.get(&record).map_or(&[], Vec::as_slice)
    }

    pub fn global_writes(&self, global: GlobalId) -> &[Write] {
        self.by_global.get(&global).map_or(&[], Vec::as_slice)
    }

    pub fn parameter_writes(&self, function: FunctionId, number: u32) -> &[Write] {
        let found = self.by_parameter.get(&(function, number));
        found.map_or(&[], Vec::as_slice)
    }

    /// Calls that get the address of a global, with the operand's position.
    pub fn passed_globals(&self, global: GlobalId) -> &[(InstructionRef, u32)] {
        self.passed_globals.get(&global).map_or(&[], Vec::as_slice)
    }

    /// Of calls that make a thing where their first operand points (a thread, a
    /// key, a jump buffer), those that may have made what `user`'s first operand
    /// is: those that name the same place, or all if none does.
    pub fn made_by(
        &self,
        functions: &[Function],
        makers: &[InstructionRef],
        user: InstructionRef,
    ) -> Vec<InstructionRef> {
        let handle = |at: InstructionRef| {
            let function = &functions[at.function as usize];
            let resolver = self.resolver(functions, at.function);
            let mut operand = function.operand(at.instruction, 0);
            if let Operand::Instruction(id) = operand
                && let Op::Load { .. } = function.op(id)
                && !matches!(
                    resolver.place(operand, None).root,
                    Root::Slot(_) | Root::Global(_)
                )
            {
                operand = function.operand(id, 0);
            }
            let place = resolver.place(operand, None);
            let local = matches!(place.root, Root::Slot(_) | Root::Parameter(_));
            match (place.field, place.root) {
                (Some(field), _) => Some((Root::Unknown, Some(field), None)),
                (None, Root::Unknown) => None,
                (None, root) => Some((root, None, local.then_some(at.function))),
            }
        };
        let wanted = handle(user);
        let same = |at: &InstructionRef| wanted.is_some() && handle(*at) == wanted;
        let exact: Vec<InstructionRef> = makers.iter().copied().filter(same).collect();
        if exact.is_empty() {
            makers.to_vec()
        } else {
            exact
        }
    }

    /// Writes through the pointer that a root names; nothing for other roots.
    pub fn writes_through(&self, root: Root) -> &[Write] {
        let found = match root {
            Root::ThroughGlobal(id) => self.through_global.get(&id),
            Root::ThroughField(id) => self.through_field.get(&id),
            _ => None,
        };
        found.map_or(&[], Vec::as_slice)
    }

    /// Whether a write may reach a location that a load outside the writer's
    /// own stack frame starts from `root`.
    pub fn may_meet(&self, root: Root, write: &Write) -> bool {
        match (root, write.place.root) {
            (Root::Global(a), Root::Global(b)) => a == b,
            (Root::Global(_), Root::Slot(_)) => false,
            (_, Root::Slot(slot)) => self.escapes(InstructionRef {
                function: write.at.function,
                instruction: slot,
            }),
            _ => true,
        }
    }
}

/// What an instruction writes to, if it writes.
pub(crate) fn written_place(resolver: &Resolver<'_>, id: InstructionId) -> Option<Place> {
    let function = resolver.function;
    match function.op(id) {
        Op::Store { field, .. } => Some(resolver.place(function.operand(id, 1), field)),
        Op::Update { field, .. } => Some(resolver.place(function.operand(id, 0), field)),
        Op::Copy { .. } | Op::Fill { .. } | Op::VariableArguments => {
            Some(resolver.place(function.operand(id, 0), None))
        }
        _ => None,
    }
}

fn copied_record(op: Op) -> Option<RecordId> {
    match op {
        Op::Copy { record } | Op::Fill { record } => record,
        _ => None,
    }
}
