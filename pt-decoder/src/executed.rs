//! From a recording to the statements that each thread executed and the ways that
//! it went: the function between a record with Intel PT and a diagnosis.
//!
//! A statement is entered when another one ran before it, so a call within it
//! that returns enters it again; a system call does not. A branch went a way if
//! one of its jumps did, or if a statement ran that only this way can reach: the
//! optimiser may have made a copy of the code in which the jump is not needed.
//!
//! What is kept is bounded: each statement once, with counts, and the last so
//! many that a thread entered, which is what precedes a failure.

use crate::{
    account::Account,
    address_space::{AddressSpaces, CodeSource},
    block_statements::BlockStatements,
    branches::BranchMap,
    processor_timeline::ThreadId,
    recording::{RecordingLosses, stream_recording},
};
use formats::statement_map::StatementMap;
use sketch_model::{BuildId, MappedCode, PtRecord, ThreadStatements};
use std::{collections::BTreeMap, ops::ControlFlow};

/// What the threads of a recording executed of a build.
#[derive(Debug, Default)]
pub struct ExecutedRecording {
    pub threads: Vec<ThreadStatements>,
    pub known: RecordingLosses,
}

/// Decodes a recording to what each thread executed of `build`, in the processes
/// in which it was mapped.
pub fn executed_statements(
    record: &PtRecord,
    source: &dyn CodeSource,
    build: &BuildId,
    map: &StatementMap,
    branches: Option<&BranchMap>,
) -> ExecutedRecording {
    let spaces = AddressSpaces::new(&record.sideband);
    // One for each process that has the build mapped; `None` for others.
    let mut processes: BTreeMap<i32, Option<BlockStatements<'_>>> = BTreeMap::new();
    let mut accounts: BTreeMap<ThreadId, Account<'_>> = BTreeMap::new();
    let known = stream_recording(record, source, |thread, stretch| {
        let blocks = processes.entry(thread.pid).or_insert_with(|| {
            let mapped: Vec<MappedCode> = spaces
                .mapped(thread.pid)
                .filter(|it| it.build_id.as_ref() == Some(build))
                .cloned()
                .collect();
            (!mapped.is_empty()).then(|| BlockStatements::new(map, mapped).with_branches(branches))
        });
        if let Some(blocks) = blocks {
            let account = accounts.entry(thread);
            let account = account.or_insert_with(|| Account::new(thread, map, branches));
            account.add(&stretch, blocks);
        }
        ControlFlow::Continue(())
    });
    let threads = accounts.into_values();
    let threads = threads.map(|account| account.finish(&known)).collect();
    ExecutedRecording { threads, known }
}
