//! A server and a handful of agents on this machine, and their orderly end.
//!
//! A workload that is the same in every run is left to the agent's own loop; one
//! that varies has a driver in front of each agent.

use crate::api::Api;
use crate::bug::{Bug, Language};
use crate::driver::{Driver, Member};
use crate::tools::{Tools, run};
use crate::workload::Files;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The program of a bug, built by the wrapper and registered.
pub struct Prepared {
    pub store: PathBuf,
    pub deployed: PathBuf,
    pub input: PathBuf,
}

/// Builds and registers a bug's program in `folder`, as its user would.
pub fn prepare(tools: &Tools, bug: &Bug, folder: &Path) -> Result<Prepared> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let built = folder.join(&bug.name);
    let compiler = match bug.build.language {
        Language::C => "cc",
        Language::Cpp => "c++",
    };
    run(Command::new(&tools.failsketch)
        .arg(compiler)
        .args(&bug.build.flags)
        .args(bug.build.sources.iter().map(|s| bug.folder.join(s)))
        .arg("-o")
        .arg(&built))?;
    let prepared = Prepared {
        store: folder.join("store"),
        deployed: folder.join("deployed").join(&bug.name),
        input: folder.join("input"),
    };
    fs::create_dir_all(folder.join("deployed"))?;
    run(Command::new(&tools.failsketch)
        .arg("register")
        .arg(&built)
        .arg("--store")
        .arg(&prepared.store)
        .arg("--deploy")
        .arg(&prepared.deployed))?;
    fs::write(&prepared.input, bug.workload.input())?;
    Ok(prepared)
}

/// How long agents go on.
pub enum Fuel {
    /// Until the server has finished its diagnoses.
    UntilFinished,
    /// So many runs, with their records kept in a file.
    Runs { count: u32, records: PathBuf },
}

impl Fuel {
    fn arguments(&self) -> Vec<OsString> {
        match self {
            Fuel::UntilFinished => vec!["--until-finished".into()],
            Fuel::Runs { count, records } => vec![
                "--repeat".into(),
                count.to_string().into(),
                "--store-record".into(),
                records.into(),
            ],
        }
    }
}

/// Child processes that end when this value does.
pub struct Fleet {
    pub api: Api,
    server: Child,
    agents: Vec<Child>,
    drivers: Vec<Driver>,
}

impl Fleet {
    pub fn start(
        tools: &Tools,
        bug: &Bug,
        prepared: &Prepared,
        folder: &Path,
        agents: u32,
        fuel: &Fuel,
    ) -> Result<Self> {
        let data = folder.join("server");
        let (server, url) = start_server(tools, &data, &prepared.store, folder)?;
        let mut fleet = Fleet {
            api: Api::new(url),
            server,
            agents: Vec::new(),
            drivers: Vec::new(),
        };
        for number in 1..=agents {
            let name = format!("agent-{number}");
            let output = folder.join(format!("{name}.output"));
            let mut agent_arguments: Vec<OsString> =
                ["run", "--agent", &name, "--server", &fleet.api.url, "--key"]
                    .map(OsString::from)
                    .into();
            agent_arguments.push(data.join("signing.pub").into());
            agent_arguments.push("--cache".into());
            agent_arguments.push(folder.join("cache").into());
            // One machine plays a fleet: what is a share of many machines' runs
            // there would only be a delay here.
            agent_arguments.extend(["--canary", "1"].map(OsString::from));
            // Programs of milliseconds, run for their diagnosis alone: at 1% of their
            // time one run in dozens would be tracked. What it costs is measured.
            agent_arguments.extend(["--max-overhead", "0"].map(OsString::from));
            for code in &bug.failure.exit_codes {
                agent_arguments.push("--fail-exit".into());
                agent_arguments.push(code.to_string().into());
            }
            if let Some(patience) = bug.failure.hang_after_ms {
                // Every thread waits for another: that shows long before the
                // patience of whoever only sees that nothing happens.
                let seconds = patience as f64 / 8000.0;
                let hang = ["--hang-after", &seconds.to_string(), "--end-hung"];
                agent_arguments.extend(hang.map(OsString::from));
            }
            let log = folder.join(format!("{name}.log"));
            if bug.workload.varies() {
                let member = Member {
                    number: u64::from(number),
                    agent: tools.agent.clone(),
                    agent_arguments,
                    program: prepared.deployed.clone(),
                    input: prepared.input.clone(),
                    output,
                    log,
                };
                fleet.drivers.push(Driver::start(bug, member, fuel)?);
                continue;
            }
            let files = Files {
                input: &prepared.input,
                output: &output,
                folder: &bug.folder,
            };
            let agent = Command::new(&tools.agent)
                .args(agent_arguments)
                .args(fuel.arguments())
                .arg("--")
                .arg(&prepared.deployed)
                .args(bug.workload.arguments(&files, 0))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(File::create(log)?)
                .spawn()
                .with_context(|| format!("starting {}", tools.agent.display()))?;
            fleet.agents.push(agent);
        }
        Ok(fleet)
    }

    /// Whether anything is left that could bring new runs.
    pub fn is_running(&mut self) -> bool {
        self.drivers.iter().any(Driver::is_running)
            || self
                .agents
                .iter_mut()
                .any(|agent| matches!(agent.try_wait(), Ok(None)))
    }

    /// Lets the agents end by themselves; the server stays.
    pub fn dismiss_agents(&mut self) {
        for driver in &mut self.drivers {
            driver.finish();
        }
        for agent in &mut self.agents {
            end(agent);
        }
        self.drivers.clear();
        self.agents.clear();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.dismiss_agents();
        end(&mut self.server);
    }
}

/// Ends a process that we started. An agent ends its program when it is ended.
pub fn end(child: &mut Child) {
    let terminated = Command::new("kill")
        .arg(child.id().to_string())
        .stderr(Stdio::null())
        .status();
    let asked = terminated.is_ok_and(|status| status.success());
    for _ in 0..100 {
        if !asked || !matches!(child.try_wait(), Ok(None)) {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    // Ten seconds are enough for anything of ours; the harder way is better
    // than a process left behind, and does nothing to one that has ended.
    let _ = child.kill();
    let _ = child.wait();
}

fn start_server(
    tools: &Tools,
    data: &Path,
    store: &Path,
    folder: &Path,
) -> Result<(Child, String)> {
    let mut server = Command::new(&tools.failsketch)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .arg("--store")
        .arg(store)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(folder.join("server.log"))?)
        .spawn()
        .context("starting the server")?;
    let mut line = String::new();
    if let Some(stdout) = server.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    match line
        .split_whitespace()
        .find(|word| word.starts_with("http://"))
    {
        Some(url) => Ok((server, url.trim_end_matches('/').to_owned())),
        None => {
            end(&mut server);
            let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            bail!("the server did not start: {}", log.trim())
        }
    }
}
