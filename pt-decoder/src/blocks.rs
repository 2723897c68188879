//! The blocks that a trace says were executed, in order.
//!
//! Two ways lead through a trace: a swift one for what is common (`swift/`), and
//! libipt's for everything else (`slow.rs`). Where the swift one gives up, libipt
//! decodes from the last PSB to the head of the next, what was told already is
//! passed over, and the swift one goes on from there. A PSB states all that a
//! decoder needs, so pieces fit together without a seam (`chunks.rs` rests on the
//! same).
//!
//! A CPU's trace runs through several processes: an image may be chosen anew
//! each time tracing is turned on, which is the only time a process can change
//! in a trace of user space.
//!
//! A block may be cut in two where a PSB or an interrupt falls into it.

use crate::{
    chunks::head,
    gap::{GapReason, TraceGap},
    image::CodeImage,
    ipt::PreparedImage,
    psb::{PSB_BYTES, next_psb},
    slow::Slow,
    swift::{Found, Told, Walk, graph},
};
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

/// Follows a trace through an image.
pub struct Blocks<'t> {
    trace: &'t [u8],
    images: Vec<PreparedImage<'t>>,
    used: usize,
    setup: TraceSetup,
    choose: Option<ImageChoice<'t>>,
    way: Way<'t>,
    /// libipt decodes everything.
    only_slow: bool,
    pending: Option<TraceGap>,
    resumed_at: Option<Tsc>,
    interrupted_at: Option<RuntimeAddress>,
    time: Option<Tsc>,
}

/// How the trace is being followed.
enum Way<'t> {
    Swift(Walk<'t>),
    Slow(Piece<'t>),
    Ended,
}

/// What libipt decodes.
struct Piece<'t> {
    slow: Slow<'t>,
    /// Where it begins, and the next one; `None` if it reaches to the end.
    from: usize,
    next: Option<usize>,
    /// What was told of it already.
    told: Told,
}

impl<'t> Blocks<'t> {
    pub fn new(trace: &'t [u8], image: &'t CodeImage, setup: impl Into<TraceSetup>) -> Self {
        let images = [PreparedImage::new(image)];
        Self::through(trace, &images, None, setup.into())
    }

    /// For comparison: everything by libipt.
    #[doc(hidden)]
    pub fn by_libipt(trace: &'t [u8], image: &'t CodeImage, setup: impl Into<TraceSetup>) -> Self {
        let images = vec![PreparedImage::new(image)];
        let mut blocks = Self::unstarted(trace, images, None, setup.into());
        blocks.only_slow = true;
        blocks.start();
        blocks
    }

    /// Through several images; without a choice, through the first of them.
    pub(crate) fn through(
        trace: &'t [u8],
        images: &[PreparedImage<'t>],
        choose: Option<ImageChoice<'t>>,
        setup: TraceSetup,
    ) -> Self {
        let mut blocks = Self::unstarted(trace, images.to_vec(), choose, setup);
        blocks.only_slow = setup.cpu.is_some_and(has_flow_errata);
        blocks.start();
        blocks
    }

    fn unstarted(
        trace: &'t [u8],
        images: Vec<PreparedImage<'t>>,
        choose: Option<ImageChoice<'t>>,
        setup: TraceSetup,
    ) -> Self {
        Self {
            trace,
            images,
            used: 0,
            setup,
            choose,
            way: Way::Ended,
            only_slow: false,
            pending: None,
            resumed_at: None,
            interrupted_at: None,
            time: None,
        }
    }

    fn start(&mut self) {
        if self.only_slow {
            self.go_slowly(Told::default(), None);
            return;
        }
        let first = next_psb(self.trace, 0);
        if !self.trace.is_empty() {
            self.pending = TraceGap::between(0, first, GapReason::NoSync);
        }
        if let Some(psb) = first {
            self.way = Way::Swift(Walk::new(self.trace, psb as usize, self.setup));
        }
    }

    /// The counter when tracing was last turned on, by the timing packet before.
    pub fn resumed_at(&self) -> Option<Tsc> {
        self.resumed_at
    }

    /// The instruction that was next when tracing was last turned off, if an
    /// interrupt, a fault or a signal did it.
    pub fn interrupted_at(&self) -> Option<RuntimeAddress> {
        self.interrupted_at
    }

    /// The counter by the last timing packet; libipt reads a little ahead.
    pub fn time(&mut self) -> Option<Tsc> {
        match &mut self.way {
            Way::Swift(walk) => walk.time(),
            Way::Slow(piece) => piece.slow.time(),
            Way::Ended => self.time,
        }
    }

    fn switched_on(&mut self, at: Option<Tsc>) -> bool {
        self.resumed_at = at;
        let Some(choose) = &mut self.choose else {
            return false;
        };
        let image = choose(at);
        // One that does not exist changes nothing.
        let changes = image != self.used && image < self.images.len();
        if changes {
            self.used = image;
        }
        changes
    }

    /// libipt decodes from a PSB on, up to the next one or to the end.
    #[cold]
    fn go_slowly(&mut self, told: Told, next: Option<usize>) {
        let end = next.unwrap_or(self.trace.len());
        let own = end - told.psb;
        let piece = &self.trace[told.psb..end + head(&self.trace[end..])];
        let slow = Slow::new(piece, own, &self.images, self.choose.take(), self.setup);
        self.way = Way::Slow(Piece {
            slow,
            from: told.psb,
            next,
            told,
        });
    }

    #[cold]
    fn give_up(&mut self, told: Told) {
        // One that does not end is no place to go on from.
        let mut next = told.psb;
        let next = loop {
            match next_psb(self.trace, (next + PSB_BYTES) as u64) {
                Some(at) => next = at as usize,
                None => break None,
            }
            if head(&self.trace[next..]) > 0 {
                break Some(next);
            }
        };
        self.go_slowly(told, next);
    }

    fn next_slowly(&mut self) -> Option<ExecutionItem> {
        loop {
            let Way::Slow(piece) = &mut self.way else {
                return None;
            };
            let Some(item) = piece.slow.next() else {
                self.go_on();
                return None;
            };
            self.resumed_at = piece.slow.resumed_at();
            self.interrupted_at = piece.slow.interrupted_at();
            if let Some(item) = piece.untold(item, &self.images) {
                return Some(item);
            }
        }
    }

    /// libipt's piece is done.
    fn go_on(&mut self) {
        let Way::Slow(mut piece) = std::mem::replace(&mut self.way, Way::Ended) else {
            return;
        };
        self.time = piece.slow.time().or(self.time);
        self.choose = piece.slow.into_choice();
        if let Some(psb) = piece.next {
            self.way = Way::Swift(Walk::new(self.trace, psb, self.setup));
        }
    }
}

impl Piece<'_> {
    /// What of an item was not told before.
    fn untold(
        &mut self,
        item: ExecutionItem,
        images: &[PreparedImage<'_>],
    ) -> Option<ExecutionItem> {
        let told = &mut self.told;
        match item {
            ExecutionItem::Block(block) if told.instructions > 0 => {
                let count = u64::from(block.instructions);
                let known = told.instructions.min(count);
                told.instructions -= known;
                if known == count {
                    return None;
                }
                let mut starts = images
                    .iter()
                    .filter_map(|image| graph::behind(image.code, block.start.0, known));
                let start = starts.find(|start| *start <= block.last.0)?;
                Some(ExecutionItem::Block(ExecutedBlock {
                    start: RuntimeAddress(start),
                    instructions: (count - known) as u32,
                    ..block
                }))
            }
            ExecutionItem::Block(_) => Some(item),
            ExecutionItem::Paused => {
                let untold = told.pauses.checked_sub(1);
                told.pauses = untold.unwrap_or(0);
                untold.is_none().then_some(item)
            }
            ExecutionItem::Gap(gap) => {
                (told.instructions, told.pauses) = (0, 0);
                gap.of_piece(self.from as u64, self.next.map(|at| at as u64))
                    .map(ExecutionItem::Gap)
            }
        }
    }
}

/// Models on which packets of control flow themselves may be wrong (Broadwell:
/// BDM64); libipt knows how.
fn has_flow_errata(cpu: CpuModel) -> bool {
    cpu.family == 6 && matches!(cpu.model, 0x3d | 0x47 | 0x4f | 0x56)
}

impl Iterator for Blocks<'_> {
    type Item = ExecutionItem;

    #[inline]
    fn next(&mut self) -> Option<ExecutionItem> {
        if let Some(gap) = self.pending.take() {
            return Some(ExecutionItem::Gap(gap));
        }
        loop {
            let walk = match &mut self.way {
                Way::Swift(walk) => walk,
                Way::Slow(_) => match self.next_slowly() {
                    Some(item) => return Some(item),
                    None => continue,
                },
                Way::Ended => return None,
            };
            match walk.next(&self.images[self.used]) {
                Found::Block(block) => return Some(ExecutionItem::Block(block)),
                Found::Paused => {
                    self.interrupted_at = walk.interrupted_at;
                    return Some(ExecutionItem::Paused);
                }
                Found::Resumed => {
                    let at = walk.time();
                    if self.switched_on(at)
                        && let Way::Swift(walk) = &mut self.way
                    {
                        walk.image_changed();
                    }
                }
                Found::End { tracing } => {
                    self.time = walk.time();
                    self.way = Way::Ended;
                    let end = self.trace.len() as u64;
                    return tracing.then(|| {
                        let gap = TraceGap::to_the_end(end, GapReason::EndsWhileTracing);
                        ExecutionItem::Gap(gap)
                    });
                }
                Found::GivesUp => {
                    let told = walk.told;
                    self.give_up(told);
                }
            }
        }
    }
}
