//! One module → the functions that a plan hooks, compiled twice: as they are and hooked.
//!
//! `llvm-extract` keeps the functions asked for and makes everything else a
//! declaration under its own name; constants keep their values, because code
//! generation looks at them. The *plain* object is compiled from just that:
//! its code must be P's, which is the proof that it was taken out faithfully,
//! and comparing the two says where P has each symbol (`bind.rs`). The
//! *tracked* object is the same with hooks.
//!
//! Modules that the plan does not touch are not even parsed: the names of all
//! functions that a module has code of stand as text in its bitcode.

use crate::branches::source_branches::SourceBranches;
use crate::clones::image::resident::resident;
use crate::clones::refusal::Refusal;
use crate::sites::hosts::Hosts;
use crate::sites::place::place;
use crate::{InstrumentError, tracked_build::io};
use build_store::sandbox::{Limits, Reach};
use build_store::tools::read_made;
use build_store::{ModuleEntry, ModuleStatus, RegisteredBuild, Stage, compile};
use inkwell::context::Context;
use inkwell::llvm_sys::core::{
    LLVMGetCalledValue, LLVMGetFirstGlobalAlias, LLVMGetFirstUse, LLVMGetInlineAsmAsmString,
    LLVMGetNextGlobalAlias, LLVMGetNextUse, LLVMGetUser, LLVMGetValueName2, LLVMIsABlockAddress,
    LLVMIsAInlineAsm,
};
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::values::{AsValueRef, FunctionValue, InstructionOpcode};
use sketch_model::{Placement, PointKind, TrackingPlan};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// The hooked functions of one module.
pub struct Extracted {
    /// The module's source file.
    pub source: String,
    /// Linkage names.
    pub functions: Vec<String>,
    /// Second names that the module gives to functions or data.
    pub aliases: BTreeSet<String>,
    /// Those of the functions that run in their tracked clones always.
    pub resident: BTreeSet<String>,
    pub plain: Vec<u8>,
    pub tracked: Vec<u8>,
    /// What the hooks in this module add to the plan's placement.
    pub placement: Placement,
}

/// Either kind of reason to stop: this way does not go, or no way does.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] InstrumentError),
}

/// In which functions of module `number` sites of `plan` stand.
pub fn survey(
    build: &RegisteredBuild,
    plan: &TrackingPlan,
    number: usize,
    module: &ModuleEntry,
) -> Result<Hosts, InstrumentError> {
    if module.status != ModuleStatus::Trackable || module.optimised.is_none() {
        return Ok(Hosts::default());
    }
    let optimised = build.optimised_bitcode(number)?;
    if !mentions_a_function_of(&optimised, plan) {
        return Ok(Hosts::default());
    }
    let context = Context::create();
    let parsed = parse(&context, &optimised, &module.source)?;
    Ok(Hosts::read(&context, &parsed, plan))
}

/// Takes `functions`, which `plan` hooks, out of module `number`.
pub fn extract(
    build: &RegisteredBuild,
    plan: &TrackingPlan,
    number: usize,
    functions: Vec<String>,
    folder: &Path,
) -> Result<Extracted, Stop> {
    let module = &build.manifest().modules[number];
    let optimised = build
        .optimised_bitcode(number)
        .map_err(InstrumentError::from)?;
    let context = Context::create();
    let parsed = parse(&context, &optimised, &module.source)?;
    for name in &functions {
        let Some(function) = parsed.get_function(name) else {
            continue;
        };
        let function_name = || name.clone();
        if has_addresses_of_blocks(function) {
            let function = function_name();
            return Err(Refusal::ComputedGoto { function }.into());
        }
        if has_assembly_in_other_sections(function) {
            let function = function_name();
            return Err(Refusal::AssemblyElsewhere { function }.into());
        }
    }
    let aliases = aliases(&parsed);
    let resident = resident(&parsed, &functions);
    let written = build
        .module_bitcode(number)
        .map_err(InstrumentError::from)?;
    let branches = source_branches(&context, &written, &parsed, &module.source, plan)?;
    drop(parsed);

    let path = |kind: &str| folder.join(format!("{number}.{kind}"));
    fs::write(path("bc"), &optimised).map_err(io("writing bitcode"))?;
    let tools = build.tools();
    let mut words: Vec<OsString> = vec!["--keep-const-init".into()];
    words.extend(functions.iter().map(|name| format!("--func={name}").into()));
    words.extend([path("bc").into(), "-o".into(), path("plain.bc").into()]);
    let tool = "llvm-extract-19".as_ref();
    let reach = Reach::new(folder, &[]);
    let ran = tools.run(tool, &words, "llvm-19", &reach);
    ran.map_err(|error| Refusal::Extract {
        module: module.source.clone(),
        reason: error.to_string(),
    })?;
    let plain = read_made(&path("plain.bc"), reach.limits).map_err(io("reading bitcode"))?;
    let mut placement = Placement::default();
    let tracked = hooked(&module.source, &plain, &branches, plan, &mut placement)?;
    fs::write(path("tracked.bc"), tracked).map_err(io("writing bitcode"))?;

    // One section for each constant, so that those which P has are left out, and
    // for each function, so that there can be a gate in front of it.
    let mut flags = module.flags.clone();
    flags.extend(["-fdata-sections".into(), "-ffunction-sections".into()]);
    let lower = |kind: &str| {
        let object = path(&format!("{kind}.o"));
        let input = path(&format!("{kind}.bc"));
        compile(&flags, Stage::ObjectFromOptimised, &input, &object, &tools).map_err(|e| {
            InstrumentError::Lower {
                module: module.source.clone(),
                reason: e.to_string(),
            }
        })?;
        read_made(&object, Limits::TOOL).map_err(io("reading an object"))
    };
    let (plain, tracked) = std::thread::scope(|scope| {
        let plain = scope.spawn(|| lower("plain"));
        (plain.join(), lower("tracked"))
    });
    let gone = |_| InstrumentError::Lower {
        module: module.source.clone(),
        reason: "the thread that compiled it ended early".into(),
    };
    Ok(Extracted {
        source: module.source.clone(),
        functions,
        aliases,
        resident,
        plain: plain.map_err(gone)??,
        tracked: tracked?,
        placement,
    })
}

/// The plan's branches as they were written in this module, of which `optimised`
/// is what became.
pub fn source_branches<'c>(
    context: &'c Context,
    written: &[u8],
    optimised: &Module<'c>,
    name: &str,
    plan: &TrackingPlan,
) -> Result<SourceBranches, InstrumentError> {
    let wanted = [PointKind::Branch, PointKind::Call];
    if !plan.sites.iter().any(|s| wanted.contains(&s.kind)) {
        return Ok(SourceBranches::default());
    }
    let written = parse(context, written, name)?;
    Ok(SourceBranches::read(context, &written, optimised, plan))
}

fn parse<'c>(
    context: &'c Context,
    bitcode: &[u8],
    name: &str,
) -> Result<Module<'c>, InstrumentError> {
    let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, name);
    Module::parse_bitcode_from_buffer(&buffer, context).map_err(|e| InstrumentError::Bitcode {
        module: name.to_owned(),
        reason: e.to_string(),
    })
}

fn hooked(
    name: &str,
    bitcode: &[u8],
    branches: &SourceBranches,
    plan: &TrackingPlan,
    placement: &mut Placement,
) -> Result<Vec<u8>, InstrumentError> {
    let context = Context::create();
    let module = parse(&context, bitcode, name)?;
    place(&context, &module, branches, plan, placement).map_err(|e| InstrumentError::Insert {
        module: name.to_owned(),
        reason: e.to_string(),
    })?;
    module.verify().map_err(|e| InstrumentError::Invalid {
        module: name.to_owned(),
        reason: e.to_string(),
    })?;
    Ok(module.write_bitcode_to_memory().as_slice().to_vec())
}

/// Whether the bitcode can have instructions of one of the plan's functions:
/// their names are then among its metadata strings, which are stored as text.
fn mentions_a_function_of(bitcode: &[u8], plan: &TrackingPlan) -> bool {
    let names: BTreeSet<&[u8]> = plan
        .all_statements()
        .map(|s| s.function.as_bytes())
        .filter(|name| !name.is_empty())
        .collect();
    let starts: Vec<bool> = (0..=u8::MAX)
        .map(|byte| names.iter().any(|name| name.first() == Some(&byte)))
        .collect();
    (0..bitcode.len()).any(|at| {
        starts[usize::from(bitcode[at])] && names.iter().any(|name| bitcode[at..].starts_with(name))
    })
}

/// Whether inline assembly writes into sections of its own, as tables of places
/// in the code do: such a table in P names places of P's code only.
fn has_assembly_in_other_sections(function: FunctionValue<'_>) -> bool {
    let calls = [InstructionOpcode::Call, InstructionOpcode::Invoke];
    let instructions = function
        .get_basic_block_iter()
        .flat_map(|block| block.get_instructions())
        .filter(|instruction| calls.contains(&instruction.get_opcode()));
    for call in instructions {
        // SAFETY: `call` is a live call or invoke; LLVM gives the text of inline
        // assembly with its length, and it is copied at once.
        let text = unsafe {
            let callee = LLVMGetCalledValue(call.as_value_ref());
            if LLVMIsAInlineAsm(callee).is_null() {
                continue;
            }
            let mut length = 0;
            let text = LLVMGetInlineAsmAsmString(callee, &mut length);
            if text.is_null() || length == 0 {
                continue;
            }
            std::slice::from_raw_parts(text.cast::<u8>(), length).to_vec()
        };
        if String::from_utf8_lossy(&text).contains("section") {
            return true;
        }
    }
    false
}

fn aliases(module: &Module<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // SAFETY: the module is alive, and so are its aliases; LLVM gives each name
    // with its length.
    unsafe {
        let mut next = LLVMGetFirstGlobalAlias(module.as_mut_ptr());
        while !next.is_null() {
            let mut length = 0;
            let name = LLVMGetValueName2(next, &mut length);
            let name = std::slice::from_raw_parts(name.cast::<u8>(), length);
            names.insert(String::from_utf8_lossy(name).into_owned());
            next = LLVMGetNextGlobalAlias(next);
        }
    }
    names
}

/// Whether blocks of the function can be jumped to through a pointer. Such
/// pointers may lie in P's data, and they lead into P's code.
fn has_addresses_of_blocks(function: FunctionValue<'_>) -> bool {
    let jumps = [InstructionOpcode::IndirectBr, InstructionOpcode::CallBr];
    let mut instructions = function
        .get_basic_block_iter()
        .flat_map(|block| block.get_instructions());
    if instructions.any(|instruction| jumps.contains(&instruction.get_opcode())) {
        return true;
    }
    // SAFETY: the function is alive, and so are its uses and their users.
    unsafe {
        let mut next = LLVMGetFirstUse(function.as_value_ref());
        while !next.is_null() {
            if !LLVMIsABlockAddress(LLVMGetUser(next)).is_null() {
                return true;
            }
            next = LLVMGetNextUse(next);
        }
    }
    false
}
