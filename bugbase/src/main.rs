//! Runs the bugs of this folder through the whole product.
//!
//! It uses what a user has (the `failsketch` and `failsketch-agent` commands
//! and the server's HTTP API) and links none of our crates, so that whatever it
//! shows, a user can do.

mod api;
mod bench;
mod corpus;
mod demo;
mod driver;
mod eval;
mod fleet;
mod loopback;
mod rate;
mod record_stacks;
mod tables;
mod tools;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Diagnose the bugs of the bugbase with the commands of this checkout.
#[derive(Parser)]
#[command(version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a failure sketch of one bug, made live.
    Demo(demo::Arguments),
    /// Diagnose bugs and print how it went.
    Eval(eval::Arguments),
    /// Run the faulty programs without any tool and count the failures.
    Rate(rate::Arguments),
    /// Run the fixed programs, which must never fail.
    Fixed(rate::Arguments),
    /// Run the faulty programs until they fail and keep the stacks, for `bench slicer --ranks`.
    Stacks(record_stacks::Arguments),
    /// Measure.
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Rate(arguments) => rate::rate(&arguments),
        Command::Fixed(arguments) => rate::fixed(&arguments),
        Command::Stacks(arguments) => record_stacks::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bugbase: {error:#}");
            ExitCode::FAILURE
        }
    }
}
