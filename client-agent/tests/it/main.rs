//! The tests of this crate from outside, in one binary: linking is what costs.

mod capture;
mod common;
mod container;
mod delivery;
mod doctor;
mod packaging;
mod patches;
mod run;
mod watchpoints;
