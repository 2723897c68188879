//! What surrounds the pure diagnosis: storage, campaigns, jobs, HTTP.
//!
//! ```text
//!  agents ─► api ─► storage ◄─ engine ─► desk ─► diagnose (pure half)
//!                                │
//!                                └─► worker ─► workshop (slicer, instrumenter)
//! ```
//!
//! Requests only add runs to the storage and read from it; one engine thread
//! turns runs into campaigns, and jobs beside it make tracked builds.

mod api;
mod assignment;
mod campaign;
mod code_map;
mod desk;
mod diagnose;
mod engine;
mod events;
mod exports;
mod fleet;
mod http_error;
mod llvm_workshop;
mod pages;
pub mod plans;
mod promotion;
mod run_view;
mod serve;
mod signing;
mod steering;
pub mod storage;
mod symbolize;
mod symbols;
mod trace_map;
mod trace_reader;
mod traced_runs;
mod worker;
pub mod workshop;

pub use assignment::UNTRACKED_SHARE;
pub use campaign::{Campaign, FIRST_SIGMA, OVERWHELMED, Step, Verdict};
pub use code_map::{BinaryCode, StatementTable};
pub use engine::EngineHandle;
pub use llvm_workshop::LlvmWorkshop;
pub use serve::{ServerConfig, ServerError, serve, serve_with};
pub use steering::Steering;
pub use symbolize::LocatedFailure;
pub use symbols::{CodeFrame, Symbols, SymbolsError};
pub use trace_map::TraceMap;
