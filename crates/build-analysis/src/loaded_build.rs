//! A registered build with its program in memory, for commands that look into it.

use anyhow::{Result, bail};
use build_store::{BuildStore, RegisteredBuild};
use sketch_model::{BuildId, SourceLocation};
use slicer::Program;

/// A build and what the slicer reads of it.
pub struct Loaded {
    build: RegisteredBuild,
    pub program: Program,
}

impl Loaded {
    pub fn of(build: RegisteredBuild) -> Result<Loaded> {
        let program = crate::bitcode_child::program(&build)?;
        Ok(Loaded { build, program })
    }

    pub fn build(&self) -> &RegisteredBuild {
        &self.build
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
