//! What a trace does not tell, and why.
//!
//! Loss is data: a reader who sees no gap between two blocks may conclude that
//! nothing ran in between, so everything that breaks this is an item of its own.

use sketch_model::RuntimeAddress;
use thiserror::Error;

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

/// Why a stretch of trace yielded nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GapReason {
    #[error("the bytes precede the first synchronisation point")]
    NoSync,
    #[error("the processor dropped packets because its buffer was full")]
    Overflow,
    #[error("the bytes are no known packet")]
    BadPacket,
    #[error("the trace ends within a packet")]
    Truncated,
    #[error("the trace ends while tracing was on, so how far execution went is not known")]
    EndsWhileTracing,
    #[error("no code is known at {at}; add the file that was mapped there to the image")]
    NoCode { at: RuntimeAddress },
    #[error("trace and code disagree ({0}); the image may not be what ran")]
    Contradiction(&'static str),
    #[error("the code runs on from {from} without a branch that the trace could confirm")]
    Endless { from: RuntimeAddress },
    #[error("libipt failed: {0}")]
    Decoder(&'static str),
}
