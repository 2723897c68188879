//! The traced runs of P that a campaign keeps.
//!
//! A run of P with Intel PT tells of branches without any tracked build. Such
//! runs are no part of an iteration: P does not change when σ does. What their
//! traces said is kept as blobs, so that it is decoded once and is still there
//! after a restart; the campaign holds the list.
//!
//! Bounded: a machine may report thousands of traced runs a day, and the first
//! few hundred say what there is to say.

use crate::evidence::decoded_run::{nobody, weight_of};
use serde::{Deserialize, Serialize};
use sketch_model::{
    AgentId, BlobId, Capabilities, Gap, Outcome, PointKind, Privacy, RunId, RunRecord, SiteId,
    TracedRun, TrackingPlan,
};

const MOST_FAILING: usize = 64;
const MOST_SUCCESSFUL: usize = 512;

/// What is kept of one traced run, as a blob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredTrace {
    pub run: RunId,
    #[serde(default = "nobody")]
    pub agent: AgentId,
    pub failed: bool,
    pub weight: f64,
    pub failing_tid: Option<i32>,
    #[serde(rename = "tier")]
    pub capabilities: Capabilities,
    pub privacy: Privacy,
    /// What was lost before the trace was read.
    pub gaps: Vec<Gap>,
    pub traced: TracedRun,
}

impl StoredTrace {
    pub fn new(record: &RunRecord, traced: TracedRun) -> StoredTrace {
        let failing = match &record.outcome {
            Outcome::Failure(report) => report.threads.first(),
            Outcome::Success => None,
        };
        StoredTrace {
            run: record.id.clone(),
            agent: record.agent.clone(),
            failed: record.failed(),
            weight: weight_of(record),
            failing_tid: failing.map(|thread| thread.tid),
            capabilities: record.capabilities.clone(),
            privacy: record.privacy,
            gaps: record.gaps.clone(),
            traced,
        }
    }
}

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptTrace {
    pub run: RunId,
    pub failed: bool,
    pub blob: BlobId,
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TracedRuns {
    kept: Vec<KeptTrace>,
    /// Runs beyond the bound.
    left_out: u64,
}

impl TracedRuns {
    /// Adds a run; `false` if there are enough of its kind, or it is there already.
    pub fn keep(&mut self, trace: KeptTrace) -> bool {
        if self.kept.iter().any(|it| it.run == trace.run) {
            return false;
        }
        let (most, same) = match trace.failed {
            true => (MOST_FAILING, self.failing()),
            false => (MOST_SUCCESSFUL, self.successful()),
        };
        if same as usize >= most {
            self.left_out += 1;
            return false;
        }
        self.kept.push(trace);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &KeptTrace> {
        self.kept.iter()
    }

    pub fn failing(&self) -> u64 {
        self.kept.iter().filter(|it| it.failed).count() as u64
    }

    pub fn successful(&self) -> u64 {
        self.kept.len() as u64 - self.failing()
    }

    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The plan that runs of P are read with: the branches of `whole` and nothing
/// that would need a hook.
pub fn traced_plan(whole: TrackingPlan) -> TrackingPlan {
    let mut plan = TrackingPlan {
        wants: Capabilities::intel_pt(),
        implied: Vec::new(),
        watched: Vec::new(),
        unwatched: Vec::new(),
        ..whole
    };
    plan.sites.retain(|site| site.kind == PointKind::Branch);
    for (number, site) in (0..).zip(&mut plan.sites) {
        site.id = SiteId(number);
    }
    plan
}
