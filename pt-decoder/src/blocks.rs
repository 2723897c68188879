//! The blocks that a trace says were executed, in order.
//!
//! libipt follows the trace through the image. Three things are ours. Only what
//! the trace confirms is reported: libipt runs on past the last branch it knows
//! of, we stop there. After an error decoding goes on at the next PSB, with a
//! gap. And code that loops without a branch in the trace (`jmp` to itself, or
//! an image that is not what ran) is a gap too, not an endless iterator.
//!
//! Deliberately absent: time, execution mode, and whether a transaction rolled
//! a block back. What ran in the block in which an error falls is not reported,
//! and an error costs everything up to the next PSB.

use crate::{
    gap::{GapReason, TraceGap},
    image::CodeImage,
    ipt::{BlockEngine, Fault, FlowEvent, Outlook},
    psb::{behind_packet_at, next_psb},
};
use sketch_model::RuntimeAddress;

/// Instructions that may be followed while the trace stands still, which it
/// does for at most the 47 branches of one packet.
const UNCONFIRMED_INSTRUCTIONS: u32 = 1 << 20;
/// What a step counts at least, so that short loops are noticed soon.
const LEAST_STEP: u32 = 64;

/// Instructions that were executed one after the other, contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// The processor that recorded, whose errata libipt then works around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuModel {
    pub family: u16,
    pub model: u8,
    pub stepping: u8,
}

/// Follows a trace through an image.
pub struct Blocks<'t> {
    trace: &'t [u8],
    /// `None` once there is nothing left to follow.
    engine: Option<BlockEngine<'t>>,
    pending: Option<TraceGap>,
    /// `None` if the decoder is yet to be synchronised at `psb`.
    outlook: Option<Outlook>,
    tracing: bool,
    /// The PSB at which decoding began last.
    psb: u64,
    progress: Progress,
}

/// How much was followed since the trace last moved.
struct Progress {
    offset: u64,
    followed: u32,
    last: RuntimeAddress,
}

impl<'t> Blocks<'t> {
    pub fn new(trace: &'t [u8], image: &'t CodeImage, cpu: Option<CpuModel>) -> Self {
        let mut blocks = Self {
            trace,
            engine: None,
            pending: None,
            outlook: None,
            tracing: false,
            psb: 0,
            progress: Progress {
                offset: 0,
                followed: 0,
                last: RuntimeAddress(0),
            },
        };
        if !trace.is_empty() {
            match BlockEngine::new(trace, image, cpu) {
                Ok(engine) => {
                    blocks.engine = Some(engine);
                    blocks.resume(0, 0, GapReason::NoSync);
                }
                Err(reason) => blocks.pending = Some(TraceGap::to_the_end(0, reason)),
            }
        }
        blocks
    }

    /// Goes on at the first PSB at `from` or later and notes the gap.
    fn resume(&mut self, offset: u64, from: u64, reason: GapReason) {
        let resumes = next_psb(self.trace, from);
        self.pending = TraceGap::between(offset, resumes, reason);
        self.tracing = false;
        self.outlook = None;
        match resumes {
            Some(psb) => {
                self.psb = psb;
                self.progress.offset = psb;
                self.progress.followed = 0;
            }
            None => self.engine = None,
        }
    }

    fn recover(&mut self, fault: Fault) {
        match fault {
            Fault::End => {
                self.engine = None;
                if self.tracing {
                    let end = self.trace.len() as u64;
                    self.pending = Some(TraceGap::to_the_end(end, GapReason::EndsWhileTracing));
                }
            }
            Fault::Broken(reason) => {
                let offset = self.progress.offset;
                self.resume(offset, behind_packet_at(offset).max(self.psb + 1), reason);
            }
        }
    }

    fn step(&mut self, engine: &mut BlockEngine<'t>) -> Result<Option<ExecutionItem>, Fault> {
        let Some(outlook) = self.outlook else {
            engine.sync_at(self.psb)?;
            // The events of the PSB are yet to be asked for.
            self.outlook = Some(Outlook {
                event_pending: true,
                trace_used_up: false,
            });
            return Ok(None);
        };
        if outlook.event_pending {
            let Some((event, outlook)) = engine.event()? else {
                self.outlook = Some(Outlook {
                    event_pending: false,
                    ..outlook
                });
                return Ok(None);
            };
            self.outlook = Some(outlook);
            self.advance(engine, 0)?;
            return Ok(self.after_event(event));
        }
        if outlook.trace_used_up {
            return Err(Fault::End);
        }
        let (block, outlook) = engine.block()?;
        self.outlook = Some(outlook);
        if let Some(block) = block {
            self.progress.last = block.last;
        }
        self.advance(engine, block.map_or(0, |it| it.instructions))?;
        Ok(block.map(ExecutionItem::Block))
    }

    fn after_event(&mut self, event: FlowEvent) -> Option<ExecutionItem> {
        match event {
            FlowEvent::TracingOn => {
                self.tracing = true;
                None
            }
            // A PSB restates that tracing is off.
            FlowEvent::TracingOff => {
                std::mem::take(&mut self.tracing).then_some(ExecutionItem::Paused)
            }
            FlowEvent::Overflow { tracing } => {
                self.tracing = tracing;
                Some(ExecutionItem::Gap(TraceGap {
                    offset: self.progress.offset,
                    resumes: Some(self.progress.offset),
                    reason: GapReason::Overflow,
                }))
            }
            FlowEvent::Other => None,
        }
    }

    /// Counts a step; too many of them without any trace are an error.
    fn advance(&mut self, engine: &BlockEngine<'t>, instructions: u32) -> Result<(), Fault> {
        let progress = &mut self.progress;
        match engine.offset() {
            Some(offset) if offset > progress.offset => {
                progress.offset = offset;
                progress.followed = 0;
            }
            _ => progress.followed += instructions.max(LEAST_STEP),
        }
        if progress.followed > UNCONFIRMED_INSTRUCTIONS {
            let from = progress.last;
            return Err(Fault::Broken(GapReason::Endless { from }));
        }
        Ok(())
    }
}

impl Iterator for Blocks<'_> {
    type Item = ExecutionItem;

    fn next(&mut self) -> Option<ExecutionItem> {
        loop {
            if let Some(gap) = self.pending.take() {
                return Some(ExecutionItem::Gap(gap));
            }
            let mut engine = self.engine.take()?;
            let stepped = self.step(&mut engine);
            self.engine = Some(engine);
            match stepped {
                Ok(Some(item)) => return Some(item),
                Ok(None) => {}
                Err(fault) => self.recover(fault),
            }
        }
    }
}
