//! Pieces of one run → its record.

use crate::{
    modules::Module,
    perf::collector::Collected,
    shared_memory::{WatchState, WatchStatus},
};
use sketch_model::{Mapping, RunId, TrackingRecord, WatchHit, WatchRecord};

/// Hits kept in a record: half of them the first, half the last.
const MOST_HITS: usize = 4096;

/// A name for a run that no other run has.
pub fn run_id(agent: &str, random: u64) -> RunId {
    RunId(format!("{agent}-{}-{random:016x}", std::process::id()))
}

/// The watchpoints' part. Untouched programs and plans that watch nothing have
/// none and need no reason (`tracked` is false);
/// `asked` says whether a tracked build was to open some.
pub fn watch_record(
    tracked: bool,
    asked: bool,
    status: &WatchStatus,
    mut collected: Collected,
    gaps: &mut Vec<String>,
) -> WatchRecord {
    gaps.append(&mut collected.gaps);
    let received = collected.hits.len() as u64;
    let hits = trim(collected.hits, gaps);
    if collected.counted > received {
        gaps.push(format!(
            "{} of {} watchpoint hits were lost",
            collected.counted - received,
            collected.counted
        ));
    }
    let refused = match &status.state {
        _ if !tracked => None,
        _ if !asked => {
            Some("this machine offers no watchpoints; `failsketch-agent doctor` says why".into())
        }
        WatchState::Ready => None,
        // The agent's own reason is nearer to the cause than "the agent refused".
        WatchState::Refused(reason) => Some(collected.refused.unwrap_or_else(|| reason.clone())),
        WatchState::Untried => Some("the runtime in the tracked build did not start".into()),
    };
    WatchRecord {
        hits,
        counted: collected.counted,
        armed: status.armed,
        skipped_aims: status.arm_errors
            + status.arms_contended
            + status.arms_over_limit
            + status.arms_sandboxed,
        disarmed: status.disarms,
        refused,
    }
}

/// What the pauses of a run amount to, in a sentence.
pub fn pauses(tracking: &TrackingRecord) -> Option<String> {
    let share = tracking.max_overhead?;
    if tracking.pauses.is_empty() {
        return None;
    }
    let times = match tracking.pauses.len() {
        1 => "once".to_string(),
        n => format!("{n} times"),
    };
    Some(format!(
        "recording was paused {times} to keep its cost at {}% of processor time; it was on for \
         {:.1}% of the run",
        share * 100.0,
        tracking.coverage() * 100.0
    ))
}

fn trim(mut hits: Vec<WatchHit>, gaps: &mut Vec<String>) -> Vec<WatchHit> {
    if hits.len() > MOST_HITS {
        let dropped = hits.len() - MOST_HITS;
        let from = MOST_HITS / 2;
        hits.drain(from..from + dropped);
        gaps.push(format!(
            "{dropped} watchpoint hits between the first and the last {from} were not kept"
        ));
    }
    hits
}

/// The mappings that hits can be attributed to.
pub fn mappings(modules: &[Module]) -> Vec<Mapping> {
    modules.iter().map(Module::mapping).collect()
}
