//! The tests of this crate from outside, in one binary: linking is what costs.

mod damaged_bitcode;
mod hostile_register;
mod import;
mod plan;
mod register;
mod relink;
mod server_commands;
mod slice;
mod support;
mod terminal_names;
mod traced_runs;
mod wrapper;
