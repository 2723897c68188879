//! `./dev bench server`: how many run reports a server takes, durably, and what
//! ranking costs as predictors and runs grow.
//!
//! The server is a process of its own (this program started again), whole but for
//! the build tools, which are the tests' double. Agents are connections that stay open
//! and send their next run when the last is acknowledged (`as fast as it goes`), or
//! one a second each (`paced`). SQLite and PostgreSQL both sync to the disk before
//! an acknowledgement. The load generator shares the machine's cores with the
//! server; its part is not taken off.
//!
//! `FAILSKETCH_BENCH_SECONDS` is how long each row is measured (5).

#[path = "../tests/it/service_support/mod.rs"]
mod service_support;

#[path = "server/agents.rs"]
mod agents;
#[path = "server/ranking.rs"]
mod ranking;
#[path = "server/served.rs"]
mod served;

use agents::{Pace, load};
use served::Served;
use std::time::Duration;
use test_support::postgres::{Postgres, Sync};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, data, database] = arguments.as_slice()
        && word == "serve"
    {
        return served::run(data, database);
    }
    if let [word, predictors, runs] = arguments.as_slice()
        && word == "rank"
    {
        let number = |text: &String| text.parse().expect("a number");
        return ranking::one(number(predictors) as u32, number(runs));
    }
    let seconds = std::env::var("FAILSKETCH_BENCH_SECONDS").ok();
    let seconds = seconds.and_then(|s| s.parse().ok()).unwrap_or(5);
    let row = Duration::from_secs(seconds);
    println!("load average at the start: {}", load_average());
    println!(
        "cores: {}",
        std::thread::available_parallelism().map_or(0, |n| n.get())
    );
    let postgres = Postgres::start(Sync::On);
    let databases = [
        ("SQLite", "embedded".to_owned()),
        ("PostgreSQL", postgres.database()),
    ];
    for (name, database) in &databases {
        accepting(name, database, row);
    }
    ranking::measure();
    println!("\nload average at the end: {}", load_average());
}

/// One server, more and more agents, and with them more and more stored runs.
fn accepting(name: &str, database: &str, row: Duration) {
    let server = Served::start(database);
    println!(
        "\n{name}: runs of {} bytes, acknowledged when they are on the disk",
        agents::size()
    );
    println!(
        "{:>7}  {:>13}  {:>9}  {:>8}  {:>8}  {:>12}  {:>11}  {:>9}",
        "agents", "pace", "runs/s", "p50 ms", "p99 ms", "stored runs", "filed/s", "server MB"
    );
    let paces = [
        (10, Pace::Fast),
        (100, Pace::Fast),
        (300, Pace::Fast),
        (1_000, Pace::Fast),
        (1_000, Pace::Fast),
        (1_000, Pace::Fast),
        (1_000, Pace::OneASecond),
    ];
    for (agents, pace) in paces {
        let before = server.filed();
        let outcome = load(&server.address, server.next_batch(), agents, pace, row);
        let took = server.wait_until_filed(before + outcome.accepted);
        let filed = outcome.accepted as f64 / (outcome.took + took).as_secs_f64();
        println!(
            "{agents:>7}  {:>13}  {:>9.0}  {:>8.1}  {:>8.1}  {:>12}  {filed:>11.0}  {:>9}",
            pace.words(),
            outcome.accepted as f64 / outcome.took.as_secs_f64(),
            outcome.percentile(0.50),
            outcome.percentile(0.99),
            before + outcome.accepted,
            server.megabytes(),
        );
    }
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .unwrap_or_default()
        .trim()
        .to_owned()
}
