//! A record as it is sent has a greatest length. What makes it longer is left out,
//! dearest last, and that is said.

use sketch_model::{Gap, RecordPart, RunRecord};

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
