//! The shared words of Failsketch.
//!
//! Every arrow of the flow (see ARCHITECTURE.md) takes one of these values and
//! returns another: a crash becomes a [`FailureReport`], that a [`Slice`], that
//! a [`TrackingPlan`], and so on to the [`FailureSketch`]. Keeping them in one
//! crate without IO, clock or global state is what lets the rooms be tested
//! apart from each other.
//!
//! Deliberately absent: behaviour. Whatever needs LLVM, a file or the network
//! lives in the room that needs it.

mod api;
mod capabilities;
mod execution;
mod failure;
mod gap;
mod gap_cause_words;
mod gap_causes;
mod gap_words;
mod ids;
mod intel_pt;
mod patch;
mod plan;
mod predictor;
mod printable;
mod record;
mod schema;
mod sketch;
mod slice;
mod source;
mod trace;

pub use api::assignments::*;
pub use api::campaigns::*;
pub use capabilities::*;
pub use execution::*;
pub use failure::*;
pub use gap::*;
pub use gap_causes::*;
pub use ids::*;
pub use intel_pt::*;
pub use patch::*;
pub use plan::text::*;
pub use plan::*;
pub use predictor::*;
pub use printable::*;
pub use record::freed::*;
pub use record::run::*;
pub use record::tracking::*;
pub use schema::*;
pub use sketch::*;
pub use slice::*;
pub use source::*;
pub use trace::*;
