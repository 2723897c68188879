//! `bugbase stacks`: runs a faulty program until it fails and keeps its stacks.
//!
//! The agent sees the failure, as it would anywhere; its record holds addresses, and
//! `llvm-symbolizer` makes functions and lines of them, inlined ones too. Nothing of the
//! slicer is asked, so stacks can be kept before anybody has looked at a slice.

use crate::corpus::bug::{self, Bug};
use crate::corpus::companions::start_client;
use crate::corpus::package;
use crate::corpus::program::Variant;
use crate::corpus::stacks::{self, Frame, Shape, Stacks, Thread};
use crate::corpus::workload::Files;
use crate::fleet::{Prepared, prepare};
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub struct Arguments {
    /// The bugs, or "paper", "further" or "real" for a part of them.
    #[arg(required = true)]
    bugs: Vec<String>,
    /// How often each program is run at most.
    #[arg(long, default_value_t = 3000)]
    runs: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let tools = Tools::find()?;
    for mut bug in bug::chosen(&arguments.bugs)? {
        let folder = std::env::temp_dir().join(format!("bugbase-{}-stacks", bug.name));
        let kept = record(&tools, &mut bug, &folder, arguments.runs);
        let _ = fs::remove_dir_all(&folder);
        let (run, stacks) = kept.with_context(|| format!("recording {}", bug.name))?;
        fs::write(bug.folder.join(stacks::FILE), stacks.text(&bug.name))?;
        println!("{}: run {run} failed; its stacks are kept", bug.name);
    }
    Ok(())
}

fn record(tools: &Tools, bug: &mut Bug, folder: &Path, runs: u64) -> Result<(u64, Stacks)> {
    let prepared = prepare(tools, bug, folder)?;
    let tree = bug
        .tree
        .clone()
        .context("a bug that is built has sources")?;
    let with_debug_info = match bug.build.package {
        Some(_) => package::build(&tools.failsketch, bug, Variant::Faulty, false)?.binary,
        None => folder.join(&bug.name),
    };
    for seed in 0..runs {
        let record = run_once(tools, bug, &prepared, folder, seed)?;
        let report = &record["outcome"]["failure"];
        if report.is_object() {
            let stacks = stacks_of(report, &prepared.deployed, &with_debug_info, &tree)?;
            return Ok((seed + 1, stacks));
        }
    }
    bail!("none of {runs} runs failed")
}

/// The agent's record of one run.
fn run_once(
    tools: &Tools,
    bug: &Bug,
    prepared: &Prepared,
    folder: &Path,
    seed: u64,
) -> Result<Value> {
    let output = folder.join("output");
    let files = Files {
        input: &prepared.input,
        output: &output,
        folder: &bug.folder,
        server: prepared.beside.address(),
    };
    let file = folder.join("record.json");
    let _ = fs::remove_file(&file);
    let _client = start_client(prepared.beside.client(), &bug.workload, &files, seed)?;
    let mut agent = Command::new(&tools.agent);
    agent.arg("run").arg("--cache").arg(folder.join("cache"));
    for code in &bug.failure.exit_codes {
        agent.arg("--fail-exit").arg(code.to_string());
    }
    if let Some(patience) = bug.failure.hang_after_ms {
        let seconds = patience as f64 / 8000.0;
        agent.args(["--hang-after", &seconds.to_string(), "--end-hung"]);
    }
    agent
        .arg("--store-record")
        .arg(&file)
        .arg("--")
        .arg(&prepared.deployed)
        .args(bug.workload.arguments(&files, seed))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", tools.agent.display()))?;
    let text = fs::read_to_string(&file).context("the agent stored no record")?;
    let last = text.lines().last().context("the agent's record is empty")?;
    Ok(serde_json::from_str(last)?)
}

fn stacks_of(
    report: &Value,
    deployed: &Path,
    with_debug_info: &Path,
    tree: &Path,
) -> Result<Stacks> {
    let failure = match &report["kind"] {
        Value::String(kind) if kind == "hang" => Shape::Hang,
        kind if kind["signal"]["name"] == "SIGABRT" => Shape::Abort,
        _ => Shape::Fault,
    };
    let program = deployed.canonicalize()?;
    let mut threads = Vec::new();
    for thread in report["threads"]
        .as_array()
        .context("a report has threads")?
    {
        let frames = thread["frames"].as_array().context("a stack has frames")?;
        let own = frames
            .iter()
            .filter(|frame| frame["module"].as_str().map(Path::new) == Some(&program));
        let addresses: Vec<u64> = own.filter_map(|frame| frame["lookup"].as_u64()).collect();
        let frames = symbolized(with_debug_info, &addresses, tree)?;
        let held = thread["waits_for"].as_str();
        let held = held.is_some_and(|waits| waits.ends_with("holds"));
        if !frames.is_empty() {
            threads.push((!held, Thread { frames }));
        }
        if failure != Shape::Hang {
            break;
        }
    }
    // Those that wait for what another thread holds come first, as for the server.
    threads.sort_by_key(|(free, _)| *free);
    let threads: Vec<Thread> = threads.into_iter().map(|(_, thread)| thread).collect();
    if threads.is_empty() {
        bail!("no frame of the failing thread lies in the program");
    }
    Ok(Stacks { failure, threads })
}

fn symbolized(binary: &Path, addresses: &[u64], tree: &Path) -> Result<Vec<Frame>> {
    let tree = tree.canonicalize()?;
    let mut frames = Vec::new();
    for address in addresses {
        let output = Command::new("llvm-symbolizer-19")
            .args(["--no-demangle", "--inlines", "--output-style=JSON", "--obj"])
            .arg(binary)
            .arg(format!("{address:#x}"))
            .output()
            .context("starting llvm-symbolizer-19")?;
        let said: Value = serde_json::from_slice(&output.stdout)
            .context("llvm-symbolizer-19 did not answer in JSON")?;
        let symbols = said[0]["Symbol"].as_array();
        for symbol in symbols.into_iter().flatten() {
            let (function, file) = (&symbol["FunctionName"], &symbol["FileName"]);
            let line = symbol["Line"].as_u64().unwrap_or(0) as usize;
            if let (Some(function), Some(file), 1..) = (function.as_str(), file.as_str(), line) {
                let real = PathBuf::from(file).canonicalize();
                let real = real.unwrap_or_else(|_| PathBuf::from(file));
                let file = real.to_string_lossy();
                frames.push(Frame::of_line(&tree, function, &file, line));
            }
        }
    }
    Ok(frames)
}
