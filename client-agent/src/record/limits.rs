//! Pieces of one run → its record.

use crate::process::modules::Module;
use crate::process::region::{WatchState, WatchStatus};
use crate::watchpoints::collector::Collected;
use sketch_model::{
    Gap, Mapping, RecordPart, RunId, RunRecord, TrackingRecord, WatchHit, WatchRecord, WatchRefusal,
};

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

/// What the pauses of a run amount to.
pub fn pauses(tracking: &TrackingRecord) -> Option<Gap> {
    let share = tracking.max_overhead?;
    if tracking.pauses.is_empty() {
        return None;
    }
    Some(Gap::RecordingPaused {
        times: tracking.pauses.len() as u64,
        limit_ppm: (share * 1e6).round() as u64,
        on_permille: (tracking.coverage() * 1e3).round() as u64,
    })
}

fn trim(mut hits: Vec<WatchHit>, gaps: &mut Vec<Gap>) -> Vec<WatchHit> {
    if hits.len() > MOST_HITS {
        let dropped = hits.len() - MOST_HITS;
        let from = MOST_HITS / 2;
        hits.drain(from..from + dropped);
        gaps.push(Gap::HitsTrimmed {
            count: dropped as u64,
            kept: from as u64,
        });
    }
    hits
}

/// The record as it is sent, at most `largest` bytes long. Parts that do not fit are
/// left out, the most valuable last, and each leaves a gap: the report of a failure is
/// worth more than everything beside it.
pub fn written(record: &mut RunRecord, largest: usize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    for (part, leave_out) in LEFT_OUT {
        if line.len() <= largest {
            break;
        }
        if leave_out(record) {
            record.gaps.push(Gap::LeftOut {
                part,
                bytes: line.len() as u64,
                most: largest as u64,
            });
            line = serde_json::to_vec(record)?;
        }
    }
    Ok(line)
}

/// What can be left out, and how; each says whether there was any.
type LeaveOut = (RecordPart, fn(&mut RunRecord) -> bool);
const LEFT_OUT: [LeaveOut; 3] = [
    (RecordPart::IntelPt, |record| record.pt.take().is_some()),
    (RecordPart::WatchpointHits, |record| {
        !std::mem::take(&mut record.watch.hits).is_empty()
    }),
    (RecordPart::Threads, |record| {
        let threads = record.threads.len() as u32;
        record.unrecorded_threads = record.unrecorded_threads.saturating_add(threads);
        !std::mem::take(&mut record.threads).is_empty()
    }),
];

/// The mappings that hits can be attributed to.
pub fn mappings(modules: &[Module]) -> Vec<Mapping> {
    modules.iter().map(Module::mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(hits: usize) -> RunRecord {
        let hit = serde_json::json!({
            "slot": 0, "tid": 1, "handled_ns": 1, "after_pc": 4096, "address": 4096,
            "registers": vec![u64::MAX; 16], "stack": vec![u64::MAX; 32],
        });
        let text = serde_json::json!({
            "id": "a-1", "agent": "a", "build": "ab", "tier": "inline", "variant": null,
            "sampling_probability": 1.0, "wall_us": 1, "cpu_us": 1, "threads": [],
            "outcome": { "failure": {
                "kind": "hang", "fault_address": null, "threads": [], "mappings": [], "gaps": [],
            }},
            "watch": { "hits": vec![hit; hits], "counted": hits, "armed": 1, "refused": null },
            "clock": { "start_tsc": 0, "start_ns": 0, "end_tsc": 1, "end_ns": 1, "error_ns": 0 },
            "mappings": [], "gaps": [],
        });
        serde_json::from_value(text).expect("is a record")
    }

    #[test]
    fn what_is_too_large_is_left_out_and_said_and_the_report_stays() {
        let mut small = record(3);
        let line = written(&mut small, 100_000).expect("is written");
        assert!(line.len() < 100_000 && small.watch.hits.len() == 3 && small.gaps.is_empty());

        let mut large = record(2000);
        let line = written(&mut large, 100_000).expect("is written");
        assert!(line.len() < 100_000, "{}", line.len());
        let sent: RunRecord = serde_json::from_slice(&line).expect("is a record");
        assert!(sent.failed() && sent.watch.hits.is_empty());
        assert_eq!(sent.watch.counted, 2000, "that there were some stays known");
        let [Gap::LeftOut { part, bytes, most }] = sent.gaps[..] else {
            panic!("{:?}", sent.gaps);
        };
        assert_eq!((part, most), (RecordPart::WatchpointHits, 100_000));
        assert!(bytes > most, "{bytes}");
    }
}
