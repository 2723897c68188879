//! A whole recording: every buffer decoded, every stretch given to its thread.
//!
//! A buffer follows a thread or a processor. A processor's is taken apart where
//! tracing pauses, since no thread can leave the processor without an entry into
//! the kernel, and each stretch goes to the thread that the processor's
//! timeline names. A stretch that could be of two threads, or of none, is a gap of both or of all,
//! and is counted.
//!
//! Buffers are decoded side by side and their stretches handed on in the order of
//! time, long ones in pieces: what is held is one piece of each buffer, however
//! long the trace is. Stretches of one buffer keep their order whatever their
//! times say.
//!
//! Limits: with the kernel traced as well (`intel_pt//` without `u`) stretches
//! reach across threads; the kernel's code is not at hand then anyway, so they
//! end in gaps at once.

use crate::{
    address_space::{AddressSpaces, CodeSource, MissingCode},
    image::CodeImage,
    libipt::{Blocks, ExecutionItem, PreparedImage, TraceSetup},
    owner::Owner,
    processor_timeline::{Running, ThreadId},
};
use sketch_model::{Gap, PtBuffer, PtRecord, RuntimeAddress, SidebandKind, Tsc};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

/// Items of a stretch that are handed on at once.
const PIECE: usize = 1 << 14;

/// What one thread executed between two pauses of one buffer, or a piece of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When it began, by the timing packet before.
    pub at: Option<Tsc>,
    /// When it had ended, by a timing packet after it.
    pub until: Option<Tsc>,
    /// The instruction that was next when an interrupt, a fault or a signal
    /// ended it.
    pub interrupted_at: Option<RuntimeAddress>,
    pub items: Vec<ExecutionItem>,
}

/// What is known of a recording beside what ran.
#[derive(Debug, Default)]
pub struct RecordingLosses {
    /// Stretches that may be of several threads, or of none that is known.
    pub unassigned: u64,
    /// Threads that may have executed an unassigned stretch.
    pub doubtful: BTreeSet<ThreadId>,
    pub missing: BTreeSet<MissingCode>,
    /// What was lost before it reached us.
    pub losses: Vec<Gap>,
}

/// What is known of a recording.
#[derive(Debug, Default)]
pub struct DecodedRecording {
    /// In the order of time.
    pub threads: BTreeMap<ThreadId, Vec<Stretch>>,
    pub unassigned: u64,
    pub doubtful: BTreeSet<ThreadId>,
    pub missing: BTreeSet<MissingCode>,
    pub losses: Vec<Gap>,
    /// Items beyond the limit were not kept.
    pub cut: bool,
}

impl DecodedRecording {
    /// All items of a thread.
    pub fn items(&self, thread: ThreadId) -> impl Iterator<Item = &ExecutionItem> {
        let stretches = self.threads.get(&thread).into_iter().flatten();
        stretches.flat_map(|stretch| &stretch.items)
    }
}

/// Decodes all buffers; keeps at most `most_items` blocks, pauses and gaps.
pub fn decode_recording(
    record: &PtRecord,
    source: &dyn CodeSource,
    most_items: usize,
) -> DecodedRecording {
    let mut decoded = DecodedRecording::default();
    let mut left = most_items;
    let known = stream_recording(record, source, |thread, mut stretch| {
        if stretch.items.len() > left {
            stretch.items.truncate(left);
            decoded.cut = true;
        }
        left -= stretch.items.len();
        decoded.threads.entry(thread).or_default().push(stretch);
        match decoded.cut {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    DecodedRecording {
        unassigned: known.unassigned,
        doubtful: known.doubtful,
        missing: known.missing,
        losses: known.losses,
        ..decoded
    }
}

/// Decodes all buffers and hands each thread's stretches to `take`, in the order
/// of time, until it has enough.
pub fn stream_recording(
    record: &PtRecord,
    source: &dyn CodeSource,
    mut take: impl FnMut(ThreadId, Stretch) -> ControlFlow<()>,
) -> RecordingLosses {
    let spaces = AddressSpaces::new(&record.sideband);
    let (mut images, missing) = spaces.images(source);
    if images.images.is_empty() {
        // Without any code the decoder still says which it needs.
        images.images.push(CodeImage::new());
    }
    let owner = Owner::new(record);
    let prepared: Vec<_> = images.images.iter().map(PreparedImage::new).collect();
    let setup = TraceSetup {
        cpu: record.cpu,
        frequency: record.frequency,
    };
    let mut readers: Vec<BufferReader<'_>> = record
        .buffers
        .iter()
        .map(|buffer| {
            let (owner, images) = (&owner, &images);
            let choose = move |at: Option<Tsc>| {
                let pid = match owner.of(buffer, at) {
                    Running::One(thread) => Some(thread.pid),
                    Running::Several(threads) => threads.first().map(|it| it.pid),
                    Running::Unknown => owner.only_process,
                };
                let at_ns = at.and_then(|at| owner.clock?.ns_at(at));
                pid.and_then(|pid| images.number(pid, at_ns)).unwrap_or(0)
            };
            let blocks = Blocks::through(&buffer.bytes, &prepared, Some(Box::new(choose)), setup);
            BufferReader::new(buffer, blocks)
        })
        .collect();
    let mut known = RecordingLosses {
        missing,
        losses: losses(record),
        ..RecordingLosses::default()
    };
    loop {
        let with_more = readers.iter_mut().filter(|it| it.ahead.is_some());
        let first = with_more.min_by_key(|it| it.ahead.as_ref().and_then(|it| it.stretch.at));
        let Some(reader) = first else { break };
        let buffer = reader.buffer;
        let Some(stretch) = reader.next() else { break };
        match owner.of(buffer, stretch.at) {
            Running::One(thread) => {
                if take(thread, stretch).is_break() {
                    break;
                }
            }
            running => {
                let executed = |item: &ExecutionItem| matches!(item, ExecutionItem::Block(_));
                if stretch.items.iter().any(executed) {
                    known.unassigned += 1;
                }
                match running {
                    Running::Several(threads) => known.doubtful.extend(threads),
                    _ => known.doubtful.extend(owner.threads.iter().copied()),
                }
            }
        }
    }
    known
}

/// A buffer's stretches, one read ahead.
struct BufferReader<'t> {
    buffer: &'t PtBuffer,
    blocks: Blocks<'t>,
    ahead: Option<Piece>,
}

struct Piece {
    stretch: Stretch,
    /// The last timing packet at its end, if it is the stretch's last piece.
    ended: Option<Option<Tsc>>,
}

impl<'t> BufferReader<'t> {
    fn new(buffer: &'t PtBuffer, blocks: Blocks<'t>) -> Self {
        let mut reader = Self {
            buffer,
            blocks,
            ahead: None,
        };
        reader.ahead = reader.read();
        reader
    }

    fn next(&mut self) -> Option<Stretch> {
        let mut piece = self.ahead.take()?;
        self.ahead = self.read();
        if let (Some(ended), Some(next)) = (piece.ended, &self.ahead) {
            // Later than any packet within it, and before what comes next.
            piece.stretch.until = next.stretch.at.filter(|at| Some(*at) > ended);
        }
        Some(piece.stretch)
    }

    fn read(&mut self) -> Option<Piece> {
        let first = self.blocks.next()?;
        let mut piece = Piece {
            stretch: Stretch {
                at: self.blocks.resumed_at(),
                until: None,
                interrupted_at: None,
                items: Vec::new(),
            },
            ended: None,
        };
        let mut item = Some(first);
        while let Some(next) = item.take() {
            let ends = !matches!(next, ExecutionItem::Block(_));
            if next == ExecutionItem::Paused {
                piece.stretch.interrupted_at = self.blocks.interrupted_at();
            }
            piece.stretch.items.push(next);
            if ends {
                piece.ended = Some(self.blocks.time());
                break;
            }
            if piece.stretch.items.len() == PIECE {
                break;
            }
            item = self.blocks.next();
        }
        Some(piece)
    }
}

/// What the kernel says it could not hand over.
fn losses(record: &PtRecord) -> Vec<Gap> {
    let mut losses = Vec::new();
    for event in &record.sideband {
        match event.kind {
            SidebandKind::Lost(count) => Gap::PerfRecordsLost { count }.add_to(&mut losses),
            SidebandKind::Aux {
                truncated,
                overwritten,
                partial,
                ..
            } => {
                for (flag, gap) in [
                    (truncated, Gap::TraceBufferFull { count: 1 }),
                    (overwritten, Gap::TraceOverwritten { count: 1 }),
                    (partial, Gap::TraceHoles { count: 1 }),
                ] {
                    if flag {
                        gap.add_to(&mut losses);
                    }
                }
            }
            _ => {}
        }
    }
    losses
}
