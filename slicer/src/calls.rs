//! Who calls whom, who starts threads, and which threads can run a function.
//!
//! Direct calls are plain. A called pointer is traced to functions through
//! casts, phis, selects, slots, parameters of directly called functions and
//! stores to fields and globals; where that fails, every function of the same
//! type whose address is taken is a candidate. Thread creation is a call of the
//! start routine with the thread's argument.
//!
//! Deliberately absent (issue 3): virtual calls by class hierarchy,
//! `std::thread`, OpenMP, signal handlers, callbacks that libc calls.

use crate::index::StoreIndex;
use crate::places::Root;
use crate::program::*;
use sketch_model::SyncOp;
use std::collections::{BTreeSet, HashMap};

/// How far a function pointer is followed back.
const MAX_DEPTH: u32 = 6;

/// A place that calls or starts a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallSite {
    pub at: InstructionRef,
    /// For thread creation: the operand that becomes the routine's parameter.
    pub thread_argument: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct CallGraph {
    callers: Vec<Vec<CallSite>>,
    /// Defined and declared functions that each call may call.
    targets: HashMap<InstructionRef, Vec<FunctionId>>,
    roles: Vec<Vec<String>>,
}

/// A function that starts threads: positions of start routine and argument.
struct ThreadStarter {
    name: &'static str,
    routine: usize,
    argument: u32,
    signature: &'static str,
}

const THREAD_STARTERS: [ThreadStarter; 2] = [
    ThreadStarter {
        name: "pthread_create",
        routine: 2,
        argument: 3,
        signature: "ptr (ptr)",
    },
    ThreadStarter {
        name: "thrd_create",
        routine: 1,
        argument: 2,
        signature: "i32 (ptr)",
    },
];

/// The synchronisation operation that a library function is.
pub(crate) fn sync_op(function: &str) -> Option<SyncOp> {
    Some(match function {
        "pthread_mutex_lock" | "pthread_mutex_trylock" | "pthread_mutex_timedlock" => {
            SyncOp::MutexLock
        }
        "mtx_lock" | "mtx_trylock" | "mtx_timedlock" => SyncOp::MutexLock,
        "pthread_mutex_unlock" | "mtx_unlock" => SyncOp::MutexUnlock,
        "pthread_create" | "thrd_create" => SyncOp::ThreadCreate,
        "pthread_join" | "thrd_join" => SyncOp::ThreadJoin,
        "pthread_cond_wait" | "pthread_cond_timedwait" => SyncOp::CondWait,
        "cnd_wait" | "cnd_timedwait" => SyncOp::CondWait,
        "pthread_cond_signal" | "pthread_cond_broadcast" => SyncOp::CondSignal,
        "cnd_signal" | "cnd_broadcast" => SyncOp::CondSignal,
        _ => return None,
    })
}

impl CallGraph {
    /// The graph, and what could not be resolved, in words.
    pub fn build(functions: &[Function], stores: &StoreIndex) -> (CallGraph, Vec<String>) {
        let mut builder = Builder::new(functions, stores);
        builder.add_direct_calls();
        builder.add_pointer_calls();
        builder.graph.roles = builder.roles();
        (builder.graph, builder.gaps)
    }

    pub fn callers(&self, function: FunctionId) -> &[CallSite] {
        &self.callers[function as usize]
    }

    pub fn targets(&self, call: InstructionRef) -> &[FunctionId] {
        self.targets.get(&call).map_or(&[], Vec::as_slice)
    }

    /// Start routines ("main" among them) of threads that can run a function.
    pub fn roles(&self, function: FunctionId) -> &[String] {
        &self.roles[function as usize]
    }
}

struct Builder<'a> {
    functions: &'a [Function],
    stores: &'a StoreIndex,
    graph: CallGraph,
    by_signature: HashMap<&'a str, Vec<FunctionId>>,
    /// Indirect calls and thread creations, to be resolved second.
    pending: Vec<InstructionRef>,
    starts: BTreeSet<FunctionId>,
    gaps: Vec<String>,
}

impl<'a> Builder<'a> {
    fn new(functions: &'a [Function], stores: &'a StoreIndex) -> Builder<'a> {
        let mut by_signature: HashMap<&str, Vec<FunctionId>> = HashMap::new();
        for (id, function) in functions.iter().enumerate() {
            if function.address_taken && function.is_defined() {
                let list = by_signature.entry(&function.signature).or_default();
                list.push(id as FunctionId);
            }
        }
        let graph = CallGraph {
            callers: vec![Vec::new(); functions.len()],
            ..CallGraph::default()
        };
        Builder {
            functions,
            stores,
            graph,
            by_signature,
            pending: Vec::new(),
            starts: BTreeSet::new(),
            gaps: Vec::new(),
        }
    }

    fn add_direct_calls(&mut self) {
        for (id, function) in self.functions.iter().enumerate() {
            for instruction in 0..function.instructions.len() as InstructionId {
                let at = InstructionRef {
                    function: id as FunctionId,
                    instruction,
                };
                match function.op(instruction) {
                    Op::Call(Callee::Direct(target)) => {
                        self.add_call(at, target, None);
                        if starter(&self.functions[target as usize].name).is_some() {
                            self.pending.push(at);
                        }
                    }
                    Op::Call(Callee::Indirect) => self.pending.push(at),
                    _ => {}
                }
            }
        }
    }

    fn add_pointer_calls(&mut self) {
        for at in std::mem::take(&mut self.pending) {
            let function = &self.functions[at.function as usize];
            let operands = function.operands(at.instruction);
            let starter = match function.op(at.instruction) {
                Op::Call(Callee::Direct(id)) => starter(&self.functions[id as usize].name),
                _ => None,
            };
            let pointer = match starter {
                Some(starter) => operands.get(starter.routine),
                None => operands.last(),
            };
            let pointer = pointer.copied().unwrap_or(Operand::Constant);
            let signature = match starter {
                Some(starter) => starter.signature,
                None => function.called_types.get(&at.instruction).map_or("", |s| s),
            };
            let mut found = BTreeSet::new();
            let complete = self.trace(at.function, pointer, signature, MAX_DEPTH, &mut found);
            if !complete {
                found.extend(self.by_signature.get(signature).into_iter().flatten());
                if starter.is_some() {
                    self.gaps.push(format!(
                        "the start routine of a thread created in {} is not known; every \
                         function of its type is taken for one",
                        function.name
                    ));
                }
            }
            for target in found {
                self.add_call(at, target, starter.map(|s| s.argument));
                if starter.is_some() {
                    self.starts.insert(target);
                }
            }
        }
    }

    fn add_call(&mut self, at: InstructionRef, target: FunctionId, thread_argument: Option<u32>) {
        self.graph.callers[target as usize].push(CallSite {
            at,
            thread_argument,
        });
        if thread_argument.is_none() {
            self.graph.targets.entry(at).or_default().push(target);
        }
    }

    /// Collects the functions that a pointer may be; false if there may be others.
    fn trace(
        &self,
        holder: FunctionId,
        pointer: Operand,
        signature: &str,
        depth: u32,
        found: &mut BTreeSet<FunctionId>,
    ) -> bool {
        let function = &self.functions[holder as usize];
        let id = match pointer {
            Operand::Function(id) => {
                found.insert(id);
                return true;
            }
            Operand::Constant => return true,
            _ if depth == 0 => return false,
            Operand::Global(_) => return false,
            Operand::Parameter(number) => {
                let sites = &self.graph.callers[holder as usize];
                return !function.address_taken
                    && !sites.is_empty()
                    && sites.iter().all(|site| {
                        let caller = &self.functions[site.at.function as usize];
                        let value = caller.operand(site.at.instruction, number as usize);
                        self.trace(site.at.function, value, signature, depth - 1, found)
                    });
            }
            Operand::Instruction(id) => id,
        };
        let mut follow =
            |operand: &Operand| self.trace(holder, *operand, signature, depth - 1, found);
        match function.op(id) {
            Op::Cast => follow(&function.operand(id, 0)),
            Op::Phi => function.operands(id).iter().all(follow),
            Op::Select => function.operands(id)[1..].iter().all(follow),
            Op::Load { field, .. } => {
                let resolver = self.stores.resolver(self.functions, holder);
                let place = resolver.place(function.operand(id, 0), field);
                self.trace_load(holder, place, signature, depth, found)
            }
            _ => false,
        }
    }

    fn trace_load(
        &self,
        holder: FunctionId,
        place: crate::places::Place,
        signature: &str,
        depth: u32,
        found: &mut BTreeSet<FunctionId>,
    ) -> bool {
        let writes: Vec<InstructionRef> = match (place.field, place.root) {
            (Some(field), _) => self
                .stores
                .field_writes(field)
                .iter()
                .map(|w| w.at)
                .collect(),
            (None, Root::Global(id)) => {
                self.stores.global_writes(id).iter().map(|w| w.at).collect()
            }
            (None, Root::Slot(slot)) => {
                let at = InstructionRef {
                    function: holder,
                    instruction: slot,
                };
                if self.stores.escapes(at) {
                    return false;
                }
                self.slot_stores(holder, slot)
            }
            _ => return false,
        };
        if !matches!(place.root, Root::Slot(_)) {
            // Initial values of tables count as stores to all of their fields.
            let candidates = self.by_signature.get(signature).into_iter().flatten();
            found.extend(candidates.filter(|id| self.functions[**id as usize].in_initializer));
        }
        let complete = writes.iter().all(|at| {
            let function = &self.functions[at.function as usize];
            matches!(function.op(at.instruction), Op::Store { .. })
                && self.trace(
                    at.function,
                    function.operand(at.instruction, 0),
                    signature,
                    depth - 1,
                    found,
                )
        });
        complete && !found.is_empty()
    }

    fn slot_stores(&self, holder: FunctionId, slot: InstructionId) -> Vec<InstructionRef> {
        let function = &self.functions[holder as usize];
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

    fn roles(&self) -> Vec<Vec<String>> {
        let mut callees: Vec<Vec<FunctionId>> = vec![Vec::new(); self.functions.len()];
        for (at, targets) in &self.graph.targets {
            callees[at.function as usize].extend(targets);
        }
        let main = self.functions.iter().position(|f| f.name == "main");
        let roots = main.map(|id| id as FunctionId).into_iter();
        let roots: BTreeSet<FunctionId> = roots.chain(self.starts.iter().copied()).collect();
        let mut roles: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); self.functions.len()];
        for root in roots {
            let name = self.functions[root as usize].name.as_str();
            let mut work = vec![root];
            while let Some(id) = work.pop() {
                if roles[id as usize].insert(name) {
                    work.extend(&callees[id as usize]);
                }
            }
        }
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
        roles.into_iter().map(owned).collect()
    }
}

fn starter(name: &str) -> Option<&'static ThreadStarter> {
    THREAD_STARTERS.iter().find(|starter| starter.name == name)
}
