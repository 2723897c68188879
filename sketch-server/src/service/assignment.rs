//! Which build an agent runs next.
//!
//! One campaign at a time per build: agents run one tracked build, and other
//! failures wait. First comes the failure that P shows most often: it hurts most,
//! and its recurrences come soonest. Only P's own failures count for that, since
//! a tracked build changes the rates. Among equals the oldest campaign is first.
//! One run in eight stays with P, so that P's own failure rate remains known
//! beside the tracked build's. The share is kept by counting, not by chance:
//! the same questions get the same answers.

use super::campaign::Campaign;
use sketch_model::{Assignment, BuildId, CampaignState, Schema};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// One request in this many is sent to P while a tracked build is out.
pub const UNTRACKED_SHARE: u64 = 8;

/// Counts the requests of each build.
#[derive(Default)]
pub struct Assigner {
    asked: Mutex<HashMap<BuildId, u64>>,
}

impl Assigner {
    /// Answers a request about a build with these campaigns, oldest first.
    pub fn assign(&self, build: &BuildId, campaigns: &[Campaign]) -> Assignment {
        // `max_by_key` keeps the last of equals: newest first makes that the oldest.
        let first = campaigns
            .iter()
            .rev()
            .filter(|c| !c.is_over())
            .max_by_key(|c| c.untracked_failures);
        let tracked = first.filter(|c| c.state == CampaignState::Tracking);
        let variant = tracked.filter(|_| !self.stays_with_p(build));
        Assignment {
            schema: Schema::default(),
            variant: variant.map(Campaign::variant),
            finished: first.is_none() && !campaigns.is_empty(),
        }
    }

    fn stays_with_p(&self, build: &BuildId) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let count = asked.entry(build.clone()).or_default();
        *count += 1;
        count.is_multiple_of(UNTRACKED_SHARE)
    }
}
