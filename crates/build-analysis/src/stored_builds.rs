//! The builds of a store as campaigns use them: the last few programs stay loaded.
//! They are plain data and can be shared between the engine and its jobs.
//!
//! Bitcode is read here only for tracked builds, whose hooks go into the optimised
//! modules (`crates/instrumenter/`).

use crate::{
    BitcodeReader, BuildError, BuildTools, LoadedBuild, TraceMap, TrackedBinary, Unlocated,
};
use build_store::{BuildManifest, BuildStore, RegisteredBuild, StoreError};
use diagnosis::campaign::{LocatedFailure, is_abort};
use formats::address_map::AddressMap;
use instrumenter::InstrumentError;
use lru::LruCache;
use parking_lot::Mutex;
use sketch_model::{
    BuildId, FailureKind, FailureReport, Slice, Statement, StatementId, TrackingPlan,
};
use slicer::{Criterion, Extent, Iteration, PlanRequest};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

/// Programs kept loaded.
const PROGRAMS_KEPT: NonZeroUsize = NonZeroUsize::new(4).unwrap();

pub struct StoredBuilds {
    store: BuildStore,
    reader: BitcodeReader,
    loaded: Mutex<LruCache<BuildId, Arc<LoadedBuild>>>,
}

impl StoredBuilds {
    /// The builds of a store; one that does not exist yet has none.
    pub fn open(store: &Path, reader: BitcodeReader) -> StoredBuilds {
        StoredBuilds {
            store: BuildStore::open(store),
            reader,
            loaded: Mutex::new(LruCache::new(PROGRAMS_KEPT)),
        }
    }

    fn registered(&self, build: &BuildId) -> Result<RegisteredBuild, BuildError> {
        self.store.load(build).map_err(|error| match error {
            StoreError::Unknown { .. } | StoreError::NotABuildId(_) => {
                BuildError::UnknownBuild(build.clone())
            }
            other => BuildError::bad(build, other),
        })
    }

    fn loaded(&self, build: &BuildId) -> Result<Arc<LoadedBuild>, BuildError> {
        let mut loaded = self.loaded.lock();
        if let Some(known) = loaded.get(build) {
            return Ok(Arc::clone(known));
        }
        // Under the lock: two callers must not load the same program twice.
        let fresh = LoadedBuild::of(self.registered(build)?, &self.reader);
        let fresh = Arc::new(fresh.map_err(|error| BuildError::bad(build, error))?);
        loaded.put(build.clone(), Arc::clone(&fresh));
        Ok(fresh)
    }
}

impl BuildTools for StoredBuilds {
    fn program_name(&self, build: &BuildId) -> Result<String, BuildError> {
        Ok(self.registered(build)?.manifest().program.clone())
    }

    fn address_map(
        &self,
        build: &BuildId,
        tracked: Option<&[u8]>,
    ) -> Result<Arc<AddressMap>, BuildError> {
        let map = self.loaded(build)?.address_map(tracked);
        Ok(Arc::new(
            map.map_err(|error| BuildError::bad(build, error))?,
        ))
    }

    fn statement(&self, build: &BuildId, id: StatementId) -> Option<Statement> {
        self.loaded(build).ok()?.statement(id)
    }

    fn locate(
        &self,
        build: &BuildId,
        report: &FailureReport,
        code: &AddressMap,
    ) -> Result<LocatedFailure, Unlocated> {
        self.loaded(build)?.locate(report, code)
    }

    fn slice(&self, build: &BuildId, failure: &LocatedFailure) -> Result<Slice, BuildError> {
        let stack: Vec<StatementId> = failure.callers.iter().map(|s| s.id).collect();
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
        let slice = self.loaded(build)?.slice(&criteria, Extent::USUAL);
        if slice.entries.is_empty() {
            return Err(BuildError::Slicing(format!(
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
    ) -> Result<Iteration, BuildError> {
        Ok(self.loaded(build)?.plan(slice, ask))
    }

    fn track(&self, build: &BuildId, plan: &TrackingPlan) -> Result<TrackedBinary, BuildError> {
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
            Err(InstrumentError::NothingToHook { .. }) => Err(BuildError::NothingToHook),
            Err(error) => Err(BuildError::Tracking(error.to_string())),
        }
    }

    fn deployed(&self, build: &BuildId) -> Result<Vec<u8>, BuildError> {
        let deployed = self.registered(build)?.deployed();
        deployed.map_err(|error| BuildError::bad(build, error))
    }

    fn trace_map(
        &self,
        build: &BuildId,
        tracked: Option<Vec<u8>>,
    ) -> Result<Arc<TraceMap>, BuildError> {
        let map = self.loaded(build)?.trace_map(tracked);
        Ok(Arc::new(
            map.map_err(|error| BuildError::bad(build, error))?,
        ))
    }

    fn source(&self, build: &BuildId, file: &str) -> Result<Option<String>, BuildError> {
        Ok(self.registered(build)?.source(file))
    }

    fn manifests(&self) -> Result<Vec<BuildManifest>, BuildError> {
        let listed = self.store.list();
        listed.map_err(|error| BuildError::bad(&BuildId("store".into()), error))
    }
}
