//! The tests of this crate from outside, in one binary: linking is what costs.

mod private_files;
mod sandbox;
