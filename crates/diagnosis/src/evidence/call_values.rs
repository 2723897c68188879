//! Arguments, results and strings: put with the call that they belong to.
//!
//! They are recorded as events of their own behind the call's. What a call
//! returned comes after whatever happened in it, so it belongs to the last call
//! of its site that has not returned yet. One whose call was overwritten in the
//! ring belongs nowhere and is dropped: the hole is known.

use sketch_model::{
    CallValue, EventKind, ProbeEvent, ProbeKind, RunRecord, SIZE_FLAG, SiteId, Source,
    TEXT_DISGUISED, ThreadRecord, TraceEvent,
};
use std::collections::{BTreeMap, BTreeSet};

/// Takes an event that tells of a call; false if it is of another kind.
pub fn attach(events: &mut [TraceEvent], probe: &ProbeEvent) -> bool {
    let argument = match probe.kind {
        ProbeKind::Argument => Some(u16::try_from(probe.address.0).unwrap_or(u16::MAX)),
        ProbeKind::Result => None,
        ProbeKind::Text => {
            add_text(events, probe);
            return true;
        }
        _ => return false,
    };
    let is_call = |event: &&mut TraceEvent| {
        event.kind == EventKind::Call && event.source == Source::Probe(probe.site)
    };
    let returned = |event: &TraceEvent| event.passed.iter().any(|v| v.argument.is_none());
    let mut calls = events.iter_mut().rev().filter(is_call);
    let call = match argument {
        Some(_) => calls.next(),
        None => calls.find(|event| !returned(event)),
    };
    if let Some(call) = call {
        call.passed.push(CallValue {
            argument,
            value: probe.value,
            size: probe.size & !SIZE_FLAG,
            pointer: probe.size & SIZE_FLAG != 0,
            text: None,
        });
    }
    true
}

/// Sites of calls that a thread has counted more often than it has events of them.
pub fn unseen(record: &RunRecord) -> BTreeSet<SiteId> {
    let of_thread = |thread: &ThreadRecord| -> Vec<SiteId> {
        let mut seen: BTreeMap<SiteId, u64> = BTreeMap::new();
        let events = thread.head.iter().chain(&thread.tail);
        for event in events.filter(|event| event.kind == ProbeKind::Call) {
            *seen.entry(event.site).or_default() += 1;
        }
        let calls = thread.edges.iter().filter(|edge| edge.successor.is_none());
        let unseen = calls.filter(|call| seen.get(&call.site).copied().unwrap_or(0) < call.count);
        unseen.map(|call| call.site).collect()
    };
    record.threads.iter().flat_map(of_thread).collect()
}

/// A string follows the value that points to it at once.
fn add_text(events: &mut [TraceEvent], probe: &ProbeEvent) {
    let site = Source::Probe(probe.site);
    let calls = events.iter_mut().rev();
    let mut calls = calls.filter(|e| e.kind == EventKind::Call && e.source == site);
    let last = calls.find_map(|call| call.passed.last_mut());
    if let Some(value) = last.filter(|value| value.text.is_none()) {
        value.text = Some(shown(probe));
    }
}

/// The string in quotes, escaped as in C; of one that was withheld a number.
fn shown(probe: &ProbeEvent) -> String {
    if probe.size & TEXT_DISGUISED != 0 {
        return format!("string #{:04x}", probe.value & 0xffff);
    }
    let words = [probe.after.0, probe.address.0, probe.value];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let length = usize::from(probe.size & !SIZE_FLAG).min(bytes.len());
    let more = if probe.size & SIZE_FLAG != 0 {
        "…"
    } else {
        ""
    };
    format!("\"{}\"{more}", bytes[..length].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sketch_model::{RuntimeAddress, SiteId, Tsc};

    fn text(bytes: &[u8; 24], size: u16) -> ProbeEvent {
        let word = |n: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[n..n + 8]);
            u64::from_le_bytes(word)
        };
        ProbeEvent {
            site: SiteId(1),
            kind: ProbeKind::Text,
            size,
            before: Tsc(1),
            after: Tsc(word(0)),
            address: RuntimeAddress(word(8)),
            value: word(16),
        }
    }

    #[test]
    fn strings_are_escaped_and_never_longer_than_they_can_be() {
        let bytes = b"a \"b\"\n\xff{}{ and so on....";
        assert_eq!(shown(&text(bytes, 8)), r#""a \"b\"\n\xff{""#);
        assert!(shown(&text(bytes, 24 | SIZE_FLAG)).ends_with("…"));
        assert_eq!(shown(&text(bytes, 0)), "\"\"");
        shown(&text(bytes, 0x3fff));
        assert!(shown(&text(bytes, TEXT_DISGUISED)).starts_with("string #"));
    }
}
