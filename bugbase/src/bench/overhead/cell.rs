//! The rows of the overhead tables, as kept in the JSON file and as printed.
//!
//! The file is written after every row, so a measurement that is interrupted goes
//! on where it was (`--resume`).

use super::paired::{Ratios, percent, percent_of_sums};
use crate::corpus::bug::Measure;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Everything measured so far.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    pub machine: String,
    pub rows: Vec<Row>,
    pub patches: Vec<PatchRow>,
    pub instructions: Vec<InstructionRow>,
}

/// One comparison with the program alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub program: String,
    pub work: String,
    /// "A/A", "agent", "tracked", "fleet", or the name of another tool.
    pub what: String,
    /// How the work's cost is measured.
    #[serde(default)]
    pub measure: Measure,
    /// Of a tracked build: "2" … "whole", "both" …, and whether it was governed.
    pub sigma: String,
    pub mode: String,
    pub governed: bool,
    pub program_cpu: Option<Ratios>,
    pub total_cpu: Option<Ratios>,
    pub wall: Option<Ratios>,
    /// The share of runs that were tracked.
    #[serde(default)]
    pub tracked: Option<f64>,
    /// Medians over the tracked runs.
    pub coverage: Option<f64>,
    pub hits: Option<f64>,
    /// Seconds of processor time of the program alone.
    pub base_seconds: f64,
    /// Runs in which the program failed.
    pub discarded: usize,
    /// What was not done, and why.
    pub remark: String,
    pub load: String,
}

/// A patch: what it took to make it, and its size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PatchRow {
    pub program: String,
    pub sigma: String,
    pub mode: String,
    pub slice_statements: u64,
    pub sites: u64,
    pub placed: u64,
    pub watched: u64,
    /// Milliseconds of processor time: graph, slice, plan, tracked build, patch.
    pub graph_ms: f64,
    pub slice_ms: f64,
    pub plan_ms: f64,
    pub track_ms: f64,
    pub patch_ms: f64,
    /// Starting the program with the patch less starting it without.
    pub apply_ms: Option<f64>,
    pub patch_bytes: u64,
    pub base_bytes: u64,
    pub way: String,
    pub remark: String,
}

/// Instructions that callgrind counts, recording being off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct InstructionRow {
    pub program: String,
    pub work: String,
    pub sigma: String,
    pub original: Option<u64>,
    pub tracked: Option<u64>,
    pub remark: String,
}

impl Row {
    fn same_as(&self, other: &Row) -> bool {
        let key = |row: &Row| {
            let text = [&row.program, &row.work, &row.what, &row.sigma, &row.mode];
            (text.map(Clone::clone), row.governed)
        };
        key(self) == key(other)
    }

    pub fn name(&self) -> String {
        match self.what.as_str() {
            "fleet" => format!("σ {} {}, as in a fleet", self.sigma, self.mode),
            "tracked" => {
                let governed = if self.governed { "1%" } else { "off" };
                format!("σ {} {} governor {governed}", self.sigma, self.mode)
            }
            other => other.to_owned(),
        }
    }

    /// Whether it tells if the governor's promise holds: over many runs, or a long one.
    pub fn is_of_aim(&self) -> bool {
        match self.what.as_str() {
            "tracked" => self.measure == Measure::Service && self.governed && self.mode == "both",
            "A/A" | "agent" | "fleet" => self.measure != Measure::Runs,
            _ => false,
        }
    }

    /// One name for what is the same in many short runs and in a long one.
    pub fn name_of_aim(&self) -> String {
        match self.what.as_str() {
            "fleet" | "tracked" => format!("σ {}", self.sigma),
            other => other.to_owned(),
        }
    }

    pub fn line(&self) -> String {
        let shown = |ratios: &Option<Ratios>| ratios.as_ref().map_or("–".into(), percent);
        let share =
            |value: Option<f64>| value.map_or("–".into(), |v| format!("{:.0}%", 100.0 * v));
        let count = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.0}"));
        format!(
            "{:<32} {:>5} {:>14} {:>24} {:>24} {:>24} {:>7} {:>6} {:>7} {:>4}  {}",
            self.name(),
            self.program_cpu.as_ref().map_or(0, |ratios| ratios.pairs),
            self.program_cpu
                .as_ref()
                .map_or("–".into(), percent_of_sums),
            shown(&self.program_cpu),
            shown(&self.total_cpu),
            shown(&self.wall),
            share(self.tracked),
            share(self.coverage),
            count(self.hits),
            self.discarded,
            self.remark
        )
    }
}

pub fn heading() -> String {
    format!(
        "{:<32} {:>5} {:>14} {:>24} {:>24} {:>24} {:>7} {:>6} {:>7} {:>4}",
        "against the program alone (95%)",
        "pairs",
        "CPU, sums",
        "CPU of the program",
        "CPU with the agent",
        "wall time",
        "tracked",
        "on",
        "hits",
        "fail"
    )
}

impl PatchRow {
    pub fn is_for(&self, program: &str, sigma: &str, mode: &str) -> bool {
        (&*self.program, &*self.sigma, &*self.mode) == (program, sigma, mode)
    }

    pub fn line(&self) -> String {
        let apply = self.apply_ms.map_or("–".into(), |ms| format!("{ms:.1}"));
        format!(
            "{:<10} σ {:<6} {:<13} {:>6} {:>4}/{:<4} {:>3} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>8} {:>7.1}  {} {}",
            self.program,
            self.sigma,
            self.mode,
            self.slice_statements,
            self.placed,
            self.sites,
            self.watched,
            self.graph_ms,
            self.slice_ms,
            self.plan_ms,
            self.track_ms,
            self.patch_ms,
            apply,
            self.patch_bytes as f64 / 1000.0,
            self.way,
            self.remark
        )
    }
}

pub fn patch_heading() -> String {
    format!(
        "{:<10} {:<8} {:<13} {:>6} {:>9} {:>3} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}",
        "program",
        "",
        "",
        "slice",
        "hooks",
        "w",
        "graph",
        "slice",
        "plan",
        "build",
        "patch",
        "apply",
        "KB"
    )
}

impl Measured {
    /// What an earlier measurement wrote, if it is to be continued.
    pub fn open(file: &Path, resume: bool) -> Result<Measured> {
        if !resume || !file.exists() {
            return Ok(Measured::default());
        }
        let text = fs::read_to_string(file)?;
        let shown = file.display();
        serde_json::from_str(&text).with_context(|| format!("{shown} is not of this benchmark"))
    }

    pub fn save(&self, file: &Path) -> Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(file, text).with_context(|| format!("writing {}", file.display()))
    }

    /// The patch of that name, if it was made already.
    pub fn known_patch(&self, program: &str, sigma: &str, mode: &str) -> Option<&PatchRow> {
        let mut patches = self.patches.iter();
        patches.find(|known| known.is_for(program, sigma, mode))
    }

    /// The row of that name, if it was measured already.
    pub fn known(&self, row: &Row) -> Option<&Row> {
        self.rows.iter().find(|known| known.same_as(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_apart_and_survive_a_restart() {
        let row = Row {
            program: "p".into(),
            what: "tracked".into(),
            sigma: "2".into(),
            mode: "both".into(),
            governed: true,
            program_cpu: Ratios::of(&[(1.0, 1.01)]),
            ..Row::default()
        };
        let other = Row {
            governed: false,
            ..row.clone()
        };
        let mut measured = Measured::default();
        measured.rows.push(row.clone());
        let file = std::env::temp_dir().join(format!("overhead-{}.json", std::process::id()));
        measured.save(&file).unwrap();
        let again = Measured::open(&file, true).unwrap();
        assert!(again.known(&row).is_some() && again.known(&other).is_none());
        assert!(Measured::open(&file, false).unwrap().rows.is_empty());
        assert!(
            row.line().contains("σ 2 both governor 1%"),
            "{}",
            row.line()
        );
        assert!(row.line().contains("+1.0% (+1.0…+1.0)"), "{}", row.line());
        fs::remove_file(&file).unwrap();
    }
}
