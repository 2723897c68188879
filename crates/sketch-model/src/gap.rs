//! What was lost, refused or left out: a value with its numbers.
//!
//! Every part of the flow adds its losses to a list of [`Gap`]s, which travels with the record,
//! the decoded run, the slice and the sketch up to the reader. A gap is a kind and numbers, so
//! that two of one kind can be added up and a loss that is reported twice is found by its value. The
//! sentences are written in one place, `gap_words.rs`; nothing else may word a loss.
//!
//! `because: String` holds the sentence of an error type (`AgentError`, `PtRefusal`, …): those
//! have one place for their words already, and nobody has to decide by their contents.
//!
//! On the wire a gap is an object, `{"kind":"hits_lost","lost":3,"counted":10}`. Records, sketches
//! and blobs of earlier releases have a sentence instead: a string reads as [`Gap::Words`], and
//! that is written as a string again. A server of an earlier release refuses objects, so servers
//! are upgraded before agents (`docs/server.md`).

use crate::gap_causes::*;
use crate::{LocationName, StatementId, ThreadIndex};
use serde::de::{Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Serialize, Serializer};

/// One loss. Fields named `count` add up, see [`Gap::add_to`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", remote = "Self")]
pub enum Gap {
    // Watchpoints.
    /// By the difference between the events' counters and the hits that came.
    HitsLost {
        lost: u64,
        counted: u64,
    },
    HitsLostInRing {
        count: u64,
    },
    HitsUnreadable {
        count: u64,
    },
    HitsWithoutSlot {
        count: u64,
    },
    HitsOfChildren {
        count: u64,
    },
    /// The agent's memory for hits was full.
    HitsBeyondMemory {
        kept_bytes: u64,
    },
    /// A record holds the first and the last hits, `kept` of each.
    HitsTrimmed {
        count: u64,
        kept: u64,
    },
    HitsWithheld {
        count: u64,
    },
    /// No clock says when they were.
    HitsWithoutTime {
        count: u64,
    },
    HitsUnattributed {
        count: u64,
    },
    /// They may be of several statements.
    HitsAmbiguous {
        count: u64,
    },
    WatchpointPaused {
        count: u64,
    },
    WatchpointIdUnread {
        count: u64,
        errno: i32,
    },
    WatchpointCounterUnread {
        count: u64,
        errno: i32,
    },
    AimsSkipped {
        count: u64,
        because: AimObstacle,
    },
    WatchingEndedByHits {
        hits: u64,
    },
    WatchingEndedBySwitches {
        switches: u64,
    },
    NoWatchpoints {
        because: WatchRefusal,
    },
    /// Plans had no slot for these.
    NoWatchpointFree {
        locations: Vec<LocationName>,
    },
    /// Not in any plan.
    LocationsNotWatched {
        locations: Vec<LocationName>,
    },
    /// The campaign watches no more.
    WatchingGivenUp,

    // What threads recorded.
    ThreadsNotRecorded {
        count: u64,
        because: ThreadLoss,
    },
    EventsUnfinished {
        tid: i32,
        count: u64,
    },
    EventsLost {
        tid: i32,
        count: u64,
    },
    EventsWithoutHook {
        count: u64,
    },
    /// What became of the memory is not known.
    LifetimesNotObserved {
        because: LifetimeObstacle,
    },
    /// Free still, and beyond what is kept.
    FreedBlocksForgotten {
        count: u64,
    },
    /// Accesses that are so frequent that only some are kept.
    AccessesThinned,
    ThreadRecordedTwice {
        thread: ThreadIndex,
    },
    /// The program disabled the time-stamp counter for itself (`PR_SET_TSC`, strict seccomp).
    CounterForbidden,
    ThreadIdsUnknown,
    RuntimeNotActive,
    RecordsUnreadable {
        because: String,
    },
    RecordingPaused {
        times: u64,
        /// The share of processor time that recording may cost, in millionths.
        limit_ppm: u64,
        /// How much of the run was recorded, in thousandths.
        on_permille: u64,
    },

    // Crashes, hangs and other ends.
    MappingsCut {
        when: MappingsOf,
        bytes: u64,
    },
    /// Only so many mappings of a process were looked at.
    MappingsNotLookedAt {
        most: u64,
    },
    CrashCaptureUnfinished,
    CrashCapturedInSandbox,
    /// The program's handler ran after the first signal.
    OnlyFirstSignalCaptured,
    NoStack {
        because: StackObstacle,
    },
    CutShort {
        signal: String,
    },
    WentOnAfterSignal {
        signal: String,
    },
    HangGoesOn,
    ThreadsNotCaptured {
        captured: u64,
        all: u64,
    },
    ThreadNotCaptured {
        tid: i32,
        because: String,
    },
    AbortMessageWithheld,
    CheckerFailed {
        because: CheckerFailure,
    },

    // What was not run, not recorded or not sent.
    /// The agent itself failed at something beside the program.
    AgentDefect {
        /// Completes "while …".
        doing: String,
        message: String,
    },
    RunNotRecorded {
        because: String,
    },
    NothingPreloaded {
        because: PreloadObstacle,
    },
    NamedPatchRefused {
        because: String,
    },
    TrackedBuildRefused {
        because: String,
    },
    TrackedBuildNotExecuted {
        because: String,
    },
    TrackedBuildWithdrawn {
        because: Withdrawal,
    },
    TrackedBuildTooCostly {
        /// What a run costs more than it may.
        excess_ns: u64,
        limit_ppm: u64,
    },
    LeftOut {
        part: RecordPart,
        bytes: u64,
        most: u64,
    },

    // Intel PT.
    TraceRefused {
        because: String,
    },
    TraceReaderFailed,
    /// Libraries are traced as well.
    TraceNotLimited {
        because: String,
    },
    TraceReadWhileWritten {
        cpu: u32,
        errno: i32,
    },
    SidebandLost {
        count: u64,
    },
    SidebandUnreadable {
        count: u64,
    },
    SwitchesNotKept {
        count: u64,
    },
    MappingsNotKept {
        count: u64,
    },
    PerfRecordsLost {
        count: u64,
    },
    TraceBufferFull {
        count: u64,
    },
    TraceOverwritten {
        count: u64,
    },
    TraceHoles {
        count: u64,
    },
    TraceDamaged {
        tid: i32,
        reason: TraceGapReason,
        count: u64,
    },
    /// Stretches that may be of this thread or of another.
    TraceDoubtful {
        tid: i32,
        count: u64,
    },
    TraceUnassigned {
        count: u64,
    },
    ThreadTraceIncomplete {
        tid: i32,
    },
    TraceWithoutProgram,
    TraceNotDecoded {
        because: String,
    },
    TraceMissing,
    CodeUnknown {
        path: String,
    },
    PerfFileCut,
    ProcessorUnknown,
    ClockUnknown,
    ImportedFromPerf,
    FailurePlaceFromTrace,

    // The slice.
    ModuleWithoutDebugInfo {
        module: String,
    },
    RoutineUnknown {
        function: String,
        routine: UnknownRoutine,
    },
    StatementNotInBuild {
        statement: StatementId,
        statements: u64,
    },
    /// Only the nearest statements were looked for.
    SliceCut {
        statements: u64,
    },
    PointsToOverBudget,
    LoadsUnresolved {
        count: u64,
    },
    AssemblyOpaque {
        count: u64,
    },

    // The diagnosis and its drawing.
    TracedRunsNotKept {
        count: u64,
    },
    PlansCountedApart {
        plans: Vec<PlanCounts>,
    },
    StatementsNeverRan {
        idle: u64,
        tracked: u64,
    },
    FailedOtherwise {
        count: u64,
    },
    StatementsNotShown {
        count: u64,
    },
    ThreadsNotDrawn {
        count: u64,
    },

    /// The sentence of an earlier release. Shown as it is; nothing is decided by it.
    #[serde(skip)]
    Words(String),
}

impl Gap {
    /// Adds this loss to those of the same kind, or to the list; a count of zero is none. For
    /// losses that are different ones of one kind; the same loss reported twice is found by `==`.
    pub fn add_to(mut self, gaps: &mut Vec<Gap>) {
        if self.count_mut().is_some_and(|count| *count == 0) {
            return;
        }
        for known in gaps.iter_mut() {
            if known.take_in(&mut self) {
                return;
            }
        }
        gaps.push(self);
    }

    fn take_in(&mut self, other: &mut Gap) -> bool {
        let (mine, theirs) = (self.clone().counted(0), other.clone().counted(0));
        if mine != theirs {
            return false;
        }
        match (self.count_mut(), other.count_mut()) {
            (Some(mine), Some(theirs)) => {
                *mine = mine.saturating_add(*theirs);
                true
            }
            // Without a count, equal is the same.
            _ => true,
        }
    }

    fn counted(mut self, count: u64) -> Gap {
        if let Some(mine) = self.count_mut() {
            *mine = count;
        }
        self
    }

    /// How many were lost, where that adds up.
    fn count_mut(&mut self) -> Option<&mut u64> {
        use Gap::*;
        match self {
            HitsLostInRing { count }
            | HitsUnreadable { count }
            | HitsWithoutSlot { count }
            | HitsOfChildren { count }
            | HitsTrimmed { count, .. }
            | HitsWithheld { count }
            | FreedBlocksForgotten { count }
            | HitsWithoutTime { count }
            | HitsUnattributed { count }
            | HitsAmbiguous { count }
            | WatchpointPaused { count }
            | WatchpointIdUnread { count, .. }
            | WatchpointCounterUnread { count, .. }
            | AimsSkipped { count, .. }
            | ThreadsNotRecorded { count, .. }
            | EventsUnfinished { count, .. }
            | EventsLost { count, .. }
            | EventsWithoutHook { count }
            | SidebandLost { count }
            | SidebandUnreadable { count }
            | SwitchesNotKept { count }
            | MappingsNotKept { count }
            | PerfRecordsLost { count }
            | TraceBufferFull { count }
            | TraceOverwritten { count }
            | TraceHoles { count }
            | TraceDamaged { count, .. }
            | TraceDoubtful { count, .. }
            | TraceUnassigned { count }
            | LoadsUnresolved { count }
            | AssemblyOpaque { count }
            | TracedRunsNotKept { count }
            | FailedOtherwise { count }
            | StatementsNotShown { count }
            | ThreadsNotDrawn { count } => Some(count),
            _ => None,
        }
    }

    /// The gap with its figures at zero: counts, sizes, and what is another in every run
    /// (threads, addresses). Two that differ in figures alone tell a reader the same.
    pub fn without_figures(&self) -> Gap {
        use Gap::*;
        let mut gap = self.clone().counted(0);
        match &mut gap {
            EventsUnfinished { tid, .. }
            | EventsLost { tid, .. }
            | ThreadNotCaptured { tid, .. }
            | TraceDoubtful { tid, .. }
            | ThreadTraceIncomplete { tid } => *tid = 0,
            TraceDamaged { tid, reason, .. } => {
                *tid = 0;
                match reason {
                    TraceGapReason::NoCode { at } | TraceGapReason::Endless { from: at } => {
                        at.0 = 0;
                    }
                    _ => {}
                }
            }
            HitsLost { lost, counted } => (*lost, *counted) = (0, 0),
            ThreadsNotCaptured { captured, all } => (*captured, *all) = (0, 0),
            StatementsNeverRan { idle, tracked } => (*idle, *tracked) = (0, 0),
            LeftOut { bytes, most, .. } => (*bytes, *most) = (0, 0),
            WatchingEndedByHits { hits: n }
            | WatchingEndedBySwitches { switches: n }
            | TrackedBuildTooCostly { excess_ns: n, .. }
            | StatementNotInBuild { statements: n, .. } => *n = 0,
            RecordingPaused {
                times,
                limit_ppm,
                on_permille,
            } => (*times, *limit_ppm, *on_permille) = (0, 0, 0),
            PlansCountedApart { plans } => {
                for plan in plans {
                    (plan.failed, plan.runs) = (0, 0);
                }
            }
            _ => {}
        }
        gap
    }
}

/// A value that earlier releases wrote as a sentence: a string reads as `Words`, anything else
/// as the type's own derived form.
macro_rules! reads_earlier_words {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    $name::Words(words) => to.serialize_str(words),
                    _ => $name::serialize(self, to),
                }
            }
        }

        impl<'d> Deserialize<'d> for $name {
            fn deserialize<D: Deserializer<'d>>(from: D) -> Result<$name, D::Error> {
                struct Either;
                impl<'d> Visitor<'d> for Either {
                    type Value = $name;
                    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        to.write_str("an object with a kind, or a sentence")
                    }
                    fn visit_str<E>(self, words: &str) -> Result<$name, E> {
                        Ok($name::Words(words.to_owned()))
                    }
                    fn visit_map<A: MapAccess<'d>>(self, map: A) -> Result<$name, A::Error> {
                        $name::deserialize(MapAccessDeserializer::new(map))
                    }
                }
                from.deserialize_any(Either)
            }
        }
    };
}
reads_earlier_words!(Gap);
reads_earlier_words!(WatchRefusal);
reads_earlier_words!(Withdrawal);

#[cfg(test)]
#[path = "gap_tests.rs"]
mod tests;
