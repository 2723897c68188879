//! A whole recording: every buffer decoded, every stretch given to its thread.
//!
//! A buffer follows a thread or a processor. A processor's is taken apart where
//! tracing pauses, since no thread can leave the processor without an entry into
//! the kernel, and each stretch goes to the thread that the schedule names. A
//! stretch that could be of two threads, or of none, is a gap of both or of all,
//! and is counted.
//!
//! A thread's stretches come from several processors; they are put in the order
//! of time. Stretches of one buffer keep their order whatever their times say.
//!
//! Limits: with the kernel traced as well (`intel_pt//` without `u`) stretches
//! reach across threads; the kernel's code is not at hand then anyway, so they
//! end in gaps at once.

use crate::{
    address_space::{AddressSpaces, CodeSource, MissingCode, ProcessImages},
    blocks::{Blocks, ExecutionItem, TraceSetup},
    image::CodeImage,
    ipt::PreparedImage,
    schedule::{Running, Schedule, ThreadId},
};
use sketch_model::{PerfClock, PtBuffer, PtRecord, RuntimeAddress, SidebandKind, Tsc};
use std::collections::{BTreeMap, BTreeSet};

/// What one thread executed between two pauses of one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When it began, by the timing packet before.
    pub at: Option<Tsc>,
    /// The instruction that was next when an interrupt, a fault or a signal
    /// ended it.
    pub interrupted_at: Option<RuntimeAddress>,
    pub items: Vec<ExecutionItem>,
}

/// What is known of a recording.
#[derive(Debug, Default)]
pub struct DecodedRecording {
    /// In the order of time.
    pub threads: BTreeMap<ThreadId, Vec<Stretch>>,
    /// Stretches that may be of several threads, or of none that is known.
    pub unassigned: u64,
    /// Threads that may have executed an unassigned stretch.
    pub doubtful: BTreeSet<ThreadId>,
    pub missing: BTreeSet<MissingCode>,
    /// What was lost before it reached us, in words.
    pub losses: Vec<String>,
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
    let spaces = AddressSpaces::new(&record.sideband);
    let (mut images, missing) = spaces.images(source);
    if images.images.is_empty() {
        // Without any code the decoder still says which it needs.
        images.images.push(CodeImage::new());
    }
    let mut decoded = DecodedRecording {
        missing,
        losses: losses(record),
        ..Default::default()
    };
    let owner = Owner::new(record);
    let prepared: Vec<_> = images.images.iter().map(PreparedImage::new).collect();
    let mut left = most_items;
    for buffer in &record.buffers {
        decode_buffer(
            buffer,
            &owner,
            &images,
            &prepared,
            record,
            &mut left,
            &mut decoded,
        );
    }
    for stretches in decoded.threads.values_mut() {
        // Stable: within a buffer the order of the trace stays.
        stretches.sort_by_key(|it| it.at);
    }
    decoded
}

fn decode_buffer(
    buffer: &PtBuffer,
    owner: &Owner,
    images: &ProcessImages,
    prepared: &[PreparedImage<'_>],
    record: &PtRecord,
    left: &mut usize,
    decoded: &mut DecodedRecording,
) {
    let choose = |at: Option<Tsc>| {
        let pid = match owner.of(buffer, at) {
            Running::One(thread) => Some(thread.pid),
            Running::Several(threads) => threads.first().map(|it| it.pid),
            Running::Unknown => owner.only_process,
        };
        let at_ns = at.and_then(|at| owner.clock?.ns_at(at));
        pid.and_then(|pid| images.number(pid, at_ns)).unwrap_or(0)
    };
    let setup = TraceSetup {
        cpu: record.cpu,
        frequency: record.frequency,
    };
    let mut blocks = Blocks::through(&buffer.bytes, prepared, Some(Box::new(choose)), setup);
    let mut stretch: Option<Stretch> = None;
    loop {
        let item = blocks.next();
        let ends = !matches!(item, Some(ExecutionItem::Block(_)));
        if let Some(item) = item.clone() {
            let open = stretch.get_or_insert_with(|| Stretch {
                at: blocks.resumed_at(),
                interrupted_at: None,
                items: Vec::new(),
            });
            if item == ExecutionItem::Paused {
                open.interrupted_at = blocks.interrupted_at();
            }
            if *left > 0 {
                *left -= 1;
                open.items.push(item);
            } else {
                decoded.cut = true;
            }
        }
        if (ends || decoded.cut)
            && let Some(done) = stretch.take()
        {
            assign(done, buffer, owner, decoded);
        }
        if item.is_none() || decoded.cut {
            return;
        }
    }
}

fn assign(stretch: Stretch, buffer: &PtBuffer, owner: &Owner, decoded: &mut DecodedRecording) {
    if stretch.items.is_empty() {
        return;
    }
    match owner.of(buffer, stretch.at) {
        Running::One(thread) => decoded.threads.entry(thread).or_default().push(stretch),
        running => {
            let executed = |item: &ExecutionItem| matches!(item, ExecutionItem::Block(_));
            if stretch.items.iter().any(executed) {
                decoded.unassigned += 1;
            }
            match running {
                Running::Several(threads) => decoded.doubtful.extend(threads),
                _ => decoded.doubtful.extend(owner.threads.iter().copied()),
            }
        }
    }
}

/// Who owns which part of a buffer.
struct Owner {
    schedule: Schedule,
    clock: Option<PerfClock>,
    /// By how much a stretch may have begun after the timing packet before it.
    slack: u64,
    threads: BTreeSet<ThreadId>,
    only_process: Option<i32>,
}

impl Owner {
    fn new(record: &PtRecord) -> Self {
        let threads: BTreeSet<_> = record
            .sideband
            .iter()
            .filter(|event| event.pid > 0 && event.tid > 0)
            .map(|event| ThreadId {
                pid: event.pid,
                tid: event.tid,
            })
            .collect();
        let mapped = |kind: &SidebandKind| matches!(kind, SidebandKind::Mapped(_));
        let mut processes: Vec<_> = record
            .sideband
            .iter()
            .filter(|event| mapped(&event.kind))
            .map(|event| event.pid)
            .collect();
        processes.sort_unstable();
        processes.dedup();
        // The period of MTC packets: 2^MTCFreq ticks of the crystal.
        let period = record.frequency.filter(|it| it.crystal > 0).map(|it| {
            let ticks = (1u64 << it.mtc.min(20)) * u64::from(it.counter);
            Tsc(ticks / u64::from(it.crystal))
        });
        let slack = record.clock.zip(period).and_then(|(clock, period)| {
            let start = PerfClock { zero: 0, ..clock };
            start.ns_at(period)
        });
        Self {
            schedule: Schedule::new(&record.sideband),
            clock: record.clock,
            slack: slack.unwrap_or(0),
            threads,
            only_process: match processes.as_slice() {
                [one] => Some(*one),
                _ => None,
            },
        }
    }

    fn of(&self, buffer: &PtBuffer, at: Option<Tsc>) -> Running {
        if let Some(tid) = buffer.tid {
            let known = self.threads.iter().find(|thread| thread.tid == tid);
            let unknown = || ThreadId {
                pid: self.only_process.unwrap_or(tid),
                tid,
            };
            return Running::One(known.copied().unwrap_or_else(unknown));
        }
        let mut threads = self.threads.iter();
        if let (Some(only), None) = (threads.next(), threads.next()) {
            return Running::One(*only);
        }
        let at = at.and_then(|at| self.clock?.ns_at(at));
        match (buffer.cpu, at) {
            (Some(cpu), Some(at)) => self
                .schedule
                .running(cpu, at, at.saturating_add(self.slack)),
            _ => Running::Unknown,
        }
    }
}

/// What the kernel says it could not hand over.
fn losses(record: &PtRecord) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &record.sideband {
        match event.kind {
            SidebandKind::Lost(count) => {
                *counts.entry("perf records were lost").or_default() += count
            }
            SidebandKind::Aux {
                truncated,
                overwritten,
                partial,
                ..
            } => {
                for (flag, words) in [
                    (truncated, "the buffer of the trace was full"),
                    (overwritten, "older trace was overwritten"),
                    (partial, "the kernel reports holes in the trace"),
                ] {
                    if flag {
                        *counts.entry(words).or_default() += 1;
                    }
                }
            }
            _ => {}
        }
    }
    let words = counts.into_iter();
    words
        .map(|(what, count)| format!("{what} ({count}×)"))
        .collect()
}
