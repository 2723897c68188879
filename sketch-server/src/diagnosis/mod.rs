//! The pure core of the server: run records in, ranked predictors and a failure
//! sketch out.
//!
//! ```text
//! RunRecord ─decode─► DecodedRun ─observe─► Observations ─add─► Population ─rank─► Ranking ─build─► FailureSketch
//!                         └──────────────────────── the drawn failing run ───────────────────────────────▲
//! ```
//!
//! Everything here takes values and returns values: no IO, no clock, no global
//! state. What only files can tell (code bytes, debug info) comes in through
//! [`CodeMap`], three plain lookups that the service half implements.
//!
//! Nothing here panics on what a record contains: records come from machines
//! that we do not control. Work on one record is bounded (see
//! [`shared_location::MAX_ACCESSES`]).

pub mod attribution;
mod call_values;
pub mod decoded_run;
pub mod executed;
pub mod explanation;
pub mod hits;
pub mod instruction;
pub mod order;
mod origins;
mod picture;
pub mod population;
pub mod predictors;
pub mod ranking;
pub mod roles;
mod run_sets;
mod said;
pub mod sentences;
pub mod shared_location;
pub mod sketch_builder;
pub mod sketch_values;
pub mod statistics;
pub mod steps;
pub mod stop_rule;
pub mod tally;
pub mod thinned;
pub mod trace;
pub mod traced;
pub mod value_evidence;
pub mod votes;
mod withheld;

pub use attribution::{CodeMap, FunctionCode};
pub use decoded_run::{DecodedRun, RunThread, weight_of};
pub use executed::{Proof, executed};
pub use explanation::{causes, explanation};
pub use picture::same_picture;
pub use population::Population;
pub use predictors::{Answer, Hooks, Observations, observe, observe_hooked};
pub use ranking::{Nearness, rank, rank_apart};
pub use sketch_builder::{FailureWords, SketchInputs, build};
pub use stop_rule::{IterationResult, Power, best_overall, power, promising, settled};
pub use trace::decode;
pub use traced::{TracedInput, add_trace, of_trace};
