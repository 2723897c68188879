//! A server and a handful of agents on this machine, and their orderly end.
//!
//! A workload that is the same in every run is left to the agent's own loop; one
//! that varies has a driver in front of each agent.

use crate::api::Api;
use crate::corpus::bug::{Bug, Language};
use crate::corpus::companions::Beside;
use crate::corpus::package;
use crate::corpus::program::Variant;
use crate::corpus::workload::Files;
use crate::driver::{Driver, Member};
use crate::tools::{Tools, run};
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
    pub beside: Beside,
}

/// Builds and registers a bug's program, as its user would: in `folder`, or where
/// packages are kept. From then on the bug knows where its statements stand.
pub fn prepare(tools: &Tools, bug: &mut Bug, folder: &Path) -> Result<Prepared> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let (store, deployed) = if bug.build.package.is_some() {
        let built = package::build(&tools.failsketch, bug, Variant::Faulty, true)?;
        bug.found_in(built.tree)?;
        (built.store, built.deployed)
    } else {
        register_sources(tools, bug, Variant::Faulty, folder)?
    };
    let input = folder.join("input");
    fs::write(&input, bug.workload.input())?;
    Ok(Prepared {
        store,
        deployed,
        input,
        beside: Beside::prepare(bug, folder)?,
    })
}

/// The store and the deployed program of a bug whose sources are in its folder.
pub fn register_sources(
    tools: &Tools,
    bug: &Bug,
    variant: Variant,
    folder: &Path,
) -> Result<(PathBuf, PathBuf)> {
    let built = folder.join(&bug.name);
    let fix: &[String] = match variant {
        Variant::Faulty => &[],
        Variant::Fixed => &bug.build.fixed_flags,
    };
    let compiler = match bug.build.language {
        Language::C => "cc",
        Language::Cpp => "c++",
    };
    run(Command::new(&tools.failsketch)
        .arg(compiler)
        .args(&bug.build.flags)
        .args(fix)
        .args(bug.build.sources.iter().map(|s| bug.folder.join(s)))
        .arg("-o")
        .arg(&built))?;
    let store = folder.join("store");
    let deployed = folder.join("deployed").join(&bug.name);
    fs::create_dir_all(folder.join("deployed"))?;
    run(Command::new(&tools.failsketch)
        .arg("register")
        .arg(&built)
        .arg("--store")
        .arg(&store)
        .arg("--root")
        .arg(&bug.folder)
        .arg("--deploy")
        .arg(&deployed))?;
    Ok((store, deployed))
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
                    server: prepared.beside.address().to_owned(),
                    client: prepared.beside.client().map(Path::to_owned),
                };
                fleet.drivers.push(Driver::start(bug, member)?);
                continue;
            }
            let files = Files {
                input: &prepared.input,
                output: &output,
                folder: &bug.folder,
                server: prepared.beside.address(),
            };
            let agent = Command::new(&tools.agent)
                .args(agent_arguments)
                .arg("--until-finished")
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
