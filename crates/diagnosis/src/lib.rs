//! The pure core of the server: run records in, ranked predictors and a failure
//! sketch out.
//!
//! ```text
//! RunRecord ─decode─► DecodedRun ─observe─► Observations ─add─► Population ─rank─► Ranking ─build─► FailureSketch
//!                         └──────────────────────── the drawn failing run ───────────────────────────────▲
//! ```
//!
//! [`campaign`] decides what follows from it: whether σ doubles, whether the diagnosis is
//! settled, what a developer's steering does.
//!
//! Everything here takes values and returns values: no IO, no clock, no global
//! state. What only files can tell (code bytes, debug info) comes in as a value, a
//! [`formats::address_map::AddressMap`].
//!
//! Nothing here panics on what a record contains: records come from machines
//! that we do not control. Work on one record is bounded (see
//! [`shared_location::MAX_ACCESSES`]).

pub mod campaign;
pub mod evidence;
pub mod predictors;
pub mod ranking;
pub mod sketch;

pub use evidence::decoded_run::{DecodedRun, RunThread, weight_of};
pub use evidence::executed::{Proof, executed};
pub use evidence::intel_pt::{TracedInput, add_trace, of_trace};
pub use evidence::trace::decode;
pub use predictors::{Answer, Hooks, Observations, observe, observe_hooked};
pub use ranking::population::Population;
pub use ranking::stop_rule::{IterationResult, Power, best_overall, power, promising, settled};
pub use ranking::{Nearness, rank};
pub use sketch::builder::{FailureWords, SketchInputs, build};
pub use sketch::explanation::{causes, explanation};
