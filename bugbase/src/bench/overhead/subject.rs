//! A real program ready to be measured: built, registered, with its work laid out.

use super::timed::{Timed, timed};
use crate::corpus::bug::{Bug, Overhead, Work};
use crate::corpus::companions::{Beside, start_client};
use crate::corpus::package::{self, Built};
use crate::corpus::program::Variant;
use crate::corpus::workload::{Files, Workload};
use crate::tools::Tools;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What is put between the machine and the program.
#[derive(Clone, Copy)]
pub enum Way<'a> {
    /// Another build of it, alone; `None` for the deployed one.
    Alone(Option<&'a Path>),
    /// Under the agent, perhaps as a tracked build, with the governor's percentage.
    Agent(Option<&'a Path>, f64),
    /// Under the agent at 1%, as a tracked build in as many runs as that allows.
    Fleet(&'a Path),
    Helgrind,
}

/// One run that ended well.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Seconds of processor time: of the program, and with what runs it.
    pub program_cpu: f64,
    pub total_cpu: f64,
    pub wall: f64,
    /// Whether it was a tracked build.
    pub tracked: bool,
    /// For which share of the time recording was on.
    pub coverage: Option<f64>,
    /// Hits of watchpoints that the record holds.
    pub hits: Option<u64>,
}

/// How a run that is to be measured went.
pub enum Outcome {
    Fine(Sample),
    /// The fault struck, or something else did; such a run is not measured.
    Failed,
    TooLong,
}

pub struct Subject {
    pub name: String,
    pub built: Built,
    pub build_id: String,
    /// Where it would fail: "FILE:LINE".
    pub at: String,
    pub overhead: Overhead,
    bug: Bug,
    folder: PathBuf,
    beside: Beside,
}

impl Subject {
    pub fn prepare(tools: &Tools, mut bug: Bug, folder: &Path) -> Result<Subject> {
        let overhead = bug.overhead.clone();
        let overhead = overhead.with_context(|| format!("{} has no [overhead]", bug.name))?;
        let built = package::build(&tools.failsketch, &bug, Variant::Faulty, true)?;
        bug.found_in(built.tree.clone())?;
        let at = bug.failure_point(&overhead.at)?;
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let beside = Beside::prepare(&bug, folder)?;
        Ok(Subject {
            name: bug.build.package.clone().unwrap_or_default(),
            build_id: build_id(tools, &built)?,
            built,
            at,
            overhead,
            bug,
            folder: folder.to_owned(),
            beside,
        })
    }

    /// The build by another compiler, for comparison; without the fault.
    pub fn rival(&self, tools: &Tools, name: &str) -> Result<PathBuf> {
        let patches = &self.bug.build.patches;
        let built = package::build_as(&tools.failsketch, &self.bug, name, patches, false)?;
        Ok(built.binary)
    }

    fn workload(&self, work: &Work) -> Workload {
        let tree = self.built.tree.to_string_lossy();
        let arguments = work.arguments.iter();
        Workload {
            arguments: arguments.map(|a| a.replace("{tree}", &tree)).collect(),
            client: self.bug.workload.client.clone(),
            client_arguments: work.client_arguments.clone(),
            input_bytes: work.input_bytes,
            choices: Vec::new(),
        }
    }

    fn input(&self, work: &Work) -> PathBuf {
        self.folder.join(format!("{}.input", work.name))
    }

    /// Makes a work's input.
    pub fn lay_out(&self, work: &Work) -> Result<()> {
        let workload = self.workload(work);
        let input = self.input(work);
        fs::write(&input, workload.input())?;
        if work.input_by.is_empty() {
            return Ok(());
        }
        let made = self.folder.join("made");
        let workload = Workload {
            arguments: work.input_by.clone(),
            ..workload
        };
        let files = self.files(&input);
        let status = Command::new(&self.built.deployed)
            .args(workload.arguments(&files, 0))
            .stdin(Stdio::null())
            .stdout(File::create(&made)?)
            .stderr(Stdio::null())
            .status()?;
        // The fault may strike after the last byte was written.
        ensure!(
            fs::metadata(&made)?.len() > 0,
            "{} made no input ({status})",
            self.name
        );
        fs::rename(&made, &input)?;
        Ok(())
    }

    fn files<'a>(&'a self, input: &'a Path) -> Files<'a> {
        Files {
            input,
            output: &self.folder,
            folder: &self.bug.folder,
            server: self.beside.address(),
        }
    }

    /// A name for the files of one of several that run side by side.
    pub fn beside_folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The arguments of a work's program and client, with their files at `output`.
    pub fn words_of(&self, work: &Work, output: &Path) -> (Vec<String>, Vec<String>) {
        let workload = self.workload(work);
        let input = self.input(work);
        let files = Files {
            output,
            ..self.files(&input)
        };
        (
            workload.arguments(&files, 0),
            workload.client_arguments(&files, 0),
        )
    }

    pub fn client(&self) -> Option<&Path> {
        self.beside.client()
    }

    /// The command of one run, without its arguments.
    pub fn command(&self, tools: &Tools, way: Way, record: &Path) -> Command {
        match way {
            Way::Alone(binary) => Command::new(binary.unwrap_or(&self.built.deployed)),
            Way::Helgrind => {
                let mut command = Command::new("valgrind");
                command.args(["--tool=helgrind", "-q", "--log-file=/dev/null"]);
                command.arg(&self.built.deployed);
                command
            }
            Way::Agent(patch, percent) => {
                let mut command = self.agent(tools, patch, percent, record);
                command.arg("--cache").arg(self.folder.join("cache"));
                command.arg("--").arg(&self.built.deployed);
                command
            }
            Way::Fleet(patch) => {
                let mut command = self.agent(tools, Some(patch), 1.0, record);
                command.arg("--cache").arg(self.fleet_cache());
                command.arg("--sampled").arg("--").arg(&self.built.deployed);
                command
            }
        }
    }

    fn agent(&self, tools: &Tools, patch: Option<&Path>, percent: f64, record: &Path) -> Command {
        let mut command = Command::new(&tools.agent);
        command.args(["run", "--agent", "bench", "--max-overhead"]);
        command.arg(percent.to_string());
        command.arg("--store-record").arg(record);
        if let Some(patch) = patch {
            command.arg("--patch").arg(patch).arg("--key");
            command.arg(self.key_folder().join("signing.pub"));
        }
        command
    }

    /// Holds the program's account from run to run.
    pub fn fleet_cache(&self) -> PathBuf {
        self.folder.join("fleet-cache")
    }

    pub fn key_folder(&self) -> PathBuf {
        self.folder.join("key")
    }

    /// One run of a work.
    pub fn run(&self, tools: &Tools, work: &Work, way: Way, limit: Duration) -> Result<Outcome> {
        let record = self.folder.join("record.json");
        let workload = self.workload(work);
        let input = self.input(work);
        let files = self.files(&input);
        let client = start_client(self.beside.client(), &workload, &files, 0)?;
        let mut command = self.command(tools, way, &record);
        command
            .args(workload.arguments(&files, 0))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let run = timed(&mut command, limit)?;
        drop(client);
        let Some(status) = run.status else {
            return Ok(Outcome::TooLong);
        };
        if !status.success() {
            return Ok(Outcome::Failed);
        }
        match way {
            Way::Agent(patch, _) => from_record(&record, run, patch.is_some()),
            Way::Fleet(_) => from_record(&record, run, false),
            _ => Ok(Outcome::Fine(Sample {
                program_cpu: run.cpu,
                total_cpu: run.cpu,
                wall: run.wall,
                tracked: false,
                coverage: None,
                hits: None,
            })),
        }
    }

    /// A run that ends at once, whatever its status: seconds of processor time.
    pub fn start(&self, tools: &Tools, way: Way) -> Result<f64> {
        let record = self.folder.join("record.json");
        let mut command = self.command(tools, way, &record);
        command
            .args(&self.overhead.quick)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(timed(&mut command, Duration::from_secs(20))?.cpu)
    }

    /// Instructions of one run by callgrind, or why they are not known.
    pub fn instructions(&self, work: &Work, binary: &Path, limit: Duration) -> Result<Option<u64>> {
        let said = self.folder.join("callgrind.log");
        let workload = self.workload(work);
        let input = self.input(work);
        let files = self.files(&input);
        let client = start_client(self.beside.client(), &workload, &files, 0)?;
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(binary)
            .args(workload.arguments(&files, 0))
            .stdout(Stdio::null())
            .stderr(File::create(&said)?);
        let run = timed(&mut command, limit)?;
        drop(client);
        // Of a run that failed early there would be a number, too.
        if !run.status.is_some_and(|status| status.success()) {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
        let mut said = text.lines().rev();
        let collected = said.find_map(|line| line.split_once("Collected :"));
        Ok(collected.and_then(|(_, n)| n.trim().parse().ok()))
    }
}

/// What the agent's record adds to a run of its own.
fn from_record(file: &Path, run: Timed, must_track: bool) -> Result<Outcome> {
    let text = fs::read_to_string(file).context("reading the agent's record")?;
    let record: Value = serde_json::from_str(text.trim()).context("a run's record")?;
    if record["outcome"] != "success" {
        return Ok(Outcome::Failed);
    }
    let tracked = !record["variant"].is_null();
    if must_track && !tracked {
        bail!("the tracked build was not run: {}", record["gaps"]);
    }
    Ok(Outcome::Fine(Sample {
        program_cpu: record["cpu_us"].as_f64().context("a record's CPU time")? / 1e6,
        total_cpu: run.cpu,
        wall: run.wall,
        tracked,
        coverage: coverage(&record["tracking"]).filter(|_| tracked),
        hits: record["watch"]["hits"]
            .as_array()
            .filter(|_| tracked)
            .map(|hits| hits.len() as u64),
    }))
}

/// The share of the run for which recording was on.
pub fn coverage(tracking: &Value) -> Option<f64> {
    let whole = tracking["ended"].as_f64()? - tracking["began"].as_f64()?;
    let pauses = tracking["pauses"].as_array()?.iter();
    let off: f64 = pauses
        .filter_map(|pause| Some(pause["to"].as_f64()? - pause["from"].as_f64()?))
        .sum();
    (whole > 0.0).then(|| (1.0 - off / whole).clamp(0.0, 1.0))
}

/// The id under which the program is registered.
fn build_id(tools: &Tools, built: &Built) -> Result<String> {
    let output = Command::new(&tools.failsketch)
        .args(["builds", "--json", "--store"])
        .arg(&built.store)
        .output()?;
    let builds: Vec<Value> = serde_json::from_slice(&output.stdout)
        .context("`failsketch builds --json` prints the builds")?;
    let path = built.binary.to_string_lossy();
    let ours = builds.iter().rfind(|b| b["original_path"] == *path);
    let id = ours.and_then(|build| build["build_id"].as_str());
    let id = id.with_context(|| format!("{path} is not among the registered builds"))?;
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pauses_are_not_covered() {
        let tracking = json!({"began": 100, "ended": 300,
            "pauses": [{"from": 150, "to": 200}, {"from": 290, "to": 300}]});
        assert_eq!(coverage(&tracking), Some(0.7));
        assert_eq!(coverage(&Value::Null), None);
    }
}
