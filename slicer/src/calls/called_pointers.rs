//! Which functions a pointer may be.
//!
//! A pointer is traced back through casts, phis, selects, slots, parameters of
//! directly called functions, stores to fields and globals, and initial values.
//! Where the trace ends without an answer it says so, and the caller falls back
//! on every function of the right type whose address is taken.

use crate::calls::CallSite;
use crate::ir::program::*;
use crate::memory::places::{Place, Root};
use crate::memory::stores::StoreIndex;
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// How far a function pointer is followed back.
const MAX_DEPTH: u32 = 6;

/// What tracing needs to know of the program.
pub(crate) struct Pointers<'a> {
    pub functions: &'a [Function],
    pub symbols: &'a Symbols,
    pub stores: &'a StoreIndex,
    /// Functions whose address is taken, by type.
    pub by_signature: HashMap<&'a str, Vec<FunctionId>>,
}

/// One trace: whom it looks for, and whom it found.
struct Trace<'a> {
    pointers: &'a Pointers<'a>,
    callers: &'a [Vec<CallSite>],
    signature: &'a str,
    found: BTreeSet<FunctionId>,
}

impl<'a> Pointers<'a> {
    pub fn new(
        functions: &'a [Function],
        symbols: &'a Symbols,
        stores: &'a StoreIndex,
    ) -> Pointers<'a> {
        let mut by_signature: HashMap<&str, Vec<FunctionId>> = HashMap::default();
        for (id, function) in functions.iter().enumerate() {
            if function.address_taken && function.is_defined() {
                let list = by_signature.entry(&function.signature).or_default();
                list.push(id as FunctionId);
            }
        }
        Pointers {
            functions,
            symbols,
            stores,
            by_signature,
        }
    }

    pub fn of_type(&self, signature: &str) -> impl Iterator<Item = FunctionId> + '_ {
        let found = self.by_signature.get(signature);
        found.into_iter().flatten().copied()
    }

    /// The functions that a pointer may be; `false` if there may be others.
    pub fn trace(
        &self,
        callers: &[Vec<CallSite>],
        holder: FunctionId,
        pointer: Operand,
        signature: &str,
    ) -> (BTreeSet<FunctionId>, bool) {
        let mut trace = Trace {
            pointers: self,
            callers,
            signature,
            found: BTreeSet::new(),
        };
        let complete = trace.value(holder, pointer, MAX_DEPTH);
        (trace.found, complete)
    }

    /// The functions stored in one field of the object that an operand points to;
    /// no field if the program never names it, so that only copies count.
    pub fn trace_field(
        &self,
        callers: &[Vec<CallSite>],
        at: InstructionRef,
        operand: usize,
        field: Option<FieldId>,
    ) -> (BTreeSet<FunctionId>, bool) {
        let object = self.place(at, operand).root;
        let same = |place: Place, function: FunctionId| match (object, place.root) {
            (Root::Slot(_), Root::Slot(_)) => place.root == object && function == at.function,
            (Root::Global(_), Root::Global(_)) => place.root == object,
            (Root::Slot(_), _) | (_, Root::Slot(_)) => false,
            _ => true,
        };
        let mut trace = Trace {
            pointers: self,
            callers,
            signature: "",
            found: BTreeSet::new(),
        };
        let mut complete = true;
        let writes = field.map_or(&[][..], |field| self.stores.field_writes(field));
        for write in writes.iter().filter(|w| same(w.place, w.at.function)) {
            complete &= trace.stored(write.at, MAX_DEPTH);
        }
        let initial = match object {
            Root::Global(id) => vec![id],
            Root::Slot(_) => self.copied_globals(at.function, object),
            _ => Vec::new(),
        };
        let held = initial.iter().filter_map(|id| self.symbols.held.get(id));
        trace.found.extend(held.flatten());
        complete &= !trace.found.is_empty();
        (trace.found, complete)
    }

    fn place(&self, at: InstructionRef, operand: usize) -> Place {
        let resolver = self.stores.resolver(self.functions, at.function);
        let function = &self.functions[at.function as usize];
        resolver.place(function.operand(at.instruction, operand), None)
    }

    /// The globals (constants, mostly) that are copied into a slot.
    fn copied_globals(&self, holder: FunctionId, slot: Root) -> Vec<GlobalId> {
        let function = &self.functions[holder as usize];
        let ids = 0..function.instructions.len() as InstructionId;
        let copies = ids.filter(|id| matches!(function.op(*id), Op::Copy { .. }));
        copies
            .filter_map(|instruction| {
                let at = InstructionRef {
                    function: holder,
                    instruction,
                };
                match (self.place(at, 0).root, self.place(at, 1).root) {
                    (to, Root::Global(from)) if to == slot => Some(from),
                    _ => None,
                }
            })
            .collect()
    }
}

impl Trace<'_> {
    /// Collects; false if there may be others.
    fn value(&mut self, holder: FunctionId, pointer: Operand, depth: u32) -> bool {
        let functions = self.pointers.functions;
        let function = &functions[holder as usize];
        let id = match pointer {
            Operand::Function(id) => {
                self.found.insert(id);
                return true;
            }
            Operand::Constant => return true,
            _ if depth == 0 => return false,
            Operand::Global(_) => return false,
            Operand::Parameter(number) => {
                let sites = &self.callers[holder as usize];
                return !function.address_taken
                    && !sites.is_empty()
                    && sites.iter().all(|site| {
                        let caller = &functions[site.at.function as usize];
                        let value = caller.operand(site.at.instruction, number as usize);
                        self.value(site.at.function, value, depth - 1)
                    });
            }
            Operand::Instruction(id) => id,
        };
        let operands = function.operands(id);
        match function.op(id) {
            Op::Cast => self.value(holder, function.operand(id, 0), depth - 1),
            Op::Phi => operands.iter().all(|o| self.value(holder, *o, depth - 1)),
            Op::Select => operands[1..]
                .iter()
                .all(|o| self.value(holder, *o, depth - 1)),
            Op::Load { field, .. } => {
                let resolver = self.pointers.stores.resolver(functions, holder);
                let place = resolver.place(function.operand(id, 0), field);
                self.loaded(holder, place, depth)
            }
            _ => false,
        }
    }

    fn loaded(&mut self, holder: FunctionId, place: Place, depth: u32) -> bool {
        let stores = self.pointers.stores;
        let elsewhere = |root: Root| {
            matches!((place.root, root), (Root::Global(a), Root::Global(b)) if a != b)
                || matches!((place.root, root), (Root::Global(_), Root::Slot(_)))
        };
        let writes: Vec<InstructionRef> = match (place.field, place.root) {
            (Some(field), _) => {
                let writes = stores.field_writes(field).iter();
                let here = writes.filter(|w| !elsewhere(w.place.root));
                here.map(|w| w.at).collect()
            }
            (None, Root::Global(id)) => stores.global_writes(id).iter().map(|w| w.at).collect(),
            (None, Root::Slot(slot)) => {
                let at = InstructionRef {
                    function: holder,
                    instruction: slot,
                };
                if stores.escapes(at) {
                    return false;
                }
                self.slot_stores(holder, slot)
            }
            _ => return false,
        };
        match place.root {
            Root::Slot(_) => {}
            Root::Global(id) => {
                let held = self.pointers.symbols.held.get(&id).into_iter().flatten();
                let fits = |f: &&FunctionId| {
                    self.pointers.functions[**f as usize].signature == self.signature
                };
                self.found.extend(held.filter(fits));
            }
            // Initial values of tables count as stores to all of their fields.
            _ => {
                let candidates = self.pointers.of_type(self.signature);
                let initial =
                    candidates.filter(|id| self.pointers.functions[*id as usize].in_initializer);
                self.found.extend(initial);
            }
        }
        let complete = writes.iter().all(|at| self.stored(*at, depth - 1));
        complete && !self.found.is_empty()
    }

    /// What a store stores.
    fn stored(&mut self, at: InstructionRef, depth: u32) -> bool {
        let function = &self.pointers.functions[at.function as usize];
        matches!(function.op(at.instruction), Op::Store { .. })
            && self.value(at.function, function.operand(at.instruction, 0), depth)
    }

    fn slot_stores(&self, holder: FunctionId, slot: InstructionId) -> Vec<InstructionRef> {
        let function = &self.pointers.functions[holder as usize];
        (0..function.instructions.len() as InstructionId)
            .filter(|id| {
                matches!(function.op(*id), Op::Store { .. })
                    && function.operand(*id, 1) == Operand::Instruction(slot)
            })
            .map(|instruction| InstructionRef {
                function: holder,
                instruction,
            })
            .collect()
    }
}
