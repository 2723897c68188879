//! A fleet member whose users give the program something else each time.
//!
//! The agent's own loop repeats one command line. Where the workload varies, this
//! runs the agent once for each run instead, as a machine's users would, with the
//! arguments of the next seed.

use crate::corpus::bug::Bug;
use crate::corpus::companions::start_client;
use crate::corpus::workload::{Files, Workload};
use crate::fleet::end;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// Seeds of different members never meet.
const SEEDS_A_MEMBER: u64 = 1 << 32;

pub struct Driver {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What one member runs.
pub struct Member {
    pub number: u64,
    pub agent: PathBuf,
    /// The agent's arguments up to `--`.
    pub agent_arguments: Vec<OsString>,
    pub program: PathBuf,
    pub input: PathBuf,
    pub output: PathBuf,
    pub log: PathBuf,
    /// The web server's address, if the workload has one.
    pub server: String,
    /// The binary of the client beside each run, if the workload has one.
    pub client: Option<PathBuf>,
}

/// What a member is given in each run.
struct Users {
    workload: Workload,
    /// The bug's folder.
    folder: PathBuf,
}

impl Driver {
    pub fn start(bug: &Bug, member: Member) -> Result<Self> {
        let users = Users {
            workload: bug.workload.clone(),
            folder: bug.folder.clone(),
        };
        File::create(&member.log).with_context(|| format!("creating {}", member.log.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = spawn(move || {
            for run in 0..SEEDS_A_MEMBER {
                let seed = member.number * SEEDS_A_MEMBER + run;
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                if let Err(error) = run_once(&member, &users, seed, &stopped) {
                    // Said where the agent's own complaints are.
                    let log = OpenOptions::new().append(true).open(&member.log);
                    let _ = log.and_then(|mut log| writeln!(log, "{error:#}"));
                    break;
                }
            }
        });
        Ok(Driver {
            stop,
            thread: Some(thread),
        })
    }

    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Ends the run that goes on, if any, and waits for it.
    pub fn finish(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run_once(member: &Member, users: &Users, seed: u64, stopped: &AtomicBool) -> Result<()> {
    let files = Files {
        input: &member.input,
        output: &member.output,
        folder: &users.folder,
        server: &member.server,
    };
    let _client = start_client(member.client.as_deref(), &users.workload, &files, seed)?;
    let mut command = Command::new(&member.agent);
    command.args(&member.agent_arguments);
    let log = OpenOptions::new().append(true).open(&member.log)?;
    let mut agent = command
        .arg("--")
        .arg(&member.program)
        .args(users.workload.arguments(&files, seed))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("starting {}", member.agent.display()))?;
    while agent.try_wait()?.is_none() {
        if stopped.load(Ordering::Relaxed) {
            end(&mut agent);
            return Ok(());
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}
