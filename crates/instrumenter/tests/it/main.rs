//! The tests of this crate from outside, in one binary: linking is what costs.

mod branch_outcomes;
mod call_values;
mod clones;
mod clones_exact;
mod common;
mod fatigue;
mod hosts;
mod merged;
mod placement;
mod plan_hooks;
mod switching;
mod updates;
