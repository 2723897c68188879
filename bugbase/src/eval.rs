//! `./dev eval`: diagnose bugs and compare with what their folders say.
//!
//! For each bug a local fleet runs the workload until a campaign has settled or a
//! limit is hit; what came out is a row of figures (`figures`), printed as it comes
//! and kept as JSON and as a page (`report`). A bug that is not diagnosed is a row
//! too, with the reason in words.
//!
//! Deliberately absent: overhead (the benchmark measures it side by side), plots and
//! repetition.

use crate::bug::{self, Bug, Group};
use crate::diagnosis::{Limits, watch};
use crate::figures::{Figures, figures};
use crate::fleet::{Fleet, Fuel, prepare};
use crate::folder::emptied;
use crate::report;
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
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
    let tools = Tools::find()?;
    // A fleet ends with the value that holds it, so an interrupted evaluation has
    // to return, not to die.
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    ctrlc::set_handler(move || stopped.store(true, Ordering::Relaxed))?;
    println!("{}", report::head());
    let mut rows = Vec::new();
    for bug in &mut bugs {
        let row = evaluate(&tools, bug, arguments, &stop)?;
        println!("{}", report::line(&row));
        rows.push(row);
    }
    println!("{}", report::averages(&rows));
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&rows)? + "\n";
        fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    if let Some(file) = &arguments.page {
        let limits = format!(
            "at most {} s and {} runs a bug, {} agents",
            arguments.seconds, arguments.runs, arguments.agents
        );
        fs::write(file, report::page(&rows, &limits))
            .with_context(|| format!("writing {}", file.display()))?;
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
    let fuel = Fuel::UntilFinished;
    let mut fleet = Fleet::start(tools, bug, &prepared, &folder, arguments.agents, &fuel)?;
    let limits = Limits {
        time: Duration::from_secs(arguments.seconds),
        runs: arguments.runs,
    };
    let ending = watch(bug, &mut fleet, &limits, || stop.load(Ordering::Relaxed))?;
    fleet.dismiss_agents();
    if let Some(diagnosis) = ending.diagnosis() {
        let text = serde_json::to_string_pretty(&diagnosis.sketch)?;
        fs::write(folder.join("sketch.json"), text + "\n")?;
    }
    figures(bug, &ending, begun.elapsed())
}
