//! The failure sketch: what an engineer reads. Everything needed to draw it is in it.

use crate::{
    BuildId, CampaignId, Capabilities, Gap, LocationName, Predictor, PredictorClass, RunId, Schema,
    Score, SourceLocation, Statement, ThreadIndex,
};
use serde::{Deserialize, Serialize};

/// A thread of the sketch: a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SketchThread {
    pub index: ThreadIndex,
    /// Its start routine, by name: "main", "consumer".
    pub role: String,
    pub tid: i32,
    /// Where threads with this start routine are created, as far as the slice knows.
    #[serde(default)]
    pub created_at: Vec<SourceLocation>,
}

/// How much a step matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emphasis {
    /// The statement that failed.
    Failing,
    /// Named by the best predictor of a class.
    RootCause,
    /// Leads up to them.
    Context,
}

/// A value beside a statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SketchValue {
    /// What it is the value of: "queue.mut".
    pub of: String,
    /// "NULL", "0x7f3a…", "3".
    pub shown: String,
    pub exact: bool,
    pub written: bool,
}

/// One statement execution of the failing run that is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SketchStep {
    /// From 1, downward in time.
    pub number: u32,
    pub thread: ThreadIndex,
    pub statement: Statement,
    pub values: Vec<SketchValue>,
    pub emphasis: Emphasis,
    /// How often the thread ran it; the step shows the last time.
    pub times: u64,
    /// Steps of other threads for which no evidence orders them against this one.
    pub unordered_with: Vec<u32>,
    /// Found by a watchpoint, not by the static slice.
    pub discovered: bool,
    /// In the slice but not recorded in the drawn run (never tracked, or optimised away).
    pub static_only: bool,
}

/// An arrow between two steps: the order that separates failing from successful runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderArrow {
    pub from_step: u32,
    pub to_step: u32,
    /// Position in [`FailureSketch::predictors`].
    pub predictor: u32,
}

/// A predictor as a reader meets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SketchPredictor {
    pub class: PredictorClass,
    pub predictor: Predictor,
    /// The difference in one sentence, with its counts.
    pub sentence: String,
    pub score: Score,
    /// The best of its class.
    pub best: bool,
    /// How many others held in exactly the same runs.
    pub same_runs: u32,
}

/// Where the figures come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Runs of the tracked build that the ranking rests on.
    pub failing_runs: u64,
    pub successful_runs: u64,
    /// All runs of the campaign's program so far, tracked or not, and how many failed.
    pub all_runs: u64,
    pub all_failures: u64,
    pub sigma: u32,
    pub iteration: u32,
    /// Statements in the whole static slice.
    pub slice_statements: u32,
    pub predictors_tested: u64,
    pub looks: u64,
    /// "inline branch recorder" or "Intel PT"
    pub control_flow: String,
    /// What the machine of the drawn run offers.
    #[serde(rename = "tier")]
    pub capabilities: Capabilities,
    pub privacy: String,
    /// The failing run that is drawn; `None` before one was tracked.
    pub drawn_run: Option<RunId>,
    /// Failure rates of P and of this tracked build: does probing change what we measure?
    pub untracked_failure_rate: Option<f64>,
    pub tracked_failure_rate: Option<f64>,
    /// The mean share of time in which recording was on, over the tracked runs;
    /// `None` before there were any. Overhead is to be read beside it.
    #[serde(default)]
    pub coverage: Option<f64>,
    /// Tracked runs in which the governor paused recording.
    #[serde(default)]
    pub paused_runs: u64,
    /// Locations that a watchpoint follows in the tracked runs.
    #[serde(default)]
    pub watched: Vec<LocationName>,
    /// Locations that watchpoints have handed over to hooks.
    #[serde(default)]
    pub promoted: Vec<LocationName>,
}

/// The failure sketch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureSketch {
    #[serde(default)]
    pub schema: Schema,
    pub campaign: CampaignId,
    pub version: u32,
    pub build: BuildId,
    /// The program's file name.
    pub program: String,
    /// "SIGSEGV in consumer (pbzip2.c:120)"
    pub title: String,
    /// The one-sentence answer, or what is still missing for one.
    pub summary: String,
    /// What the program said when it aborted, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// Whether the diagnosis has ended.
    pub settled: bool,
    /// The failing stack, innermost first, as "function (file:line)".
    pub stack: Vec<String>,
    pub threads: Vec<SketchThread>,
    pub steps: Vec<SketchStep>,
    pub arrows: Vec<OrderArrow>,
    /// Best first within each class.
    pub predictors: Vec<SketchPredictor>,
    pub provenance: Provenance,
    /// What was lost, refused or not followed on the way.
    pub gaps: Vec<Gap>,
}
