//! Builds as server and command see them: slicing, tracking, and addresses turned into
//! statements.

pub mod bitcode_child;
pub mod code_map;
pub mod llvm_workshop;
pub mod loaded_build;
pub mod locate;
pub mod symbols;
pub mod trace_map;
pub mod workshop;
