//! The tests of this crate from outside, in one binary: linking is what costs.

mod annotated;
mod bad_input;
mod common;
mod criteria;
mod plan_variants;
mod plans;
mod roles;
mod stored;
