//! One run of a command, timed: processor time of it and all that it waited for,
//! wall time, and how it ended. Runs are bounded.
//!
//! Processor time is what this process's ended children used, so nothing else may
//! be waited for meanwhile; a client beside the run is ended after the reading.

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Seconds.
    pub cpu: f64,
    pub wall: f64,
    /// `None` if it was ended because it took too long.
    pub status: Option<ExitStatus>,
}

/// Runs the command to its end, or ends it at the limit.
pub fn timed(command: &mut Command, limit: Duration) -> Result<Timed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let before = children()?;
    let begun = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {name}"))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begun.elapsed() > limit {
            // The agent passes it on to its program.
            crate::fleet::end(&mut child);
            break None;
        }
        sleep(Duration::from_micros(300));
    };
    let wall = begun.elapsed().as_secs_f64();
    Ok(Timed {
        cpu: children()? - before,
        wall,
        status,
    })
}

/// Processor seconds of all children that have ended.
pub fn children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = usage.user_time() + usage.system_time();
    Ok(cpu.num_microseconds() as f64 / 1e6)
}
