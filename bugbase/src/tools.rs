//! The commands under test: those built beside this one, or another build of the agent
//! that `FAILSKETCH_AGENT` names.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Tools {
    pub failsketch: PathBuf,
    pub agent: PathBuf,
}

impl Tools {
    pub fn find() -> Result<Self> {
        let here = std::env::current_exe().context("finding this command")?;
        let beside = |name: &str| {
            let path = here.with_file_name(name);
            if path.is_file() {
                Ok(path)
            } else {
                bail!("{} is missing; run ./dev, which builds it", path.display())
            }
        };
        Ok(Tools {
            failsketch: beside("failsketch")?,
            agent: match std::env::var_os("FAILSKETCH_AGENT") {
                Some(agent) => PathBuf::from(agent),
                None => beside("failsketch-agent")?,
            },
        })
    }
}

/// Runs a command to its end; its output matters only if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command
        .output()
        .with_context(|| format!("starting {name}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("{name} ended with {}: {}", output.status, said.trim())
}
