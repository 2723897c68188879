//! `./dev bench overhead`: CPU time of tracked runs beside untracked ones.
//!
//! One agent diagnoses a bug and then goes on running it, so that tracked runs
//! (P′, one row for each iteration) and untracked ones (P under the agent) come
//! from one session and are partly interleaved. Only successful runs count: a
//! crash cuts a run short. Medians with quartiles, because a shared machine has
//! outliers; CPU time, because wall time measures the neighbours. The A/A row
//! compares the odd with the even runs of P: no effect smaller than what it
//! shows can be seen here.
//!
//! Deliberately absent: real programs, other tools beside ours, coverage. They
//! come with the governor, whose work they judge.

use crate::bug;
use crate::diagnosis::{finished_or, follow};
use crate::fleet::{Fleet, Fuel, prepare};
use crate::folder::emptied;
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub struct Arguments {
    /// What to measure: overhead, slicer or agent
    #[arg(default_value = "overhead")]
    what: String,
    /// The real programs that `slicer` measures.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "pbzip2,memcached,sqlite3"
    )]
    pub programs: Vec<String>,
    #[arg(long, default_value = "pbzip2")]
    bug: String,
    /// How often the program is run.
    #[arg(long, default_value_t = 1500)]
    runs: u32,
    /// Also write the rows to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    #[arg(long, default_value = "target/bench")]
    pub folder: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.what.as_str() {
        "overhead" => overhead(arguments),
        "slicer" => crate::bench_slicer::run(arguments),
        "agent" => crate::bench_agent::run(&arguments.folder, arguments.json.as_ref()),
        other => bail!("there is no benchmark {other:?}; there are: overhead, slicer, agent"),
    }
}

fn overhead(arguments: &Arguments) -> Result<()> {
    let mut bug = bug::named(&arguments.bug)?;
    let tools = Tools::find()?;
    let folder = emptied(&arguments.folder)?;
    let prepared = prepare(&tools, &mut bug, &folder)?;
    let records = folder.join("records.jsonl");
    let fuel = Fuel::Runs {
        count: arguments.runs,
        records: records.clone(),
    };
    let mut fleet = Fleet::start(&tools, &bug, &prepared, &folder, 1, &fuel)?;
    let patience = Duration::from_secs(600);
    // The diagnosis may settle or not; what is measured is what it ran.
    let settled = follow(&bug, &mut fleet, patience, || false);
    if let Err(reason) = &settled {
        eprintln!("not settled: {reason:#}");
    }
    finished_or(&mut fleet, patience);
    drop(fleet);
    let rows = table(&fs::read_to_string(&records).context("reading the agent's records")?)?;
    println!(
        "{:<34} {:>6} {:>10} {:>19} {:>7}",
        "successful runs of", "runs", "CPU ms", "middle half", "ratio"
    );
    for row in &rows {
        println!(
            "{:<34} {:>6} {:>10.3} {:>9.3}–{:<9.3} {:>7.3}",
            row.name,
            row.runs,
            row.median,
            row.quartiles.0,
            row.quartiles.1,
            row.median / rows[0].median
        );
    }
    if let Some(file) = &arguments.json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        fs::write(file, serde_json::to_string_pretty(&rows)? + "\n")?;
    }
    Ok(())
}

/// CPU milliseconds of one group of runs.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    runs: usize,
    median: f64,
    quartiles: (f64, f64),
}

impl Row {
    fn new(name: String, mut milliseconds: Vec<f64>) -> Option<Self> {
        milliseconds.sort_by(f64::total_cmp);
        let last = milliseconds.len().checked_sub(1)?;
        let at = |share: f64| milliseconds[(last as f64 * share).round() as usize];
        Some(Row {
            name,
            runs: milliseconds.len(),
            median: at(0.5),
            quartiles: (at(0.25), at(0.75)),
        })
    }

    fn json(&self) -> Value {
        serde_json::json!({
            "name": self.name, "runs": self.runs, "median_cpu_ms": self.median,
            "quartiles_cpu_ms": [self.quartiles.0, self.quartiles.1],
        })
    }
}

/// One row for P, one for its A/A control, one for each tracked build.
fn table(records: &str) -> Result<Vec<Row>> {
    let mut groups: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    let mut untracked = Vec::new();
    for line in records.lines() {
        let record: Value = serde_json::from_str(line).context("a run record")?;
        if record["outcome"] != "success" {
            continue;
        }
        let milliseconds = record["cpu_us"].as_f64().context("a record's CPU time")? / 1000.0;
        let variant = &record["variant"];
        match (variant["campaign"].as_u64(), variant["iteration"].as_u64()) {
            (Some(campaign), Some(iteration)) => groups
                .entry((campaign, iteration))
                .or_default()
                .push(milliseconds),
            _ => untracked.push(milliseconds),
        }
    }
    let every_second = |from: usize| untracked.iter().copied().skip(from).step_by(2).collect();
    let mut rows: Vec<Row> = [
        Row::new("P under the agent, odd runs".into(), every_second(0)),
        Row::new("P under the agent, even runs (A/A)".into(), every_second(1)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if rows.is_empty() {
        bail!("the program was never run untracked");
    }
    rows.extend(
        groups
            .into_iter()
            .filter_map(|((campaign, iteration), cpu)| {
                Row::new(
                    format!("P′ of failure {campaign}, iteration {iteration}"),
                    cpu,
                )
            }),
    );
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_grouped_by_build_and_crashes_left_out() {
        let records = r#"
            {"outcome":"success","cpu_us":1000,"variant":null}
            {"outcome":"success","cpu_us":3000,"variant":null}
            {"outcome":{"failure":{}},"cpu_us":9,"variant":null}
            {"outcome":"success","cpu_us":2000,"variant":{"campaign":1,"iteration":2}}
        "#;
        let rows = table(records.trim()).unwrap();
        let seen: Vec<_> = rows.iter().map(|r| (r.runs, r.median)).collect();
        assert_eq!(seen, [(1, 1.0), (1, 3.0), (1, 2.0)]);
        assert_eq!(rows[2].name, "P′ of failure 1, iteration 2");
        assert!(table("").is_err());
    }
}
