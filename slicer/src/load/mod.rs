//! Bitcode modules to one [`Program`]: symbols, statements, indexes.
//!
//! Each module is read in a context of its own and dropped before the next, so
//! that peak memory follows the largest module. Symbols are bound as a linker
//! binds them: by name across modules, apart for internal ones, a strong
//! definition over a weak one. Statement ids are given last, after sorting by
//! file, line and function, so that they do not depend on the order in which
//! modules come.
//!
//! Deliberately absent: a guard against bits flipped inside a module. Truncated
//! and foreign bytes are refused with LLVM's reason, but LLVM's reader itself
//! crashed or aborted the process on 24 of 300 modules with one to four random
//! bits flipped. That is why the command reads bitcode in a child process when a
//! build is registered, and others work with the graph that came of it.

pub(crate) mod address;
pub(crate) mod debug_info;
pub(crate) mod function;
pub(crate) mod initial_values;
pub(crate) mod llvm;
pub(crate) mod virtual_calls;

use crate::calls::CallGraph;
use crate::ir::classes::Classes;
use crate::ir::error::SlicerError;
use crate::ir::names::{is_plumbing, record_name};
use crate::ir::program::*;
use crate::memory::stores::StoreIndex;
use debug_info::DebugInfo;
use function::load_function;
use llvm::{Linkage, Metadata, Module, Type, TypeKind, Value, ValueKind};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use sketch_model::{BuildId, SourceLocation, StatementId};

/// One module of a program.
#[derive(Clone, Copy, Debug)]
pub struct ModuleInput<'a> {
    /// What messages call it: the source file, say.
    pub name: &'a str,
    pub bitcode: &'a [u8],
}

/// File (its position in [`Tables::files`]), line and function: what makes a
/// statement.
type StatementKey = (u32, u32, FunctionId);

/// What grows over all modules.
#[derive(Default)]
pub(crate) struct Tables {
    pub functions: Vec<Function>,
    /// Whether a definition may be replaced by a strong one.
    weak: Vec<bool>,
    function_ids: HashMap<(Option<usize>, String), FunctionId>,
    globals: Vec<String>,
    global_ids: HashMap<(Option<usize>, String), GlobalId>,
    records: Vec<String>,
    record_ids: HashMap<String, RecordId>,
    fields: Vec<Field>,
    field_ids: HashMap<(RecordId, u64), FieldId>,
    /// The functions that initial values of globals hold.
    pub held: HashMap<GlobalId, Vec<FunctionId>>,
    pub classes: Classes,
    files: Vec<String>,
    file_ids: HashMap<String, u32>,
    statement_keys: Vec<StatementKey>,
    statement_ids: HashMap<StatementKey, StatementId>,
}

/// One module while it is read.
pub(crate) struct ModuleScope<'a, 'm> {
    pub module: &'m Module,
    pub debug: DebugInfo<'m>,
    pub tables: &'a mut Tables,
    /// Distinguishes internal symbols of modules.
    number: usize,
    functions: HashMap<Value<'m>, FunctionId>,
    globals: HashMap<Value<'m>, GlobalId>,
    record_types: HashMap<Type<'m>, Option<RecordId>>,
    /// By scope.
    files: HashMap<Metadata<'m>, u32>,
}

/// A program while its modules come in, one by one: none is needed any more
/// once the next is there.
pub struct Loader {
    build: BuildId,
    tables: Tables,
    modules: usize,
    without_debug_info: Vec<String>,
}

impl Loader {
    pub fn new(build: BuildId) -> Loader {
        Loader {
            build,
            tables: Tables::default(),
            modules: 0,
            without_debug_info: Vec::new(),
        }
    }

    pub fn add(&mut self, input: ModuleInput<'_>) -> Result<(), SlicerError> {
        let module = parse(&input)?;
        if module.compile_units().is_empty() {
            self.without_debug_info.push(input.name.to_owned());
        }
        load_module(&mut self.tables, &module, self.modules);
        self.modules += 1;
        Ok(())
    }

    pub fn finish(self) -> Result<Program, SlicerError> {
        let bare = self.without_debug_info;
        match bare.first() {
            _ if self.modules == 0 => return Err(SlicerError::NoModules),
            Some(first) if bare.len() == self.modules => {
                let module = first.clone();
                return Err(SlicerError::NoDebugInfo { module });
            }
            _ => {}
        }
        let gaps = bare.into_iter().map(ProgramGap::ModuleWithoutDebugInfo);
        Ok(finish(self.build, self.tables, gaps.collect()))
    }
}

impl Program {
    /// A program without code, for tests of what looks at one function.
    #[cfg(test)]
    pub(crate) fn without_code() -> Program {
        finish(BuildId("ab".into()), Tables::default(), Vec::new())
    }

    /// Reads the modules of one program.
    pub fn load(build: BuildId, modules: &[ModuleInput<'_>]) -> Result<Program, SlicerError> {
        let mut loader = Loader::new(build);
        for input in modules {
            loader.add(*input)?;
        }
        loader.finish()
    }
}

fn parse(input: &ModuleInput<'_>) -> Result<Module, SlicerError> {
    let is_bitcode = input.bitcode.starts_with(b"BC\xC0\xDE")
        || input.bitcode.starts_with(&0x0B17_C0DE_u32.to_le_bytes());
    if !is_bitcode {
        let start = &input.bitcode[..input.bitcode.len().min(4)];
        return Err(SlicerError::NotBitcode {
            module: input.name.to_owned(),
            found: if start.is_empty() {
                "nothing: it is empty".to_owned()
            } else {
                format!("the bytes {start:02x?}")
            },
        });
    }
    Module::parse(input.bitcode).map_err(|problem| SlicerError::Unreadable {
        module: input.name.to_owned(),
        problem,
    })
}

fn load_module(tables: &mut Tables, module: &Module, number: usize) {
    let functions: Vec<Value<'_>> = module.functions().collect();
    let mut roots = module.compile_units();
    for function in &functions {
        roots.extend(function.subprogram());
        // Without optimisation no list keeps local variables: their declarations do.
        for block in function.blocks() {
            let calls = block.instructions().filter(|i| is_debug_declare(*i));
            roots.extend(calls.filter_map(|call| call.operands().get(1)?.as_metadata()));
        }
    }
    let mut scope = ModuleScope {
        module,
        debug: DebugInfo::collect(module, roots),
        tables,
        number,
        functions: HashMap::default(),
        globals: HashMap::default(),
        record_types: HashMap::default(),
        files: HashMap::default(),
    };
    let mut seen = HashSet::default();
    for global in module.globals() {
        if let Some(initializer) = global.initializer() {
            scope.note_addresses(initializer, &mut seen, true);
            scope.note_initial(global, initializer);
        }
    }
    for function in functions {
        let linkage = function.linkage();
        let is_body = !function.is_declaration()
            && !matches!(linkage, Linkage::LLVMAvailableExternallyLinkage);
        let id = scope.function(function);
        if is_body && scope.tables.accepts_body(id, is_weak(linkage)) {
            load_function(&mut scope, function, id);
        }
    }
}

pub(crate) fn is_debug_declare(instruction: Value<'_>) -> bool {
    matches!(instruction.opcode(), crate::load::llvm::Opcode::LLVMCall)
        && instruction
            .called_value()
            .is_some_and(|f| f.has_name("llvm.dbg.declare"))
}

fn is_weak(linkage: Linkage) -> bool {
    matches!(
        linkage,
        Linkage::LLVMLinkOnceAnyLinkage
            | Linkage::LLVMLinkOnceODRLinkage
            | Linkage::LLVMWeakAnyLinkage
            | Linkage::LLVMWeakODRLinkage
    )
}

impl Tables {
    /// Whether the definition at hand is the one a linker keeps, so far.
    fn accepts_body(&mut self, id: FunctionId, weak: bool) -> bool {
        let defined = self.functions[id as usize].is_defined();
        let was_weak = std::mem::replace(&mut self.weak[id as usize], weak);
        let accepted = !defined || (was_weak && !weak);
        if !accepted {
            self.weak[id as usize] = was_weak;
        }
        accepted
    }

    /// The provisional number of a statement.
    pub fn statement(&mut self, file: u32, line: u32, function: FunctionId) -> StatementId {
        let key = (file, line, function);
        let keys = &mut self.statement_keys;
        *self.statement_ids.entry(key).or_insert_with(|| {
            keys.push(key);
            StatementId(keys.len() as u32 - 1)
        })
    }

    fn file(&mut self, path: &str) -> u32 {
        if let Some(id) = self.file_ids.get(path) {
            return *id;
        }
        let id = self.files.len() as u32;
        self.files.push(path.to_owned());
        self.file_ids.insert(path.to_owned(), id);
        id
    }
}

impl<'m> ModuleScope<'_, 'm> {
    pub fn function(&mut self, value: Value<'m>) -> FunctionId {
        if let Some(id) = self.functions.get(&value) {
            return *id;
        }
        let key = (self.owner(value), value.name());
        let tables = &mut *self.tables;
        let id = *tables.function_ids.entry(key).or_insert_with_key(|key| {
            tables.functions.push(Function {
                name: key.1.clone(),
                signature: value.value_type().text(),
                plumbing: is_plumbing(&key.1),
                ..Function::default()
            });
            tables.weak.push(false);
            (tables.functions.len() - 1) as FunctionId
        });
        self.functions.insert(value, id);
        id
    }

    pub fn global(&mut self, value: Value<'m>) -> GlobalId {
        if let Some(id) = self.globals.get(&value) {
            return *id;
        }
        let key = (self.owner(value), value.name());
        let tables = &mut *self.tables;
        let id = *tables.global_ids.entry(key).or_insert_with_key(|key| {
            tables.globals.push(key.1.clone());
            (tables.globals.len() - 1) as GlobalId
        });
        self.globals.insert(value, id);
        id
    }

    /// The file that a scope lies in, as [`Tables::statement`] takes it.
    pub fn file_of(&mut self, place: Metadata<'m>) -> u32 {
        let tables = &mut *self.tables;
        let known = self.files.entry(place);
        *known.or_insert_with(|| tables.file(&crate::load::debug_info::path_of(place)))
    }

    /// The module that an internal symbol belongs to.
    fn owner(&self, value: Value<'m>) -> Option<usize> {
        matches!(
            value.linkage(),
            Linkage::LLVMInternalLinkage | Linkage::LLVMPrivateLinkage
        )
        .then_some(self.number)
    }

    /// The record that a struct type is, if it has a name.
    pub fn record(&mut self, ty: Type<'m>) -> Option<RecordId> {
        if !matches!(ty.kind(), TypeKind::LLVMStructTypeKind) {
            return None;
        }
        if let Some(known) = self.record_types.get(&ty) {
            return *known;
        }
        let llvm_name = ty.struct_name();
        let id = llvm_name.as_deref().and_then(record_name).map(|name| {
            let tables = &mut *self.tables;
            *tables.record_ids.entry(name.to_owned()).or_insert_with(|| {
                tables.records.push(name.to_owned());
                (tables.records.len() - 1) as RecordId
            })
        });
        self.record_types.insert(ty, id);
        id
    }

    /// The field at a byte offset of a record; `size` is the record's.
    pub fn field(&mut self, record: RecordId, size: u64, offset: u64) -> FieldId {
        let tables = &mut *self.tables;
        if let Some(id) = tables.field_ids.get(&(record, offset)) {
            return *id;
        }
        let record_name = &tables.records[record as usize];
        let name = self.debug.field_name(record_name, size, offset);
        let id = tables.fields.len() as FieldId;
        tables.fields.push(Field {
            record,
            offset,
            name: name.unwrap_or_else(|| format!("+{offset}")),
        });
        tables.field_ids.insert((record, offset), id);
        id
    }

    /// Marks the functions whose address a constant contains.
    pub fn note_addresses(
        &mut self,
        constant: Value<'m>,
        seen: &mut HashSet<Value<'m>>,
        in_initializer: bool,
    ) {
        let mut work = vec![constant];
        while let Some(value) = work.pop() {
            if !seen.insert(value) {
                continue;
            }
            match value.kind() {
                ValueKind::LLVMFunctionValueKind => {
                    let id = self.function(value);
                    let function = &mut self.tables.functions[id as usize];
                    function.address_taken = true;
                    function.in_initializer |= in_initializer;
                }
                ValueKind::LLVMConstantStructValueKind
                | ValueKind::LLVMConstantArrayValueKind
                | ValueKind::LLVMConstantVectorValueKind
                | ValueKind::LLVMConstantExprValueKind => work.extend(value.operands()),
                ValueKind::LLVMGlobalAliasValueKind => work.extend(value.aliasee()),
                _ => {}
            }
        }
    }
}

/// Gives statements their ids and builds the indexes.
fn finish(build: BuildId, tables: Tables, gaps: Vec<ProgramGap>) -> Program {
    let mut functions = tables.functions;
    let (statements, final_ids) = statements(&functions, &tables.files, &tables.statement_keys);
    let mut by_file_name: HashMap<String, Vec<StatementId>> = HashMap::default();
    for info in &statements {
        let name = info.location.file_name();
        match by_file_name.get_mut(name) {
            Some(ids) => ids.push(info.id),
            None => drop(by_file_name.insert(name.to_owned(), vec![info.id])),
        }
    }
    let mut members = vec![Vec::new(); statements.len()];
    for (function, body) in functions.iter_mut().enumerate() {
        for (number, instruction) in body.instructions.iter_mut().enumerate() {
            if let Some(provisional) = instruction.statement {
                let id = final_ids[provisional.0 as usize];
                instruction.statement = Some(id);
                members[id.0 as usize].push(InstructionRef {
                    function: function as FunctionId,
                    instruction: number as InstructionId,
                });
            }
        }
    }
    let stores = StoreIndex::build(&functions, &tables.fields);
    let symbols = Symbols {
        globals: tables.globals,
        records: tables.records,
        fields: tables.fields,
        held: tables.held,
        classes: tables.classes,
    };
    let (calls, call_gaps) = CallGraph::build(&functions, &symbols, &stores);
    Program {
        build,
        functions,
        symbols,
        libraries: libraries(&statements),
        statements,
        members,
        by_file_name,
        stores,
        calls,
        gaps: gaps.into_iter().chain(call_gaps).collect(),
        graph: Default::default(),
    }
}

/// The statement table, and the place in it of each provisional statement.
/// Internal functions of one name, and copies of one inline function, share
/// their statements: the key that counts holds the name.
fn statements(
    functions: &[Function],
    files: &[String],
    keys: &[StatementKey],
) -> (Vec<StatementInfo>, Vec<StatementId>) {
    let file_ranks = ranks(files.iter().map(String::as_str));
    let name_ranks = ranks(functions.iter().map(|f| f.name.as_str()));
    let mut order: Vec<(u32, u32, u32, u32)> = Vec::with_capacity(keys.len());
    for (number, (file, line, function)) in (0..).zip(keys) {
        let file = file_ranks[*file as usize];
        order.push((file, *line, name_ranks[*function as usize], number));
    }
    order.sort_unstable();
    let mut statements: Vec<StatementInfo> = Vec::new();
    let mut final_ids = vec![StatementId(0); keys.len()];
    let mut last = None;
    for (file, line, name, number) in order {
        if last.replace((file, line, name)) != Some((file, line, name)) {
            let (file, line, function) = keys[number as usize];
            statements.push(StatementInfo {
                id: StatementId(statements.len() as u32),
                function: functions[function as usize].name.clone(),
                location: SourceLocation {
                    file: files[file as usize].clone(),
                    line,
                },
            });
        }
        final_ids[number as usize] = StatementId(statements.len() as u32 - 1);
    }
    (statements, final_ids)
}

/// For each text its place in the order of all of them; equal texts share it.
fn ranks<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<u32> {
    let texts: Vec<&str> = texts.collect();
    let mut sorted = texts.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let rank = |text: &&str| sorted.partition_point(|other| other < text) as u32;
    texts.iter().map(rank).collect()
}
