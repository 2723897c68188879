//! Which of the freed blocks matter to a run: those that something in its record touches.
//!
//! That is an access that a hook recorded after the free and before the memory was handed
//! out again; or the crash, where the address that it faulted at lies in the block, or a
//! register or a word at the top of the stack pointed into it. What these mean is for the server to say, which
//! has the code. Of the other blocks nothing leaves the machine, and their stacks are not
//! unwound.
//!
//! Deliberately absent: hits of watchpoints, whose time is known only roughly; and what
//! registers say in an abort, where they are the C library's.

use crate::process::modules::Module;
use crate::process::region::{CrashCapture, FreedRemains};
use crate::process::unwind::unwind_free;
use sketch_model::{FreedBlock, ProbeEvent, ProbeKind, RuntimeAddress, ThreadRecord, Tsc};

/// A run that touches more than so many is described well enough by the latest.
const MOST_BLOCKS: usize = 64;
/// The number of `rsp` among the registers.
const STACK_POINTER: usize = 7;
/// Bytes of the crashed function's frame that are looked at.
const TOP_OF_STACK: u64 = 1024;

/// The blocks that accesses or the crash touch, latest free first.
pub fn touched(
    blocks: &[FreedRemains],
    threads: &[ThreadRecord],
    crash: Option<&CrashCapture>,
    modules: &[Module],
) -> Vec<FreedBlock> {
    let accesses = accesses(threads);
    let crash = crash.filter(|crash| is_fault(crash.signal));
    let mut found: Vec<(&FreedRemains, FreedBlock)> = blocks
        .iter()
        .map(|block| (block, described(block, crash)))
        .filter(|(block, described)| {
            described.at_fault
                || !described.registers.is_empty()
                || !described.places.is_empty()
                || (!block.was_mapped_alone() && is_accessed(described, &accesses))
        })
        .collect();
    found.sort_by_key(|(block, _)| std::cmp::Reverse(block.at));
    found.truncate(MOST_BLOCKS);
    let unwound = found.into_iter().map(|(block, described)| FreedBlock {
        frames: unwind_free(block, modules),
        ..described
    });
    unwound.collect()
}

fn is_fault(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE
    )
}

fn described(block: &FreedRemains, crash: Option<&CrashCapture>) -> FreedBlock {
    let mut described = FreedBlock {
        tid: block.tid,
        at: Tsc(block.at),
        until: block.until.map(Tsc),
        start: RuntimeAddress(block.start),
        size: block.size,
        frames: Vec::new(),
        at_fault: false,
        registers: Vec::new(),
        places: Vec::new(),
    };
    // Only what is free still can be what it crashed with.
    if let Some(crash) = crash.filter(|_| block.until.is_none()) {
        let inside = |address: u64| described.contains(RuntimeAddress(address));
        let at_fault = crash.fault_address.is_some_and(inside);
        let registers = crash.registers.iter().enumerate();
        let registers = registers
            .filter(|(number, value)| *number != STACK_POINTER && inside(**value))
            .map(|(number, _)| number as u8)
            .collect();
        let places = (0..TOP_OF_STACK).step_by(8).filter(|place| {
            let word = crash.stack_word(crash.rsp().wrapping_add(*place));
            word.is_some_and(inside)
        });
        let places = places.collect();
        described.at_fault = at_fault;
        if !block.was_mapped_alone() {
            described.places = places;
            described.registers = registers;
        }
    }
    described
}

/// The accesses of a run, by address.
fn accesses(threads: &[ThreadRecord]) -> Vec<(u64, Tsc, Tsc)> {
    let is_access = |event: &&ProbeEvent| {
        matches!(event.kind, ProbeKind::Read | ProbeKind::Write) && event.address.0 != 0
    };
    let latest = |thread: &ThreadRecord| -> Vec<ProbeEvent> {
        thread
            .thinned
            .iter()
            .filter_map(|site| site.latest)
            .collect()
    };
    let mut all: Vec<(u64, Tsc, Tsc)> = Vec::new();
    for thread in threads {
        let latest = latest(thread);
        let accesses = thread.events().chain(&latest).filter(is_access);
        all.extend(accesses.map(|event| {
            let (before, after) = (event.before, event.after);
            (event.address.0, before.min(after), before.max(after))
        }));
    }
    all.sort_unstable_by_key(|(address, ..)| *address);
    all
}

fn is_accessed(block: &FreedBlock, accesses: &[(u64, Tsc, Tsc)]) -> bool {
    let first = accesses.partition_point(|(address, ..)| *address < block.start.0);
    let inside = accesses.get(first..).unwrap_or_default().iter();
    inside
        .take_while(|(address, ..)| block.contains(RuntimeAddress(*address)))
        .any(|(_, from, to)| block.was_free(*from, *to))
}
