//! A registered build with its program in memory, for commands that look into it, and
//! the lines of its sources.

use anyhow::{Result, bail};
use build_store::{BuildStore, RegisteredBuild};
use sketch_model::{BuildId, SourceLocation};
use slicer::Program;
use std::cell::RefCell;
use std::collections::HashMap;

/// A build and what the slicer reads of it.
pub struct Loaded {
    build: RegisteredBuild,
    pub program: Program,
    lines: Lines,
}

/// The lines of a build's source files, each file read once: a slice asks for thousands.
#[derive(Default)]
pub struct Lines(RefCell<HashMap<String, Vec<String>>>);

impl Lines {
    pub fn get(&self, build: &RegisteredBuild, file: &str, line: u32) -> Option<String> {
        let mut known = self.0.borrow_mut();
        let lines = known.entry(file.to_owned()).or_insert_with(|| {
            let text = build.source(file).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        lines.get(index).cloned()
    }
}

impl Loaded {
    pub fn of(build: RegisteredBuild) -> Result<Loaded> {
        let program = crate::graph::program(&build)?;
        let lines = Lines::default();
        Ok(Loaded {
            build,
            program,
            lines,
        })
    }

    pub fn build(&self) -> &RegisteredBuild {
        &self.build
    }

    pub fn source_line(&self, location: &SourceLocation) -> Option<String> {
        self.lines.get(&self.build, &location.file, location.line)
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
