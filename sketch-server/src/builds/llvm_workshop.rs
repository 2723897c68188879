//! The real workshop: build store, slicer and instrumenter.
//!
//! Programs come from the graph that registration kept, and the last few stay
//! loaded; they are plain data and can be shared between the engine and its jobs.
//! Bitcode is read only where that graph is missing or of another version of the
//! analysis, and for tracked builds, whose hooks go into the optimised modules.

use super::code_map::{BinaryCode, StatementTable};
use super::symbols::Symbols;
use super::trace_map::TraceMap;
use super::workshop::{BuildCode, TrackedBinary, Workshop, WorkshopError};
use build_store::{BuildManifest, BuildStore, ModuleStatus, NewGraph, RegisteredBuild, StoreError};
use diagnosis::campaign::{LocatedFailure, is_abort};
use instrumenter::InstrumentError;
use lru::LruCache;
use parking_lot::Mutex;
use sketch_model::{
    BuildId, FailureKind, Slice, SourceLocation, Statement, StatementId, TrackingPlan,
};
use slicer::{
    Alias, Criterion, Extent, Iteration, Loader, ModuleInput, PlanRequest, Program, plan_iteration,
};
use std::collections::HashMap;
use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

/// Programs kept loaded.
const PROGRAMS_KEPT: NonZeroUsize = NonZeroUsize::new(4).unwrap();

pub struct LlvmWorkshop {
    store: BuildStore,
    loaded: Mutex<LruCache<BuildId, Arc<LoadedBuild>>>,
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
        let mut sources = self.sources.lock();
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

    fn failing_frame(&self, aborts: bool, stack: &[StatementId]) -> usize {
        slicer::failing_frame(&self.program, aborts, stack)
    }
}

impl LlvmWorkshop {
    /// A workshop over the builds of a store; one that does not exist yet has none.
    pub fn open(store: &Path) -> LlvmWorkshop {
        LlvmWorkshop {
            store: BuildStore::open(store),
            loaded: Mutex::new(LruCache::new(PROGRAMS_KEPT)),
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
        let mut loaded = self.loaded.lock();
        if let Some(known) = loaded.get(build) {
            return Ok(Arc::clone(known));
        }
        // Under the lock: two callers must not load the same program twice.
        let fresh = Arc::new(self.load(build)?);
        loaded.put(build.clone(), Arc::clone(&fresh));
        Ok(fresh)
    }

    fn load(&self, build: &BuildId) -> Result<LoadedBuild, WorkshopError> {
        let registered = self.registered(build)?;
        let stored = registered.graph(&Program::graph_version());
        let stored = stored.and_then(|bytes| Program::from_bytes(build, &bytes).ok());
        let program = match stored {
            Some(program) => program,
            None => program_from_bitcode(&registered).map_err(|error| bad_build(build, error))?,
        };
        let program = program.with_own_files(&|file| registered.manifest().is_own(file));
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

    fn trace_map(
        &self,
        build: &BuildId,
        tracked: Option<Vec<u8>>,
    ) -> Result<Arc<TraceMap>, WorkshopError> {
        let loaded = self.loaded(build)?;
        let binary = match tracked {
            Some(binary) => binary,
            None => {
                let binary = loaded.registered.binary();
                binary.map_err(|error| bad_build(build, error))?
            }
        };
        let map = TraceMap::new(build, binary, &loaded.program);
        Ok(Arc::new(map.map_err(|error| bad_build(build, error))?))
    }

    fn slice(&self, build: &BuildId, failure: &LocatedFailure) -> Result<Slice, WorkshopError> {
        let loaded = self.loaded(build)?;
        let stack: Vec<StatementId> = failure.callers.iter().map(|s| s.id).collect();
        let source = |location: &SourceLocation| loaded.source_line(location);
        let waits = failure.kind == FailureKind::Hang;
        let criterion = Criterion {
            reached: is_abort(&failure.kind),
            waits,
            ..Criterion::at(failure.failing.id, &stack)
        };
        let others = failure.others.iter().filter_map(|stack| {
            let ids: Vec<StatementId> = stack.iter().map(|s| s.id).collect();
            let (waiting, callers) = ids.split_first()?;
            Some(Criterion {
                waits,
                ..Criterion::at(*waiting, callers)
            })
        });
        let criteria: Vec<Criterion> = std::iter::once(criterion).chain(others).collect();
        let alias = Alias::default();
        let slice = slicer::slice_from(&loaded.program, &criteria, alias, Extent::USUAL, &source);
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
        ask: &PlanRequest,
    ) -> Result<Iteration, WorkshopError> {
        let loaded = self.loaded(build)?;
        let source = |location: &SourceLocation| loaded.source_line(location);
        Ok(plan_iteration(&loaded.program, slice, ask, &source))
    }

    fn track(&self, build: &BuildId, plan: &TrackingPlan) -> Result<TrackedBinary, WorkshopError> {
        let registered = self.registered(build)?;
        match instrumenter::track(&registered, plan) {
            Ok(tracked) => {
                tracing::info!(%build, way = %tracked.way, "a tracked build was made");
                Ok(TrackedBinary {
                    full: tracked.full,
                    deployed: tracked.deployed,
                    placement: tracked.placement,
                })
            }
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
        without_sandbox: manifest.without_sandbox,
        untrackable: modules.chain(foreign).collect(),
        runs: 0,
        failures: 0,
        campaigns: Vec::new(),
    }
}

/// The program of a build whose graph is not there, or of another version of the
/// analysis; the graph is kept for the next time.
fn program_from_bitcode(registered: &RegisteredBuild) -> Result<Program, Box<dyn Error>> {
    let manifest = registered.manifest();
    let mut loader = Loader::new(manifest.build_id.clone());
    for (index, module) in manifest.modules.iter().enumerate() {
        let bitcode = registered.module_bitcode(index)?;
        loader.add(ModuleInput {
            name: &module.source,
            bitcode: &bitcode,
        })?;
    }
    let program = loader.finish()?;
    let graph = NewGraph {
        version: Program::graph_version(),
        bytes: program.to_bytes(),
    };
    if let Err(error) = registered.keep_graph(&graph) {
        tracing::warn!(
            "the graph of build {} is not kept: {error}",
            manifest.build_id
        );
    }
    Ok(program)
}

fn bad_build(build: &BuildId, problem: impl ToString) -> WorkshopError {
    WorkshopError::BadBuild {
        build: build.clone(),
        problem: problem.to_string(),
    }
}
