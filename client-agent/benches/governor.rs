//! `./dev bench governor`: does tracking cost what the governor says?
//!
//! Two programs of fixed work: one whose inner loop is hooked, one that stores to a
//! watched word all the time. Each is run, in turn, as P, as P again (the A/A
//! control), as P′ governed at 1%, and as P′ at any cost, always under the agent;
//! what is compared is the processor time of the program as the kernel counts it.
//! The governed rows go through both accounts, within a run and from run to run,
//! so some of their runs are of P: that is how the share is held.
//!
//! Medians hide what happens rarely, so the mean stands beside them: the share is a
//! promise about sums. What a mean may be off by, with 95%, is told from how rounds differ.

#[path = "../tests/it/common/mod.rs"]
mod common;

use common::{FakeServer, Workshop, signed_patch};
use std::{fs, path::PathBuf};

const ROUNDS: usize = 100;
/// At any cost only every so many rounds: what that costs is plain to see.
const SELDOM: usize = 10;

struct Row {
    name: &'static str,
    cpu_ms: Vec<f64>,
    cost_ms: f64,
    tracked: usize,
    coverage: f64,
    hits: u64,
}

impl Row {
    fn new(name: &'static str) -> Row {
        Row {
            name,
            cpu_ms: Vec::new(),
            cost_ms: 0.0,
            tracked: 0,
            coverage: 0.0,
            hits: 0,
        }
    }

    fn mean(&self) -> f64 {
        self.cpu_ms.iter().sum::<f64>() / self.cpu_ms.len().max(1) as f64
    }

    /// The mean as a ratio to that of `base`, and what that may be off by. Runs of a
    /// round belong together, where there is one of each.
    fn to(&self, base: &[f64]) -> (f64, f64) {
        let count = self.cpu_ms.len() as f64;
        let base_mean = base.iter().sum::<f64>() / base.len() as f64;
        let ratio = self.mean() / base_mean;
        let alone = vec![base_mean; self.cpu_ms.len()];
        let base = if base.len() == self.cpu_ms.len() {
            base
        } else {
            &alone
        };
        let off = self
            .cpu_ms
            .iter()
            .zip(base)
            .map(|(own, base)| own - ratio * base);
        let squares: f64 = off.map(|off| off * off).sum();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        (ratio, 1.96 * deviation / count.sqrt() / base_mean)
    }

    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.cpu_ms.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * share).round() as usize]
    }
}

fn main() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok());
    let rounds: usize = rounds.unwrap_or(ROUNDS);
    println!("load average {}", load());
    for (what, arguments) in [
        ("inner loop hooked", ["loop", "900"]),
        ("location hammered", ["hammer-while-working", "60000"]),
    ] {
        let workshop = Workshop::new();
        let pair = workshop.compile_pair(&[]);
        let server = FakeServer::start(Some(signed_patch(&pair.0, &pair.1)));
        let mut rows = [
            Row::new("P"),
            Row::new("P again (A/A)"),
            Row::new("P′ at 1%"),
            Row::new("P′ at any cost"),
        ];
        for round in 0..rounds {
            for (number, row) in rows.iter_mut().enumerate() {
                if number < 3 || round % SELDOM == 0 {
                    run(&workshop, &pair, &server, number, &arguments, row);
                }
            }
        }
        let base = rows[0].cpu_ms.clone();
        println!(
            "\n{what}, {rounds} rounds, load average {}\n{:<16} {:>9} {:>9} {:>17} {:>18} {:>9} {:>8} {:>9} {:>8}",
            load(),
            "",
            "mean ms",
            "median",
            "middle half",
            "to P",
            "account",
            "tracked",
            "coverage",
            "hits"
        );
        for row in &rows {
            let tracked = row.tracked.max(1) as f64;
            let (ratio, reach) = row.to(&base);
            println!(
                "{:<16} {:>9.1} {:>9.1} {:>8.1}–{:<8.1} {:>+9.2}% ± {:>5.2} {:>+8.2}% {:>8} {:>8.1}% {:>8}",
                row.name,
                row.mean(),
                row.at(0.5),
                row.at(0.25),
                row.at(0.75),
                (ratio - 1.0) * 100.0,
                reach * 100.0,
                row.cost_ms / row.cpu_ms.iter().sum::<f64>() * 100.0,
                row.tracked,
                row.coverage / tracked * 100.0,
                row.hits / row.tracked.max(1) as u64,
            );
        }
    }
}

/// One run of the kind that the row's number says.
fn run(
    workshop: &Workshop,
    pair: &(PathBuf, PathBuf),
    server: &FakeServer,
    number: usize,
    arguments: &[&str],
    row: &mut Row,
) {
    let file = workshop.path("record.json");
    let mut agent = workshop.agent();
    agent.arg("--store-record").arg(&file);
    if number >= 2 {
        agent.args(["--server", &server.url, "--key", &server.key()]);
    }
    if number == 3 {
        agent.args(["--max-overhead", "0"]);
    }
    let output = agent.arg("--").arg(&pair.0).args(arguments).output();
    assert!(output.expect("the agent starts").status.success());
    let record = common::read_record(&file);
    row.cpu_ms.push(record.cpu_us as f64 / 1000.0);
    if !record.execution.is_original() {
        row.tracked += 1;
        row.coverage += record.tracking.coverage();
        row.cost_ms += record.tracking.cost_ns as f64 / 1e6;
        row.hits += record.watch.counted;
    }
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_string()
}
