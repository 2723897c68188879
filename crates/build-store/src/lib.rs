//! Registered builds on disk: embedded bitcode, proof by recompilation, relinking.
//!
//! A program built by `failsketch cc` carries its own bitcode, the compiler
//! flags of each module and its link line. [`BuildStore::register`] takes them
//! out, *proves* them (re-compiles each module and compares the machine code
//! with the binary's) and keeps what diagnosis needs: bitcode, optimised
//! bitcode, sources, the full binary and the one to deploy. [`relink()`] builds
//! the program again from objects made from that bitcode.
//!
//! Deliberately absent: any use of the LLVM libraries. The compiler that made
//! the program is run as a program, so what is proven is what it does.

pub mod link;
pub mod sandbox;
pub mod tools;

mod blobs;
mod deploy;
mod error;
mod graphs;
mod landlock;
mod line_table;
mod link_flags;
mod manifest;
mod own_files;
pub mod register;
mod store;
mod supervise;
mod syscall_filter;

pub use deploy::strip_for_deployment;
pub use error::{RegisterError, StoreError};
pub use graphs::NewGraph;
pub use link::relink::{RelinkError, relink};
pub use manifest::{
    BlobId, BuildManifest, ForeignCode, KeptFile, LinkItem, LinkPlan, ModuleEntry, ModuleStatus,
    SourceFile,
};
pub use own_files::Roots;
pub use register::recompile::{Stage, compile};
pub use register::{MakeGraph, NewModule, Progress, RegisterOptions};
pub use store::{BuildStore, RegisteredBuild};
