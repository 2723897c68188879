//! LLVM bitcode to backward slices and tracking plans.
//!
//! The flow: [`Program::load`] reads bitcode into plain data (`llvm`,
//! `debug_info`, `load` and its parts: the only files that touch LLVM), indexes
//! what may store where (`places`, `walking`, `index`) and who calls whom (`calls`, with
//! `pointers` for called pointers, `classes` for virtual calls, `library` for
//! threads, handlers and callbacks, `roles` for who runs what), and from then on
//! everything is a pure function over that data: dependences of one instruction
//! (`dependences`, with `contents` for memory, `crossing` for calls, `carried`
//! for what libraries carry, `control`, `reaching`), a shortest-path walk over
//! them (`graph`, `walk`), the slice in statements (`slice`), and the plan: its
//! points (`plan`, `branch_points`, `order_points`), what needs no hook
//! (`implied`, by `dominance`; `hot_buffers`), what is watched where
//! (`watch_split`), all of it behind one entry (`planner/iteration.rs`), and what a trace can tell of branches (`branch_sides`). Where a
//! slice begins is decided by `criteria`; how pointers are told apart by `alias`,
//! with `points_to` over its solver (`andersen`) where field names do not do.
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
pub use slice::criteria::{Criterion, FailureShape, condition_frame, criteria};
pub use slice::{backward_slice, entry_for, slice_from};
pub use stored::GraphError;
