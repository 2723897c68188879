//! Intel PT of a run: the last moments of its control flow, as the processor
//! wrote them, with perf's records beside. Raw bytes go into the record; whoever
//! reads it decodes.
//!
//! One event a processor, opened on the agent's own thread, disabled, inherited
//! by the command and enabled by its exec: no stop between fork and exec, no
//! rights beyond those for one's own processes, and every thread and child of
//! the command is in it. Buffers overwrite their oldest bytes (snapshot mode), so
//! that a run of any length costs the same memory.
//!
//! Deliberately absent: decoding (`pt-decoder`, which the agent must not link),
//! tracing of the kernel, and cycle-accurate time.

mod capability;
#[cfg(test)]
mod fake;
mod kept;
mod kernel;
mod recorder;
mod request;
#[cfg(test)]
mod run_tests;

pub use capability::PtRefusal;
pub use recorder::Tracing;
pub use request::{PtSource, TraceRequest};
