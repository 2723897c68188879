//! What a trace says was executed: blocks, pauses and gaps, in order.

use crate::gap::TraceGap;
use sketch_model::{CpuModel, PtFrequency, RuntimeAddress, Tsc};

/// Instructions that were executed one after the other, contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExecutedBlock {
    pub start: RuntimeAddress,
    /// Where the last instruction of the block begins.
    pub last: RuntimeAddress,
    pub instructions: u32,
}

/// What the block reading yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutionItem {
    Block(ExecutedBlock),
    /// Tracing was turned off, by a filter or on entry to the kernel. Nothing
    /// is lost, but the next block need not follow the one before.
    Paused,
    Gap(TraceGap),
}

/// How the processor was set up that recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSetup {
    /// libipt then works around the errata of this model.
    pub cpu: Option<CpuModel>,
    /// Without it MTC and CYC packets tell no time.
    pub frequency: Option<PtFrequency>,
}

impl From<Option<CpuModel>> for TraceSetup {
    fn from(cpu: Option<CpuModel>) -> Self {
        Self {
            cpu,
            frequency: None,
        }
    }
}

/// Says by time which of several images the trace runs through.
pub(crate) type ImageChoice<'t> = Box<dyn FnMut(Option<Tsc>) -> usize + 't>;
