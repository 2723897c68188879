//! Running the tools of the LLVM 19 packages, with errors that say what is missing.
//!
//! `FAILSKETCH_CLANG` and `FAILSKETCH_CLANGXX` name other drivers than the
//! `clang-19` and `clang++-19` of the search path, here and in the wrapper.

use std::ffi::OsString;
use std::process::{Command, Output};

use crate::flags::RefusedFlag;
use crate::link_record::Driver;

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error(transparent)]
    Refused(#[from] RefusedFlag),
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
    #[error("{program} failed ({status}): {message}")]
    Failed {
        program: String,
        status: std::process::ExitStatus,
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

/// Runs `command` to its end, keeps its output, and fails unless it succeeds.
pub fn run(command: &mut Command, package: &'static str) -> Result<Output, ToolError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            ToolError::Missing {
                program: program.clone(),
                package,
            }
        } else {
            ToolError::NotRunnable {
                program: program.clone(),
                source,
            }
        }
    })?;
    if output.status.success() {
        return Ok(output);
    }
    Err(ToolError::Failed {
        program,
        status: output.status,
        message: first_lines(&output.stderr),
    })
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
