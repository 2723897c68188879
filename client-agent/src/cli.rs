//! The command line of `failsketch-agent`.

use crate::policy::WatchWay;
use crate::policy::file::Config;
use crate::run::{barrier, repeat};
use crate::stderr_log::say;
use crate::{daemon, doctor};
use clap::{Args, Parser, Subcommand};
use sketch_model::Privacy;
use std::{
    ffi::OsString,
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
    Run(Box<RunArguments>),
    /// Serve all runs on this machine: one policy file, one spool, one connection to the server.
    Daemon(DaemonArguments),
    /// Check what this machine can record, and say how to enable the rest.
    Doctor(DoctorArguments),
}

#[derive(Debug, Args)]
struct DoctorArguments {
    /// The configuration file [default: /etc/failsketch/agent.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    way: WayArguments,
    /// The server's public key, in place of the configuration's.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DaemonArguments {
    /// The configuration file [default: /etc/failsketch/agent.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Connection to the server.
#[derive(Debug, Args)]
pub(crate) struct WayArguments {
    /// The server's address, for example http://127.0.0.1:7420.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// A file with the token that the server gave this machine.
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Trust these certificate authorities (PEM) instead of the machine's own list.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// This machine's certificate and its private key (PEM), for servers that require one.
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
}

impl WayArguments {
    /// Replaces what the configuration says by what the command line gives.
    pub fn beat(&self, config: &mut Config) {
        config.server = self.server.clone().or(config.server.take());
        config.token = self.token.clone().or(config.token.take());
        config.ca = self.ca.clone().or(config.ca.take());
        config.certificate = self.certificate.clone().or(config.certificate.take());
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub way: WayArguments,
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
    /// Run the command again and again until the server has finished its diagnoses, then exit 0.
    #[arg(long)]
    pub until_finished: bool,
    /// An exit code that counts as a failure; may be given several times.
    #[arg(long, value_name = "CODE")]
    pub fail_exit: Vec<i32>,
    /// A shell command that checks each run that succeeded: any status but 0 makes it a failure.
    #[arg(long, value_name = "COMMAND")]
    pub check: Option<String>,
    /// Report a hang when all threads have waited for each other this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub hang_after: Option<f64>,
    /// With --hang-after: report a hang whenever all threads are idle, whatever they wait for.
    #[arg(long, requires = "hang_after")]
    pub hang_when_idle: bool,
    /// With --hang-after: kill the command when its hang has been reported.
    #[arg(long, requires = "hang_after")]
    pub end_hung: bool,
    /// What may leave this machine: full, shapes, or control-flow-only.
    #[arg(long, value_name = "LEVEL", value_parser = parse_privacy)]
    pub privacy: Option<Privacy>,
    /// The share of runs, 0 to 1, that use a new tracked build until its first runs prove harmless.
    #[arg(long, value_name = "SHARE")]
    pub canary: Option<f64>,
    /// How long the agent may wait for the server after the command has ended, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub grace: f64,
    /// The daemon's socket [default: the machine's, if one answers there].
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub daemon: Option<PathBuf>,
    /// The configuration file [default: /etc/failsketch/agent.toml].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The share of CPU time that tracking may cost, in percent; 0 for no limit [default: 1].
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub max_overhead: Option<f64>,
    /// Use watchpoints: ring or none [default: ring].
    #[arg(long, value_name = "WAY")]
    pub watch_way: Option<WatchWay>,
    /// Run the tracked build of this patch, from `failsketch patch`, instead of asking a server.
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with_all = ["server", "daemon", "until_finished"])]
    pub patch: Option<PathBuf>,
    /// With --patch: use the patch only in as many runs as --max-overhead allows, as with a server.
    #[arg(long, requires = "patch")]
    pub sampled: bool,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

fn parse_privacy(text: &str) -> Result<Privacy, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "it is one of full, shapes, control-flow-only".into())
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("give a number from 0 to 100".into()),
    }
}

/// The whole program.
pub fn main() -> ExitCode {
    barrier::say_panics_in_one_line();
    match Cli::parse().command {
        Command::Run(arguments) => match repeat::run(&arguments) {
            Ok(Some(ended)) => ended.ending.imitate(),
            Ok(None) => ExitCode::SUCCESS,
            Err(error) => {
                say(&error);
                ExitCode::from(error.exit_code())
            }
        },
        Command::Daemon(arguments) => match daemon::serve(arguments.config.as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&error);
                ExitCode::from(error.exit_code())
            }
        },
        Command::Doctor(arguments) => examine(arguments),
    }
}

fn examine(arguments: DoctorArguments) -> ExitCode {
    let mut config = match Config::read(arguments.config.as_deref()) {
        Ok(config) => config,
        Err(error) => {
            say(&error);
            return ExitCode::from(error.exit_code());
        }
    };
    arguments.way.beat(&mut config);
    config.key = arguments.key.or(config.key);
    let findings = doctor::examine(&config);
    let text = match arguments.json {
        true => {
            let json = serde_json::to_string_pretty(&findings).unwrap_or_default();
            sketch_model::printable_json(&json) + "\n"
        }
        false => findings
            .iter()
            .map(|finding| sketch_model::printable_lines(&finding.to_string()) + "\n")
            .collect(),
    };
    // Whoever reads may have seen enough.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
