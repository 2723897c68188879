//! Records that cannot be true, whatever the program did. Pure.
//!
//! Refused are only contradictions that no honest recorder can produce; a record
//! with losses, odd clocks or few events is an honest one, and its doubts are
//! counted where they matter.

use sketch_model::{ProbeEvent, ProbeKind, RunRecord, SiteId, ThreadRecord};
use std::collections::HashSet;

/// Contradictions of a record with itself.
pub fn alone(record: &RunRecord) -> Result<(), String> {
    let sampled = record.sampling_probability;
    if !(sampled > 0.0 && sampled <= 1.0) {
        return Err(format!(
            "the run's sampling probability is {sampled}; it must be above 0 and at most 1"
        ));
    }
    let mut seen = HashSet::new();
    for thread in &record.threads {
        if !seen.insert(thread.index) {
            return Err(format!(
                "thread {} is in the record twice; a thread has one record",
                thread.index
            ));
        }
        // The bytes of a string stand where other events have their end.
        let backwards = |e: &&ProbeEvent| e.kind != ProbeKind::Text && e.after < e.before;
        if let Some(event) = thread.events().find(backwards) {
            return Err(format!(
                "an event at site {} of thread {} ended before it began",
                event.site, thread.index
            ));
        }
    }
    let recorded = record.threads.iter().any(|t| t.events().next().is_some());
    if record.execution.is_original() && recorded {
        return Err(
            "the run is of the original build, which has no hooks, but hooks recorded events in it"
                .into(),
        );
    }
    Ok(())
}

/// Contradictions of a record with the sites of the tracked build it names.
pub fn with_sites(record: &RunRecord, known: &HashSet<SiteId>) -> Result<(), String> {
    let sites = |thread: &ThreadRecord| {
        let strange = thread.events().map(|e| e.site).find(|s| !known.contains(s));
        strange.map(|site| (thread.index, site))
    };
    match record.threads.iter().find_map(sites) {
        Some((thread, site)) => Err(format!(
            "thread {thread} recorded an event at site {site}, which the tracked build does not have"
        )),
        None => Ok(()),
    }
}
