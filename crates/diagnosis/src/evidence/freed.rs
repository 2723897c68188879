//! Freed memory in statements: who freed the blocks that a run touched, and whether the run
//! failed with one of them in its hands.
//!
//! The agent says which registers, and which words at the top of the stack, pointed into a
//! free block when the program crashed. That alone proves nothing: they may hold what the
//! program needs no more. So the code before the failing instruction is asked which of them
//! its address was made from
//! ([`super::address_sources`]); only those count. Where the program failed inside a
//! library, whose code is not at hand, only the address counts that it faulted at.
//!
//! Statements are the program's own: of the functions inlined at an address, and of the
//! stack above it, the innermost that does not lie in a system's header.

use super::address_sources::{self, AddressSources};
use super::trace::Timeline;
use formats::address_map::{AddressMap, CodeFrame};
use serde::{Deserialize, Serialize};
use sketch_model::{
    EventKind, FreedBlock, Interval, Outcome, RunRecord, RuntimeAddress, Source, StackFrame,
    StatementId, ThreadIndex, TraceEvent, Tsc,
};
use std::collections::{BTreeMap, BTreeSet};

/// Where headers of the system and of its libraries lie.
const SYSTEM: [&str; 3] = ["/usr/include/", "/usr/lib/", "/usr/local/include/"];

/// A block that was freed, with the statement that freed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedMemory {
    pub freed_by: StatementId,
    pub thread: ThreadIndex,
    pub at: Tsc,
    /// When its memory was handed out again; `None` if it was not.
    pub until: Option<Tsc>,
    pub start: RuntimeAddress,
    pub size: u64,
    /// The statement that failed with it.
    pub failed_at: Option<StatementId>,
}

impl FreedMemory {
    /// Whether something was done to it after it was freed and before it was handed out
    /// again.
    pub fn is_used_by(&self, event: &TraceEvent) -> bool {
        let access = matches!(event.kind, EventKind::Read | EventKind::Write)
            && matches!(event.source, Source::Probe(_));
        let within = event.address.filter(|_| access);
        let within = within.and_then(|address| address.0.checked_sub(self.start.0));
        within.is_some_and(|within| within < self.size)
            && self.at < event.when.earliest
            && self.until.is_none_or(|until| event.when.latest < until)
    }
}

/// The freed blocks of a record whose free lies in the program; each joins its thread's
/// events as one. `None` if what became of the memory was not observed.
pub fn of_record(
    record: &RunRecord,
    code: &AddressMap,
    timelines: &mut [Timeline],
) -> Option<Vec<FreedMemory>> {
    let blocks = record.freed.as_ref()?;
    let own = Own::of(record, code);
    let failing = failing_frames(record);
    let failed_at = failing.and_then(|frames| own.statement(frames));
    let sources = failing.map(|frames| own.address_sources(frames));
    let sources = sources.unwrap_or_default();
    let mut freed = Vec::new();
    for block in blocks {
        let by = own.statement(&block.frames);
        let timeline = timelines.iter_mut().find(|t| t.thread.tid == block.tid);
        let Some((freed_by, timeline)) = by.zip(timeline) else {
            continue;
        };
        let failed_with = block.at_fault
            || block
                .registers
                .iter()
                .any(|r| sources.registers.contains(r))
            || block.places.iter().any(|p| sources.places.contains(p));
        freed.push(FreedMemory {
            freed_by,
            thread: timeline.thread.index,
            at: block.at,
            until: block.until,
            start: block.start,
            size: block.size,
            failed_at: failed_at.filter(|_| failed_with),
        });
        let event = free_event(block, freed_by, timeline.thread.index);
        let place = |events: &[TraceEvent]| events.partition_point(|e| e.when.latest < block.at);
        let place = place(&timeline.events);
        timeline.events.insert(place, event);
    }
    Some(freed)
}

fn free_event(block: &FreedBlock, by: StatementId, thread: ThreadIndex) -> TraceEvent {
    TraceEvent {
        thread,
        position: 0,
        candidates: vec![by],
        kind: EventKind::Free,
        address: Some(block.start),
        location: None,
        value: None,
        passed: Vec::new(),
        when: Interval {
            earliest: block.at,
            latest: block.at,
        },
        source: Source::Allocator,
    }
}

/// The stack of the thread that failed, if one did.
fn failing_frames(record: &RunRecord) -> Option<&[StackFrame]> {
    match &record.outcome {
        Outcome::Failure(report) => report.threads.first().map(|t| t.frames.as_slice()),
        Outcome::Success => None,
    }
}

/// The program's own code.
struct Own<'a> {
    code: &'a AddressMap,
    modules: BTreeSet<&'a str>,
}

impl<'a> Own<'a> {
    fn of(record: &'a RunRecord, code: &'a AddressMap) -> Own<'a> {
        let of_code = record.mappings.iter().filter(|mapping| {
            let id = mapping.build_id.as_ref();
            id.is_some_and(|id| code.is_of(id))
        });
        Own {
            code,
            modules: of_code.map(|mapping| mapping.path.as_str()).collect(),
        }
    }

    /// The innermost statement of the program that does not lie in a system's header.
    fn statement(&self, frames: &[StackFrame]) -> Option<StatementId> {
        let inside = frames
            .iter()
            .filter(|f| self.modules.contains(f.module.as_str()));
        let mut all = inside.flat_map(|frame| self.code.frames(frame.lookup));
        all.find_map(|frame| frame.statement.filter(|_| !is_of_the_system(frame.code)))
    }

    /// What the address of the failing access was made from.
    fn address_sources(&self, frames: &[StackFrame]) -> AddressSources {
        let innermost = frames.first();
        let innermost = innermost.filter(|f| self.modules.contains(f.module.as_str()));
        let function =
            innermost.and_then(|frame| Some((self.code.function_at(frame.lookup)?, frame.lookup)));
        let sources = function.map(|(function, at)| address_sources::of_access_at(function, at));
        sources.unwrap_or_default()
    }
}

fn is_of_the_system(code: &CodeFrame) -> bool {
    let file = code.file.as_deref().unwrap_or_default();
    SYSTEM.iter().any(|folder| file.starts_with(folder))
}

/// The last event by which a thread freed what a statement freed, by thread and time.
pub fn free_events(events: &[TraceEvent]) -> BTreeMap<(ThreadIndex, Tsc), usize> {
    let frees = events.iter().enumerate();
    let frees = frees.filter(|(_, event)| event.kind == EventKind::Free);
    frees
        .map(|(number, event)| ((event.thread, event.when.earliest), number))
        .collect()
}
