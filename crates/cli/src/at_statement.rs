//! `--build … --at FILE:LINE` or `--stacks FILE`: what `slice`, `plan` and `patch` start
//! from, and the build that holds it.
//!
//! A line that several functions share (a template, an inline function) means all of
//! them at once. A failure's stacks say more than its line: who called, and for a hang
//! what else waits.

use anyhow::{Context, Result, bail};
use build_analysis::{BitcodeReader, LoadedBuild, find_build};
use build_store::RegisteredBuild;
use serde::Deserialize;
use sketch_model::StatementId;
use slicer::{Criterion, FailureShape, Program};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Lines and files that an error offers instead.
const OFFERED: usize = 4;

#[derive(clap::Args)]
pub struct AtStatement {
    /// The build, by its build-id or the beginning of it.
    #[arg(long)]
    build: String,
    /// The failing statement.
    #[arg(long, value_name = "FILE:LINE", required_unless_present = "stacks")]
    at: Option<String>,
    /// The stacks of a failure, as JSON: {"failure": "fault", "abort" or "hang", "threads":
    /// [[{"function": …, "file": …, "line": …}, …], …]}, the failing thread and the innermost
    /// frames first.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["at", "reached"])]
    stacks: Option<PathBuf>,
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

    /// What the slice is from, for people.
    pub fn place(&self) -> String {
        let stacks = || self.stacks.as_ref().map(|file| file.display().to_string());
        self.at.clone().or_else(stacks).unwrap_or_default()
    }

    /// What to slice from.
    pub fn criteria(&self, program: &Program) -> Result<Vec<Criterion>> {
        match (&self.stacks, &self.at) {
            (Some(file), _) => of_stacks(program, file),
            (None, Some(at)) => self.of_line(program, at),
            (None, None) => bail!("give --at FILE:LINE or --stacks FILE"),
        }
    }

    fn of_line(&self, program: &Program, at: &str) -> Result<Vec<Criterion>> {
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

/// What `--stacks` names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stacks {
    failure: Failure,
    threads: Vec<Vec<Frame>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Failure {
    Fault,
    Abort,
    Hang,
}

#[derive(Deserialize)]
struct Frame {
    /// The linkage name.
    function: Option<String>,
    file: String,
    line: u32,
}

/// Frames that are no statements of the program (a library's without bitcode) are passed
/// over, as they are in the reports of agents.
fn of_stacks(program: &Program, file: &Path) -> Result<Vec<Criterion>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {shown}"))?;
    let stacks: Stacks = serde_json::from_str(&text).with_context(|| format!("in {shown}"))?;
    let statement = |frame: &Frame| {
        let function = frame.function.as_deref();
        let exact = program.statement_at(function, &frame.file, frame.line);
        exact.or_else(|| program.statement_at(None, &frame.file, frame.line))
    };
    let threads = stacks.threads.iter();
    let threads: Vec<Vec<StatementId>> = threads
        .map(|frames| frames.iter().filter_map(statement).collect())
        .collect();
    let shape = match stacks.failure {
        Failure::Fault => FailureShape::Fault,
        Failure::Abort => FailureShape::Abort,
        Failure::Hang => FailureShape::Hang,
    };
    let criteria = slicer::criteria(program, shape, &threads);
    if criteria.is_empty() {
        bail!("no frame of the failing thread in {shown} is a statement of the build");
    }
    Ok(criteria)
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
