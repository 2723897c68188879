//! A decoded run: the trace, and what must be known beside it to judge it.
//!
//! [`ExecutionTrace`] says what happened. To say what did *not* happen one must
//! also know where the record has holes, whether the watchpoints saw all they
//! could, and how much the run weighs. These stand here, next to the trace,
//! because they are about the recording and not about the program.

use super::freed::FreedMemory;
use super::hot_accesses::END;
use serde::{Deserialize, Serialize};
use sketch_model::{
    AgentId, ExecutionTrace, Interval, LocationName, RunRecord, SeenShapes, SiteId, Source,
    StatementId, ThreadIndex, TrackingPlan,
};
use std::collections::BTreeSet;

/// No run counts for more than this many: an agent that claims to report one
/// run in a billion must not outvote the fleet.
const MAX_WEIGHT: f64 = 1e4;

/// A thread of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunThread {
    pub index: ThreadIndex,
    pub tid: i32,
}

/// Events of this thread were lost just before its event `before` (or at its
/// end, if it has no such event).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hole {
    pub thread: ThreadIndex,
    pub before: u32,
}

/// What the watchpoints of the run can be trusted with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchCoverage {
    /// Locations that were watched and of which no hit was lost or left without
    /// a statement.
    pub complete: BTreeSet<LocationName>,
}

/// An access that a thread made too often: the first ones and the last are events
/// of the trace, those between are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinnedAccess {
    pub thread: ThreadIndex,
    pub site: SiteId,
    pub statement: StatementId,
    pub column: u32,
    pub location: LocationName,
    pub writes: bool,
    /// When those happened that are not events.
    pub lost: Interval,
    /// What the values of all of them looked like.
    pub shapes: SeenShapes,
}

impl ThinnedAccess {
    /// Some may have come after the last event of it.
    pub fn goes_on(&self) -> bool {
        self.lost.latest == END
    }

    /// Whether one that is not an event can have happened at a time in the interval.
    pub fn may_meet(&self, when: Interval) -> bool {
        self.lost.earliest <= when.latest && when.earliest <= self.lost.latest
    }
}

/// Which ways branches went, whatever became of the events that tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    pub ways: BTreeSet<(SiteId, u32)>,
    /// A way that is not among them was not taken.
    pub complete: bool,
}

/// One run, ready to be observed and drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecodedRun {
    pub trace: ExecutionTrace,
    /// Who reported it.
    #[serde(default = "nobody")]
    pub agent: AgentId,
    /// How many runs this one stands for: one over the probability with which
    /// it was reported.
    pub weight: f64,
    /// Every thread of which anything is known, by index.
    pub threads: Vec<RunThread>,
    /// The thread that failed.
    pub failing_thread: Option<ThreadIndex>,
    pub holes: Vec<Hole>,
    /// Whole threads, events that no site explains, or what happened while
    /// recording was paused, are missing.
    #[serde(default)]
    pub missing: bool,
    #[serde(default)]
    pub passed: Passed,
    #[serde(default)]
    pub thinned: Vec<ThinnedAccess>,
    /// Sites of calls that were made more often than there are events of them.
    #[serde(default)]
    pub unseen_calls: BTreeSet<SiteId>,
    pub watch: WatchCoverage,
    /// Freed memory that the run touched; `None` if lifetimes were not observed.
    #[serde(default)]
    pub freed: Option<Vec<FreedMemory>>,
    /// The processor's own trace tells of statements and branches.
    #[serde(default)]
    pub by_trace: bool,
    /// How often threads ran statements of which the trace keeps one event.
    #[serde(default)]
    pub counted: Vec<(ThreadIndex, StatementId, u64)>,
}

impl DecodedRun {
    /// Statements that a watchpoint found and that the plan does not track: the
    /// next plan should.
    pub fn discovered(&self, plan: &TrackingPlan) -> BTreeSet<StatementId> {
        self.trace
            .events
            .iter()
            .filter(|e| e.source == Source::Watchpoint)
            .filter_map(|e| e.statement())
            .filter(|s| !plan.tracks(*s))
            .collect()
    }
}

/// Who reported runs that were kept before their agents were.
pub fn nobody() -> AgentId {
    AgentId(String::new())
}

/// The weight of a run by its record. A probability that is none weighs as 1.
pub fn weight_of(record: &RunRecord) -> f64 {
    let p = record.sampling_probability;
    if p.is_finite() && p > 0.0 && p <= 1.0 {
        (1.0 / p).min(MAX_WEIGHT)
    } else {
        1.0
    }
}
