//! What Intel PT adds to a run: which statements ran, and which ways branches
//! went, without a hook.
//!
//! A trace has no values. Of each statement it shows that it ran, how often, and
//! where in the thread's order its last execution stands; that becomes one event of
//! the trace, unless hooks have recorded the statement already. Between
//! two such events program order is certain; across threads the timing packets
//! before and after give an interval.
//!
//! A branch went the ways that the trace saw. That it did *not* go a way is known
//! only if the trace is whole, which [`TracedRun::complete`] says.

use super::decoded_run::{DecodedRun, Passed, RunThread, WatchCoverage};
use sketch_model::{
    AgentId, CampaignId, EventKind, ExecutedStatement, Execution, ExecutionTrace, Interval,
    PointKind, RunId, SiteId, Source, StatementId, ThreadIndex, ThreadStatements, TraceEvent,
    TracedRun, TrackingPlan, Tsc,
};
use std::collections::{BTreeMap, BTreeSet};

/// A run of P itself, known by its trace alone.
pub struct TracedInput<'a> {
    pub run: &'a RunId,
    pub agent: &'a AgentId,
    /// The campaign that it counts for.
    pub campaign: CampaignId,
    pub failed: bool,
    pub weight: f64,
    /// The thread that failed.
    pub failing_tid: Option<i32>,
    pub traced: &'a TracedRun,
}

/// The run of a trace without any hooks.
pub fn of_trace(input: &TracedInput<'_>, plan: &TrackingPlan) -> DecodedRun {
    let mut run = DecodedRun {
        trace: ExecutionTrace {
            run: input.run.clone(),
            execution: Execution::Traced {
                campaign: input.campaign,
            },
            failed: input.failed,
            events: Vec::new(),
            incomplete: Vec::new(),
            gaps: Vec::new(),
        },
        agent: input.agent.clone(),
        weight: input.weight,
        threads: Vec::new(),
        failing_thread: None,
        holes: Vec::new(),
        // Values and orders were not recorded at all.
        missing: true,
        passed: Passed::default(),
        thinned: Vec::new(),
        unseen_calls: Default::default(),
        watch: WatchCoverage::default(),
        freed: None,
        by_trace: false,
        counted: Vec::new(),
    };
    add_trace(&mut run, input.traced, plan);
    let failing = run
        .threads
        .iter()
        .find(|it| Some(it.tid) == input.failing_tid);
    run.failing_thread = failing.map(|it| it.index);
    run
}

/// Adds what the trace of a run says to what its hooks recorded.
pub fn add_trace(run: &mut DecodedRun, traced: &TracedRun, plan: &TrackingPlan) {
    run.by_trace |= !traced.threads.is_empty();
    run.trace.gaps.extend(traced.gaps.iter().cloned());
    let wanted: BTreeSet<StatementId> = plan.all_statements().map(|it| it.id).collect();
    for thread in &traced.threads {
        let index = index_of(run, thread.tid);
        add_events(run, index, thread, &wanted);
    }
    let branches: BTreeMap<(StatementId, u32), SiteId> = plan
        .sites
        .iter()
        .filter(|site| site.kind == PointKind::Branch)
        .map(|site| ((site.statement, site.column), site.id))
        .collect();
    for way in traced.threads.iter().flat_map(|it| &it.ways) {
        if let Some(site) = branches.get(&(way.statement, way.column)) {
            run.passed.ways.insert((*site, way.successor));
        }
    }
    run.passed.complete = traced.complete || (run.passed.complete && !plan.traces_branches());
}

/// The thread's number in the run; a new one if hooks never saw it.
fn index_of(run: &mut DecodedRun, tid: i32) -> ThreadIndex {
    if let Some(known) = run.threads.iter().find(|it| it.tid == tid) {
        return known.index;
    }
    let highest = run.threads.iter().map(|it| it.index.0).max();
    let index = ThreadIndex(highest.map_or(0, |it| it.saturating_add(1)));
    run.threads.push(RunThread { index, tid });
    index
}

fn add_events(
    run: &mut DecodedRun,
    index: ThreadIndex,
    thread: &ThreadStatements,
    wanted: &BTreeSet<StatementId>,
) {
    let (of_thread, others): (Vec<TraceEvent>, Vec<TraceEvent>) =
        std::mem::take(&mut run.trace.events)
            .into_iter()
            .partition(|event| event.thread == index);
    let mut recorded: BTreeMap<StatementId, usize> = BTreeMap::new();
    for (position, event) in of_thread.iter().enumerate() {
        if let Some(statement) = event.statement() {
            recorded.insert(statement, position);
        }
    }
    // Where a recorded statement was last seen, by hooks and by the trace.
    let mut anchors: Vec<(u64, usize)> = Vec::new();
    let mut new: Vec<ExecutedStatement> = Vec::new();
    for executed in thread
        .executed
        .iter()
        .filter(|it| wanted.contains(&it.statement))
    {
        let key = (index, executed.statement, executed.times);
        match recorded.get(&executed.statement) {
            Some(position) => anchors.push((executed.entry, *position)),
            None => {
                new.push(*executed);
                run.counted.push(key);
            }
        }
    }
    new.sort_by_key(|it| it.entry);
    // Before which event of the hooks each new one stands.
    let before = |executed: &ExecutedStatement| {
        let later = anchors.iter().filter(|(entry, _)| *entry > executed.entry);
        later.map(|(_, position)| *position).min()
    };
    let mut placed: Vec<(usize, TraceEvent)> = Vec::new();
    let mut last = 0;
    for executed in &new {
        let place = before(executed).unwrap_or(of_thread.len()).max(last);
        last = place;
        placed.push((place, event_of(index, executed)));
    }
    let (events, moved) = merged(of_thread, placed);
    for hole in run.holes.iter_mut().filter(|it| it.thread == index) {
        hole.before = moved
            .get(hole.before as usize)
            .copied()
            .unwrap_or(hole.before);
    }
    run.trace.events = others;
    run.trace.events.extend(events);
    run.trace.events.sort_by_key(|it| (it.thread, it.position));
}

fn event_of(thread: ThreadIndex, executed: &ExecutedStatement) -> TraceEvent {
    let earliest = executed.last.unwrap_or(Tsc(0));
    TraceEvent {
        thread,
        position: 0,
        candidates: vec![executed.statement],
        // That it was reached is all that is known.
        kind: EventKind::Call,
        address: None,
        location: None,
        value: None,
        passed: Vec::new(),
        when: Interval {
            earliest,
            latest: executed.until.unwrap_or(Tsc(u64::MAX)).max(earliest),
        },
        source: Source::Trace,
    }
}

/// The events with the new ones among them, numbered, and the new number of each
/// old one (and of the end).
fn merged(
    events: Vec<TraceEvent>,
    placed: Vec<(usize, TraceEvent)>,
) -> (Vec<TraceEvent>, Vec<u32>) {
    let (mut all, mut moved) = (Vec::new(), Vec::new());
    let mut placed = placed.into_iter().peekable();
    let end = events.len();
    let old = events.into_iter().map(Some).chain([None]);
    for (position, event) in old.enumerate() {
        while let Some((_, new)) = placed.next_if(|(at, _)| *at <= position || position == end) {
            all.push(new);
        }
        moved.push(all.len() as u32);
        all.extend(event);
    }
    for (position, event) in all.iter_mut().enumerate() {
        event.position = u32::try_from(position).unwrap_or(u32::MAX);
    }
    (all, moved)
}
