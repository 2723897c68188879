//! What the operator allows the agent to do with each program.
//!
//! Policies come from the configuration file; flags of `run` override them.

pub(crate) mod file;
pub(crate) mod settings;

use crate::governor::ledger::LOAN_SECONDS;
use crate::process::hang::HangPolicy;
use crate::process::hang::progress::Rule;
use crate::stderr_log::say;
use serde::{Deserialize, Serialize};
use sketch_model::Privacy;
use std::{path::Path, str::FromStr, sync::Once, time::Duration};
use wildmatch::WildMatchPattern;

/// Whether watchpoints are used, and how their hits are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "String")]
pub enum WatchWay {
    /// Through rings of the kernel, which a program cannot notice.
    #[default]
    Ring,
    /// Watchpoints are not used. They cost at every switch between threads, whether they
    /// are hit or not.
    None,
}

/// A value of `watch_way` that does not exist.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a value of watch_way; use `ring` or `none`")]
pub struct UnknownWatchWay(String);

impl FromStr for WatchWay {
    type Err = UnknownWatchWay;

    /// Files and flags of earlier versions may ask for hits by SIGTRAP. They get rings, and
    /// the operator is told, once.
    fn from_str(text: &str) -> Result<WatchWay, UnknownWatchWay> {
        static TOLD: Once = Once::new();
        match text {
            "ring" => Ok(WatchWay::Ring),
            "none" => Ok(WatchWay::None),
            "sigtrap" | "any" => {
                TOLD.call_once(|| {
                    say(format_args!(
                        "watch_way `{text}` is read as `ring`: hits no longer come by SIGTRAP"
                    ));
                });
                Ok(WatchWay::Ring)
            }
            _ => Err(UnknownWatchWay(text.to_owned())),
        }
    }
}

impl TryFrom<String> for WatchWay {
    type Error = UnknownWatchWay;

    fn try_from(text: String) -> Result<WatchWay, UnknownWatchWay> {
        text.parse()
    }
}

/// The policy for one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// The share of runs, 0 to 1, that may run a tracked build.
    pub track: f64,
    /// The share of runs of a tracked build that is not yet trusted.
    pub canary: f64,
    /// The share of successful runs that are reported; failures always are.
    pub report_successes: f64,
    pub privacy: Privacy,
    /// How much CPU time tracking may cost, in percent; 0 sets no limit.
    pub max_overhead: f64,
    /// How many seconds of CPU time a program may owe for tracking that it has not
    /// earned yet; 0 forbids it.
    pub loan_seconds: f64,
    /// How many times the original's CPU time a tracked build may use before it is
    /// withdrawn; the governor's limit is far lower, this is for when it fails.
    pub max_slowdown: f64,
    /// How often watchpoints may be aimed in one run; each time costs the program
    /// tens of microseconds a thread.
    pub trap_budget: u64,
    /// Whether watchpoints are used.
    pub watch_way: WatchWay,
    /// Record Intel PT where the machine has it.
    pub intel_pt: bool,
    /// Exit codes that count as failures.
    pub fail_exits: Vec<i32>,
    /// Seconds without progress that count as a hang; absent means never.
    pub hang_after: Option<f64>,
    /// Whether idleness alone is a hang, for programs that never rest.
    pub hang_when_idle: bool,
    /// Kill the program once its hang is reported.
    pub end_hung: bool,
    /// A shell command that judges runs that ended well.
    pub check: Option<String>,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            track: 1.0,
            canary: 0.5,
            report_successes: 1.0,
            privacy: Privacy::Full,
            max_overhead: 1.0,
            loan_seconds: LOAN_SECONDS,
            max_slowdown: 10.0,
            trap_budget: 4096,
            watch_way: WatchWay::default(),
            intel_pt: false,
            fail_exits: Vec::new(),
            hang_after: None,
            hang_when_idle: false,
            end_hung: false,
            check: None,
        }
    }
}

impl Policy {
    pub fn hang(&self) -> Option<HangPolicy> {
        let seconds = self.hang_after?;
        Some(HangPolicy {
            patience: Duration::try_from_secs_f64(seconds).ok()?,
            rule: if self.hang_when_idle {
                Rule::Idle
            } else {
                Rule::Deadlock
            },
            end_it: self.end_hung,
        })
    }

    /// The share of processor time that tracking may cost; `None` for any.
    pub fn overhead_share(&self) -> Option<f64> {
        (self.max_overhead > 0.0).then_some(self.max_overhead / 100.0)
    }

    pub fn loan_ns(&self) -> u64 {
        (self.loan_seconds * 1e9) as u64
    }

    /// The first thing that makes no sense, in words.
    pub fn fault(&self) -> Option<String> {
        let share = |name: &str, value: f64| {
            (!(0.0..=1.0).contains(&value))
                .then(|| format!("{name} = {value} is not a share between 0 and 1"))
        };
        share("track", self.track)
            .or_else(|| share("canary", self.canary))
            .or_else(|| share("report_successes", self.report_successes))
            .or_else(|| {
                (!(0.0..=100.0).contains(&self.max_overhead)).then(|| {
                    let given = self.max_overhead;
                    format!("max_overhead = {given} is not between 0 and 100 percent")
                })
            })
            .or_else(|| {
                let given = self.loan_seconds;
                (!(0.0..=3600.0).contains(&given))
                    .then(|| format!("loan_seconds = {given} is not between 0 and 3600 seconds"))
            })
            .or_else(|| {
                let given = self.max_slowdown;
                (!(1.0..=1000.0).contains(&given))
                    .then(|| format!("max_slowdown = {given} is not between 1 and 1000 times"))
            })
            .or_else(|| {
                let seconds = self.hang_after?;
                (!(0.1..=86_400.0).contains(&seconds))
                    .then(|| format!("hang_after = {seconds} is not between 0.1 and 86400 seconds"))
            })
    }
}

/// Whether a program's path fits what the configuration says: a whole path, or
/// a file name, with `*` for any characters.
pub fn fits(pattern: &str, path: &Path) -> bool {
    let whole = path.to_string_lossy();
    let name = path
        .file_name()
        .map_or(whole.clone(), |n| n.to_string_lossy());
    let subject = if pattern.contains('/') { whole } else { name };
    // No character stands for exactly one: `?` may be part of a name.
    WildMatchPattern::<'*', '\0'>::new(pattern).matches(&subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_earlier_versions_are_rings_and_others_are_refused() {
        let read = |text: &str| toml::from_str::<Policy>(&format!("watch_way = {text:?}"));
        let ways = ["ring", "none", "sigtrap", "any"].map(|way| read(way).expect(way).watch_way);
        let (ring, none) = (WatchWay::Ring, WatchWay::None);
        assert_eq!(ways, [ring, none, ring, ring]);
        let refused = read("signal").expect_err("there is none").to_string();
        assert!(
            refused.contains("`signal` is not a value of watch_way; use `ring` or `none`"),
            "{refused}"
        );
        // A daemon tells its policy to runs of any version.
        for way in [ring, none] {
            let told = serde_json::to_string(&way).expect("is written");
            assert_eq!(
                serde_json::from_str::<WatchWay>(&told).expect("is read"),
                way
            );
        }
    }

    #[test]
    fn patterns_fit_names_and_paths() {
        let path = Path::new("/usr/lib/postgresql/15/bin/postgres");
        for pattern in ["postgres", "post*", "*", "/usr/*/bin/post*", "/usr/lib/*"] {
            assert!(fits(pattern, path), "{pattern}");
        }
        for pattern in [
            "postgre",
            "bin",
            "/usr/*/sbin/*",
            "*x",
            "/lib/*",
            "",
            "postgre?",
        ] {
            assert!(!fits(pattern, path), "{pattern}");
        }
        assert!(fits("a?*", Path::new("/bin/a?b")) && !fits("a*a", Path::new("/bin/a")));
    }
}
