//! `failsketch slice`: the static half of a diagnosis, for people.

use anyhow::{Context, Result, bail};
use build_store::{BuildStore, RegisteredBuild};
use clap::ValueEnum;
use sketch_model::{BuildId, Slice, SourceLocation};
use slicer::{ModuleInput, Program, backward_slice};
use std::path::PathBuf;

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
    let store = crate::open_store(arguments.store.as_ref())?;
    let build = find(&store, &arguments.build)?;
    let mut slice = slice(&build, &arguments.at)?;
    if let Some(sigma) = arguments.sigma {
        slice.entries.truncate(sigma);
    }
    match arguments.format {
        Format::Text => print!("{}", text(&slice)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&slice)?),
    }
    Ok(())
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

fn slice(build: &RegisteredBuild, at: &str) -> Result<Slice> {
    let (file, line) = at
        .rsplit_once(':')
        .and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?)))
        .with_context(|| format!("{at} is not FILE:LINE"))?;
    let modules = &build.manifest().modules;
    let bitcode = (0..modules.len())
        .map(|module| build.module_bitcode(module))
        .collect::<Result<Vec<_>, _>>()?;
    let inputs: Vec<_> = modules
        .iter()
        .zip(&bitcode)
        .map(|(module, bitcode)| ModuleInput {
            name: &module.source,
            bitcode,
        })
        .collect();
    let program = Program::load(build.manifest().build_id.clone(), &inputs)?;
    let statement = program.statement_at(None, file, line).with_context(|| {
        format!("there is no statement at {at}: no code was made for that line, or the program has no such file")
    })?;
    let source = |location: &SourceLocation| build.source_line(&location.file, location.line);
    Ok(backward_slice(&program, statement, &[], &source))
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
