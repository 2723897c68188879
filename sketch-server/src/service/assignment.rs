//! Which build an agent runs next.
//!
//! One campaign at a time per build: agents run one tracked build, and other
//! failures wait. First comes the failure that P shows most often: it hurts most,
//! and its recurrences come soonest. Only P's own failures count for that, since
//! a tracked build changes the rates. Among equals the oldest campaign is first.
//! A campaign that tracks its whole slice and has been looked at without an
//! answer comes after all others: it may never get one, and must not keep the
//! others from theirs.
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
            .max_by_key(|c| (has_prospects(c), c.untracked_failures));
        let tracked = first.filter(|c| c.state == CampaignState::Tracking);
        let variant = tracked.filter(|_| !self.stays_with_p(build));
        Assignment {
            schema: Schema::default(),
            variant: variant.map(Campaign::variant),
            finished: first.is_none() && !campaigns.is_empty(),
            expected: variant
                .and_then(|campaign| campaign.failure.as_ref())
                .map(|failure| failure.kind.clone()),
        }
    }

    fn stays_with_p(&self, build: &BuildId) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let count = asked.entry(build.clone()).or_default();
        *count += 1;
        count.is_multiple_of(UNTRACKED_SHARE)
    }
}

fn has_prospects(campaign: &Campaign) -> bool {
    campaign.slice_statements.is_none()
        || campaign.wider().is_some()
        || campaign.failing_at_last_look == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::storage::BuildCounts;
    use crate::service::symbolize::LocatedFailure;
    use sketch_model::{CampaignId, FailureKind, SourceLocation, Statement, StatementId};

    fn tracking(id: u64, untracked_failures: u64) -> Campaign {
        let failure = LocatedFailure {
            kind: FailureKind::ExitCode(1),
            failing: Statement {
                id: StatementId(0),
                function: "main".into(),
                location: SourceLocation {
                    file: "/src/a.c".into(),
                    line: 3,
                },
                text: String::new(),
            },
            callers: Vec::new(),
        };
        let mut campaign = Campaign::begin(
            CampaignId(id),
            BuildId("ab".into()),
            "a".into(),
            failure,
            BuildCounts::default(),
        );
        campaign.sliced(8);
        campaign.built(2);
        campaign.untracked_failures = untracked_failures;
        campaign
    }

    fn first(campaigns: &[Campaign]) -> Option<CampaignId> {
        let build = BuildId("ab".into());
        let assignment = Assigner::default().assign(&build, campaigns);
        assignment.variant.map(|variant| variant.campaign)
    }

    #[test]
    fn the_commonest_failure_is_first_and_the_oldest_of_equals() {
        let campaigns = [tracking(1, 2), tracking(2, 5), tracking(3, 5)];
        assert_eq!(first(&campaigns), Some(CampaignId(2)));
    }

    #[test]
    fn a_campaign_without_prospects_lets_others_go_first() {
        let mut exhausted = tracking(1, 50);
        exhausted.sigma = 8;
        exhausted.failing_at_last_look = 3;
        let fresh = tracking(2, 1);
        assert_eq!(first(&[exhausted.clone(), fresh]), Some(CampaignId(2)));
        assert_eq!(first(&[exhausted]), Some(CampaignId(1)));
    }
}
