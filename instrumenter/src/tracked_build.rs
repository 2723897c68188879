//! A whole tracked build: hook, lower, link, strip.

use crate::{InstrumentError, place};
use build_store::{ModuleEntry, ModuleStatus, RegisteredBuild, Stage, compile, relink};
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
}

/// Makes the tracked build of `plan`.
pub fn track(
    build: &RegisteredBuild,
    plan: &TrackingPlan,
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
    let deployed = build_store::strip_for_deployment(&full)?;
    Ok(TrackedBuild {
        full,
        deployed,
        placement,
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
            ModuleStatus::Trackable => hooked(&module.source, &optimised, plan, placement)?,
            ModuleStatus::Untrackable { .. } => None,
        };
        write(hooked.as_deref().unwrap_or(&optimised))?;
        Stage::ObjectFromOptimised
    } else {
        write(&build.module_bitcode(number)?)?;
        Stage::Object
    };
    compile(&module.flags, stage, &input, &object).map_err(|e| InstrumentError::Lower {
        module: module.source.clone(),
        reason: e.to_string(),
    })?;
    Ok(object)
}

/// The module with its hooks; `None` if the plan has none in it.
fn hooked(
    name: &str,
    bitcode: &[u8],
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
    let any = place(&context, &module, plan, placement).map_err(|e| InstrumentError::Insert {
        module: name.to_owned(),
        reason: e.to_string(),
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

fn io(what: &'static str) -> impl Fn(std::io::Error) -> InstrumentError {
    move |source| InstrumentError::Io { what, source }
}
