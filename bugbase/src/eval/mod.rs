//! `./dev eval`: diagnose bugs and compare with what their folders say.
//!
//! For each bug a local fleet runs the workload until a campaign has settled or a
//! limit is hit; what came out is a row of figures (`figures`), printed as it comes
//! and kept as JSON and as a page with charts (`report`, `page`). A bug that is not
//! diagnosed is a row too, with the reason in words. Rows are written as they come:
//! an evaluation that is interrupted goes on where it was (`--resume`).

pub(crate) mod accuracy;
pub(crate) mod cost;
pub(crate) mod diagnosis;
pub(crate) mod figures;
pub(crate) mod fix_check;
pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod stages;

use crate::corpus::bug::{self, Bug, Group};
use crate::corpus::folder::emptied;
use crate::fleet::{Fleet, prepare};
use crate::tables;
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use cost::cost;
use diagnosis::{Limits, watch};
use figures::{Beside, Figures, figures};
use fix_check::absent;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Arguments {
    /// The bugs, or "paper", "further" or "real" for a part of them; all if none is named.
    bugs: Vec<String>,
    /// Give a bug up after so many runs of its program.
    #[arg(long, default_value_t = 20_000)]
    runs: u64,
    /// Give a bug up after so many seconds.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Diagnose each bug so many times.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Leave out what the last tracked build cost to make and to run, and whether the
    /// stated cause is absent from the fixed program.
    #[arg(long)]
    no_cost: bool,
    /// Keep the rows that the JSON file has already.
    #[arg(long, requires = "json")]
    resume: bool,
    /// The JSON file of `./dev bench overhead`, for the page's plot.
    #[arg(long)]
    overhead: Option<PathBuf>,
    /// Run the programs with these arguments instead of their workloads'.
    #[arg(long, value_delimiter = ' ')]
    arguments: Vec<String>,
    /// How many agents run the program at the same time.
    #[arg(long, default_value_t = 3)]
    agents: u32,
    /// Also write the rows to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also write a page with tables, for docs/evaluation.md.
    #[arg(long)]
    page: Option<PathBuf>,
    #[arg(long, default_value = "target/eval")]
    folder: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut bugs = bug::chosen(&arguments.bugs)?;
    if !arguments.arguments.is_empty() {
        for bug in &mut bugs {
            bug.workload.arguments = arguments.arguments.clone();
        }
    }
    let tools = Tools::find()?;
    // A fleet ends with the value that holds it, so an interrupted evaluation has
    // to return, not to die.
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    ctrlc::set_handler(move || stopped.store(true, Ordering::Relaxed))?;
    let mut rows = match (&arguments.json, arguments.resume) {
        (Some(file), true) if file.exists() => earlier(file)?,
        _ => Vec::new(),
    };
    println!("{}", report::head());
    for row in &rows {
        println!("{}", report::line(row));
    }
    for repetition in 1..=arguments.repeat {
        for bug in &mut bugs {
            let known = |row: &Figures| row.bug == bug.name && row.repetition == repetition;
            if rows.iter().any(known) {
                continue;
            }
            let row = match evaluate(&tools, bug, arguments, &stop) {
                Ok(row) => Figures { repetition, ..row },
                // Said in a row: one bug that cannot be built does not cost the
                // others theirs.
                Err(error) if !stop.load(Ordering::Relaxed) => {
                    not_evaluated(bug, repetition, &error)
                }
                Err(error) => return Err(error),
            };
            println!("{}", report::line(&row));
            rows.push(row);
            if let Some(file) = &arguments.json {
                tables::save(file, &rows)?;
            }
        }
    }
    println!("\n{}", report::averages(&rows));
    if arguments.repeat > 1 {
        println!("\n{}", report::spreads(&rows));
    }
    if let Some(file) = &arguments.page {
        let limits = format!(
            "at most {} s and {} runs a bug, {} agents, {} times",
            arguments.seconds, arguments.runs, arguments.agents, arguments.repeat
        );
        page::write(file, &rows, &limits, arguments.overhead.as_deref())?;
    }
    // Over the corpus or a part of it the rows are the result. Who names bugs wants them
    // diagnosed.
    let missed: Vec<_> = rows.iter().filter(|row| !row.expected).collect();
    let singly = arguments
        .bugs
        .iter()
        .any(|name| Group::named(name).is_none());
    if singly && !missed.is_empty() {
        let names: Vec<_> = missed.iter().map(|row| row.bug.as_str()).collect();
        bail!("not the expected predictor: {}", names.join(", "));
    }
    Ok(())
}

/// One bug from building it to its row. Only what is wrong with our own tools or
/// folders is an error; everything else is a row.
fn evaluate(
    tools: &Tools,
    bug: &mut Bug,
    arguments: &Arguments,
    stop: &AtomicBool,
) -> Result<Figures> {
    let folder = emptied(&arguments.folder.join(&bug.name))?;
    let begun = Instant::now();
    let prepared = prepare(tools, bug, &folder)?;
    let mut fleet = Fleet::start(tools, bug, &prepared, &folder, arguments.agents)?;
    let limits = Limits {
        time: Duration::from_secs(arguments.seconds),
        runs: arguments.runs,
    };
    let mut beside = Beside::default();
    let stopped = || stop.load(Ordering::Relaxed);
    let ending = watch(bug, &mut fleet, &limits, &mut beside.seen, stopped)?;
    let took = begun.elapsed();
    fleet.dismiss_agents();
    if let Some(diagnosis) = ending.diagnosis() {
        let text = serde_json::to_string_pretty(&diagnosis.sketch)?;
        fs::write(folder.join("sketch.json"), text + "\n")?;
        let path = format!("/api/v1/campaigns/{}/slice", diagnosis.campaign.id);
        if let Ok(text) = fleet.api.text(&path) {
            beside.slice = serde_json::from_str(&text)?;
        }
        if !arguments.no_cost {
            let slice = &beside.slice;
            let cost = cost(tools, bug, &prepared, &folder, &diagnosis.sketch, slice)?;
            beside.cost = Some(cost);
            let input = &prepared.input;
            beside.fixed = absent(tools, bug, &folder, input, &diagnosis.sketch, slice)?;
        }
    }
    figures(bug, &ending, &beside, took)
}

/// The rows of an earlier evaluation.
fn earlier(file: &Path) -> Result<Vec<Figures>> {
    let text = fs::read_to_string(file)?;
    serde_json::from_str(&text).with_context(|| format!("{} has no rows", file.display()))
}

/// The row of a bug that could not be evaluated at all.
fn not_evaluated(bug: &Bug, repetition: usize, error: &anyhow::Error) -> Figures {
    Figures {
        bug: bug.name.clone(),
        program: bug.program.clone(),
        of_the_paper: bug.group == Group::Paper,
        real: bug.group == Group::Real,
        ideal_statements: bug.ideal.statements.len(),
        verdict: format!("not evaluated: {error:#}"),
        repetition,
        ..Figures::default()
    }
}
