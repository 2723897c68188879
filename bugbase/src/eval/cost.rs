//! What the last tracked build of a diagnosis cost: to make, and to run.
//!
//! The server does not say how long it took, so the build is made once more by
//! `failsketch patch`, from the statement at which the slice of the diagnosis begins,
//! and run under the agent beside the program alone, in pairs with the same input.
//! Few pairs: this is a column of the evaluation; `./dev bench overhead` measures.

use crate::bench::in_turn;
use crate::bench::overhead::paired::Ratios;
use crate::bench::overhead::timed::timed;
use crate::corpus::bug::Bug;
use crate::corpus::companions::start_client;
use crate::corpus::workload::Files;
use crate::fleet::Prepared;
use crate::tools::Tools;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAIRS: usize = 15;
/// All pairs of a bug together.
const LONGEST: Duration = Duration::from_secs(20);
/// Making the build once more.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Milliseconds of processor time.
    pub slice_ms: f64,
    pub patch_ms: f64,
    pub patch_bytes: u64,
    /// CPU of a tracked run, within which the governor may pause, over that of the
    /// program alone.
    pub overhead: Option<Ratios>,
    /// What was not measured, and why.
    pub remark: String,
}

/// Measures the build of that σ for the failure whose slice is given.
pub fn cost(
    tools: &Tools,
    bug: &Bug,
    prepared: &Prepared,
    folder: &Path,
    sketch: &Value,
    slice: &Value,
) -> Result<Cost> {
    let mut cost = Cost::default();
    let location = &slice["entries"][0]["statement"]["location"];
    let (Some(file), Some(line)) = (location["file"].as_str(), location["line"].as_u64()) else {
        cost.remark = "the slice does not say where it begins".into();
        return Ok(cost);
    };
    let patch = folder.join("last.patch");
    let said = folder.join("last.json");
    let complaint = folder.join("last.log");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut command = Command::new(&tools.failsketch);
    command
        .args(["patch", "--json", "--build", &text(&sketch["build"])])
        .args(["--at", &format!("{file}:{line}"), "--sigma"])
        .arg(sketch["provenance"]["sigma"].to_string())
        .arg("--store")
        .arg(&prepared.store)
        .arg("--data")
        .arg(folder.join("key"))
        .arg("--out")
        .arg(&patch);
    if text(&sketch["title"]).starts_with("SIGABRT") {
        command.arg("--reached");
    }
    command
        .stdout(File::create(&said)?)
        .stderr(File::create(&complaint)?);
    let made = timed(&mut command, PATIENCE)?;
    if !made.status.is_some_and(|status| status.success()) {
        let complaint = fs::read_to_string(&complaint)?;
        let first = complaint.lines().next();
        cost.remark = first.unwrap_or("the patch took too long").to_owned();
        return Ok(cost);
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(&said)?)?;
    let phase = |name: &str| report["phases"][name]["cpu_us"].as_f64().unwrap_or(0.0) / 1000.0;
    cost.slice_ms = phase("graph") + phase("slice");
    cost.patch_ms = phase("plan") + phase("track") + phase("patch");
    cost.patch_bytes = report["patch_bytes"].as_u64().unwrap_or(0);
    let mut pairs = Vec::new();
    let begun = Instant::now();
    for seed in 0..4 * PAIRS as u64 {
        if pairs.len() >= PAIRS || begun.elapsed() > LONGEST {
            break;
        }
        let run = |patch| run(tools, bug, prepared, folder, patch, seed);
        let (alone, tracked) = in_turn(seed as usize, || run(None), || run(Some(&patch)))?;
        pairs.extend(alone.zip(tracked));
    }
    cost.overhead = Ratios::of(&pairs);
    if cost.overhead.is_none() {
        cost.remark = "no pair of runs ended well in time".into();
    }
    Ok(cost)
}

/// Seconds of processor time of one run, if it ended well.
fn run(
    tools: &Tools,
    bug: &Bug,
    prepared: &Prepared,
    folder: &Path,
    patch: Option<&Path>,
    seed: u64,
) -> Result<Option<f64>> {
    let output = folder.join("cost.output");
    let record = folder.join("cost.record");
    let files = Files {
        input: &prepared.input,
        output: &output,
        folder: &bug.folder,
        server: prepared.beside.address(),
    };
    let client = start_client(prepared.beside.client(), &bug.workload, &files, seed)?;
    let mut command = match patch {
        None => Command::new(&prepared.deployed),
        Some(patch) => {
            let mut command = Command::new(&tools.agent);
            command.args(["run", "--agent", "cost", "--store-record"]);
            command.arg(&record).arg("--patch").arg(patch);
            command.arg("--key").arg(folder.join("key/signing.pub"));
            command.arg("--cache").arg(folder.join("cache"));
            command.arg("--").arg(&prepared.deployed);
            command
        }
    };
    command
        .args(bug.workload.arguments(&files, seed))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let hang = bug.failure.hang_after_ms.unwrap_or(20_000);
    let run = timed(&mut command, Duration::from_millis(hang))?;
    drop(client);
    if !run.status.is_some_and(|status| status.success()) {
        return Ok(None);
    }
    if patch.is_none() {
        return Ok(Some(run.cpu));
    }
    let record: Value = serde_json::from_str(fs::read_to_string(&record)?.trim())?;
    let cpu = record["cpu_us"].as_f64().context("a record's CPU time")? / 1e6;
    // Where the build was refused, the original ran: nothing to compare.
    Ok((!record["variant"].is_null()).then_some(cpu))
}
