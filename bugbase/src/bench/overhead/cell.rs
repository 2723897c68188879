//! The rows of the overhead tables, as kept in the JSON file and as printed.
//!
//! The file is written after every row, so a measurement that is interrupted goes
//! on where it was (`--resume`).

use super::paired::{Ratios, percent, percent_of_sums};
use crate::corpus::bug::Measure;
use crate::tables::{self, Column, figures, words};
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
        let cpu = self.program_cpu.as_ref();
        let shown = |ratios: &Option<Ratios>| ratios.as_ref().map_or("–".into(), percent);
        let cells = [
            self.name(),
            cpu.map_or(0, |ratios| ratios.pairs).to_string(),
            cpu.map_or("–".into(), percent_of_sums),
            shown(&self.program_cpu),
            shown(&self.total_cpu),
            shown(&self.wall),
            tables::percent(self.tracked),
            tables::percent(self.coverage),
            self.hits.map_or("–".into(), |hits| format!("{hits:.0}")),
            self.discarded.to_string(),
            self.remark.clone(),
        ];
        tables::line(&COLUMNS, &cells)
    }
}

const COLUMNS: [Column<'_>; 11] = [
    words("against the program alone (95%)", 31),
    figures("pairs", 5),
    figures("CPU, sums", 14),
    figures("CPU of the program", 22),
    figures("CPU with the agent", 22),
    figures("wall time", 22),
    figures("tracked", 7),
    figures("on", 4),
    figures("hits", 6),
    figures("fail", 4),
    words("not measured", 12),
];

pub fn heading() -> String {
    tables::head(&COLUMNS)
}

const PATCH_COLUMNS: [Column<'_>; 15] = [
    words("program", 9),
    figures("σ", 5),
    words("recorded", 12),
    figures("slice", 6),
    figures("hooks", 9),
    figures("watched", 7),
    figures("graph ms", 8),
    figures("slice ms", 8),
    figures("plan ms", 8),
    figures("build ms", 8),
    figures("patch ms", 8),
    figures("apply ms", 8),
    figures("patch KB", 8),
    words("way", 6),
    words("not made", 8),
];

pub fn patch_heading() -> String {
    tables::head(&PATCH_COLUMNS)
}

impl PatchRow {
    pub fn is_for(&self, program: &str, sigma: &str, mode: &str) -> bool {
        (&*self.program, &*self.sigma, &*self.mode) == (program, sigma, mode)
    }

    pub fn line(&self) -> String {
        let ms = |value: f64| format!("{value:.0}");
        let cells = [
            self.program.clone(),
            self.sigma.clone(),
            self.mode.clone(),
            self.slice_statements.to_string(),
            format!("{}/{}", self.placed, self.sites),
            self.watched.to_string(),
            ms(self.graph_ms),
            ms(self.slice_ms),
            ms(self.plan_ms),
            ms(self.track_ms),
            ms(self.patch_ms),
            self.apply_ms.map_or("–".into(), |ms| format!("{ms:.1}")),
            format!("{:.1}", self.patch_bytes as f64 / 1000.0),
            self.way.clone(),
            self.remark.clone(),
        ];
        tables::line(&PATCH_COLUMNS, &cells)
    }
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
        tables::save(&file, &measured).unwrap();
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
        assert_eq!(row.line().matches('|').count(), COLUMNS.len() + 1);
        let patch = PatchRow::default().line();
        assert_eq!(patch.matches('|').count(), PATCH_COLUMNS.len() + 1);
    }
}
