//! The tests of this crate from outside, in one binary: linking is what costs.

mod browser;
mod changes;
mod common;
mod exports;
mod pages;
mod terminal;
