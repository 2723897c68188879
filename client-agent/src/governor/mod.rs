//! The governor: tracking costs at most the share of processor time that the
//! operator allows, and whoever reads the record knows when it was off.
//!
//! It is the agent's because of who can turn recording on again. With the switch
//! off, no code of ours runs in the program; a timer signal or a thread of our
//! own there would be seen by the program and break some. The agent stands
//! outside, shares one page with the process, sees watchpoint hits (which only
//! the kernel sees inside) and holds the watchpoints' descriptors. What must
//! react within microseconds is inside: hooks pay out of the account in the
//! shared page and turn themselves off when it is empty
//! (`crates/inprocess/recorder/src/governor.rs`).
//!
//! [`policy`] decides within a run and [`steward`] looks and acts, also at
//! [`switches`] between threads; [`ledger`] decides from run to run.

pub mod context_switches;
pub mod ledger;
pub mod run_governor;
pub mod token_bucket;
