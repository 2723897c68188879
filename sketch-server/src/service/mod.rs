//! What surrounds the pure diagnosis: storage, campaigns, jobs, HTTP.
//!
//! ```text
//!  agents ─► listen ─► access ─► api ─► storage ◄─ engine ─► desk ─► diagnose (pure half)
//!                                                    │
//!                                                    └─► worker ─► workshop (slicer, instrumenter)
//! ```
//!
//! Requests only add runs to the storage and read from it; one engine thread
//! turns runs into campaigns, and jobs beside it make tracked builds.

pub mod access;
mod admin;
mod agents;
mod api;
mod assignment;
mod campaign;
mod campaigns;
mod code_map;
mod desk;
mod diagnose;
mod engine;
mod events;
mod exports;
mod fleet;
mod health;
mod http_error;
mod limits;
mod listen;
mod llvm_workshop;
mod metrics;
mod openapi;
mod pages;
pub mod plans;
pub mod private_files;
mod promotion;
mod record_check;
mod run_view;
mod serve;
pub mod signing;
mod standing;
mod steering;
pub mod storage;
mod symbolize;
mod symbols;
mod tls;
mod trace_map;
mod trace_reader;
mod traced_runs;
mod upload;
mod worker;
pub mod workshop;

pub use assignment::UNTRACKED_SHARE;
pub use campaign::{Campaign, FIRST_SIGMA, OVERWHELMED, Step, Verdict};
pub use code_map::{BinaryCode, StatementTable};
pub use engine::EngineHandle;
pub use limits::Limits;
pub use llvm_workshop::LlvmWorkshop;
pub use serve::{ServerConfig, ServerError, serve, serve_with};
pub use steering::Steering;
pub use symbolize::LocatedFailure;
pub use symbols::{CodeFrame, Symbols, SymbolsError};
pub use tls::{TlsError, TlsFiles};
pub use trace_map::TraceMap;
