//! Builds as campaigns see them: slicing, building, and addresses turned into statements.

pub(crate) mod code_map;
pub(crate) mod llvm_workshop;
pub(crate) mod locate;
pub(crate) mod symbols;
pub(crate) mod trace_map;
pub mod workshop;
