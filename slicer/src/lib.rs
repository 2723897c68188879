//! LLVM bitcode to backward slices and tracking plans.
//!
//! The flow: [`Program::load`] reads bitcode into plain data (`llvm`,
//! `debug_info`, `load` and its parts: the only files that touch LLVM), indexes
//! what may store where and who calls whom (`places`, `index`, `calls`), and
//! from then on everything is a pure function over that data: dependences of
//! one instruction (`dependences`, with `contents` for memory, `control`,
//! `reaching`), a shortest-path walk over them (`walk`), the slice in
//! statements (`slice`), the plan (`plan`).
//!
//! Deliberately absent: files, clocks, global state. Bytes and source text come
//! in as arguments; the build store and the server own the IO.

mod calls;
mod contents;
mod control;
mod debug_info;
mod dependences;
mod error;
mod index;
mod llvm;
mod load;
mod load_address;
mod load_function;
mod names;
mod places;
mod plan;
mod points;
mod program;
mod reaching;
mod slice;
mod walk;

pub use error::SlicerError;
pub use load::ModuleInput;
pub use plan::plan;
pub use program::{Program, StatementInfo};
pub use slice::{backward_slice, entry_for};
