//! What a trace does not tell, and why.
//!
//! Loss is data: a reader who sees no gap between two blocks may conclude that
//! nothing ran in between, so everything that breaks this is an item of its own.

pub use sketch_model::TraceGapReason as GapReason;

/// A stretch of trace that yielded nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceGap {
    /// Where in the trace knowledge ends.
    pub offset: u64,
    /// Where in the trace knowledge begins again; `None` if it does not.
    pub resumes: Option<u64>,
    pub reason: GapReason,
}

impl TraceGap {
    pub(crate) fn to_the_end(offset: u64, reason: GapReason) -> Self {
        Self {
            offset,
            resumes: None,
            reason,
        }
    }

    /// `None` if knowledge begins where it ended. A broken packet may have
    /// swallowed the beginning of the PSB: the gap then begins with the PSB.
    pub(crate) fn between(offset: u64, resumes: Option<u64>, reason: GapReason) -> Option<Self> {
        let gap = Self {
            offset: resumes.map_or(offset, |at| at.min(offset)),
            resumes,
            reason,
        };
        (gap.reason != GapReason::NoSync || gap.resumes != Some(0)).then_some(gap)
    }
}
