//! Everything that a campaign asks of builds: slicing, planning, tracking, addresses.
//!
//! A trait for one reason: the real tools need LLVM and seconds, and the logic of
//! campaigns should be testable without either. Commands have one implementation,
//! [`super::StoredBuilds`].
//!
//! All calls block; the engine and its jobs make them on threads of their own.

use crate::{TraceMap, Unlocated};
use build_store::BuildManifest;
use diagnosis::campaign::{FIRST_SIGMA, LocatedFailure};
use formats::address_map::AddressMap;
use sketch_model::{
    BuildId, FailureReport, Placement, Slice, Statement, StatementId, TrackingPlan,
};
use slicer::{Iteration, PlanRequest};
use std::sync::Arc;

/// A tracked build as the instrumenter made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedBinary {
    /// With debug info, for this server.
    pub full: Vec<u8>,
    /// Without it, for the fleet.
    pub deployed: Vec<u8>,
    pub placement: Placement,
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(
        "build {0} is not registered with this server; run `failsketch register BINARY` with the \
         server's build store, then try again"
    )]
    UnknownBuild(BuildId),
    #[error("build {build} cannot be read: {problem}")]
    BadBuild { build: BuildId, problem: String },
    #[error("the failure could not be sliced: {0}")]
    Slicing(String),
    #[error("none of the plan's hooks has a place in the optimised program")]
    NothingToHook,
    #[error("the tracked build could not be made: {0}")]
    Tracking(String),
}

impl BuildError {
    pub(crate) fn bad(build: &BuildId, problem: impl ToString) -> BuildError {
        BuildError::BadBuild {
            build: build.clone(),
            problem: problem.to_string(),
        }
    }
}

/// All registered builds, and what can be made of them.
pub trait BuildTools: Send + Sync + 'static {
    /// The file name of a registered program.
    fn program_name(&self, build: &BuildId) -> Result<String, BuildError>;
    /// What lies at the addresses of P, or of a tracked build of it, given with its
    /// debug info.
    fn address_map(
        &self,
        build: &BuildId,
        tracked: Option<&[u8]>,
    ) -> Result<Arc<AddressMap>, BuildError>;
    /// A statement of a build with its text.
    fn statement(&self, build: &BuildId, id: StatementId) -> Option<Statement>;
    /// A failure in terms of statements; `code` is what ran.
    fn locate(
        &self,
        build: &BuildId,
        report: &FailureReport,
        code: &AddressMap,
    ) -> Result<LocatedFailure, Unlocated>;
    fn slice(&self, build: &BuildId, failure: &LocatedFailure) -> Result<Slice, BuildError>;
    /// The σ that a diagnosis begins with: what it costs to track many statements
    /// at once depends on how tracked builds are made.
    fn first_sigma(&self) -> u32 {
        FIRST_SIGMA
    }
    /// The plans of an iteration, as `slicer::plan_iteration` gives them.
    fn plan(
        &self,
        build: &BuildId,
        slice: &Slice,
        ask: &PlanRequest,
    ) -> Result<Iteration, BuildError>;
    fn track(&self, build: &BuildId, plan: &TrackingPlan) -> Result<TrackedBinary, BuildError>;
    /// P as it is deployed: what patches apply to.
    fn deployed(&self, build: &BuildId) -> Result<Vec<u8>, BuildError>;
    /// What traces of P, or of a tracked build of it, are read with.
    fn trace_map(
        &self,
        build: &BuildId,
        _tracked: Option<Vec<u8>>,
    ) -> Result<Arc<TraceMap>, BuildError> {
        Err(BuildError::bad(build, "its code cannot be traced here"))
    }
    /// A source file as debug info names it; `None` if it was not registered.
    fn source(&self, _: &BuildId, _: &str) -> Result<Option<String>, BuildError> {
        Ok(None)
    }
    /// All registered builds.
    fn manifests(&self) -> Result<Vec<BuildManifest>, BuildError> {
        Ok(Vec::new())
    }
}
