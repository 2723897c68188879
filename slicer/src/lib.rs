//! LLVM bitcode to backward slices and tracking plans.
//!
//! The flow: [`Program::load`] reads bitcode into plain data (`load`: the only files that
//! touch LLVM), indexes what may store where (`memory`) and who calls whom (`calls`), and
//! from then on everything is a pure function over that data: dependences of one
//! instruction (`dependences`, with `memory/contents.rs` for memory, `call_flow` for calls,
//! `library_flow` for what libraries carry, `control`, `waits` and `partners` for other
//! threads), kept as one graph (`dependences/graph.rs`); the walk over it (`slice`: what an
//! edge costs in `order`, who called in `contexts`, where it begins in `criteria`); and the
//! plans of an iteration, all behind one entry (`planner/iteration.rs`). How pointers are
//! told apart is said by `memory/alias.rs`, with `points_to` where field names do not do.
//! `stored` writes it all down and reads it back.
//!
//! Deliberately absent: files, clocks, global state. Bytes and source text come
//! in as arguments; the build store and the server own the IO.

#![cfg_attr(
    not(feature = "llvm"),
    allow(dead_code, reason = "what makes a program out of bitcode")
)]

#[cfg(test)]
extern crate self as slicer;

mod calls;
mod dependences;
mod ir;
#[cfg(feature = "llvm")]
mod load;
mod memory;
mod planner;
#[cfg(test)]
mod properties;
mod slice;
mod stored;

pub use ir::error::SlicerError;
pub use ir::program::{Program, StatementInfo};
#[cfg(feature = "llvm")]
pub use load::{Loader, ModuleInput};
pub use memory::alias::{Alias, UnknownAlias};
pub use planner::branch_facts::{BranchSides, CodePlace};
pub use planner::fleet::Fleet;
pub use planner::iteration::{Iteration, PlanRequest, plan_iteration};
pub use planner::plan::plan;
pub use slice::criteria::{Criterion, FailureShape, criteria, failing_frame};
pub use slice::{Extent, backward_slice, entry_for, slice_from};
pub use stored::GraphError;
