//! The command line of `failsketch-agent`.

use crate::{doctor, error::AgentError, repeat, say::say};
use clap::{Args, Parser, Subcommand};
use code_patch::PublicKey;
use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Runs a command in production and reports how it ended.
#[derive(Debug, Parser)]
#[command(name = "failsketch-agent", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command as if the agent were not there, and record it.
    Run(RunArguments),
    /// Say what this machine can do, and how to get more.
    Doctor,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The server's address, for example http://127.0.0.1:7420.
    #[arg(long)]
    pub server: Option<String>,
    /// The server's public key: a file, or the key itself. Without it no tracked build is run.
    #[arg(long)]
    pub key: Option<String>,
    /// The name of this agent [default: the host's name].
    #[arg(long)]
    pub agent: Option<String>,
    /// Where patches and the runtime are kept [default: ~/.cache/failsketch].
    #[arg(long)]
    pub cache: Option<PathBuf>,
    /// Also write each run's record to this file, one JSON document a line.
    #[arg(long)]
    pub store_record: Option<PathBuf>,
    /// Run the command this many times, then exit 0.
    #[arg(long, value_name = "N", conflicts_with = "until_finished")]
    pub repeat: Option<u64>,
    /// Run the command until the server has finished its diagnoses, then exit 0.
    #[arg(long)]
    pub until_finished: bool,
    /// An exit code that counts as a failure; may be given several times.
    #[arg(long, value_name = "CODE")]
    pub fail_exit: Vec<i32>,
    /// The share of processor time that tracking may cost, in percent; 0 for any.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub max_overhead: f64,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("give a number from 0 to 100".into()),
    }
}

impl RunArguments {
    /// The share as a fraction; `None` for any.
    pub(crate) fn overhead_share(&self) -> Option<f64> {
        (self.max_overhead > 0.0).then_some(self.max_overhead / 100.0)
    }

    /// The pinned key, if one is given.
    pub(crate) fn key(&self) -> Result<Option<PublicKey>, AgentError> {
        let Some(given) = &self.key else {
            return Ok(None);
        };
        let (origin, text) = match fs::read_to_string(given) {
            Ok(text) => (given.clone(), text),
            Err(_) => ("--key".to_string(), given.clone()),
        };
        PublicKey::from_text(&text)
            .map(Some)
            .map_err(|e| AgentError::BadKey {
                origin,
                reason: e.to_string(),
            })
    }
}

/// The whole program.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(arguments) => match repeat::run(&arguments) {
            Ok(Some(ended)) => ended.ending.imitate(),
            Ok(None) => ExitCode::SUCCESS,
            Err(error) => {
                say(&error);
                ExitCode::from(error.exit_code())
            }
        },
        Command::Doctor => {
            for finding in doctor::examine() {
                // Whoever reads may have seen enough.
                let _ = writeln!(io::stdout(), "{finding}");
            }
            ExitCode::SUCCESS
        }
    }
}
