//! What server, agents and people say to each other about a diagnosis.

use crate::{BuildId, CampaignId, FailureSignature, PredictorClass};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a diagnosis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CampaignState {
    /// A failure is known; slice and tracked build are being made.
    Preparing,
    /// Agents run the tracked build of the current iteration.
    Tracking,
    /// The stop rule holds: the last sketch is the answer.
    Settled,
    /// A developer stopped it.
    Stopped,
    /// It cannot go on; the summary's `problem` says why.
    Failed,
}

impl CampaignState {
    /// Whether nothing more happens unless a developer resumes it.
    pub fn is_over(self) -> bool {
        match self {
            CampaignState::Preparing | CampaignState::Tracking => false,
            CampaignState::Settled | CampaignState::Stopped | CampaignState::Failed => true,
        }
    }
}

impl fmt::Display for CampaignState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CampaignState::Preparing => "preparing",
            CampaignState::Tracking => "tracking",
            CampaignState::Settled => "settled",
            CampaignState::Stopped => "stopped",
            CampaignState::Failed => "failed",
        })
    }
}

/// The best predictor so far, for a progress line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BestPredictor {
    pub class: PredictorClass,
    pub sentence: String,
    pub precision: f64,
    pub recall: f64,
    pub f_measure: f64,
}

/// A campaign at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignSummary {
    pub id: CampaignId,
    pub build: BuildId,
    pub program: String,
    pub signature: FailureSignature,
    /// "SIGSEGV in consumer (pbzip2.c:120)"
    pub title: String,
    pub state: CampaignState,
    pub problem: Option<String>,
    pub sigma: u32,
    pub iteration: u32,
    /// All runs of the program, tracked or not, since the campaign began.
    pub runs: u64,
    pub failures: u64,
    /// Runs of the current iteration's tracked build.
    pub tracked_failing: u64,
    pub tracked_successful: u64,
    pub sketch_version: Option<u32>,
    pub best: Option<BestPredictor>,
    /// A developer said that the last sketch is the answer; the stop rule did not.
    #[serde(default)]
    pub declared: bool,
    /// A developer wants σ to stay as it is.
    #[serde(default)]
    pub pinned: bool,
    /// When it was seen; `None` from a server that did not note it.
    #[serde(default)]
    pub seen: Option<Seen>,
}

/// When a failure was seen, by the server's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Seen {
    /// Seconds since 1970, UTC.
    pub first: u64,
    pub last: u64,
    /// The latest days with failures, oldest first: days since 1970 and how many.
    pub days: Vec<(u64, u64)>,
}

impl Seen {
    /// Days that are kept.
    pub const DAYS: usize = 14;

    /// Takes note of one more failure. A clock that was set back changes no past.
    pub fn note(&mut self, now: u64) {
        if self.days.is_empty() {
            self.first = now;
        }
        self.last = self.last.max(now);
        let today = self.last / 86_400;
        match self.days.last_mut() {
            Some((day, count)) if *day == today => *count += 1,
            _ => self.days.push((today, 1)),
        }
        if self.days.len() > Self::DAYS {
            self.days.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_day_and_only_the_latest_days_are_kept() {
        let mut seen = Seen::default();
        for now in [86_400, 86_401, 2 * 86_400, 5] {
            seen.note(now);
        }
        assert_eq!((seen.first, seen.last), (86_400, 2 * 86_400));
        assert_eq!(seen.days, [(1, 2), (2, 2)], "a clock set back counts today");
        for day in 3..30 {
            seen.note(day * 86_400);
        }
        assert_eq!(seen.days.len(), Seen::DAYS);
        assert_eq!(seen.days[0], (16, 1));
        assert_eq!(seen.first, 86_400);
    }
}
