//! `bugbase rate` and `bugbase fixed`: how often the fault strikes by itself, and
//! that the fix never fails.

use crate::corpus::bug::{self, Bug};
use crate::corpus::program::{Judgement, Variant, compile};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Arguments {
    /// The bugs, or "paper", "further" or "real" for a part of them; all if none is named.
    bugs: Vec<String>,
    /// How often each program is run.
    #[arg(long, default_value_t = 500)]
    runs: u64,
    /// Stop at so many seconds a bug, and say so.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Also write the rows to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One program's runs, counted.
#[derive(Debug)]
struct Tally {
    runs: u64,
    failures: u64,
    other: Vec<String>,
    milliseconds: f64,
}

/// The faulty programs: how often they fail.
pub fn rate(arguments: &Arguments) -> Result<()> {
    let odd = measure(arguments, Variant::Faulty, |tally| {
        let share = tally.failures as f64 / tally.runs as f64;
        match (0.02..=0.40).contains(&share) {
            true => String::new(),
            false => "outside 2–40%".into(),
        }
    })?;
    if !odd.is_empty() {
        bail!(
            "runs ended in ways that bug.toml does not describe: {}",
            odd.join("; ")
        );
    }
    Ok(())
}

/// The fixed programs: any failure is an error.
pub fn fixed(arguments: &Arguments) -> Result<()> {
    let mut bad = Vec::new();
    let odd = measure(arguments, Variant::Fixed, |tally| match tally.failures {
        0 => String::new(),
        _ => "the fix does not hold".into(),
    })?;
    bad.extend(odd);
    if !bad.is_empty() {
        bail!("the fix does not hold: {}", bad.join("; "));
    }
    Ok(())
}

/// Runs each bug's program; the result names those whose runs ended in a way
/// that should not be.
fn measure(
    arguments: &Arguments,
    variant: Variant,
    remark: impl Fn(&Tally) -> String,
) -> Result<Vec<String>> {
    let bugs = bug::chosen(&arguments.bugs)?;
    println!(
        "{:<22} {:>6} {:>8} {:>8} {:>8}",
        "bug", "runs", "failed", "share", "ms/run"
    );
    let mut rows = Vec::new();
    let mut bad = Vec::new();
    for bug in &bugs {
        let tally = tally(bug, variant, arguments)?;
        let share = tally.failures as f64 / tally.runs as f64;
        println!(
            "{:<22} {:>6} {:>8} {:>7.1}% {:>8.2}  {}",
            bug.name,
            tally.runs,
            tally.failures,
            100.0 * share,
            tally.milliseconds,
            remark(&tally)
        );
        if let Some(first) = tally.other.first() {
            bad.push(format!("{} ({first}, {}×)", bug.name, tally.other.len()));
        } else if variant == Variant::Fixed && tally.failures > 0 {
            bad.push(format!("{} ({} failures)", bug.name, tally.failures));
        }
        rows.push(row(bug, variant, &tally));
    }
    if let Some(file) = &arguments.json {
        fs::write(file, serde_json::to_string_pretty(&rows)? + "\n")
            .with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(bad)
}

fn tally(bug: &Bug, variant: Variant, arguments: &Arguments) -> Result<Tally> {
    let folder = std::env::temp_dir().join(format!("bugbase-{}-{}", bug.name, std::process::id()));
    let program = compile(bug, variant, &folder)?;
    let begun = Instant::now();
    let mut tally = Tally {
        runs: 0,
        failures: 0,
        other: Vec::new(),
        milliseconds: 0.0,
    };
    while tally.runs < arguments.runs
        && (tally.runs == 0 || begun.elapsed().as_secs() < arguments.seconds)
    {
        match program.run(tally.runs)? {
            Judgement::Success => {}
            Judgement::Failure => tally.failures += 1,
            Judgement::Other(how) => tally.other.push(how),
        }
        tally.runs += 1;
    }
    tally.milliseconds = begun.elapsed().as_secs_f64() * 1000.0 / tally.runs as f64;
    fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    Ok(tally)
}

fn row(bug: &Bug, variant: Variant, tally: &Tally) -> Value {
    json!({
        "bug": bug.name,
        "fixed": variant == Variant::Fixed,
        "runs": tally.runs,
        "failures": tally.failures,
        "other": tally.other,
        "ms_per_run": tally.milliseconds,
    })
}
