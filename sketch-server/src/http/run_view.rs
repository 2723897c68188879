//! Two recorded runs as the page that compares them wants them.
//!
//! Pure but for its arguments: what a run did at each statement, how often, by
//! which threads, with which values last, and where that stands in the order of
//! the run. Order is by the middle of each event's interval and only tells where
//! to look; what is *proven* is on the sketch.

use diagnosis::DecodedRun;
use diagnosis::evidence::order::Evidence;
use diagnosis::evidence::roles;
use diagnosis::sketch::values;
use sketch_model::{RunRecord, Slice, Source, Statement, StatementId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use viewer::{RunSide, SideBySide, SideCell, SideRow};

/// A run's record and what it decodes to.
pub type Recorded = (RunRecord, DecodedRun);

/// `statement` describes a statement by its id.
pub fn side_by_side(
    iteration: u32,
    slice: &Slice,
    failing: Option<&Recorded>,
    successful: Option<&Recorded>,
    statement: impl Fn(StatementId) -> Option<Statement>,
) -> SideBySide {
    let cells = |run: Option<&Recorded>| run.map_or_else(BTreeMap::new, |r| cells(&r.1, slice));
    let (left, right) = (cells(failing), cells(successful));
    let mut ids: Vec<StatementId> = left
        .keys()
        .chain(right.keys())
        .copied()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let place = |id: &StatementId| left.get(id).or(right.get(id)).map(|c| c.position);
    ids.sort_by_key(|id| (place(id), *id));
    let rows = ids.into_iter().filter_map(|id| {
        Some(SideRow {
            statement: statement(id)?,
            failing: left.get(&id).cloned(),
            successful: right.get(&id).cloned(),
        })
    });
    SideBySide {
        iteration,
        rows: rows.collect(),
        failing: failing.map(side),
        successful: successful.map(side),
    }
}

fn side((record, run): &Recorded) -> RunSide {
    RunSide {
        id: record.id.0.clone(),
        agent: record.agent.0.clone(),
        wall_us: record.wall_us,
        cpu_us: record.cpu_us,
        gaps: run.trace.gaps.clone(),
    }
}

fn cells(run: &DecodedRun, slice: &Slice) -> BTreeMap<StatementId, SideCell> {
    let evidence = Evidence::new(run);
    let threads = roles::roles(run, slice);
    let mut events: BTreeMap<StatementId, Vec<usize>> = BTreeMap::new();
    for (number, event) in run.trace.events.iter().enumerate() {
        if let Some(id) = event.statement() {
            events.entry(id).or_default().push(number);
        }
    }
    let last = |numbers: &[usize]| numbers.iter().map(|n| evidence.midpoint(*n)).max();
    let mut order: Vec<(Option<u64>, StatementId)> =
        events.iter().map(|(id, n)| (last(n), *id)).collect();
    order.sort();
    let position: HashMap<StatementId, u32> = (1..)
        .zip(&order)
        .map(|(position, (_, id))| (*id, position))
        .collect();
    let cell = |id: StatementId, mut numbers: Vec<usize>| {
        numbers.sort_by_key(|n| evidence.midpoint(*n));
        let ran: BTreeSet<_> = numbers.iter().map(|n| evidence.event(*n).thread).collect();
        let named = threads.iter().filter(|t| ran.contains(&t.index));
        SideCell {
            times: times(run, &numbers),
            position: position.get(&id).copied().unwrap_or(0),
            threads: named.map(|t| t.role.clone()).collect(),
            values: values::values(&evidence, &numbers),
        }
    };
    events
        .into_iter()
        .map(|(id, numbers)| (id, cell(id, numbers)))
        .collect()
}

/// One execution leaves an event at each of its hooks: the busiest counts.
fn times(run: &DecodedRun, numbers: &[usize]) -> u64 {
    let mut by_source: HashMap<Source, u64> = HashMap::new();
    for number in numbers {
        let source = run.trace.events[*number].source;
        *by_source.entry(source).or_default() += 1;
    }
    by_source.into_values().max().unwrap_or(0)
}
