//! A service that is measured while it lives.
//!
//! Two of them run side by side, the program alone and another way of running it, and
//! are asked the same batch of requests in turn; what each batch took of their
//! processor time is a pair. There are no starts in it, and the batches are short: many pairs, near
//! each other in time, show smaller effects than whole runs do. It is also where the
//! governor's share within a run is to be seen: the credit that a run begins with is
//! soon nothing beside its length.

use super::subject::{Subject, Way};
use crate::bench::in_turn;
use crate::corpus::bug::Work;
use crate::fleet::end;
use crate::tools::Tools;
use anyhow::{Context, Result, ensure};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Batches before the first that counts: the service warms up, and what it may use at
/// first is used up.
const WARMING: usize = 20;

/// What came of it.
pub struct Lived {
    /// Seconds of processor time for a batch, alone and in the other way.
    pub pairs: Vec<(f64, f64)>,
    /// The record of the run, if it was under the agent.
    pub record: Option<Value>,
}

/// Measures for `seconds`.
pub fn measure(
    tools: &Tools,
    subject: &Subject,
    work: &Work,
    way: Way,
    seconds: f64,
) -> Result<Lived> {
    let mut alone = Service::start(tools, subject, work, Way::Alone(None), "alone")?;
    let mut other = Service::start(tools, subject, work, way, "other")?;
    let mut pairs = Vec::new();
    let begun = Instant::now();
    let mut batches = 0;
    while begun.elapsed().as_secs_f64() < seconds {
        let pair = in_turn(batches, || alone.batch(), || other.batch())?;
        batches += 1;
        if batches > WARMING {
            pairs.push(pair);
        }
    }
    alone.end();
    other.end();
    let record = match way {
        Way::Agent(..) => {
            let text = fs::read_to_string(&other.record).context("reading the agent's record")?;
            Some(serde_json::from_str(text.trim()).context("a run's record")?)
        }
        _ => None,
    };
    Ok(Lived { pairs, record })
}

/// A service that runs; ends with this value.
struct Service {
    child: Child,
    /// The service itself, which may be the child's child.
    clock: ClockId,
    client: PathBuf,
    client_arguments: Vec<String>,
    record: PathBuf,
}

impl Service {
    fn start(
        tools: &Tools,
        subject: &Subject,
        work: &Work,
        way: Way,
        name: &str,
    ) -> Result<Service> {
        let output = subject.beside_folder(name);
        let record = output.with_extension("record.json");
        let socket = output.with_extension("socket");
        let _ = fs::remove_file(&socket);
        let (arguments, client_arguments) = subject.words_of(work, &output);
        let mut child = subject
            .command(tools, way, &record)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting a service")?;
        let found = wait_for(&socket).and_then(|()| service_of(&child, way));
        let clock = match found {
            Ok(clock) => clock,
            Err(error) => {
                end(&mut child);
                return Err(error);
            }
        };
        let client = subject.client().context("a service needs a client")?;
        Ok(Service {
            child,
            clock,
            client: client.to_owned(),
            client_arguments,
            record,
        })
    }

    /// Seconds of processor time that one batch of requests takes.
    fn batch(&self) -> Result<f64> {
        let used = || clock_gettime(self.clock).context("the service has ended");
        let before = used()?;
        let status = Command::new(&self.client)
            .args(&self.client_arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        ensure!(status.success(), "the client ended with {status}");
        Ok(Duration::from(used()? - before).as_secs_f64())
    }

    fn end(&mut self) {
        end(&mut self.child);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Without effect on one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(socket: &Path) -> Result<()> {
    for _ in 0..1000 {
        if socket.exists() {
            return Ok(());
        }
        sleep(Duration::from_millis(10));
    }
    anyhow::bail!("the service made no socket {} in 10 s", socket.display())
}

/// The clock of the service's processor time.
fn service_of(child: &Child, way: Way) -> Result<ClockId> {
    let started = child.id();
    let pid = match way {
        Way::Agent(..) => {
            let children = format!("/proc/{started}/task/{started}/children");
            let children = fs::read_to_string(&children)?;
            let first = children.split_whitespace().next();
            first.context("the agent has no child")?.parse()?
        }
        _ => started as i32,
    };
    Ok(ClockId::pid_cpu_clock_id(Pid::from_raw(pid))?)
}
