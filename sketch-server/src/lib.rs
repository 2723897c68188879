//! The server: campaigns that wait for runs, jobs that build, storage, HTTP.
//!
//! ```text
//!  agents ─► http::listen ─► access ─► http::routes ─► storage ◄─ campaigns::engine ─► campaigns::run_filing ─► diagnosis (pure)
//!                                                                        │
//!                                                                        └─► jobs ─► builds (slicer, instrumenter)
//! ```
//!
//! Requests only add runs to the storage and read from it; one engine thread
//! turns runs into campaigns, and jobs beside it make tracked builds. What is
//! decided is decided by the crate `diagnosis`, which knows none of this.

mod access;
mod campaigns;
mod http;
mod jobs;
mod serve;
pub mod storage;
mod traces;

pub use campaigns::assignment::UNTRACKED_SHARE;
pub use campaigns::engine::EngineHandle;
pub use campaigns::plans;
pub use http::limits::Limits;
pub use http::tls::{TlsError, TlsFiles};
pub use serve::{ServerConfig, ServerError, serve, serve_with};
