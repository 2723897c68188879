//! Follows a trace through code and lists what was executed.
//!
//! libipt decodes; three things are ours. Only what the trace confirms is reported: libipt runs
//! on past the last branch it knows of, we stop there. After an error decoding
//! goes on at the next PSB, with a gap. And code that loops without a branch in
//! the trace (`jmp` to itself, or an image that is not what ran) is a gap too, not
//! an endless iterator.
//!
//! A CPU's trace runs through several processes: an image may be chosen anew
//! each time tracing is turned on, which is the only time a process can change
//! in a trace of user space.
//!
//! A block may be cut in two where a PSB or an interrupt falls into it.
//!
//! Deliberately absent: execution mode, and whether a transaction rolled a block
//! back. What ran in the block in which an error falls is not reported, and an
//! error costs everything up to the next PSB.

use super::{
    Fault, PreparedImage,
    block_engine::{BlockEngine, FlowEvent, Outlook},
};
use crate::{
    gap::{GapReason, TraceGap},
    image::CodeImage,
    packets::{behind_packet_at, next_psb},
};
use sketch_model::{CpuModel, PtFrequency, RuntimeAddress, Tsc};

/// Instructions that may be followed while the trace stands still, which it
/// does for at most the 47 branches of one packet.
const UNCONFIRMED_INSTRUCTIONS: u32 = 1 << 20;
/// What a step counts at least, so that short loops are noticed soon.
const LEAST_STEP: u32 = 64;

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
type ImageChoice<'t> = Box<dyn FnMut(Option<Tsc>) -> usize + 't>;

/// Follows a trace through an image.
pub struct Blocks<'t> {
    /// `None` once there is nothing left to follow.
    engine: Option<BlockEngine<'t>>,
    course: Course<'t>,
}

/// Where following stands.
struct Course<'t> {
    trace: &'t [u8],
    choose: Option<ImageChoice<'t>>,
    pending: Option<TraceGap>,
    /// `None` if the decoder is yet to be synchronised at `psb`.
    outlook: Option<Outlook>,
    tracing: bool,
    resumed_at: Option<Tsc>,
    interrupted_at: Option<RuntimeAddress>,
    /// The PSB at which decoding began last.
    psb: u64,
    progress: Progress,
    ended: bool,
}

/// How much was followed since the trace last moved.
struct Progress {
    offset: u64,
    followed: u32,
    last: RuntimeAddress,
}

impl<'t> Blocks<'t> {
    pub fn new(trace: &'t [u8], image: &'t CodeImage, setup: impl Into<TraceSetup>) -> Self {
        let images = [PreparedImage::new(image)];
        Self::through(trace, &images, None, setup.into())
    }

    /// Through several images; without a choice, through the first of them.
    pub(crate) fn through(
        trace: &'t [u8],
        images: &[PreparedImage<'t>],
        choose: Option<ImageChoice<'t>>,
        setup: TraceSetup,
    ) -> Self {
        let mut blocks = Self {
            engine: None,
            course: Course {
                trace,
                choose,
                pending: None,
                outlook: None,
                tracing: false,
                resumed_at: None,
                interrupted_at: None,
                psb: 0,
                progress: Progress {
                    offset: 0,
                    followed: 0,
                    last: RuntimeAddress(0),
                },
                ended: false,
            },
        };
        if !trace.is_empty() {
            let course = &mut blocks.course;
            match BlockEngine::new(trace, images, setup) {
                Ok(engine) => {
                    blocks.engine = Some(engine);
                    course.resume(0, 0, GapReason::NoSync);
                }
                Err(reason) => course.pending = Some(TraceGap::to_the_end(0, reason)),
            }
        }
        blocks
    }

    /// The counter when tracing was last turned on, by the timing packet before.
    pub fn resumed_at(&self) -> Option<Tsc> {
        self.course.resumed_at
    }

    /// The instruction that was next when tracing was last turned off, if an
    /// interrupt, a fault or a signal did it.
    pub fn interrupted_at(&self) -> Option<RuntimeAddress> {
        self.course.interrupted_at
    }

    /// The counter by the last timing packet; libipt reads a little ahead.
    pub fn time(&mut self) -> Option<Tsc> {
        self.engine.as_mut()?.time()
    }
}

impl<'t> Course<'t> {
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
            None => self.ended = true,
        }
    }

    fn recover(&mut self, fault: Fault) {
        match fault {
            Fault::End => {
                self.ended = true;
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

    #[inline]
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
            return self.after_event(event, engine);
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

    fn after_event(
        &mut self,
        event: FlowEvent,
        engine: &mut BlockEngine<'t>,
    ) -> Result<Option<ExecutionItem>, Fault> {
        Ok(match event {
            FlowEvent::TracingOn { at } => {
                // A PSB restates that tracing is on.
                if !std::mem::replace(&mut self.tracing, true) {
                    self.switched_on(at, engine)?;
                }
                None
            }
            FlowEvent::TracingOff { before } => {
                self.interrupted_at = before;
                std::mem::take(&mut self.tracing).then_some(ExecutionItem::Paused)
            }
            FlowEvent::Overflow { tracing, at } => {
                self.tracing = tracing;
                if tracing {
                    self.switched_on(at, engine)?;
                }
                Some(ExecutionItem::Gap(TraceGap {
                    offset: self.progress.offset,
                    resumes: Some(self.progress.offset),
                    reason: GapReason::Overflow,
                }))
            }
            FlowEvent::Other => None,
        })
    }

    fn switched_on(&mut self, at: Option<Tsc>, engine: &mut BlockEngine<'t>) -> Result<(), Fault> {
        self.resumed_at = at;
        match &mut self.choose {
            Some(choose) => engine.use_image(choose(at)),
            None => Ok(()),
        }
    }

    /// Counts a step; too many of them without any trace are an error.
    #[inline]
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

    #[inline]
    fn next(&mut self) -> Option<ExecutionItem> {
        loop {
            if let Some(gap) = self.course.pending.take() {
                return Some(ExecutionItem::Gap(gap));
            }
            if self.course.ended {
                self.engine = None;
            }
            let engine = self.engine.as_mut()?;
            match self.course.step(engine) {
                Ok(Some(item)) => return Some(item),
                Ok(None) => {}
                Err(fault) => self.course.recover(fault),
            }
        }
    }
}
