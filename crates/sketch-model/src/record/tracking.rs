//! What is known of the recording itself: when it was off, and what a thread
//! passed how often.
//!
//! A governor bounds what tracking may cost, so a run is rarely recorded from
//! end to end. Overhead without coverage says nothing: both travel.

use crate::{ProbeEvent, SiteId, Tsc};
use serde::{Deserialize, Serialize};

/// What used the budget up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    Hooks,
    WatchpointHits,
    #[serde(other)]
    Unknown,
}

/// A stretch of a run in which hooks and watchpoints were off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub from: Tsc,
    pub to: Tsc,
    pub reason: PauseReason,
}

/// How a run was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackingRecord {
    /// The share of processor time that tracking might cost; `None` for any.
    pub max_overhead: Option<f64>,
    /// In time order, disjoint.
    #[serde(default)]
    pub pauses: Vec<Pause>,
    /// When hooks could begin to record.
    #[serde(default)]
    pub began: Tsc,
    /// When the process had ended.
    #[serde(default)]
    pub ended: Tsc,
    /// What hooks and hits cost by the governor's account, in nanoseconds.
    #[serde(default)]
    pub cost_ns: u64,
    /// What the program owed on this machine after the run: tracking that it has not
    /// earned yet.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub owed_ns: u64,
}

fn is_nothing(ns: &u64) -> bool {
    *ns == 0
}

impl TrackingRecord {
    /// The share of the run's time in which recording was on.
    pub fn coverage(&self) -> f64 {
        let whole = self.ended.0.saturating_sub(self.began.0);
        if whole == 0 {
            return 1.0;
        }
        let paused: u128 = self
            .pauses
            .iter()
            .map(|pause| {
                let from = pause.from.max(self.began).0;
                u128::from(pause.to.min(self.ended).0.saturating_sub(from))
            })
            .sum();
        1.0 - (paused as f64 / whole as f64).clamp(0.0, 1.0)
    }
}

/// One way that a branch went in one thread, or one point that it reached. Unlike
/// events these are never overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeCount {
    pub site: SiteId,
    /// The successor's number; `None` for a point that is merely reached.
    pub successor: Option<u32>,
    /// At least so many: a thread that tires of an edge counts only now and then.
    pub count: u64,
    pub first: Tsc,
    /// Exact while every passage was also recorded as an event, later a lower
    /// bound.
    pub last: Tsc,
}

/// An access that one thread made so often that of its later events only the
/// latest was kept. The first ones are among the thread's events.
///
/// Of one that the thread tired of, `count` and `latest` are of those that were still
/// looked at: there may have been later ones. `shapes` is complete all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinned {
    pub count: u64,
    /// `None` if the process ended while it was being written.
    pub latest: Option<ProbeEvent>,
    /// What its values looked like, all of them.
    pub shapes: SeenShapes,
    /// The thread had said enough of it, and its hook was passed by from then on but for
    /// what was new.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tired: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// What the values of an access looked like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenShapes {
    pub zero: bool,
    pub non_zero: bool,
    pub negative: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_the_share_of_time_that_recording_was_on() {
        let pause = |from, to| Pause {
            from: Tsc(from),
            to: Tsc(to),
            reason: PauseReason::Hooks,
        };
        let mut record = TrackingRecord {
            began: Tsc(1000),
            ended: Tsc(2000),
            pauses: vec![pause(900, 1100), pause(1500, 1650)],
            ..TrackingRecord::default()
        };
        assert_eq!(record.coverage(), 0.75);
        record.pauses = vec![pause(0, u64::MAX)];
        assert_eq!(record.coverage(), 0.0);
        assert_eq!(TrackingRecord::default().coverage(), 1.0);
    }
}
