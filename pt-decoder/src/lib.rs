//! Intel Processor Trace bytes to executed statements, through libipt.
//!
//! Readings of the same bytes, each built on the one before: [`Packets`] lists
//! what the processor wrote, [`Blocks`] follows it through a [`CodeImage`] and
//! lists what was executed, [`decode_recording`] does so for all buffers of a
//! [`sketch_model::PtRecord`] and gives each stretch to its thread by the
//! sideband, [`executed_statements`] says which statements of a build these
//! were. [`read_perf_data`] makes such a record from a `perf.data` file, [`worker`]
//! does it all in a process with limits.
//!
//! Values in, values out: no clock, no global state, no files but in `worker`
//! (and the nameless ones of `libipt/prepared_image.rs`). An error is an item
//! ([`TraceGap`]), never the end: decoding resumes at the next PSB. libipt is
//! touched by `libipt/` alone.
//!
//! Deliberately absent: recording, which is the agent's business, and finding
//! binaries, which is the command's.

mod account;
mod address_hash;
mod address_space;
mod block_statements;
mod branches;
mod executed;
mod gap;
mod image;
mod libipt;
mod mapped_bytes;
mod owner;
mod packets;
mod perf_data;
mod processor_timeline;
mod recording;
pub mod worker;

pub use crate::libipt::{Blocks, ExecutedBlock, ExecutionItem, TraceSetup};
pub use address_space::{AddressSpaces, CodeSource, MissingCode, ProcessImages};
pub use block_statements::BlockStatements;
pub use branches::{BranchMap, BranchPlaces};
pub use executed::{ExecutedRecording, executed_statements};
pub use gap::{GapReason, TraceGap};
pub use image::{CodeImage, ImageError};
pub use mapped_bytes::mapped_bytes;
pub use packets::{Mode, Packet, PacketItem, Packets, TntBits, next_psb, psb_offsets};
pub use perf_data::{PerfDataError, PerfRecording, read_perf_data};
pub use processor_timeline::{ProcessorTimeline, Running, ThreadId};
pub use recording::{
    DecodedRecording, RecordingLosses, Stretch, decode_recording, stream_recording,
};
pub use sketch_model::CpuModel;
