//! Running clang so that nobody can tell the wrapper from it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};

use build_store::link::record::Driver;
use build_store::tools::driver_program;
use nix::sys::signal::{SigHandler, Signal, raise, signal};

/// What shells return for a command that was not found.
const NOT_FOUND: u8 = 127;

/// Replaces this process by the compiler; returns only if that fails.
pub fn become_compiler(driver: Driver, arguments: &[OsString]) -> ExitCode {
    not_started(driver, &compiler(driver, arguments).exec())
}

/// Runs the compiler to its end. A failure is the status to exit with; death by
/// a signal is passed on as death by the same signal.
pub fn run_compiler(driver: Driver, arguments: &[OsString]) -> Result<(), ExitCode> {
    let status = compiler(driver, arguments)
        .status()
        .map_err(|error| not_started(driver, &error))?;
    if status.success() {
        return Ok(());
    }
    if let Some(number) = status.signal() {
        die_of(number);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Err(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn compiler(driver: Driver, arguments: &[OsString]) -> Command {
    let mut command = Command::new(driver_program(driver));
    command.args(arguments);
    command
}

fn die_of(number: i32) {
    if let Ok(deadly) = Signal::try_from(number) {
        // SAFETY: the default action is no Rust code, and no other handler of
        // this process is replaced: it has installed none.
        let _ = unsafe { signal(deadly, SigHandler::SigDfl) };
        let _ = raise(deadly);
    }
}

fn not_started(driver: Driver, error: &io::Error) -> ExitCode {
    let program = driver_program(driver);
    let program = program.to_string_lossy();
    if error.kind() == io::ErrorKind::NotFound {
        let variable = match driver {
            Driver::C => "FAILSKETCH_CLANG",
            Driver::Cxx => "FAILSKETCH_CLANGXX",
        };
        eprintln!(
            "failsketch: {program} was not found; install the package clang-19, or name the compiler in {variable}"
        );
    } else {
        eprintln!("failsketch: {program} could not be run: {error}");
    }
    ExitCode::from(NOT_FOUND)
}
