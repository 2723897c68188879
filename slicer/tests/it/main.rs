//! The tests of this crate from outside, in one binary: linking is what costs.

mod annotated;
mod bad_input;
mod common;
mod criteria;
mod iteration_plans;
mod plans;
mod roles;
mod stored;
