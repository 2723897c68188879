//! What the runtime says of its watchpoints, and the hits that were collected → the
//! watchpoints' part of a record, which says how many hits there are beside those it
//! keeps.

use crate::process::region::{WatchState, WatchStatus};
use crate::watchpoints::collector::Collected;
use sketch_model::{Gap, WatchHit, WatchRecord, WatchRefusal};

/// Hits kept in a record: half of them the first, half the last.
const KEPT_HITS: usize = 4096;

/// The watchpoints' part. Untouched programs and plans that watch nothing have
/// none and need no reason (`tracked` is false);
/// `asked` says whether a tracked build was to open some.
pub fn watch_record(
    tracked: bool,
    asked: bool,
    status: &WatchStatus,
    mut collected: Collected,
    gaps: &mut Vec<Gap>,
) -> WatchRecord {
    gaps.append(&mut collected.gaps);
    let received = collected.hits.len() as u64;
    let hits = trim(collected.hits, gaps);
    if collected.counted > received {
        gaps.push(Gap::HitsLost {
            lost: collected.counted - received,
            counted: collected.counted,
        });
    }
    let refused = match &status.state {
        _ if !tracked => None,
        _ if !asked => Some(WatchRefusal::NotOffered),
        WatchState::Ready => None,
        // The agent's own reason is nearer to the cause than "the agent refused".
        WatchState::Refused(why) => Some(collected.refused.unwrap_or_else(|| why.clone())),
        WatchState::Untried => Some(WatchRefusal::RuntimeNotStarted),
    };
    WatchRecord {
        hits,
        counted: collected.counted,
        armed: status.armed,
        // The program may have written anything over these.
        skipped_aims: [
            status.arm_errors,
            status.arms_contended,
            status.arms_over_limit,
            status.arms_sandboxed,
            status.arms_own_stack,
            u64::from(collected.ended_early),
        ]
        .into_iter()
        .fold(0, u64::saturating_add),
        disarmed: status.disarms,
        refused,
    }
}

fn trim(mut hits: Vec<WatchHit>, gaps: &mut Vec<Gap>) -> Vec<WatchHit> {
    if hits.len() > KEPT_HITS {
        let dropped = hits.len() - KEPT_HITS;
        let from = KEPT_HITS / 2;
        hits.drain(from..from + dropped);
        gaps.push(Gap::HitsTrimmed {
            count: dropped as u64,
            kept: from as u64,
        });
    }
    hits
}
