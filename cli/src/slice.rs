//! `failsketch slice`: the static half of a diagnosis, for people.

use anyhow::{Context, Result, bail};
use build_store::{BuildStore, RegisteredBuild};
use clap::ValueEnum;
use sketch_model::{BuildId, Slice, SourceLocation};
use slicer::{Loader, ModuleInput, Program, backward_slice};
use std::collections::HashMap;
use std::path::PathBuf;

use crate::timings::Timings;

/// σ of the plan that `--timings` makes if none is given.
const PLANNED: usize = 32;

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
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut timings = Timings::start();
    let store = crate::open_store(arguments.store.as_ref())?;
    let build = find(&store, &arguments.build)?;
    let program = if arguments.from_bitcode {
        from_bitcode(&build, &mut timings)?
    } else {
        let program = crate::graph::program(&build)?;
        timings.ended("graph");
        program
    };
    let mut slice = slice(&program, &arguments.at)?;
    timings.ended("slice");
    let statements = slice.entries.len();
    if arguments.timings {
        let sigma = arguments.sigma.unwrap_or(PLANNED);
        slicer::plan(&slice, sigma.try_into().unwrap_or(u32::MAX), &[]);
        timings.ended("plan");
        let modules = build.manifest().modules.len();
        let facts = [("statements", statements), ("modules", modules)];
        println!("{}", timings.report(&facts));
        return Ok(());
    }
    if let Some(sigma) = arguments.sigma {
        slice.entries.truncate(sigma);
    }
    let mut sources = Sources::new(&build);
    for entry in &mut slice.entries {
        let statement = &mut entry.statement;
        statement.text = sources.line(&statement.location).trim().to_owned();
    }
    match arguments.format {
        Format::Text => print!("{}", text(&slice)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&slice)?),
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

/// The source files that were asked for, each read once.
struct Sources<'a> {
    build: &'a RegisteredBuild,
    files: HashMap<String, Vec<String>>,
}

impl Sources<'_> {
    fn new(build: &RegisteredBuild) -> Sources<'_> {
        Sources {
            build,
            files: HashMap::new(),
        }
    }

    /// The text of a line; empty if the source is not at hand.
    fn line(&mut self, location: &SourceLocation) -> &str {
        if !self.files.contains_key(&location.file) {
            let text = self.build.source(&location.file).unwrap_or_default();
            let lines = text.lines().map(str::to_owned).collect();
            self.files.insert(location.file.clone(), lines);
        }
        let lines = self.files.get(&location.file).map_or(&[][..], |l| l);
        let index = (location.line as usize).checked_sub(1);
        index.and_then(|at| lines.get(at)).map_or("", |line| line)
    }
}

fn find(store: &BuildStore, beginning: &str) -> Result<RegisteredBuild> {
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

fn slice(program: &Program, at: &str) -> Result<Slice> {
    let (file, line) = at
        .rsplit_once(':')
        .and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)))
        .with_context(|| format!("{at} is not FILE:LINE"))?;
    let statement = program.statement_at(None, file, line).with_context(|| {
        format!("there is no statement at {at}: no code was made for that line, or the program has no such file")
    })?;
    // Lines are looked up for what is printed only.
    Ok(backward_slice(program, statement, &[], &|_| None))
}

/// One statement a row: distance, place, thread roles, text, and why it is here.
fn text(slice: &Slice) -> String {
    let mut out = String::new();
    for entry in &slice.entries {
        let statement = &entry.statement;
        let why = match &entry.why {
            None => "the failing statement".to_owned(),
            Some(why) => {
                let parent = slice
                    .entry(why.parent)
                    .map_or_else(String::new, |p| p.statement.location.to_string());
                format!("{} {parent}", why.kind)
            }
        };
        out.push_str(&format!(
            "{:>4}  {:<22} {:<16} {:<50} {why} [{}]\n",
            entry.distance,
            statement.location.to_string(),
            statement.function,
            statement.text,
            entry.roles.join(", "),
        ));
    }
    for gap in &slice.gaps {
        out.push_str(&format!("note: {gap}\n"));
    }
    out
}
