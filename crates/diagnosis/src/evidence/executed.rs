//! Which tracked statements ran in a run, and how that is known.
//!
//! A statement with a hook ran if the hook recorded, or a watchpoint saw it. One
//! without (nothing to hook, or pruned from the plan) ran if the plan names a
//! site whose record implies it, see [`Witness`]. Order matters for what that is
//! worth: what dominates a recorded site surely ran; what postdominates one was
//! going to run, which a failure may have prevented. It counts for successful runs
//! only, and is marked as expected, not proven.
//!
//! Deliberately absent: the opposite. Whether a statement did *not* run needs to
//! know that its hooks stand in the build and no events were lost, which is
//! `predictors`' business.

use super::decoded_run::DecodedRun;
use super::trace::Timeline;
use sketch_model::{
    EventKind, Interval, SiteId, Source, StatementId, TraceEvent, TrackingPlan, Tsc, Witness,
};
use std::collections::{BTreeMap, BTreeSet};

/// How it is known that a statement ran; better knowledge first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// A hook, a watchpoint or the processor's trace recorded it.
    Recorded,
    /// Something was recorded that can only come after it.
    Implied,
    /// Something was recorded that it comes after, and the run went well.
    Expected,
}

/// The tracked statements that ran.
pub fn executed(run: &DecodedRun, plan: &TrackingPlan) -> BTreeMap<StatementId, Proof> {
    let mut found: BTreeMap<StatementId, Proof> = BTreeMap::new();
    let mut recorded: BTreeSet<SiteId> = BTreeSet::new();
    for event in &run.trace.events {
        let proof = match event.source {
            Source::Probe(site) => {
                recorded.insert(site);
                Proof::Recorded
            }
            Source::Watchpoint | Source::Trace | Source::Allocator => Proof::Recorded,
            Source::Implied(_) => Proof::Implied,
        };
        if let Some(statement) = event.statement().filter(|s| plan.tracks(*s)) {
            let known = found.entry(statement).or_insert(proof);
            *known = proof.min(*known);
        }
    }
    for implied in plan.implied.iter().filter(|i| plan.tracks(i.statement)) {
        let proofs = implied.by.iter().filter_map(|witness| {
            let seen = recorded.contains(&witness.site());
            let proof = match witness {
                Witness::JustBefore(_) | Witness::Before(_) => Proof::Implied,
                Witness::After(_) if run.trace.failed => return None,
                Witness::After(_) => Proof::Expected,
            };
            seen.then_some(proof)
        });
        if let Some(proof) = proofs.min() {
            let known = found.entry(implied.statement).or_insert(proof);
            *known = proof.min(*known);
        }
    }
    found
}

/// Adds an event for each execution that the record of the next site implies
/// ([`Witness::JustBefore`]): the trace then reads as if the statement had a hook.
pub fn add_implied(timeline: &mut Timeline, plan: &TrackingPlan) {
    let mut follows: BTreeMap<SiteId, Vec<StatementId>> = BTreeMap::new();
    for implied in &plan.implied {
        for witness in &implied.by {
            if let Witness::JustBefore(site) = witness {
                follows.entry(*site).or_default().push(implied.statement);
            }
        }
    }
    if follows.is_empty() {
        return;
    }
    let mut events = Vec::with_capacity(timeline.events.len());
    let mut floor = Tsc(0);
    for event in std::mem::take(&mut timeline.events) {
        if let Source::Probe(site) = event.source {
            for statement in follows.get(&site).into_iter().flatten() {
                events.push(TraceEvent {
                    thread: event.thread,
                    position: 0,
                    candidates: vec![*statement],
                    kind: EventKind::Call,
                    address: None,
                    location: None,
                    value: None,
                    passed: Vec::new(),
                    when: Interval {
                        earliest: floor.min(event.when.earliest),
                        latest: event.when.earliest,
                    },
                    source: Source::Implied(site),
                });
            }
        }
        floor = floor.max(event.when.earliest);
        events.push(event);
    }
    timeline.events = events;
}
