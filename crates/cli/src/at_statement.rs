//! `--build … --at FILE:LINE`: the statement that `slice`, `plan` and `patch` start
//! from, and the build that holds it.
//!
//! A line that several functions share (a template, an inline function) means all of
//! them at once.

use anyhow::{Context, Result, bail};
use build_analysis::{BitcodeReader, LoadedBuild, find_build};
use build_store::RegisteredBuild;
use slicer::{Criterion, Program};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Lines and files that an error offers instead.
const OFFERED: usize = 4;

#[derive(clap::Args)]
pub struct AtStatement {
    /// The build, by its build-id or the beginning of it.
    #[arg(long)]
    build: String,
    /// The failing statement.
    #[arg(long, value_name = "FILE:LINE")]
    pub at: String,
    /// Slice from the control flow that reached the statement, not from the values
    /// that it uses: for aborts and failed assertions.
    #[arg(long)]
    reached: bool,
    /// The build store that `failsketch register` filled.
    #[arg(long)]
    store: Option<PathBuf>,
}

impl AtStatement {
    pub fn build(&self) -> Result<RegisteredBuild> {
        let store = crate::open_store(self.store.as_ref())?;
        Ok(find_build(&store, &self.build)?)
    }

    /// The build with its program.
    pub fn loaded(&self) -> Result<LoadedBuild> {
        Ok(LoadedBuild::of(self.build()?, &BitcodeReader::this())?)
    }

    /// What to slice from.
    pub fn criteria(&self, program: &Program) -> Result<Vec<Criterion>> {
        let at = &self.at;
        let (file, line) = at
            .rsplit_once(':')
            .and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)))
            .with_context(|| format!("{at} is not FILE:LINE"))?;
        let Some(first) = program.statement_at(None, file, line) else {
            bail!("{}", no_statement(program, file, line));
        };
        let location = &program.statements()[first.0 as usize].location;
        let on_line = program.statements().iter();
        let on_line = on_line.filter(|info| info.location == *location);
        Ok(on_line
            .map(|info| Criterion {
                reached: self.reached,
                ..Criterion::at(info.id, &[])
            })
            .collect())
    }
}

/// Why there is nothing to slice from, and what there is nearby.
fn no_statement(program: &Program, file: &str, line: u32) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let statements = program.statements().iter();
    let here: BTreeSet<(u32, u32)> = statements
        .clone()
        .filter(|info| info.location.file_name() == name)
        .map(|info| (info.location.line.abs_diff(line), info.location.line))
        .collect();
    if here.is_empty() {
        let files: BTreeSet<&str> = statements.map(|info| info.location.file_name()).collect();
        let shown: Vec<&str> = files.iter().copied().take(OFFERED).collect();
        let more = files.len().saturating_sub(OFFERED);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = shown.join(", ");
        return format!("the build has no code from a file {file}; it has {shown}{more}");
    }
    let mut nearest: Vec<u32> = here.iter().take(OFFERED).map(|(_, line)| *line).collect();
    nearest.sort_unstable();
    let nearest: Vec<String> = nearest.iter().map(u32::to_string).collect();
    format!(
        "line {line} of {file} has no code; the nearest lines that have some are {}",
        nearest.join(", ")
    )
}
