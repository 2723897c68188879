//! The real workshop: build store, slicer and instrumenter.
//!
//! Loading a program's bitcode takes longer than anything asked of it, so the
//! last few programs stay loaded; they are plain data and can be shared between
//! the engine and its jobs.

use super::code_map::{BinaryCode, StatementTable};
use super::symbolize::LocatedFailure;
use super::symbols::Symbols;
use super::workshop::{BuildCode, TrackedBinary, Workshop, WorkshopError};
use build_store::{BuildManifest, BuildStore, ModuleStatus, RegisteredBuild, StoreError};
use instrumenter::InstrumentError;
use sketch_model::{BuildId, Slice, SourceLocation, Statement, StatementId, TrackingPlan};
use slicer::{ModuleInput, Program};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Programs kept loaded.
const PROGRAMS_KEPT: usize = 4;

pub struct LlvmWorkshop {
    store: BuildStore,
    loaded: Mutex<HashMap<BuildId, Arc<LoadedBuild>>>,
}

/// A registered build with its program in memory.
struct LoadedBuild {
    registered: RegisteredBuild,
    program: Program,
    /// Lines of the source files that were asked for; `None` for one that the
    /// store does not have.
    sources: Mutex<HashMap<String, Option<Vec<String>>>>,
}

impl LoadedBuild {
    fn source_line(&self, location: &SourceLocation) -> Option<String> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = sources.entry(location.file.clone()).or_insert_with(|| {
            let text = self.registered.source(&location.file)?;
            Some(text.lines().map(str::to_owned).collect())
        });
        let index = (location.line as usize).checked_sub(1)?;
        lines.as_ref()?.get(index).cloned()
    }
}

impl StatementTable for LoadedBuild {
    fn statement(&self, function: Option<&str>, file: &str, line: u32) -> Option<StatementId> {
        self.program.statement_at(function, file, line)
    }

    fn described(&self, id: StatementId) -> Option<Statement> {
        let info = self.program.statements().get(id.0 as usize)?;
        let text = self.source_line(&info.location).unwrap_or_default();
        Some(Statement {
            id,
            function: info.function.clone(),
            location: info.location.clone(),
            text: text.trim().to_owned(),
        })
    }
}

impl LlvmWorkshop {
    /// A workshop over the builds of a store; one that does not exist yet has none.
    pub fn open(store: &Path) -> LlvmWorkshop {
        LlvmWorkshop {
            store: BuildStore::open(store),
            loaded: Mutex::new(HashMap::new()),
        }
    }

    fn registered(&self, build: &BuildId) -> Result<RegisteredBuild, WorkshopError> {
        self.store.load(build).map_err(|error| match error {
            StoreError::Unknown { .. } | StoreError::NotABuildId(_) => {
                WorkshopError::UnknownBuild(build.clone())
            }
            other => bad_build(build, other),
        })
    }

    fn loaded(&self, build: &BuildId) -> Result<Arc<LoadedBuild>, WorkshopError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = loaded.get(build) {
            return Ok(Arc::clone(known));
        }
        // Under the lock: two callers must not load the same program twice.
        let fresh = Arc::new(self.load(build)?);
        if loaded.len() >= PROGRAMS_KEPT {
            loaded.clear();
        }
        loaded.insert(build.clone(), Arc::clone(&fresh));
        Ok(fresh)
    }

    fn load(&self, build: &BuildId) -> Result<LoadedBuild, WorkshopError> {
        let registered = self.registered(build)?;
        let mut bitcode = Vec::new();
        for (index, module) in registered.manifest().modules.iter().enumerate() {
            let bytes = registered.module_bitcode(index);
            let bytes = bytes.map_err(|error| bad_build(build, error))?;
            bitcode.push((module.source.clone(), bytes));
        }
        let inputs: Vec<ModuleInput<'_>> = bitcode
            .iter()
            .map(|(name, bitcode)| ModuleInput { name, bitcode })
            .collect();
        let program =
            Program::load(build.clone(), &inputs).map_err(|error| bad_build(build, error))?;
        Ok(LoadedBuild {
            registered,
            program,
            sources: Mutex::new(HashMap::new()),
        })
    }
}

impl Workshop for LlvmWorkshop {
    fn program_name(&self, build: &BuildId) -> Result<String, WorkshopError> {
        Ok(self.registered(build)?.manifest().program.clone())
    }

    fn code(
        &self,
        build: &BuildId,
        tracked: Option<&[u8]>,
    ) -> Result<Arc<dyn BuildCode>, WorkshopError> {
        let loaded = self.loaded(build)?;
        let symbols = match tracked {
            Some(binary) => Symbols::read(binary),
            None => {
                let binary = loaded.registered.binary();
                Symbols::read(&binary.map_err(|error| bad_build(build, error))?)
            }
        };
        let symbols = symbols.map_err(|error| bad_build(build, error))?;
        Ok(Arc::new(BinaryCode::new(build.clone(), symbols, loaded)))
    }

    fn slice(&self, build: &BuildId, failure: &LocatedFailure) -> Result<Slice, WorkshopError> {
        let loaded = self.loaded(build)?;
        let stack: Vec<StatementId> = failure.callers.iter().map(|s| s.id).collect();
        let source = |location: &SourceLocation| loaded.source_line(location);
        let slice = slicer::backward_slice(&loaded.program, failure.failing.id, &stack, &source);
        if slice.entries.is_empty() {
            return Err(WorkshopError::Slicing(format!(
                "the slice of {} is empty",
                failure.title()
            )));
        }
        Ok(slice)
    }

    fn plan(
        &self,
        build: &BuildId,
        slice: &Slice,
        sigma: u32,
        discovered: &[StatementId],
    ) -> Result<TrackingPlan, WorkshopError> {
        let loaded = self.loaded(build)?;
        let source = |location: &SourceLocation| loaded.source_line(location);
        let entries: Vec<_> = discovered
            .iter()
            .map(|id| slicer::entry_for(&loaded.program, *id, &source))
            .collect();
        Ok(slicer::plan(slice, sigma, &entries))
    }

    fn track(&self, build: &BuildId, plan: &TrackingPlan) -> Result<TrackedBinary, WorkshopError> {
        let registered = self.registered(build)?;
        match instrumenter::track(&registered, plan) {
            Ok(tracked) => Ok(TrackedBinary {
                full: tracked.full,
                deployed: tracked.deployed,
                placement: tracked.placement,
            }),
            Err(InstrumentError::NothingToHook { .. }) => Err(WorkshopError::NothingToHook),
            Err(error) => Err(WorkshopError::Tracking(error.to_string())),
        }
    }

    fn deployed(&self, build: &BuildId) -> Result<Vec<u8>, WorkshopError> {
        let deployed = self.registered(build)?.deployed();
        deployed.map_err(|error| bad_build(build, error))
    }

    fn source(&self, build: &BuildId, file: &str) -> Result<Option<String>, WorkshopError> {
        Ok(self.registered(build)?.source(file))
    }

    fn builds(&self) -> Result<Vec<viewer::BuildSeen>, WorkshopError> {
        let manifests = self.store.list().map_err(|error| {
            let problem = error.to_string();
            WorkshopError::BadBuild {
                build: BuildId("store".into()),
                problem,
            }
        })?;
        Ok(manifests.iter().map(build_seen).collect())
    }
}

/// A registered build as the page lists it.
fn build_seen(manifest: &BuildManifest) -> viewer::BuildSeen {
    let modules = manifest.modules.iter().filter_map(|m| match &m.status {
        ModuleStatus::Trackable => None,
        ModuleStatus::Untrackable { reason } => Some(format!("{}: {reason}", m.source)),
    });
    let foreign = manifest.foreign_code.iter().map(|f| {
        let origin = f.origin.as_deref().unwrap_or("code of unknown origin");
        format!("{origin} ({} functions): {}", f.function_count, f.reason)
    });
    viewer::BuildSeen {
        build: manifest.build_id.clone(),
        program: manifest.program.clone(),
        path: manifest.original_path.display().to_string(),
        modules: manifest.modules.len() as u64,
        trackable: manifest.trackable_modules() as u64,
        functions: manifest.modules.iter().map(|m| m.functions as u64).sum(),
        sources: manifest.sources.len() as u64,
        untrackable: modules.chain(foreign).collect(),
        runs: 0,
        failures: 0,
        campaigns: Vec::new(),
    }
}

fn bad_build(build: &BuildId, problem: impl ToString) -> WorkshopError {
    WorkshopError::BadBuild {
        build: build.clone(),
        problem: problem.to_string(),
    }
}
