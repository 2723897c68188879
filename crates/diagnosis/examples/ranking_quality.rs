//! Prints the table of docs/statistics.md: how often the ranking finds a planted
//! cause, by sample size, failure rate and noise.
//!
//! `cargo run --release -p diagnosis --example ranking_quality [POPULATIONS]`

#[path = "../tests/it/support/planted.rs"]
mod planted;

use planted::{Shape, tried};

fn main() {
    let populations = std::env::args().nth(1);
    let populations = populations.and_then(|n| n.parse().ok()).unwrap_or(200);
    println!(
        "| failing runs | failure rate | successful runs | noise | cause first | first and significant | another first and significant |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for failing in [2, 3, 5, 10, 20] {
        for rate in [0.01, 0.1, 0.5] {
            for noise in [0.0, 0.1, 0.3] {
                let shape = Shape {
                    failing,
                    rate,
                    noise,
                };
                let outcome = tried(shape, populations, 7);
                let percent = |n: u32| 100.0 * f64::from(n) / f64::from(outcome.populations);
                println!(
                    "| {failing} | {:.0}% | {} | {:.0}% | {:.1}% | {:.1}% | {:.1}% |",
                    100.0 * rate,
                    shape.successful(),
                    100.0 * noise,
                    percent(outcome.first),
                    percent(outcome.proven),
                    percent(outcome.wrong)
                );
            }
        }
    }
}
