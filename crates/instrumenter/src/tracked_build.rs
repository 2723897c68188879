//! A whole tracked build: by clones where that goes, else by linking again.
//!
//! Linking again is the older way and the fallback: hooks go into the functions
//! themselves, every module is lowered, the recorded link line runs. It takes
//! time in proportion to the program, and always hooks.

use crate::InstrumentError;
use crate::clones::{Refusal, Stop, source_branches, track_by_clones};
use crate::sites::place::place;
use build_store::link::relink::relink;
use build_store::{ModuleEntry, ModuleStatus, RegisteredBuild, Stage, compile};
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use sketch_model::{Placement, TrackingPlan};
use std::fs;
use std::path::{Path, PathBuf};

/// P′ in both its forms, and where its hooks stand.
pub struct TrackedBuild {
    /// With debug info, for attributing addresses on the server.
    pub full: Vec<u8>,
    /// As agents run it.
    pub deployed: Vec<u8>,
    pub placement: Placement,
    pub way: Way,
}

/// How a tracked build was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// P and clones of so many functions.
    Clones { functions: usize },
    /// Linked again, because clones were refused.
    Relinked { reason: Refusal },
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Way::Clones { functions } => write!(f, "clones of {functions} functions"),
            Way::Relinked { reason } => write!(f, "linked again: {reason}"),
        }
    }
}

/// Makes the tracked build of `plan`.
pub fn track(
    build: &RegisteredBuild,
    plan: &TrackingPlan,
) -> Result<TrackedBuild, InstrumentError> {
    match track_by_clones(build, plan) {
        Ok(cloned) => Ok(TrackedBuild {
            full: cloned.full,
            deployed: cloned.deployed,
            placement: cloned.placement,
            way: Way::Clones {
                functions: cloned.functions,
            },
        }),
        Err(Stop::Refused(reason)) => track_by_relinking(build, plan, reason),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Makes the tracked build of `plan` by linking the program again; `reason` says
/// why not by clones.
pub fn track_by_relinking(
    build: &RegisteredBuild,
    plan: &TrackingPlan,
    reason: Refusal,
) -> Result<TrackedBuild, InstrumentError> {
    let folder = tempfile::tempdir().map_err(io("making a folder for the tracked build"))?;
    let mut placement = Placement::default();
    let mut objects = Vec::new();
    for (number, module) in build.manifest().modules.iter().enumerate() {
        objects.push(lower(
            build,
            plan,
            number,
            module,
            folder.path(),
            &mut placement,
        )?);
    }
    if placement.places.iter().all(|places| *places == 0) {
        return Err(InstrumentError::NothingToHook {
            sites: plan.sites.len(),
        });
    }
    let runtime = folder.path().join(runtime::LINKABLE_FILE_NAME);
    fs::write(&runtime, runtime::LINKABLE).map_err(io("writing the runtime"))?;
    let linked = folder.path().join("tracked");
    relink(build, &objects, &[runtime], &linked)?;
    let full = fs::read(&linked).map_err(io("reading the tracked build"))?;
    let deployed = build_store::strip_for_deployment(&full, &build.tools())?;
    Ok(TrackedBuild {
        full,
        deployed,
        placement,
        way: Way::Relinked { reason },
    })
}

/// The object of one module: hooked if it may be and the plan has sites in it.
fn lower(
    build: &RegisteredBuild,
    plan: &TrackingPlan,
    number: usize,
    module: &ModuleEntry,
    folder: &Path,
    placement: &mut Placement,
) -> Result<PathBuf, InstrumentError> {
    let input = folder.join(format!("{number}.bc"));
    let object = folder.join(format!("{number}.o"));
    let write = |bitcode: &[u8]| fs::write(&input, bitcode).map_err(io("writing bitcode"));
    let stage = if module.optimised.is_some() {
        let optimised = build.optimised_bitcode(number)?;
        let hooked = match module.status {
            ModuleStatus::Trackable => {
                let written = build.module_bitcode(number)?;
                hooked(&module.source, &optimised, &written, plan, placement)?
            }
            ModuleStatus::Untrackable { .. } => None,
        };
        write(hooked.as_deref().unwrap_or(&optimised))?;
        Stage::ObjectFromOptimised
    } else {
        write(&build.module_bitcode(number)?)?;
        Stage::Object
    };
    let compiled = compile(&module.flags, stage, &input, &object, &build.tools());
    compiled.map_err(|e| InstrumentError::Lower {
        module: module.source.clone(),
        reason: e.to_string(),
    })?;
    Ok(object)
}

/// The module with its hooks; `None` if the plan has none in it.
fn hooked(
    name: &str,
    bitcode: &[u8],
    written: &[u8],
    plan: &TrackingPlan,
    placement: &mut Placement,
) -> Result<Option<Vec<u8>>, InstrumentError> {
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, name);
    let module = Module::parse_bitcode_from_buffer(&buffer, &context).map_err(|e| {
        InstrumentError::Bitcode {
            module: name.to_owned(),
            reason: e.to_string(),
        }
    })?;
    let branches = source_branches(&context, written, &module, name, plan)?;
    let any = place(&context, &module, &branches, plan, placement).map_err(|e| {
        InstrumentError::Insert {
            module: name.to_owned(),
            reason: e.to_string(),
        }
    })?;
    if !any {
        return Ok(None);
    }
    module.verify().map_err(|e| InstrumentError::Invalid {
        module: name.to_owned(),
        reason: e.to_string(),
    })?;
    Ok(Some(module.write_bitcode_to_memory().as_slice().to_vec()))
}

pub(crate) fn io(what: &'static str) -> impl Fn(std::io::Error) -> InstrumentError {
    move |source| InstrumentError::Io { what, source }
}
