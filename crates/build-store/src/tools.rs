//! Running the tools of the LLVM 19 packages, with errors that say what is missing.
//!
//! All of them read bytes of a registered file, so all of them start here, in the
//! box of `sandbox.rs` and are waited for by `supervise.rs`. What a tool says is read as
//! far as it is shown; a tool that was stopped by a limit is told apart from one that
//! failed. Each has its own limits, and all of one registration have a time together:
//! how many modules there are is the file's own word, too.
//!
//! `FAILSKETCH_CLANG` and `FAILSKETCH_CLANGXX` name other drivers than the
//! `clang-19` and `clang++-19` of the search path, here and in the wrapper.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::link::record::Driver;
use crate::own_files::{self, LeftOut};
use crate::register::flags::RefusedFlag;
use crate::sandbox::{self, EffectiveLimits, Limits, Reach, Sandbox, SandboxError};
pub use crate::supervise::Ended;
use crate::supervise::supervise;

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
    #[error(
        "compiler and other tools have run for {hours} h altogether, which is all that they are given; give more with `failsketch register --hours` if the program needs it"
    )]
    OutOfTime { hours: f64 },
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

/// The tools of one piece of work, such as a registration.
#[derive(Debug)]
pub struct Tools {
    sandbox: Sandbox,
    /// How long they may run, all together. More than one may run at a time.
    time: Duration,
    spent: Mutex<Duration>,
}

impl Tools {
    /// Enough for programs of a thousand large modules.
    pub const TIME: Duration = Duration::from_secs(8 * 3600);

    pub fn new(sandbox: Sandbox, time: Duration) -> Tools {
        Tools {
            sandbox,
            time,
            spent: Mutex::new(Duration::ZERO),
        }
    }

    pub fn sandbox(&self) -> Sandbox {
        self.sandbox
    }

    fn spent(&self) -> MutexGuard<'_, Duration> {
        // Nobody panics between two steps of a change.
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `program` with `arguments` to its end, in the box, and fails unless it succeeds.
    pub fn run(
        &self,
        program: &OsStr,
        arguments: &[OsString],
        package: &'static str,
        reach: &Reach,
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
        // A socket, because a tool can open the pipe that it speaks into once more to read
        // from it, and then waits for itself; a socket cannot be opened.
        let (ours, theirs) = UnixStream::pair().map_err(not_runnable)?;
        command.stdout(Stdio::null()).stderr(OwnedFd::from(theirs));
        let listen = |_: &mut Child| {
            let mut said = Vec::new();
            // What cannot be read is not shown; the status still counts.
            let _ = (&ours).take(MOST_SAID).read_to_end(&mut said);
            let _ = std::io::copy(&mut &ours, &mut std::io::sink());
            said
        };
        // Even if somebody keeps the other end open.
        let stop_listening = || {
            let _ = ours.shutdown(Shutdown::Both);
        };
        let (ended, said) = self.supervise(&mut command, reach, listen, stop_listening)?;
        if ended.status.success() {
            return Ok(());
        }
        Err(match limit_that_stopped(&ended, &said, reach.limits) {
            Some(limit) => ToolError::Stopped {
                program: name(),
                limit,
            },
            None => ToolError::Failed {
                program: name(),
                status: ended.status,
                message: first_lines(&said),
            },
        })
    }

    /// Runs `command`, whose program is an absolute path, in the box until it ends or its
    /// time is over. Meanwhile `talk` may use its pipes; `over` is called when it and all
    /// that it started are ended.
    pub fn supervise<T>(
        &self,
        command: &mut Command,
        reach: &Reach,
        talk: impl FnOnce(&mut Child) -> T,
        over: impl FnOnce() + Send,
    ) -> Result<(Ended, T), ToolError> {
        let left = self.time.saturating_sub(*self.spent());
        let out_of_time = || ToolError::OutOfTime {
            hours: self.time.as_secs_f64() / 3600.0,
        };
        if left.is_zero() {
            return Err(out_of_time());
        }
        let own = Duration::from_secs(reach.limits.seconds);
        sandbox::confine(command, reach, self.sandbox)?;
        let supervised = supervise(command, own.min(left), talk, over);
        let (ended, answer) = supervised.map_err(|source| ToolError::NotRunnable {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        *self.spent() += ended.took;
        match ended.late && left < own {
            true => Err(out_of_time()),
            false => Ok((ended, answer)),
        }
    }
}

/// The bytes of a file that a tool with these limits made; it may have made anything.
pub fn read_made(path: &Path, limits: Limits) -> std::io::Result<Vec<u8>> {
    own_files::read_regular(path, limits.output).map_err(|why| {
        std::io::Error::other(match why {
            LeftOut::TooLarge => format!("it is larger than {} MiB", limits.output >> 20),
            other => format!("it is {other}"),
        })
    })
}

/// The file that a program's name means. Its path is absolute: the program is started
/// in another folder than this one.
fn find(program: &OsStr) -> Option<PathBuf> {
    let given = Path::new(program);
    let is_program = |place: &PathBuf| {
        let about = std::fs::metadata(place);
        about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    let place = if given.components().count() > 1 {
        Some(given.to_path_buf()).filter(is_program)
    } else {
        let path = std::env::var_os("PATH")?;
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(given));
        places.find(is_program)
    };
    std::path::absolute(place?).ok()
}

/// Which limit ended a tool that said `said`, if one did.
pub fn limit_that_stopped(ended: &Ended, said: &[u8], limits: Limits) -> Option<String> {
    if ended.late {
        let seconds = limits.seconds;
        return Some(format!("the limit of {seconds} s on elapsed time"));
    }
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
    match ended.status.signal() {
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
