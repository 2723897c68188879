//! Intel Processor Trace bytes to executed blocks, through libipt.
//!
//! Two readings of the same bytes: [`Packets`] lists what the processor wrote,
//! [`Blocks`] follows it through a [`CodeImage`] and lists what was executed.
//! Both are iterators over values: no IO, no clock, no global state. An error
//! is an item ([`TraceGap`]), never the end: decoding resumes at the next PSB.
//! libipt is touched by `ipt.rs` alone.
//!
//! Deliberately absent, until issue 6: sideband (which thread a CPU's buffer
//! belongs to), time of a block, blocks to statements, import of `perf.data`,
//! decoding in parallel, and a process of its own for libipt, which is C and
//! gets bytes from a fleet. Recording is the agent's business.

mod address_space;
mod blocks;
mod chunks;
mod code_file;
mod elf;
mod gap;
mod image;
mod ipt;
mod packets;
mod parallel;
mod perf_data;
mod psb;
mod recording;
mod schedule;
mod sideband;
mod statements;

pub use address_space::{AddressSpaces, CodeSource, MissingCode, ProcessImages};
pub use blocks::{Blocks, ExecutedBlock, ExecutionItem, TraceSetup};
pub use elf::{build_id, mapped_bytes};
pub use gap::{GapReason, TraceGap};
pub use image::{CodeImage, ImageError};
pub use packets::{Mode, Packet, PacketItem, Packets, TntBits};
pub use parallel::{Part, decode_stream, decode_stream_in_small_chunks, window};
pub use perf_data::{PerfDataError, PerfRecording, read_perf_data};
pub use psb::{next_psb, split_points};
pub use recording::{DecodedRecording, Stretch, decode_recording};
pub use schedule::{Running, Schedule, ThreadId};
pub use sideband::{SampleId, SidebandError, parse_record, parse_ring};
pub use sketch_model::CpuModel;
pub use statements::{BlockStatements, StatementMap, StatementMapError};
