//! The heavy world as the campaigns see it: slicing, building, symbolizing.
//!
//! Behind a trait for one reason: the real one needs LLVM and seconds, and the
//! logic of campaigns should be testable without either. The server has exactly
//! one implementation, [`super::llvm_workshop::LlvmWorkshop`].
//!
//! All calls block; the engine and its jobs make them on threads of their own.

use super::trace_map::TraceMap;
use diagnosis::campaign::iteration::ProgramCode;
use diagnosis::campaign::{FIRST_SIGMA, LocatedFailure};
use sketch_model::{BuildId, FailureReport, Placement, Slice, TrackingPlan};
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
pub enum WorkshopError {
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

/// A binary with its debug info and the statements of its build.
pub trait BuildCode: ProgramCode {
    /// The failure in terms of statements; `None` if no frame of it lies in
    /// code of the program that has statements.
    fn locate(&self, report: &FailureReport) -> Option<LocatedFailure>;
    /// Why `locate` found nothing, and what to do about it.
    fn why_unlocated(&self, _report: &FailureReport) -> String {
        "no frame of the failing thread's stack lies in a statement of the program; its code \
         may come from a module that was built without `failsketch cc`"
            .to_owned()
    }
}

/// Everything about builds that a campaign asks for.
pub trait Workshop: Send + Sync + 'static {
    /// The file name of a registered program.
    fn program_name(&self, build: &BuildId) -> Result<String, WorkshopError>;
    /// P's own code, or that of a tracked build of it, given with its debug info.
    fn code(
        &self,
        build: &BuildId,
        tracked: Option<&[u8]>,
    ) -> Result<Arc<dyn BuildCode>, WorkshopError>;
    fn slice(&self, build: &BuildId, failure: &LocatedFailure) -> Result<Slice, WorkshopError>;
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
    ) -> Result<Iteration, WorkshopError>;
    fn track(&self, build: &BuildId, plan: &TrackingPlan) -> Result<TrackedBinary, WorkshopError>;
    /// P as it is deployed: what patches apply to.
    fn deployed(&self, build: &BuildId) -> Result<Vec<u8>, WorkshopError>;
    /// What traces of P, or of a tracked build of it, are read with.
    fn trace_map(
        &self,
        build: &BuildId,
        _tracked: Option<Vec<u8>>,
    ) -> Result<Arc<TraceMap>, WorkshopError> {
        Err(WorkshopError::BadBuild {
            build: build.clone(),
            problem: "its code cannot be followed here".to_owned(),
        })
    }
    /// A source file as debug info names it; `None` if it was not registered.
    fn source(&self, _: &BuildId, _: &str) -> Result<Option<String>, WorkshopError> {
        Ok(None)
    }
    /// All registered builds; what ran of them is not known here.
    fn builds(&self) -> Result<Vec<viewer::BuildSeen>, WorkshopError> {
        Ok(Vec::new())
    }
}
