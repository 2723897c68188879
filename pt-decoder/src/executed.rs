//! From a decoded recording to the statements that each thread executed: the
//! pure function between a record with Intel PT and a diagnosis.
//!
//! A statement is entered when another one ran before it, so a call within it
//! that returns enters it again; a system call does not.
//!
//! What is kept is bounded: each statement once, with counts, and the last so
//! many that a thread entered, which is what precedes a failure.

use crate::{
    address_space::AddressSpaces,
    blocks::ExecutionItem,
    gap::GapReason,
    recording::{DecodedRecording, Stretch},
    schedule::ThreadId,
    statements::{BlockStatements, StatementMap},
};
use sketch_model::{
    BuildId, ExecutedStatement, MappedCode, PtRecord, StatementId, ThreadStatements,
};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How many statements of a thread's end are kept in order.
const ENDING: usize = 4096;

/// The statements of `build` that each thread of a process executed in which the
/// build was mapped.
pub fn executed_statements(
    record: &PtRecord,
    decoded: &DecodedRecording,
    build: &BuildId,
    map: &StatementMap,
) -> Vec<ThreadStatements> {
    let spaces = AddressSpaces::new(&record.sideband);
    let mut threads = Vec::new();
    for (thread, stretches) in &decoded.threads {
        let mapped: Vec<MappedCode> = spaces
            .mapped(thread.pid)
            .filter(|it| it.build_id.as_ref() == Some(build))
            .cloned()
            .collect();
        if !mapped.is_empty() {
            let blocks = BlockStatements::new(map, mapped);
            threads.push(of_thread(*thread, stretches, blocks, decoded));
        }
    }
    threads
}

fn of_thread(
    thread: ThreadId,
    stretches: &[Stretch],
    mut blocks: BlockStatements<'_>,
    decoded: &DecodedRecording,
) -> ThreadStatements {
    let mut out = ThreadStatements {
        pid: thread.pid,
        tid: thread.tid,
        ..Default::default()
    };
    let mut places: HashMap<StatementId, usize> = HashMap::new();
    let mut ending = VecDeque::new();
    let mut gaps: BTreeMap<String, u64> = BTreeMap::new();
    let mut current = None;
    for stretch in stretches {
        for item in &stretch.items {
            let block = match item {
                ExecutionItem::Block(block) => *block,
                ExecutionItem::Paused => continue,
                ExecutionItem::Gap(gap) => {
                    // Only says that the thread's last steps are not confirmed.
                    if gap.reason != GapReason::NoSync {
                        *gaps.entry(gap.reason.to_string()).or_default() += 1;
                    }
                    current = None;
                    continue;
                }
            };
            out.blocks += 1;
            out.instructions += u64::from(block.instructions);
            out.last_instruction = Some(block.last);
            if blocks.owns(block.last) {
                out.last_own = Some(block.last);
            }
            for statement in blocks.of(block) {
                // Two blocks in the middle of a statement enter it once.
                if current == Some(*statement) {
                    continue;
                }
                current = Some(*statement);
                let place = *places.entry(*statement).or_insert_with(|| {
                    out.executed.push(ExecutedStatement {
                        statement: *statement,
                        times: 0,
                        first: stretch.at,
                        last: stretch.at,
                    });
                    out.executed.len() - 1
                });
                let executed = &mut out.executed[place];
                executed.times += 1;
                executed.last = stretch.at;
                if ending.len() == ENDING {
                    ending.pop_front();
                }
                ending.push_back(*statement);
            }
        }
        out.last_seen = stretch.at.max(out.last_seen);
        if let Some(next) = stretch.interrupted_at.filter(|at| blocks.owns(*at)) {
            out.last_own = Some(next);
        }
    }
    if decoded.doubtful.contains(&thread) {
        *gaps.entry(DOUBTFUL.to_owned()).or_default() += decoded.unassigned;
    }
    out.complete = gaps.is_empty() && decoded.losses.is_empty() && !decoded.cut;
    out.ending = ending.into();
    out.gaps = gaps
        .into_iter()
        .map(|(what, times)| match times {
            1 => what,
            _ => format!("{what} ({times} times)"),
        })
        .collect();
    out
}

const DOUBTFUL: &str = "stretches of trace may be of this thread or of another one";
