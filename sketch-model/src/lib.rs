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

mod assignments;
mod campaign;
mod failure;
mod ids;
mod patch;
mod plan;
mod plan_text;
mod predictor;
mod printable;
mod pt;
mod run;
mod schema;
mod sketch;
mod slice;
mod source;
mod trace;
mod tracking;

pub use assignments::*;
pub use campaign::*;
pub use failure::*;
pub use ids::*;
pub use patch::*;
pub use plan::*;
pub use plan_text::*;
pub use predictor::*;
pub use printable::*;
pub use pt::*;
pub use run::*;
pub use schema::*;
pub use sketch::*;
pub use slice::*;
pub use source::*;
pub use trace::*;
pub use tracking::*;
