//! A registered build with its program in memory, for commands that look into it.

use anyhow::{Context, Result, bail};
use build_store::{BuildStore, RegisteredBuild};
use sketch_model::{BuildId, SourceLocation, StatementId};
use slicer::Program;

/// A build and what the slicer reads of it.
pub struct Loaded {
    build: RegisteredBuild,
    pub program: Program,
}

impl Loaded {
    /// The one build whose id begins so.
    pub fn find(store: &BuildStore, beginning: &str) -> Result<Loaded> {
        let build = find_build(store, beginning)?;
        let program = crate::graph::program(&build)?;
        Ok(Loaded { build, program })
    }

    pub fn build(&self) -> &RegisteredBuild {
        &self.build
    }

    /// The statement at `FILE:LINE`.
    pub fn statement(&self, at: &str) -> Result<StatementId> {
        let (file, line) = at
            .rsplit_once(':')
            .and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)))
            .with_context(|| format!("{at} is not FILE:LINE"))?;
        self.program
            .statement_at(None, file, line)
            .with_context(|| {
                format!(
                    "there is no statement at {at}: no code was made for that line, or the \
                     program has no such file"
                )
            })
    }

    pub fn source_line(&self, location: &SourceLocation) -> Option<String> {
        self.build.source_line(&location.file, location.line)
    }
}

/// The one registered build whose id begins so.
pub fn find_build(store: &BuildStore, beginning: &str) -> Result<RegisteredBuild> {
    let ids: Vec<BuildId> = store
        .list()?
        .into_iter()
        .map(|manifest| manifest.build_id)
        .filter(|id| id.0.starts_with(beginning))
        .collect();
    match ids.as_slice() {
        [id] => Ok(store.load(id)?),
        [] => bail!("no registered build begins with {beginning}; `failsketch builds` lists them"),
        _ => bail!(
            "{} registered builds begin with {beginning}; write more of it",
            ids.len()
        ),
    }
}
