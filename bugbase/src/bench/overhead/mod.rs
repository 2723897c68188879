//! `./dev bench overhead`: what tracking costs real programs, beside other tools.
//!
//! Each row compares a way of running a program with the program alone, in pairs that
//! follow each other, first one then the other in front, for a bounded time.
//! Processor time is what is compared first, because wall time measures the
//! neighbours. The first row of each table compares the program with itself: no
//! effect smaller than its interval can be seen there. Runs in which the fault of the
//! program strikes are not counted.
//!
//! Tracked builds come from `failsketch patch`, for the slice of the statement at
//! which the fault would strike, and run under the agent; the governor is on, with
//! what it left of the recording beside it, or off. Instructions are counted by
//! callgrind with recording off, which is what is left when the governor pauses.

pub mod cell;
pub mod paired;
pub mod pinned;
pub mod service;
pub mod subject;
pub mod timed;

use crate::bench::{in_turn, load, median};
use crate::corpus::bug::{self, Group, Measure, Work};
use crate::tables;
use crate::tools::Tools;
use anyhow::{Context, Result, ensure};
use cell::{InstructionRow, Measured, PatchRow, Row};
use paired::Ratios;
use pinned::Pinned;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use subject::{Outcome, Sample, Subject, Way};

/// However slow a variant is, a row has this many pairs, or says why not.
const FEWEST_PAIRS: usize = 3;
/// Starts of the program from which the time to apply a patch is taken.
const STARTS: usize = 15;
/// Callgrind makes a run some fifty times as long; seconds that it may take.
const LONGEST_COUNT: f64 = 300.0;
/// A run may take this many times the seconds of a row before it is given up.
const LONGEST_RUN: f64 = 6.0;

/// What a fleet tracks.
const FLEET_MODE: &str = "both";

#[derive(clap::Args)]
pub struct Choice {
    /// Seconds for each row.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Seconds for the rows that small effects are looked for in: many short runs as in a
    /// fleet, and one long run.
    #[arg(long, default_value_t = 90.0)]
    fleet_seconds: f64,
    /// How many statements of the slice are tracked; "whole" for all of them.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,32,whole")]
    sigma: Vec<String>,
    /// What of a plan is recorded.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "both,control-flow,data-flow"
    )]
    mode: Vec<String>,
    /// With the governor's 1%, without it, or both.
    #[arg(long, value_delimiter = ',', default_value = "on,off")]
    governor: Vec<String>,
    /// A patch that takes longer is given up.
    #[arg(long, default_value_t = 300.0)]
    patch_seconds: f64,
    /// Leave out ThreadSanitizer, helgrind and function tracing.
    #[arg(long)]
    no_rivals: bool,
    /// Leave out the counting of instructions.
    #[arg(long)]
    no_instructions: bool,
    /// Keep the rows that the JSON file has already.
    #[arg(long)]
    resume: bool,
}

struct Bench<'a> {
    tools: Tools,
    choice: &'a Choice,
    measured: Measured,
    file: PathBuf,
}

pub fn run(programs: &[String], choice: &Choice, folder: &Path, file: PathBuf) -> Result<()> {
    let mut bench = Bench {
        tools: Tools::find()?,
        choice,
        measured: Measured::open(&file, choice.resume)?,
        file,
    };
    bench.measured.machine = machine();
    println!("{}", bench.measured.machine);
    let bugs = bug::all()?.into_iter().filter(|b| b.group == Group::Real);
    let mut missed = Vec::new();
    let mut any = false;
    for bug in bugs {
        let package = bug.build.package.clone().unwrap_or_default();
        if !programs.is_empty() && !programs.contains(&package) {
            continue;
        }
        any = true;
        // One program that cannot be built does not cost the others theirs.
        if let Err(error) = bench.program(bug, &folder.join(&package)) {
            eprintln!("{package}: not measured: {error:#}");
            missed.push(package);
        }
    }
    ensure!(any, "there is no such program among the real ones");
    bench.summary();
    println!(
        "\nNanoseconds a hook and microseconds a hit: ./dev bench hooks, failsketch-agent doctor. \
         Written to {}.",
        bench.file.display()
    );
    ensure!(missed.is_empty(), "not measured: {}", missed.join(", "));
    Ok(())
}

impl Bench<'_> {
    fn program(&mut self, bug: bug::Bug, folder: &Path) -> Result<()> {
        eprintln!("{}: building", bug.name);
        fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let subject = Subject::prepare(&self.tools, bug, &folder)?;
        let patches = self.patches(&subject, &folder)?;
        for work in subject.overhead.works.clone() {
            subject.lay_out(&work)?;
            let _pinned = work.pinned.then(Pinned::to_one_processor).transpose()?;
            println!("\n{}, {}\n{}", subject.name, work.name, cell::heading());
            self.row(&subject, &work, "A/A", None, Ok(Way::Alone(None)))?;
            self.row(&subject, &work, "agent", None, Ok(Way::Agent(None, 1.0)))?;
            if work.measure == Measure::Fleet {
                self.fleet(&subject, &work, &patches)?;
                if !self.choice.no_instructions {
                    self.instructions(&subject, &work, &patches)?;
                }
                continue;
            }
            for (patch, file) in &patches {
                for governor in &self.choice.governor {
                    let percent = if governor == "on" { 1.0 } else { 0.0 };
                    let way = match file {
                        Some(file) => Ok(Way::Agent(Some(file), percent)),
                        None => Err(patch.remark.clone()),
                    };
                    self.row(&subject, &work, "tracked", Some((patch, percent)), way)?;
                }
            }
            if work.measure == Measure::Runs && !self.choice.no_rivals {
                self.rivals(&subject, &work)?;
            }
        }
        Ok(())
    }

    /// Many short runs, of which few are tracked.
    fn fleet(
        &mut self,
        subject: &Subject,
        work: &Work,
        patches: &[(PatchRow, Option<PathBuf>)],
    ) -> Result<()> {
        for (patch, file) in patches.iter().filter(|(p, _)| p.mode == FLEET_MODE) {
            let _ = fs::remove_dir_all(subject.fleet_cache());
            let way = file.as_deref().map(Way::Fleet);
            let way = way.ok_or_else(|| patch.remark.clone());
            self.row(subject, work, "fleet", Some((patch, 1.0)), way)?;
        }
        Ok(())
    }

    /// All patches that were asked for; a file for each that could be made.
    fn patches(
        &mut self,
        subject: &Subject,
        folder: &Path,
    ) -> Result<Vec<(PatchRow, Option<PathBuf>)>> {
        println!("\n{}", cell::patch_heading());
        let mut all = Vec::new();
        for sigma in &self.choice.sigma {
            for mode in &self.choice.mode {
                let file = folder.join(format!("{sigma}-{mode}.patch"));
                let (row, made) = match self.measured.known_patch(&subject.name, sigma, mode) {
                    Some(known) if known.remark.is_empty() == file.exists() => {
                        (known.clone(), file.exists())
                    }
                    _ => self.new_patch(subject, sigma, mode, &file)?,
                };
                println!("{}", row.line());
                all.push((row, made.then_some(file)));
            }
        }
        Ok(all)
    }

    /// A patch that was not measured before; whether it could be made.
    fn new_patch(
        &mut self,
        subject: &Subject,
        sigma: &str,
        mode: &str,
        file: &Path,
    ) -> Result<(PatchRow, bool)> {
        if file.exists() {
            fs::remove_file(file)?;
        }
        let (mut row, made) = self.patch(subject, sigma, mode, file)?;
        if made {
            row.apply_ms = Some(self.apply(subject, file)?);
        }
        let known = &mut self.measured.patches;
        known.retain(|k| !k.is_for(&subject.name, sigma, mode));
        known.push(row.clone());
        tables::save(&self.file, &self.measured)?;
        Ok((row, made))
    }

    fn patch(
        &self,
        subject: &Subject,
        sigma: &str,
        mode: &str,
        file: &Path,
    ) -> Result<(PatchRow, bool)> {
        let mut row = PatchRow {
            program: subject.name.clone(),
            sigma: sigma.to_owned(),
            mode: mode.to_owned(),
            ..PatchRow::default()
        };
        let said = file.with_extension("json");
        let complaint = file.with_extension("log");
        let mut command = Command::new(&self.tools.failsketch);
        command
            .args(["patch", "--json", "--build", &subject.build_id])
            .args(["--at", &subject.at, "--store"])
            .arg(&subject.built.store)
            .arg("--data")
            .arg(subject.key_folder())
            .arg("--out")
            .arg(file)
            .arg("--tracked")
            .arg(file.with_extension("tracked"));
        match sigma {
            "whole" => command.arg("--whole"),
            number => command.args(["--sigma", number]),
        };
        if mode != "both" {
            command.args(["--only", mode]);
        }
        if subject.overhead.at.reached {
            command.arg("--reached");
        }
        command
            .stdout(fs::File::create(&said)?)
            .stderr(fs::File::create(&complaint)?);
        let limit = Duration::from_secs_f64(self.choice.patch_seconds);
        let run = timed::timed(&mut command, limit)?;
        match run.status {
            None => row.remark = format!("no patch within {:.0} s", limit.as_secs_f64()),
            Some(status) if !status.success() => {
                let text = fs::read_to_string(&complaint)?;
                row.remark = text.lines().next().unwrap_or("no patch").to_owned();
            }
            Some(_) => {
                let text = fs::read_to_string(&said)?;
                let report: Value = serde_json::from_str(&text).context("failsketch patch")?;
                read_report(&mut row, &report);
                return Ok((row, true));
            }
        }
        Ok((row, false))
    }

    /// Milliseconds that the agent takes longer to start the program with a patch.
    fn apply(&self, subject: &Subject, patch: &Path) -> Result<f64> {
        let mut differences = Vec::new();
        for _ in 0..STARTS {
            let without = subject.start(&self.tools, Way::Agent(None, 1.0))?;
            let with = subject.start(&self.tools, Way::Agent(Some(patch), 1.0))?;
            differences.push(1000.0 * (with - without));
        }
        Ok(median(differences).unwrap_or_default())
    }

    /// Measures a row, unless it is there; a way that does not exist is a row that
    /// says why.
    fn row(
        &mut self,
        subject: &Subject,
        work: &Work,
        what: &str,
        patch: Option<(&PatchRow, f64)>,
        way: std::result::Result<Way, String>,
    ) -> Result<()> {
        let mut row = Row {
            program: subject.name.clone(),
            work: work.name.clone(),
            what: what.to_owned(),
            measure: work.measure,
            sigma: patch.map_or(String::new(), |(p, _)| p.sigma.clone()),
            mode: patch.map_or(String::new(), |(p, _)| p.mode.clone()),
            governed: patch.is_some_and(|(_, percent)| percent > 0.0),
            ..Row::default()
        };
        if let Some(known) = self.measured.known(&row) {
            println!("{}", known.line());
            return Ok(());
        }
        match way {
            Ok(way) if work.measure == Measure::Service => {
                self.service(subject, work, way, &mut row)?;
            }
            Ok(way) => self.pairs(subject, work, way, &mut row)?,
            Err(reason) => row.remark = reason,
        }
        println!("{}", row.line());
        self.measured.rows.push(row);
        tables::save(&self.file, &self.measured)
    }

    fn service(&self, subject: &Subject, work: &Work, way: Way, row: &mut Row) -> Result<()> {
        let seconds = self.seconds(row, work);
        let lived = service::measure(&self.tools, subject, work, way, seconds)?;
        row.program_cpu = Ratios::of(&lived.pairs);
        let bases = lived.pairs.iter().map(|(base, _)| *base);
        row.base_seconds = median(bases).unwrap_or_default();
        if let Some(record) = lived.record.filter(|record| !record["variant"].is_null()) {
            row.coverage = subject::coverage(&record["tracking"]);
            let hits = record["watch"]["hits"].as_array();
            row.hits = hits.map(|hits| hits.len() as f64);
        }
        row.load = load();
        Ok(())
    }

    /// For how long a row is measured: the longer, the smaller the effects it is for.
    fn seconds(&self, row: &Row, work: &Work) -> f64 {
        match (work.measure, row.what.as_str()) {
            (Measure::Fleet, "A/A" | "fleet") | (Measure::Service, _) => self.choice.fleet_seconds,
            _ => self.choice.seconds,
        }
    }

    fn pairs(&self, subject: &Subject, work: &Work, way: Way, row: &mut Row) -> Result<()> {
        let limit = Duration::from_secs_f64(self.choice.seconds * LONGEST_RUN);
        let seconds = self.seconds(row, work);
        let begun = Instant::now();
        let mut pairs: Vec<(Sample, Sample)> = Vec::new();
        let mut late = 0;
        loop {
            let spent = begun.elapsed().as_secs_f64();
            let enough = pairs.len() >= FEWEST_PAIRS && spent >= seconds;
            if enough || spent >= seconds + 3.0 * limit.as_secs_f64() || row.discarded > 50 {
                break;
            }
            let base = || subject.run(&self.tools, work, Way::Alone(None), limit);
            let variant = || subject.run(&self.tools, work, way, limit);
            match in_turn(pairs.len() + row.discarded, base, variant)? {
                (Outcome::Fine(one), Outcome::Fine(other)) => pairs.push((one, other)),
                (_, Outcome::TooLong) => {
                    late += 1;
                    if late > 1 || pairs.is_empty() {
                        let seconds = limit.as_secs_f64();
                        row.remark = format!("a run takes more than {seconds:.0} s");
                        break;
                    }
                }
                _ => row.discarded += 1,
            }
        }
        let of = |what: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
            pairs.iter().map(|(a, b)| (what(a), what(b))).collect()
        };
        row.program_cpu = Ratios::of(&of(|sample| sample.program_cpu));
        row.total_cpu = Ratios::of(&of(|sample| sample.total_cpu));
        row.wall = Ratios::of(&of(|sample| sample.wall));
        let bases = pairs.iter().map(|(base, _)| base.program_cpu);
        row.base_seconds = median(bases).unwrap_or_default();
        let tracked = pairs.iter().filter(|(_, s)| s.tracked).count();
        row.tracked = (tracked > 0).then(|| tracked as f64 / pairs.len() as f64);
        row.coverage = median(pairs.iter().filter_map(|(_, s)| s.coverage));
        let hits = pairs.iter().filter_map(|(_, s)| s.hits);
        row.hits = median(hits.map(|n| n as f64));
        row.load = load();
        Ok(())
    }

    /// What people would reach for instead.
    fn rivals(&mut self, subject: &Subject, work: &Work) -> Result<()> {
        for (what, name) in [
            ("ThreadSanitizer", "tsan"),
            ("-finstrument-functions", "functions"),
        ] {
            let built = subject.rival(&self.tools, name);
            let way = match &built {
                Ok(binary) => Ok(Way::Alone(Some(binary))),
                Err(error) => Err(format!("{error:#}")),
            };
            self.row(subject, work, what, None, way)?;
        }
        let there = Command::new("valgrind")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        let way = match there {
            Ok(_) => Ok(Way::Helgrind),
            Err(_) => Err("valgrind is not installed".to_owned()),
        };
        self.row(subject, work, "helgrind", None, way)
    }

    fn instructions(
        &mut self,
        subject: &Subject,
        work: &Work,
        patches: &[(PatchRow, Option<PathBuf>)],
    ) -> Result<()> {
        let limit = Duration::from_secs_f64(LONGEST_COUNT);
        let mut original = None;
        for (patch, file) in patches
            .iter()
            .filter(|(p, file)| p.mode == FLEET_MODE && file.is_some())
        {
            let mut row = InstructionRow {
                program: subject.name.clone(),
                work: work.name.clone(),
                sigma: patch.sigma.clone(),
                ..InstructionRow::default()
            };
            let same = |known: &InstructionRow| {
                (&known.program, &known.work, &known.sigma) == (&row.program, &row.work, &row.sigma)
            };
            if self.measured.instructions.iter().any(same) {
                continue;
            }
            if original.is_none() {
                original = subject.instructions(work, &subject.built.deployed, limit)?;
            }
            row.original = original;
            let Some(file) = file.as_ref().filter(|_| original.is_some()) else {
                row.remark = format!(
                    "not counted: it failed under callgrind, or took more than {:.0} s",
                    limit.as_secs_f64()
                );
                println!("instructions: {}", row.remark);
                self.measured.instructions.push(row);
                break;
            };
            row.tracked = subject.instructions(work, &file.with_extension("tracked"), limit)?;
            if let (Some(original), Some(tracked)) = (row.original, row.tracked) {
                println!(
                    "instructions, recording off, σ {}: {original} → {tracked} ({:+.3}%)",
                    row.sigma,
                    100.0 * (tracked as f64 / original as f64 - 1.0)
                );
            }
            self.measured.instructions.push(row);
            tables::save(&self.file, &self.measured)?;
        }
        tables::save(&self.file, &self.measured)
    }

    /// What the aim is about: all runs of a program together, one in so many tracked,
    /// and one long run.
    fn fleet_summary(&self) {
        let rows = self.measured.rows.iter();
        let of_aim = rows.filter(|row| row.is_of_aim());
        let mut names: Vec<String> = of_aim.clone().map(Row::name_of_aim).collect();
        names.sort();
        names.dedup();
        println!("\nMany short runs, and one long run, with the governor at 1%:");
        for name in names {
            let rows = of_aim.clone().filter(|row| row.name_of_aim() == name);
            let cpu: Vec<&Ratios> = rows.filter_map(|row| row.program_cpu.as_ref()).collect();
            if cpu.is_empty() {
                continue;
            }
            let count = cpu.len() as f64;
            let mean = cpu.iter().map(|r| r.sums - 1.0).sum::<f64>() / count;
            let reach = cpu.iter().map(|r| r.sums_reach.powi(2)).sum::<f64>().sqrt() / count;
            let worst = cpu.iter().map(|r| r.sums - 1.0).fold(f64::MIN, f64::max);
            println!(
                "{name:<38} {:+.2}% ± {:.2} mean, {:+.2}% worst of {count}",
                100.0 * mean,
                100.0 * reach,
                100.0 * worst
            );
        }
    }

    /// The medians of what is tracked in every run, over all programs' work.
    fn summary(&self) {
        self.fleet_summary();
        println!("\nMean over the work of all programs, CPU of the program:");
        let tracked = self
            .measured
            .rows
            .iter()
            .filter(|row| row.what == "tracked");
        let mut names: Vec<String> = Vec::new();
        for row in tracked.clone() {
            if !names.contains(&row.name()) {
                names.push(row.name());
            }
        }
        for name in names {
            let of_name = tracked.clone().filter(|row| row.name() == name);
            let overheads: Vec<f64> = of_name
                .clone()
                .filter_map(|row| Some(100.0 * (row.program_cpu.as_ref()?.median - 1.0)))
                .collect();
            let covered: Vec<f64> = of_name.filter_map(|row| row.coverage).collect();
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            let worst = overheads.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if !overheads.is_empty() {
                println!(
                    "{name:<38} {:+.1}% mean, {worst:+.1}% worst of {}; recording on for {:.0}%",
                    mean(&overheads),
                    overheads.len(),
                    100.0 * mean(&covered)
                );
            }
        }
        let controls = self.measured.rows.iter().filter(|row| row.what == "A/A");
        for row in controls {
            if let Some(ratios) = &row.program_cpu {
                println!(
                    "{}, {}: effects under {:.1}% cannot be seen",
                    row.program,
                    row.work,
                    100.0 * ratios.smallest_effect()
                );
            }
        }
    }
}

fn read_report(row: &mut PatchRow, report: &Value) {
    let number = |name: &str| report[name].as_u64().unwrap_or_default();
    let phase = |name: &str| {
        report["phases"][name]["cpu_us"]
            .as_f64()
            .unwrap_or_default()
            / 1000.0
    };
    row.slice_statements = number("slice_statements");
    row.sites = number("sites");
    row.placed = number("placed");
    row.watched = number("watched");
    row.patch_bytes = number("patch_bytes");
    row.base_bytes = number("base_bytes");
    row.graph_ms = phase("graph");
    row.slice_ms = phase("slice");
    row.plan_ms = phase("plan");
    row.track_ms = phase("track");
    row.patch_ms = phase("patch");
    row.way = report["way"].as_str().unwrap_or_default().to_owned();
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, load {}", load())
}
