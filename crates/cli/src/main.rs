//! The `failsketch` command: reads the command line and calls the room that does the job.
//!
//! `failsketch cc` and `failsketch c++` (also as `failsketch-cc` and
//! `failsketch-c++`) are handled before the argument parser: their arguments
//! are the compiler's, `--help` and `--version` included.

mod at_statement;
mod builds;
mod campaign;
mod cc;
mod connection;
mod import;
mod patch;
mod plan;
mod register;
mod serve;
mod sketch;
mod slice;
mod timings;
mod token;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use build_store::BuildStore;
use clap::{Parser, Subcommand};
use viewer::printable_lines;

/// Failure sketches: why a program failed, from the runs of a fleet.
#[derive(Parser)]
#[command(name = "failsketch", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile C as clang-19 does, with debug info and embedded bitcode
    #[command(name = "cc")]
    Cc {
        /// Arguments of clang-19
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compile C++ as clang++-19 does, with debug info and embedded bitcode
    #[command(name = "c++")]
    Cxx {
        /// Arguments of clang++-19
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Prove a binary built by failsketch-cc and put it into the build store
    Register(register::RegisterArguments),
    /// List the registered builds
    Builds(builds::BuildsArguments),
    /// Print the backward slice of a statement of a registered build
    Slice(slice::Arguments),
    /// Read bitcode from standard input in a process of its own
    #[command(name = build_analysis::bitcode_child::CHILD, hide = true)]
    ReadBitcode,
    /// Print what tracked builds for a failure at a statement would record
    Plan(plan::Arguments),
    /// Make the tracked build for a failure at a statement, as a signed patch
    Patch(patch::Arguments),
    /// Import a perf.data file with Intel PT as a run
    Import(import::Arguments),
    /// Decode one recording, for `import`
    #[command(name = "pt-worker", hide = true)]
    PtWorker,
    /// Run the server: diagnoses failures and serves their sketches
    Serve(serve::Arguments),
    /// List the failures that a server knows
    Failures(campaign::FailuresArguments),
    /// Show and steer one diagnosis
    #[command(subcommand)]
    Campaign(campaign::Command),
    /// Show and export failure sketches
    #[command(subcommand)]
    Sketch(sketch::Command),
    /// Make, list and revoke the tokens of a server
    #[command(subcommand)]
    Token(token::Command),
}

fn main() -> ExitCode {
    if let Some((driver, arguments)) = cc::compiler_call(std::env::args_os().collect()) {
        return cc::run(driver, arguments);
    }
    let arguments = Arguments::parse();
    // The server says more, in its own way.
    if !matches!(arguments.command, Command::Serve(_)) {
        end_with_the_reader();
        let warnings = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
        let warnings = warnings.without_time().with_target(false);
        warnings.with_writer(std::io::stderr).init();
    }
    let result = match arguments.command {
        // Taken by `cc::compiler_call`; listed above for the sake of `--help`.
        Command::Cc { .. } | Command::Cxx { .. } => Ok(()),
        Command::Register(arguments) => register::run(&arguments),
        Command::Builds(arguments) => builds::run(&arguments),
        Command::Slice(arguments) => slice::run(&arguments),
        Command::ReadBitcode => build_analysis::bitcode_child::read_bitcode().map_err(Into::into),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Patch(arguments) => patch::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::PtWorker => import::serve_worker(),
        Command::Serve(arguments) => serve::run(arguments),
        Command::Failures(arguments) => campaign::failures(&arguments),
        Command::Campaign(command) => campaign::run(command),
        Command::Sketch(command) => sketch::run(command),
        Command::Token(command) => token::run(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Errors name builds, files and what servers said.
            eprintln!("failsketch: {}", printable_lines(&sentence(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, without those that it names already.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| {
        let cause = cause.to_string();
        match said.as_str() {
            "" => cause,
            said if said.contains(&cause) => said.to_owned(),
            said => format!("{said}: {cause}"),
        }
    })
}

/// Lets a reader that goes away (`failsketch builds | head`) end the command as
/// it ends any other; Rust ignores the signal by default.
fn end_with_the_reader() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler of ours runs; the default disposition is restored
    // before any thread is started.
    let restored = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    // Without it a broken pipe is reported in another way; that is all.
    let _ = restored;
}

/// The build store that `--store`, or else the environment, names.
fn open_store(given: Option<&PathBuf>) -> Result<BuildStore> {
    Ok(BuildStore::open(match given {
        Some(root) => root.clone(),
        None => BuildStore::default_root()?,
    }))
}
