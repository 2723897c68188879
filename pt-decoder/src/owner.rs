//! Who owns which part of a buffer: the thread that it follows, the only thread
//! there is, or the one that the processor's timeline names then.

use crate::processor_timeline::{ProcessorTimeline, Running, ThreadId};
use sketch_model::{PerfClock, PtBuffer, PtRecord, SidebandKind, Tsc};
use std::collections::BTreeSet;

/// The owners of a recording's buffers.
pub(crate) struct Owner {
    timeline: ProcessorTimeline,
    pub(crate) clock: Option<PerfClock>,
    /// By how much a stretch may have begun after the timing packet before it.
    slack: u64,
    pub(crate) threads: BTreeSet<ThreadId>,
    pub(crate) only_process: Option<i32>,
}

impl Owner {
    pub(crate) fn new(record: &PtRecord) -> Self {
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
            timeline: ProcessorTimeline::new(&record.sideband),
            clock: record.clock,
            slack: slack.unwrap_or(0),
            threads,
            only_process: match processes.as_slice() {
                [one] => Some(*one),
                _ => None,
            },
        }
    }

    pub(crate) fn of(&self, buffer: &PtBuffer, at: Option<Tsc>) -> Running {
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
                .timeline
                .running(cpu, at, at.saturating_add(self.slack)),
            _ => Running::Unknown,
        }
    }
}
