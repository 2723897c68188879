//! From a ranking and one failing run to the failure sketch.

pub(crate) mod abort_message;
pub mod builder;
pub(crate) mod condition;
pub(crate) mod earlier_writes;
pub mod explanation;
pub mod sentences;
pub mod steps;
pub mod values;
