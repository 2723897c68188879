//! `failsketch slice`: the static half of a diagnosis, for people.
//!
//! Reads a registered build, slices it from a line and hands the slice to one of
//! the writers: `text` for reading, JSON for tools, `dot` for Graphviz. A line
//! that several functions share (a template, an inline function) is sliced from
//! all of them at once.

mod dot;
mod text;

use anyhow::{Context, Result, bail};
use build_store::RegisteredBuild;
use clap::ValueEnum;
use sketch_model::{Slice, SourceLocation};
use slicer::{Alias, Criterion, Loader, ModuleInput, Program, slice_from};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use crate::loaded::find_build;
use crate::timings::Timings;

/// σ of the plan that `--timings` makes if none is given.
const PLANNED: usize = 32;
/// Lines and files that an error offers instead.
const OFFERED: usize = 4;

#[derive(clap::Args)]
pub struct Arguments {
    /// The build, by its build-id or the beginning of it.
    #[arg(long)]
    build: String,
    /// The statement to slice from.
    #[arg(long, value_name = "FILE:LINE")]
    at: String,
    /// Only the nearest so many statements.
    #[arg(long)]
    sigma: Option<usize>,
    /// Which stores a load through a pointer may see: those of the same field of
    /// the same struct type (field, as the server does), or what a points-to
    /// analysis of the whole program allows (andersen).
    #[arg(long, value_name = "field|andersen", default_value_t = Alias::default())]
    alias: Alias,
    /// Slice from the fact that the statement was reached, not from the values
    /// that it uses: for aborts and failed assertions.
    #[arg(long)]
    reached: bool,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Lines of source to show before and after each statement.
    #[arg(long, default_value_t = 1)]
    context: u32,
    /// Print what each phase cost, as JSON, instead of the slice
    #[arg(long)]
    timings: bool,
    /// Make the graph from the bitcode, in this process, instead of taking the stored one
    #[arg(long)]
    from_bitcode: bool,
    /// The build store that `failsketch register` filled.
    #[arg(long)]
    store: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Dot,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut timings = Timings::start();
    let store = crate::open_store(arguments.store.as_ref())?;
    let build = find_build(&store, &arguments.build)?;
    let program = if arguments.from_bitcode {
        from_bitcode(&build, &mut timings)?
    } else {
        let program = crate::graph::program(&build)?;
        timings.ended("graph");
        program
    };
    let mut slice = slice(arguments, &program)?;
    timings.ended("slice");
    let whole = slice.entries.len();
    if arguments.timings {
        let sigma = arguments.sigma.unwrap_or(PLANNED);
        slicer::plan(&slice, sigma.try_into().unwrap_or(u32::MAX), &[]);
        timings.ended("plan");
        let modules = build.manifest().modules.len();
        let facts = [("statements", whole), ("modules", modules)];
        println!("{}", timings.report(&facts));
        return Ok(());
    }
    if let Some(sigma) = arguments.sigma {
        slice.entries.truncate(sigma);
    }
    let sources = Sources {
        build: &build,
        lines: RefCell::default(),
    };
    for entry in &mut slice.entries {
        let SourceLocation { file, line } = &entry.statement.location;
        let text = sources.line(file, *line).unwrap_or_default();
        entry.statement.text = text.trim().to_owned();
    }
    match arguments.format {
        Format::Text => {
            let heading = text::Heading {
                at: &arguments.at,
                program: &build.manifest().program,
                alias: arguments.alias,
                whole,
            };
            let line = |file: &str, line: u32| sources.line(file, line);
            print!("{}", text::text(&slice, &heading, arguments.context, &line));
        }
        Format::Json => {
            let json = serde_json::to_string_pretty(&slice)?;
            println!("{}", viewer::printable_json(&json));
        }
        Format::Dot => print!("{}", dot::dot(&slice)),
    }
    Ok(())
}

/// Reads the bitcode in this process, phase by phase.
fn from_bitcode(build: &RegisteredBuild, timings: &mut Timings) -> Result<Program> {
    let manifest = build.manifest();
    let mut loader = Loader::new(manifest.build_id.clone());
    for (index, module) in manifest.modules.iter().enumerate() {
        let bitcode = build.module_bitcode(index)?;
        loader.add(ModuleInput {
            name: &module.source,
            bitcode: &bitcode,
        })?;
    }
    timings.ended("load");
    let program = loader.finish()?;
    program.link();
    timings.ended("ticfg");
    Ok(program)
}

/// The source files of a build, each read once.
struct Sources<'a> {
    build: &'a RegisteredBuild,
    lines: RefCell<HashMap<String, Vec<String>>>,
}

impl Sources<'_> {
    fn line(&self, file: &str, line: u32) -> Option<String> {
        let mut known = self.lines.borrow_mut();
        let lines = known.entry(file.to_owned()).or_insert_with(|| {
            let text = self.build.source(file).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        lines.get(index).cloned()
    }
}

fn slice(arguments: &Arguments, program: &Program) -> Result<Slice> {
    let at = &arguments.at;
    let (file, line) = at
        .rsplit_once(':')
        .and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)))
        .with_context(|| format!("{at} is not FILE:LINE"))?;
    let Some(first) = program.statement_at(None, file, line) else {
        bail!("{}", no_statement(program, file, line));
    };
    let location = &program.statements()[first.0 as usize].location;
    let on_line = program.statements().iter();
    let criteria: Vec<Criterion> = on_line
        .filter(|info| info.location == *location)
        .map(|info| Criterion {
            reached: arguments.reached,
            ..Criterion::at(info.id, &[])
        })
        .collect();
    // Lines are looked up for what is printed only.
    Ok(slice_from(program, &criteria, arguments.alias, &|_| None))
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
