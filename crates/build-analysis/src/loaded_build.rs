//! A registered build with its program in memory.

use crate::bitcode_child::{BitcodeError, BitcodeReader};
use crate::trace_map::{TraceMap, TraceMapError};
use crate::{Unlocated, locate};
use build_store::{BuildStore, RegisteredBuild, StoreError};
use diagnosis::campaign::LocatedFailure;
use formats::address_map::{AddressMap, AddressMapError};
use parking_lot::Mutex;
use sketch_model::{BuildId, FailureReport, Slice, SourceLocation, Statement, StatementId};
use slicer::{
    Alias, Criterion, Extent, Iteration, PlanRequest, Program, plan_iteration, slice_from,
};
use std::collections::HashMap;

/// A build, what the slicer read of it, and the sources that were asked for.
pub struct LoadedBuild {
    registered: RegisteredBuild,
    program: Program,
    /// Lines of source files; `None` for one that the store does not have.
    sources: Mutex<HashMap<String, Option<Vec<String>>>>,
}

/// Code of a build that cannot be told from its addresses.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Map(#[from] AddressMapError),
    #[error(transparent)]
    Trace(#[from] TraceMapError),
}

impl LoadedBuild {
    /// The program from its stored graph if that is there and of this version,
    /// otherwise from its bitcode, read by `reader`; then the graph is kept.
    pub fn of(
        registered: RegisteredBuild,
        reader: &BitcodeReader,
    ) -> Result<LoadedBuild, BitcodeError> {
        let build = &registered.manifest().build_id;
        let stored = registered.graph(&Program::graph_version());
        let program = match stored.and_then(|bytes| Program::from_bytes(build, &bytes).ok()) {
            Some(program) => program,
            None => reader.program(&registered)?,
        };
        Ok(LoadedBuild::with(registered, program))
    }

    /// A build with a program that was made of it. Whose its source files are is what
    /// registration found.
    pub fn with(registered: RegisteredBuild, program: Program) -> LoadedBuild {
        let program = program.with_own_files(&|file| registered.manifest().is_own(file));
        LoadedBuild {
            registered,
            program,
            sources: Mutex::default(),
        }
    }

    pub fn registered(&self) -> &RegisteredBuild {
        &self.registered
    }

    pub fn program(&self) -> &Program {
        &self.program
    }

    pub fn id(&self) -> &BuildId {
        &self.registered.manifest().build_id
    }

    /// A line of a source file, each file read once.
    pub fn source_line(&self, location: &SourceLocation) -> Option<String> {
        let mut sources = self.sources.lock();
        let lines = sources.entry(location.file.clone()).or_insert_with(|| {
            let text = self.registered.source(&location.file)?;
            Some(text.lines().map(str::to_owned).collect())
        });
        let index = (location.line as usize).checked_sub(1)?;
        lines.as_ref()?.get(index).cloned()
    }

    /// A statement with its text.
    pub fn statement(&self, id: StatementId) -> Option<Statement> {
        let info = self.program.statements().get(id.0 as usize)?;
        let text = self.source_line(&info.location).unwrap_or_default();
        Some(Statement {
            id,
            function: info.function.clone(),
            location: info.location.clone(),
            text: text.trim().to_owned(),
        })
    }

    /// What lies at the addresses of P, or of a tracked build of it.
    pub fn address_map(&self, tracked: Option<&[u8]>) -> Result<AddressMap, CodeError> {
        let of = |binary: &[u8]| {
            AddressMap::read(binary, self.id(), |function, file, line| {
                self.program.statement_at(function, file, line)
            })
        };
        Ok(match tracked {
            Some(binary) => of(binary)?,
            None => of(&self.registered.binary()?)?,
        })
    }

    /// What traces of P, or of a tracked build of it, are read with.
    pub fn trace_map(&self, tracked: Option<Vec<u8>>) -> Result<TraceMap, CodeError> {
        let binary = match tracked {
            Some(binary) => binary,
            None => self.registered.binary()?,
        };
        let map = self.address_map(Some(&binary))?;
        Ok(TraceMap::new(self.id(), binary, &map, &self.program)?)
    }

    /// A failure in terms of statements; `code` is what ran.
    pub fn locate(
        &self,
        report: &FailureReport,
        code: &AddressMap,
    ) -> Result<LocatedFailure, Unlocated> {
        let failing =
            |aborts, stack: &[StatementId]| slicer::failing_frame(&self.program, aborts, stack);
        locate(report, code, |id| self.statement(id), failing)
    }

    pub fn slice(&self, criteria: &[Criterion], extent: Extent) -> Slice {
        let source = |location: &SourceLocation| self.source_line(location);
        slice_from(&self.program, criteria, Alias::default(), extent, &source)
    }

    /// The plans of an iteration over a slice of this build.
    pub fn plan(&self, slice: &Slice, ask: &PlanRequest) -> Iteration {
        let source = |location: &SourceLocation| self.source_line(location);
        plan_iteration(&self.program, slice, ask, &source)
    }
}

/// Which build a person meant could not be told.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no registered build begins with {0}; `failsketch builds` lists them")]
    None(String),
    #[error("{count} registered builds begin with {beginning}; write more of it")]
    Several { beginning: String, count: usize },
}

/// The one registered build whose id begins so.
pub fn find_build(store: &BuildStore, beginning: &str) -> Result<RegisteredBuild, FindError> {
    let ids = store.list()?.into_iter().map(|manifest| manifest.build_id);
    let ids: Vec<BuildId> = ids.filter(|id| id.0.starts_with(beginning)).collect();
    match ids.as_slice() {
        [id] => Ok(store.load(id)?),
        [] => Err(FindError::None(beginning.to_owned())),
        _ => Err(FindError::Several {
            beginning: beginning.to_owned(),
            count: ids.len(),
        }),
    }
}
