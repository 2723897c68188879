//! Who calls whom, who starts threads, and which threads can run a function.
//!
//! Direct calls are plain; virtual calls go by class (`classes`), other called
//! pointers are traced (`pointers`), and where that fails every function of the
//! same type whose address is taken is a candidate. Starting a thread,
//! installing a signal handler and handing a callback to a library (`library`)
//! are calls of the routine whose arguments come from elsewhere.
//!
//! Deliberately absent: telling apart the calls of one function (contexts).

pub(crate) mod called_pointers;
pub(crate) mod roles;

use crate::ir::library::{
    Callback, KEY_CREATORS, KEY_SETTERS, Routine, Runs, SETS_KEY, by_reference, callbacks, launch,
};
use crate::ir::program::*;
use crate::memory::stores::StoreIndex;
use called_pointers::Pointers;
use roles::{Entry, roles};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use serde::{Deserialize, Serialize};
use sketch_model::UnknownRoutine;
use std::collections::BTreeSet;

/// A place that calls, starts or registers a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallSite {
    pub at: InstructionRef,
    /// The callback by which a library calls it; `None` if the program itself does.
    #[serde(with = "crate::stored::callback")]
    pub callback: Option<&'static Callback>,
}

impl CallSite {
    /// The operand that becomes a parameter of the function.
    pub fn operand_for(&self, parameter: u32) -> Option<u32> {
        match self.callback {
            Some(callback) => callback.operand_for(parameter),
            None => Some(parameter),
        }
    }

    pub fn starts_thread(&self) -> bool {
        self.callback.is_some_and(Callback::starts_thread)
    }

    /// The values that may become a parameter of the function, in its caller.
    /// The state of a `std::thread` goes into the library inside a smart pointer;
    /// what arrives is the object that the constructor made. A task of OpenMP gets
    /// what the call that registers it returns.
    pub fn values_for(
        &self,
        caller: &Function,
        new: Option<FunctionId>,
        parameter: u32,
    ) -> Vec<Operand> {
        let state = self
            .callback
            .is_some_and(|c| c.routine == Routine::ThreadState);
        if state && parameter == 0 {
            let ids = 0..caller.instructions.len() as InstructionId;
            let made = ids.filter(|id| match caller.op(*id) {
                Op::Call(Callee::Direct(callee)) => Some(callee) == new,
                _ => false,
            });
            return made.map(Operand::Instruction).collect();
        }
        if self
            .callback
            .is_some_and(|c| c.routine == Routine::Operand(5))
            && parameter == 1
        {
            return vec![Operand::Instruction(self.at.instruction)];
        }
        let position = self.operand_for(parameter);
        let value = |p: u32| caller.operand(self.at.instruction, p as usize);
        let mut values: Vec<Operand> = position.map(value).into_iter().collect();
        if self.callback.is_some_and(by_reference) {
            let ids = 0..caller.instructions.len() as InstructionId;
            let held = ids.filter(|id| matches!(caller.op(*id), Op::Store { .. }));
            let held = held.filter(|id| values.contains(&caller.operand(*id, 1)));
            let held: Vec<Operand> = held.map(|id| caller.operand(id, 0)).collect();
            values.extend(held);
        }
        values
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CallGraph {
    pub(crate) callers: Vec<Vec<CallSite>>,
    /// Defined and declared functions that each call may call.
    pub(crate) targets: HashMap<InstructionRef, Vec<FunctionId>>,
    /// What libraries call because of a call.
    pub(crate) routines: HashMap<InstructionRef, Vec<FunctionId>>,
    /// `std::thread`'s constructors.
    pub(crate) thread_constructors: HashSet<FunctionId>,
    /// Functions without a body, by name.
    pub(crate) declared: HashMap<String, FunctionId>,
    pub(crate) roles: Vec<Vec<String>>,
}

impl CallGraph {
    /// The graph, and what could not be resolved.
    pub fn build(
        functions: &[Function],
        symbols: &Symbols,
        stores: &StoreIndex,
    ) -> (CallGraph, Vec<ProgramGap>) {
        let mut builder = Builder {
            pointers: Pointers::new(functions, symbols, stores),
            graph: CallGraph {
                callers: vec![Vec::new(); functions.len()],
                ..CallGraph::default()
            },
            pending: Vec::new(),
            entries: BTreeSet::new(),
            gaps: Vec::new(),
        };
        for (id, function) in functions.iter().enumerate() {
            if !function.is_defined() {
                let name = function.name.clone();
                builder.graph.declared.insert(name, id as FunctionId);
            }
        }
        builder.add_direct_calls();
        builder.add_pointer_calls();
        builder.add_launches();
        builder.add_destructors();
        builder.graph.roles = roles(functions, &builder.graph, &builder.entries);
        (builder.graph, builder.gaps)
    }

    pub fn callers(&self, function: FunctionId) -> &[CallSite] {
        &self.callers[function as usize]
    }

    pub fn targets(&self, call: InstructionRef) -> &[FunctionId] {
        self.targets.get(&call).map_or(&[], Vec::as_slice)
    }

    pub fn all_targets(&self) -> impl Iterator<Item = (InstructionRef, &[FunctionId])> {
        self.targets.iter().map(|(at, ids)| (*at, ids.as_slice()))
    }

    pub fn constructs_thread(&self, function: FunctionId) -> bool {
        self.thread_constructors.contains(&function)
    }

    /// The routines that a library runs because of a call.
    pub fn routines(&self, call: InstructionRef) -> &[FunctionId] {
        self.routines.get(&call).map_or(&[], Vec::as_slice)
    }

    /// The calls of library functions, by the functions' names.
    pub fn library_calls(&self, names: &[&str]) -> Vec<InstructionRef> {
        let ids = names.iter().filter_map(|name| self.declared.get(*name));
        let sites = ids.flat_map(|id| self.callers(*id));
        sites.map(|site| site.at).collect()
    }

    /// A function without a body, by its name.
    pub fn declared(&self, name: &str) -> Option<FunctionId> {
        self.declared.get(name).copied()
    }

    /// Start routines ("main" among them) of threads that can run a function.
    pub fn roles(&self, function: FunctionId) -> &[String] {
        &self.roles[function as usize]
    }
}

struct Builder<'a> {
    pointers: Pointers<'a>,
    graph: CallGraph,
    /// Indirect calls and callbacks, to be resolved second.
    pending: Vec<(InstructionRef, Option<&'static Callback>)>,
    entries: BTreeSet<Entry>,
    gaps: Vec<ProgramGap>,
}

impl Builder<'_> {
    fn add_direct_calls(&mut self) {
        let functions = self.pointers.functions;
        for (id, function) in functions.iter().enumerate() {
            for instruction in 0..function.instructions.len() as InstructionId {
                let at = InstructionRef {
                    function: id as FunctionId,
                    instruction,
                };
                match function.op(instruction) {
                    Op::Call(Callee::Direct(target)) => {
                        self.add_call(at, target, None);
                        let callee = &functions[target as usize];
                        if !callee.is_defined() {
                            let known = callbacks(&callee.name);
                            self.pending.extend(known.map(|c| (at, Some(c))));
                        }
                    }
                    Op::Call(Callee::Indirect) => self.pending.push((at, None)),
                    _ => {}
                }
            }
        }
    }

    fn add_pointer_calls(&mut self) {
        for (at, callback) in std::mem::take(&mut self.pending) {
            let (mut found, complete) = match callback {
                Some(callback) => self.routines(at, callback),
                None => self.called(at),
            };
            if !complete {
                self.add_by_type(at, callback, &mut found);
            }
            if callback.is_some_and(|c| c.routine == Routine::ThreadState) {
                self.graph.thread_constructors.insert(at.function);
            }
            for target in found {
                self.add_call(at, target, callback);
            }
        }
    }

    /// Adds every function of the matching type where the pointer could not be traced.
    fn add_by_type(
        &mut self,
        at: InstructionRef,
        callback: Option<&'static Callback>,
        found: &mut BTreeSet<FunctionId>,
    ) {
        let function = &self.pointers.functions[at.function as usize];
        let Some(callback) = callback else {
            let signature = function.called_types.get(&at.instruction);
            found.extend(self.pointers.of_type(signature.map_or("", |s| s)));
            return;
        };
        found.extend(self.pointers.of_type(callback.signature));
        found.extend(self.pointers.of_type(callback.or_signature));
        let routine = match callback.routine {
            Routine::ThreadState => UnknownRoutine::StdThread,
            _ if callback.starts_thread() => UnknownRoutine::ThreadStart,
            _ => UnknownRoutine::Callback {
                library_function: callback.name.to_owned(),
            },
        };
        let gap = ProgramGap::RoutineUnknown(function.name.clone(), routine);
        self.gaps.push(gap);
    }

    /// What an indirect call may call; `false` if there may be others.
    fn called(&self, at: InstructionRef) -> (BTreeSet<FunctionId>, bool) {
        let functions = self.pointers.functions;
        let function = &functions[at.function as usize];
        let signature = function.called_types.get(&at.instruction);
        let signature = signature.map_or("", String::as_str);
        if let Some(call) = function.virtual_calls.get(&at.instruction) {
            let classes = &self.pointers.symbols.classes;
            let found = classes.candidates(call, signature, functions);
            if !found.is_empty() {
                return (found, true);
            }
        }
        let pointer = function.operands(at.instruction).last();
        let pointer = pointer.copied().unwrap_or(Operand::Constant);
        self.trace(at, pointer, signature)
    }

    fn trace(
        &self,
        at: InstructionRef,
        pointer: Operand,
        signature: &str,
    ) -> (BTreeSet<FunctionId>, bool) {
        let callers = &self.graph.callers;
        self.pointers
            .trace(callers, at.function, pointer, signature)
    }

    /// The routines that a call hands to a library.
    fn routines(
        &self,
        at: InstructionRef,
        callback: &'static Callback,
    ) -> (BTreeSet<FunctionId>, bool) {
        let function = &self.pointers.functions[at.function as usize];
        match callback.routine {
            Routine::Operand(position) => {
                let pointer = function.operand(at.instruction, position);
                self.trace(at, pointer, callback.signature)
            }
            Routine::FirstField(position, record) => {
                let field = self.pointers.symbols.first_field(record);
                let callers = &self.graph.callers;
                self.pointers.trace_field(callers, at, position, field)
            }
            Routine::ThreadState => {
                let found = self.thread_states(at.function);
                let complete = !found.is_empty();
                (found, complete)
            }
        }
    }

    /// `_M_run` of the states that the calls of a function construct: their
    /// constructors store their tables.
    fn thread_states(&self, creator: FunctionId) -> BTreeSet<FunctionId> {
        let Pointers {
            functions, symbols, ..
        } = &self.pointers;
        let creator = &functions[creator as usize];
        let mut found = BTreeSet::new();
        for instruction in &creator.instructions {
            let Op::Call(Callee::Direct(callee)) = instruction.op else {
                continue;
            };
            let callee = &functions[callee as usize];
            for id in 0..callee.instructions.len() as InstructionId {
                let stored = match callee.op(id) {
                    Op::Store { .. } => callee.operand(id, 0),
                    _ => continue,
                };
                if let Operand::Global(table) = stored
                    && symbols.globals[table as usize].starts_with("_ZTVNSt6thread11_State_impl")
                {
                    let held = symbols.held.get(&table).into_iter().flatten();
                    let is_run =
                        |id: &&FunctionId| functions[**id as usize].name.ends_with("6_M_runEv");
                    found.extend(held.filter(is_run));
                }
            }
        }
        found
    }

    /// Functions that are named where `std::thread` and its like are used are
    /// run from there, not from wherever the library's templates call them.
    fn add_launches(&mut self) {
        let functions = self.pointers.functions;
        let mut found = Vec::new();
        for (target, sites) in self.graph.callers.iter().enumerate() {
            let name = &functions[target].name;
            for site in sites.iter().filter(|_| functions[target].is_defined()) {
                let caller = &functions[site.at.function as usize];
                let operands = caller.operands(site.at.instruction).iter().enumerate();
                let named = operands.filter_map(|(position, operand)| match operand {
                    Operand::Function(id) => Some((*id, launch(name, position)?)),
                    _ => None,
                });
                found.extend(named.map(|(id, callback)| (site.at, id, callback)));
            }
        }
        let launched: BTreeSet<FunctionId> = found.iter().map(|(_, id, _)| *id).collect();
        for id in launched {
            let inside = |at: InstructionRef| functions[at.function as usize].plumbing;
            let sites = &mut self.graph.callers[id as usize];
            for site in sites.iter().filter(|site| inside(site.at)) {
                if let Some(targets) = self.graph.targets.get_mut(&site.at) {
                    targets.retain(|target| *target != id);
                }
            }
            sites.retain(|site| !inside(site.at));
        }
        for (at, id, callback) in found {
            self.add_call(at, id, Some(callback));
        }
    }

    /// A key's destructor gets the values that are set for the key.
    fn add_destructors(&mut self) {
        let creations = self.graph.library_calls(&KEY_CREATORS);
        let settings = self.graph.library_calls(&KEY_SETTERS);
        let Pointers {
            functions, stores, ..
        } = &self.pointers;
        let mut sites = Vec::new();
        for setting in settings {
            let made = stores.made_by(functions, &creations, setting);
            for target in made.iter().flat_map(|at| self.graph.routines(*at)) {
                sites.push((setting, *target));
            }
        }
        for (at, target) in sites {
            self.add_call(at, target, Some(&SETS_KEY));
        }
    }

    fn add_call(
        &mut self,
        at: InstructionRef,
        target: FunctionId,
        callback: Option<&'static Callback>,
    ) {
        self.graph.callers[target as usize].push(CallSite { at, callback });
        let list = match callback {
            None => self.graph.targets.entry(at),
            Some(callback) => {
                match callback.runs {
                    Runs::Thread => self.entries.insert(Entry::Thread(target)),
                    Runs::Handler => self.entries.insert(Entry::Handler(target)),
                    Runs::Team => {
                        self.entries.insert(Entry::Thread(target));
                        self.entries.insert(Entry::From(at.function, target))
                    }
                    Runs::Caller => self.entries.insert(Entry::From(at.function, target)),
                };
                self.graph.routines.entry(at)
            }
        };
        list.or_default().push(target);
    }
}
