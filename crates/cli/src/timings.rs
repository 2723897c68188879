//! `failsketch slice --timings`: what each phase cost, for benchmarks.
//!
//! CPU time beside wall time, because on a shared machine only the former can
//! be compared; the peak is the process's largest resident set, and what it was
//! before the first phase is given too, because LLVM's library alone takes
//! tens of megabytes.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Map, Value, json};
use std::time::Instant;

pub struct Timings {
    phases: Map<String, Value>,
    started: (Instant, i64),
    kilobytes_before: i64,
}

/// CPU microseconds and peak kilobytes of this process so far.
fn usage() -> (i64, i64) {
    match getrusage(UsageWho::RUSAGE_SELF) {
        Ok(usage) => {
            let cpu = usage.user_time() + usage.system_time();
            (cpu.num_microseconds(), usage.max_rss())
        }
        Err(_) => (0, 0),
    }
}

impl Timings {
    pub fn start() -> Timings {
        let (cpu, kilobytes) = usage();
        Timings {
            phases: Map::new(),
            started: (Instant::now(), cpu),
            kilobytes_before: kilobytes,
        }
    }

    /// The time since the last phase ended belongs to this one.
    pub fn ended(&mut self, phase: &str) {
        let now = (Instant::now(), usage().0);
        let wall = now.0.duration_since(self.started.0).as_micros() as u64;
        let cost = json!({ "cpu_us": now.1 - self.started.1, "wall_us": wall });
        self.phases.insert(phase.to_owned(), cost);
        self.started = now;
    }

    pub fn report(mut self, facts: &[(&str, usize)]) -> Value {
        let (cpu, kilobytes) = usage();
        let mut report = json!({
            "phases": std::mem::take(&mut self.phases),
            "process_cpu_us": cpu,
            "peak_kb": kilobytes,
            "peak_kb_before": self.kilobytes_before,
        });
        for (name, value) in facts {
            report[name] = json!(value);
        }
        report
    }
}
