//! One thread's account of statements and ways, kept while its trace goes by.

use crate::{
    block_statements::{BlockStatements, Way},
    branches::BranchMap,
    gap::GapReason,
    libipt::{ExecutedBlock, ExecutionItem},
    processor_timeline::ThreadId,
    recording::{RecordingLosses, Stretch},
};
use formats::statement_map::StatementMap;
use sketch_model::{
    BranchWay, ExecutedStatement, Gap, RuntimeAddress, StatementId, ThreadStatements,
};
use std::collections::{BTreeMap, VecDeque};

/// How many statements of a thread's end are kept in order.
const ENDING: usize = 4096;

/// Where `places` has no number.
const NOWHERE: u32 = u32::MAX;

/// What a thread did so far.
pub(crate) struct Account<'m> {
    thread: ThreadId,
    out: ThreadStatements,
    branches: Option<&'m BranchMap>,
    /// By statement: its place in `out.executed`.
    places: Vec<u32>,
    /// By branch: how often it went which way.
    ways: Vec<[u64; 2]>,
    ending: VecDeque<StatementId>,
    gaps: BTreeMap<GapReason, u64>,
    entries: u64,
    current: Option<StatementId>,
    /// A jump of which it is not known yet what followed.
    pending: Option<(u32, RuntimeAddress)>,
}

/// One more than the largest statement's number.
fn end_of_ids(map: &StatementMap) -> usize {
    let numbers = map.rows().iter().map(|row| row.statement.0 as usize + 1);
    numbers.max().unwrap_or(0)
}

impl<'m> Account<'m> {
    pub(crate) fn new(
        thread: ThreadId,
        map: &StatementMap,
        branches: Option<&'m BranchMap>,
    ) -> Self {
        Self {
            thread,
            out: ThreadStatements {
                pid: thread.pid,
                tid: thread.tid,
                ..ThreadStatements::default()
            },
            branches,
            places: vec![NOWHERE; end_of_ids(map)],
            ways: vec![[0; 2]; branches.map_or(0, |it| it.branches.len())],
            ending: VecDeque::new(),
            gaps: BTreeMap::new(),
            entries: 0,
            current: None,
            pending: None,
        }
    }

    pub(crate) fn add(&mut self, stretch: &Stretch, blocks: &mut BlockStatements<'_>) {
        for item in &stretch.items {
            match item {
                ExecutionItem::Block(block) => self.block(*block, stretch, blocks),
                ExecutionItem::Paused => {}
                ExecutionItem::Gap(gap) => {
                    // Only says that the thread's last steps are not confirmed.
                    if gap.reason != GapReason::NoSync {
                        *self.gaps.entry(gap.reason.clone()).or_default() += 1;
                    }
                    self.current = None;
                    self.pending = None;
                }
            }
        }
        self.out.last_seen = stretch.at.max(self.out.last_seen);
        if let Some(next) = stretch.interrupted_at {
            self.resolve(next, blocks);
            if blocks.owns(next) {
                self.out.last_own = Some(next);
            }
        }
    }

    fn block(&mut self, block: ExecutedBlock, stretch: &Stretch, blocks: &mut BlockStatements<'_>) {
        self.resolve(block.start, blocks);
        let out = &mut self.out;
        out.blocks += 1;
        out.instructions += u64::from(block.instructions);
        out.last_instruction = Some(block.last);
        let known = blocks.known(block);
        if known.own {
            out.last_own = Some(block.last);
        }
        self.pending = known.jump.map(|jump| (jump, block.last));
        for statement in blocks.list(known) {
            // Two blocks in the middle of a statement enter it once.
            if self.current == Some(*statement) {
                continue;
            }
            self.current = Some(*statement);
            let place = &mut self.places[statement.0 as usize];
            if *place == NOWHERE {
                *place = out.executed.len() as u32;
                out.executed.push(ExecutedStatement {
                    statement: *statement,
                    times: 0,
                    first: stretch.at,
                    last: stretch.at,
                    until: stretch.until,
                    entry: 0,
                });
            }
            let executed = &mut out.executed[*place as usize];
            executed.times += 1;
            executed.last = stretch.at;
            executed.until = stretch.until;
            executed.entry = self.entries;
            self.entries += 1;
            if self.ending.len() == ENDING {
                self.ending.pop_front();
            }
            self.ending.push_back(*statement);
        }
    }

    /// `next` is what ran, or was to run, after the last block.
    fn resolve(&mut self, next: RuntimeAddress, blocks: &BlockStatements<'_>) {
        if let Some((jump, at)) = self.pending.take()
            && let Some(Way { branch, way }) = blocks.way(jump, at, next)
        {
            self.ways[branch as usize][usize::from(way)] += 1;
        }
    }

    pub(crate) fn finish(mut self, known: &RecordingLosses) -> ThreadStatements {
        self.out.ways = self.told_ways();
        let mut out = self.out;
        out.ending = self.ending.into();
        let tid = self.thread.tid;
        let gaps = self.gaps.into_iter();
        let gaps = gaps.map(|(reason, count)| Gap::TraceDamaged { tid, reason, count });
        out.gaps = gaps.collect();
        if known.doubtful.contains(&self.thread) {
            let count = known.unassigned;
            out.gaps.push(Gap::TraceDoubtful { tid, count });
        }
        out.complete = out.gaps.is_empty() && known.losses.is_empty();
        out
    }

    fn told_ways(&self) -> Vec<BranchWay> {
        let executed = |id: &StatementId| -> u64 {
            let place = self.places.get(id.0 as usize).copied();
            let executed = self.out.executed.get(place.unwrap_or(NOWHERE) as usize);
            executed.map_or(0, |it| it.times)
        };
        let mut told = Vec::new();
        let branches = self.branches.map_or(&[][..], |it| &it.branches);
        for (branch, counts) in branches.iter().zip(&self.ways) {
            for ((successor, jumped), statements) in (0..).zip(counts).zip(&branch.statements) {
                let ran = statements.iter().map(executed).max().unwrap_or(0);
                let times = if *jumped > 0 { *jumped } else { ran };
                if times > 0 {
                    told.push(BranchWay {
                        statement: branch.statement,
                        column: branch.column,
                        successor,
                        times,
                    });
                }
            }
        }
        told
    }
}
