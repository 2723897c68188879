//! `./dev eval`: diagnose bugs and compare with what their folders say.
//!
//! The first form of the evaluation: one row a bug, with the expected predictor
//! checked against the hand-made sketch. Accuracy, overhead and repetition come
//! with the whole corpus.

use crate::bug::{self, Bug};
use crate::diagnosis::{Diagnosis, follow};
use crate::expected::is_expected;
use crate::fleet::{Fleet, Fuel, prepare};
use crate::folder::emptied;
use crate::tools::Tools;
use anyhow::{Result, bail};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Arguments {
    /// The bugs; all if none is named.
    bugs: Vec<String>,
    /// Also write the rows to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    #[arg(long, default_value = "target/eval")]
    folder: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let bugs = bug::chosen(&arguments.bugs)?;
    let tools = Tools::find()?;
    println!(
        "{:<20} {:>5} {:>8} {:>10} {:>6} {:>5} {:>8}  best order predictor",
        "bug", "σ", "failing", "successful", "F", "steps", "seconds"
    );
    let mut rows = Vec::new();
    let mut missed = Vec::new();
    for bug in &bugs {
        let begun = Instant::now();
        let diagnosis = diagnose(&tools, bug, arguments)?;
        let expected = is_expected(&bug.ideal.predictors, &diagnosis.sketch);
        let row = row(bug, &diagnosis, expected, begun.elapsed());
        println!(
            "{:<20} {:>5} {:>8} {:>10} {:>6.2} {:>5} {:>8.1}  {}",
            bug.name,
            row["sigma"],
            row["failing"],
            row["successful"],
            row["f"].as_f64().unwrap_or_default(),
            row["steps"],
            begun.elapsed().as_secs_f64(),
            if expected {
                "as expected"
            } else {
                "not the expected one"
            },
        );
        if !expected {
            missed.push(bug.name.as_str());
        }
        rows.push(row);
    }
    if let Some(file) = &arguments.json {
        fs::write(file, serde_json::to_string_pretty(&rows)? + "\n")?;
    }
    if !missed.is_empty() {
        bail!("not the expected predictor: {}", missed.join(", "));
    }
    Ok(())
}

fn diagnose(tools: &Tools, bug: &Bug, arguments: &Arguments) -> Result<Diagnosis> {
    let folder = emptied(&arguments.folder.join(&bug.name))?;
    let prepared = prepare(tools, bug, &folder)?;
    let mut fleet = Fleet::start(tools, bug, &prepared, &folder, 3, &Fuel::UntilFinished)?;
    follow(bug, &mut fleet, Duration::from_secs(300), || false)
}

fn row(bug: &Bug, diagnosis: &Diagnosis, expected: bool, took: Duration) -> Value {
    let sketch = &diagnosis.sketch;
    serde_json::json!({
        "bug": bug.name,
        "sigma": sketch["provenance"]["sigma"],
        "failing": sketch["provenance"]["failing_runs"],
        "successful": sketch["provenance"]["successful_runs"],
        "f": diagnosis.campaign.best.as_ref().map(|b| b.f_measure),
        "steps": sketch["steps"].as_array().map_or(0, Vec::len),
        "expected_predictor": expected,
        "seconds": took.as_secs_f64(),
    })
}
