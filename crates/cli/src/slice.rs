//! `failsketch slice`: the static half of a diagnosis, for people.
//!
//! Reads a registered build, slices it from a line and hands the slice to one of
//! the writers: `text` for reading, JSON for tools, `dot` for Graphviz.

mod dot;
mod text;

use anyhow::Result;
use build_analysis::LoadedBuild;
use build_store::RegisteredBuild;
use clap::ValueEnum;
use sketch_model::SourceLocation;
use slicer::{Alias, Extent, Loader, ModuleInput, Program, slice_from};

use crate::at_statement::AtStatement;
use crate::timings::Timings;

/// σ of the plan that `--timings` makes if none is given.
const PLANNED: usize = 32;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    statement: AtStatement,
    /// Print only this many statements, nearest first.
    #[arg(long)]
    sigma: Option<usize>,
    /// Everything that can have led there, and not only the nearest 1,024 statements.
    #[arg(long)]
    whole: bool,
    /// Which stores a load through a pointer may see: those of the same field of
    /// the same struct type (field, as the server does), or what a points-to
    /// analysis of the whole program allows (andersen).
    #[arg(long, value_name = "field|andersen", default_value_t = Alias::default())]
    alias: Alias,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Lines of source to show before and after each statement.
    #[arg(long, default_value_t = 1)]
    context: u32,
    /// Print what each phase cost, as JSON, instead of the slice
    #[arg(long)]
    timings: bool,
    /// Read the bitcode again, in this process, instead of using the stored graph
    #[arg(long)]
    from_bitcode: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Dot,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut timings = Timings::start();
    let loaded = if arguments.from_bitcode {
        let build = arguments.statement.build()?;
        let program = from_bitcode(&build, &mut timings)?;
        LoadedBuild::with(build, program)
    } else {
        let loaded = arguments.statement.loaded()?;
        timings.ended("graph");
        loaded
    };
    let program = loaded.program();
    let criteria = arguments.statement.criteria(program)?;
    let extent = match arguments.whole {
        true => Extent::Whole,
        false => Extent::enough_for(arguments.sigma.unwrap_or(0)),
    };
    // Lines are looked up for what is printed only.
    let mut slice = slice_from(program, &criteria, arguments.alias, extent, &|_| None);
    timings.ended("slice");
    let whole = slice.entries.len();
    let manifest = loaded.registered().manifest();
    if arguments.timings {
        let sigma = arguments.sigma.unwrap_or(PLANNED);
        slicer::plan(&slice, sigma.try_into().unwrap_or(u32::MAX), &[]);
        timings.ended("plan");
        let modules = manifest.modules.len();
        let facts = [("statements", whole), ("modules", modules)];
        println!("{}", timings.report(&facts));
        return Ok(());
    }
    if let Some(sigma) = arguments.sigma {
        slice.entries.truncate(sigma);
    }
    for entry in &mut slice.entries {
        let text = loaded.source_line(&entry.statement.location);
        entry.statement.text = text.unwrap_or_default().trim().to_owned();
    }
    match arguments.format {
        Format::Text => {
            let heading = text::Heading {
                at: &arguments.statement.place(),
                program: &manifest.program,
                alias: arguments.alias,
                whole,
            };
            let line = |file: &str, line: u32| {
                let file = file.to_owned();
                loaded.source_line(&SourceLocation { file, line })
            };
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
