//! A bug's program built by plain clang, and one run of it judged.
//!
//! No agent, no wrapper: this is how often the fault strikes by itself, and
//! whether the fix removes it. (A package's program is built by the wrapper, whose
//! code is the same: see `package`.)

use crate::corpus::bug::{Bug, Language};
use crate::corpus::companions::{Beside, start_client};
use crate::corpus::package;
use crate::corpus::workload::Files;
use crate::tools::{Tools, run};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A healthy run that takes longer is a fault of the description.
const LONGEST: Duration = Duration::from_secs(20);

/// With the fault or with its fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    Faulty,
    Fixed,
}

/// How a run ended, by the bug's own description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Success,
    Failure,
    /// Neither success nor the failure that the description names.
    Other(String),
}

pub struct Program<'a> {
    bug: &'a Bug,
    binary: PathBuf,
    input: PathBuf,
    output: PathBuf,
    beside: Beside,
}

/// Compiles a bug's program into `folder`.
pub fn compile<'a>(bug: &'a Bug, variant: Variant, folder: &Path) -> Result<Program<'a>> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let binary = match bug.build.package {
        Some(_) => package::build(&Tools::find()?.failsketch, bug, variant, false)?.binary,
        None => by_clang(bug, variant, folder)?,
    };
    let input = folder.join("input");
    fs::write(&input, bug.workload.input())?;
    Ok(Program {
        bug,
        binary,
        input,
        output: folder.join("output"),
        beside: Beside::prepare(bug, folder)?,
    })
}

fn by_clang(bug: &Bug, variant: Variant, folder: &Path) -> Result<PathBuf> {
    let binary = folder.join(match variant {
        Variant::Faulty => bug.name.clone(),
        Variant::Fixed => format!("{}-fixed", bug.name),
    });
    let compiler = match bug.build.language {
        Language::C => "clang-19",
        Language::Cpp => "clang++-19",
    };
    let mut command = Command::new(compiler);
    command.args(&bug.build.flags);
    if variant == Variant::Fixed {
        command.args(&bug.build.fixed_flags);
    }
    command
        .args(bug.build.sources.iter().map(|s| bug.folder.join(s)))
        .arg("-o")
        .arg(&binary);
    run(&mut command)?;
    Ok(binary)
}

impl Program<'_> {
    pub fn run(&self, seed: u64) -> Result<Judgement> {
        let files = Files {
            input: &self.input,
            output: &self.output,
            folder: &self.bug.folder,
            server: self.beside.address(),
        };
        let workload = &self.bug.workload;
        let _client = start_client(self.beside.client(), workload, &files, seed)?;
        let mut child = Command::new(&self.binary)
            .args(workload.arguments(&files, seed))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        let hang = self.bug.failure.hang_after_ms.map(Duration::from_millis);
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(self.judge(status));
            }
            if begun.elapsed() > hang.unwrap_or(LONGEST) {
                child.kill()?;
                child.wait()?;
                return Ok(match hang {
                    Some(_) => Judgement::Failure,
                    None => Judgement::Other(format!("no end within {LONGEST:?}")),
                });
            }
            sleep(Duration::from_micros(500));
        }
    }

    fn judge(&self, status: ExitStatus) -> Judgement {
        let failure = &self.bug.failure;
        let by_signal = failure
            .signals
            .iter()
            .any(|signal| status.signal() == Some(*signal as i32));
        let by_exit = status
            .code()
            .is_some_and(|code| failure.exit_codes.contains(&code));
        let fine = status
            .code()
            .is_some_and(|code| code == 0 || failure.fine_exit_codes.contains(&code));
        if fine {
            Judgement::Success
        } else if (status.signal().is_some() && by_signal) || by_exit {
            Judgement::Failure
        } else {
            Judgement::Other(status.to_string())
        }
    }
}
