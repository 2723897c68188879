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
//! (`implied`, by `dominance`; `bulk`), what is watched where (`plan_variants`),
//! and what a trace can tell of branches (`branch_sides`). Where a
//! slice begins is decided by `criteria`; how pointers are told apart by `alias`,
//! with `points_to` over its solver (`andersen`) where field names do not do.
//! `stored` writes it all down and reads it back.
//!
//! Deliberately absent: files, clocks, global state. Bytes and source text come
//! in as arguments; the build store and the server own the IO.

#[cfg(test)]
extern crate self as slicer;

mod alias;
mod andersen;
mod branch_points;
mod branch_sides;
mod bulk;
mod by_caller;
mod calls;
mod carried;
mod classes;
mod contents;
mod control;
mod criteria;
mod crossing;
mod debug_info;
mod dependences;
mod dominance;
mod error;
mod graph;
mod heap;
mod implied;
mod index;
mod library;
mod llvm;
mod load;
mod load_address;
mod load_function;
mod load_initial;
mod load_virtual;
mod names;
mod order_points;
mod places;
mod plan;
mod plan_variants;
mod pointers;
mod points;
mod points_to;
mod program;
mod promotion;
#[cfg(test)]
mod properties;
mod reaching;
mod roles;
mod slice;
mod sound;
mod stored;
mod waits;
mod walk;
mod walking;

pub use alias::{Alias, UnknownAlias};
pub use branch_sides::{BranchSides, CodePlace};
pub use criteria::{Criterion, FailureShape, condition_frame, criteria};
pub use error::SlicerError;
pub use load::{Loader, ModuleInput};
pub use plan::plan;
pub use plan_variants::plan_variants;
pub use program::{Program, StatementInfo};
pub use promotion::promote;
pub use slice::{backward_slice, entry_for, slice_from};
pub use stored::GraphError;
