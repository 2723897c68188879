//! Running the tools of the LLVM 19 packages, with errors that say what is missing.
//!
//! All of them read bytes of a registered file, so all of them start here, in the
//! box of `sandbox.rs`. What a tool says is read as far as it is shown; a tool that
//! was stopped by a limit is told apart from one that failed.
//!
//! `FAILSKETCH_CLANG` and `FAILSKETCH_CLANGXX` name other drivers than the
//! `clang-19` and `clang++-19` of the search path, here and in the wrapper.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::link::record::Driver;
use crate::register::flags::RefusedFlag;
use crate::sandbox::{self, EffectiveLimits, Limits, Reach, Sandbox, SandboxError};

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error(transparent)]
    Refused(#[from] RefusedFlag),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("{program} was not found; install the package {package}")]
    Missing {
        program: String,
        package: &'static str,
    },
    #[error("{program} could not be run: {source}")]
    NotRunnable {
        program: String,
        source: std::io::Error,
    },
    #[error("{program} was stopped by {limit}")]
    Stopped { program: String, limit: String },
    #[error("{program} failed ({status}): {message}")]
    Failed {
        program: String,
        status: ExitStatus,
        message: String,
    },
}

/// The compiler driver to run for `driver`.
pub fn driver_program(driver: Driver) -> OsString {
    let (variable, default) = match driver {
        Driver::C => ("FAILSKETCH_CLANG", "clang-19"),
        Driver::Cxx => ("FAILSKETCH_CLANGXX", "clang++-19"),
    };
    std::env::var_os(variable)
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| default.into())
}

/// How much of what a tool says is read.
const MOST_SAID: u64 = 64 << 10;

/// Runs `program` with `arguments` to its end, in the box, and fails unless it succeeds.
pub fn run(
    program: &OsStr,
    arguments: &[OsString],
    package: &'static str,
    reach: &Reach,
    sandbox: Sandbox,
) -> Result<(), ToolError> {
    let name = || program.to_string_lossy().into_owned();
    let not_runnable = |source: std::io::Error| ToolError::NotRunnable {
        program: name(),
        source,
    };
    let path = find(program).ok_or_else(|| ToolError::Missing {
        program: name(),
        package,
    })?;
    let mut command = Command::new(path);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    sandbox::confine(&mut command, reach, sandbox)?;
    let mut child = command.spawn().map_err(not_runnable)?;
    let mut said = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        // What cannot be read is not shown; the status still counts.
        let _ = stderr.by_ref().take(MOST_SAID).read_to_end(&mut said);
        let _ = std::io::copy(&mut stderr, &mut std::io::sink());
    }
    let status = child.wait().map_err(not_runnable)?;
    if status.success() {
        return Ok(());
    }
    Err(match limit_that_stopped(status, &said, reach.limits) {
        Some(limit) => ToolError::Stopped {
            program: name(),
            limit,
        },
        None => ToolError::Failed {
            program: name(),
            status,
            message: first_lines(&said),
        },
    })
}

/// The file that a program's name means.
fn find(program: &OsStr) -> Option<PathBuf> {
    let given = Path::new(program);
    if given.components().count() > 1 {
        return given.is_file().then(|| given.to_path_buf());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(given));
    places.find(|place| place.is_file())
}

/// Which limit ended a tool that ended with `status` and said `said`, if one did.
pub fn limit_that_stopped(status: ExitStatus, said: &[u8], limits: Limits) -> Option<String> {
    let [memory, seconds, output] = EffectiveLimits::new(limits).amounts();
    let from_outside = |held: u64, ours: u64, setting: &str| {
        if held < ours {
            format!(", which was set from outside ({setting})")
        } else {
            String::new()
        }
    };
    let time = format!(
        "the limit of {seconds} s on CPU time{}",
        from_outside(seconds, limits.cpu_seconds, "ulimit -t")
    );
    let said = String::from_utf8_lossy(said);
    let lacks_memory = ["out of memory", "bad_alloc", "Cannot allocate memory"];
    match status.signal() {
        Some(libc::SIGXCPU) => Some(time),
        Some(libc::SIGXFSZ) => Some(format!(
            "the limit of {} MiB on what it writes{}",
            output >> 20,
            from_outside(output, limits.output, "ulimit -f")
        )),
        Some(libc::SIGKILL) => Some(format!(
            "the kernel (SIGKILL): memory ran out, or it passed {time}"
        )),
        _ if lacks_memory.iter().any(|words| said.contains(words)) => Some(format!(
            "the limit of {} MiB on memory{}",
            memory >> 20,
            from_outside(memory, limits.memory, "ulimit -v")
        )),
        _ => None,
    }
}

/// The first few lines of a tool's complaint: enough to act on, short enough to show.
fn first_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().take(6).collect();
    if lines.is_empty() {
        "it said nothing".to_string()
    } else {
        lines.join(" | ")
    }
}
