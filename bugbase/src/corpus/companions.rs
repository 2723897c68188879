//! What stands beside a run of a program: the web server that it fetches from, and
//! the client that talks to it.
//!
//! The web server serves all runs; a client is a small C program of the bug's folder,
//! started with each run and ended with it.

use crate::corpus::bug::Bug;
use crate::corpus::workload::{Files, Workload};
use crate::loopback::WebServer;
use crate::tools::run;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// For all runs of a program.
pub struct Beside {
    web: Option<WebServer>,
    /// The client's binary.
    client: Option<PathBuf>,
}

impl Beside {
    /// Starts and compiles what the bug's workload needs.
    pub fn prepare(bug: &Bug, folder: &Path) -> Result<Beside> {
        let web = bug.workload.fetches().then(WebServer::start).transpose()?;
        let client = match &bug.workload.client {
            None => None,
            Some(source) => {
                let binary = folder.join("client");
                let source = bug.folder.join(source);
                run(Command::new("clang-19")
                    .args(["-O2", "-pthread"])
                    .arg(&source)
                    .arg("-o")
                    .arg(&binary))?;
                Some(binary)
            }
        };
        Ok(Beside { web, client })
    }

    /// The web server's address; empty without one.
    pub fn address(&self) -> &str {
        self.web.as_ref().map_or("", |web| web.address.as_str())
    }

    pub fn client(&self) -> Option<&Path> {
        self.client.as_deref()
    }
}

/// A client of one run; ends with this value.
pub struct Client(Child);

/// Starts the client of a run, if the workload has one. The client waits for the
/// socket that the program will make, so one of an earlier run must be gone.
pub fn start_client(
    binary: Option<&Path>,
    workload: &Workload,
    files: &Files,
    seed: u64,
) -> Result<Option<Client>> {
    let Some(binary) = binary else {
        return Ok(None);
    };
    let _ = fs::remove_file(format!("{}.socket", files.output.display()));
    let child = Command::new(binary)
        .args(workload.client_arguments(files, seed))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {}", binary.display()))?;
    Ok(Some(Client(child)))
}

impl Drop for Client {
    fn drop(&mut self) {
        // Without effect on one that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
