//! Accesses that were made too often for all of them to be kept.
//!
//! A hook in a hot loop would push everything else out of its thread's record.
//! After some hundreds of events of one site the runtime keeps only the latest,
//! and what all its values looked like (`crates/inprocess/recorder/src/recorder.rs`). Here
//! the latest event takes its place in the thread's timeline, and what lies
//! between it and the first ones is noted as lost: a write among it may have come
//! between any two others, and nobody may say of it that it did not happen. Where the
//! thread tired of the access, so is what may have come after the latest.

use super::decoded_run::{DecodedRun, ThinnedAccess};
use super::trace::{Timeline, probe_event};
use sketch_model::{
    EventKind, Interval, LocationName, PointKind, Source, StatementId, ThreadRecord, TrackingPlan,
    Tsc,
};
use std::collections::BTreeSet;

/// Of what is lost up to the end of the run.
pub const END: Tsc = Tsc(u64::MAX);

/// Puts the latest events where they belong, and returns what is lost.
pub fn take_in(
    timeline: &mut Timeline,
    thread: &ThreadRecord,
    plan: &TrackingPlan,
) -> Vec<ThinnedAccess> {
    let index = timeline.thread.index;
    let mut lost = Vec::new();
    for thinned in &thread.thinned {
        let Some(latest) = thinned.latest else {
            continue;
        };
        let Some(event) = probe_event(index, &latest, plan) else {
            continue;
        };
        let same = |e: &&sketch_model::TraceEvent| e.source == event.source && e.kind == event.kind;
        let kept = timeline.events.iter().filter(same);
        let last_kept = kept.map(|e| e.when.earliest).max().unwrap_or(Tsc(0));
        let when = event.when;
        let accesses = matches!(event.kind, EventKind::Read | EventKind::Write);
        if let Some(site) = plan.site(latest.site).filter(|_| accesses) {
            lost.push(ThinnedAccess {
                thread: index,
                site: site.id,
                statement: site.statement,
                column: site.column,
                location: site.location.clone().unwrap_or(LocationName::Unnamed),
                writes: site.kind == PointKind::Store,
                lost: Interval {
                    earliest: last_kept,
                    latest: match thinned.tired {
                        true => END,
                        false => when.latest,
                    },
                },
                shapes: thinned.shapes,
            });
        }
        let place = timeline
            .events
            .partition_point(|e| e.when.earliest <= when.earliest);
        timeline.holes = timeline
            .holes
            .iter()
            .map(|hole| hole + usize::from(place <= *hole))
            .collect();
        timeline.events.insert(place, event);
    }
    lost
}

/// Statements of whose accesses to a location nobody can say that they did not
/// meet another thread's: lost ones and that thread's may have come in any order.
pub fn unknown_order(run: &DecodedRun) -> BTreeSet<(StatementId, LocationName)> {
    let meets = |lost: &ThinnedAccess| {
        let recorded = run.trace.events.iter().any(|event| {
            let writes = event.kind == EventKind::Write;
            event.thread != lost.thread
                && (writes || (lost.writes && event.kind == EventKind::Read))
                && may_be_same(event.location.as_ref(), &lost.location)
                && lost.may_meet(event.when)
        });
        recorded
            || run.thinned.iter().any(|other| {
                other.thread != lost.thread
                    && (other.writes || lost.writes)
                    && may_be_same(Some(&other.location), &lost.location)
                    && lost.may_meet(other.lost)
            })
    };
    let meeting = run.thinned.iter().filter(|lost| meets(lost));
    meeting
        .map(|lost| (lost.statement, lost.location.clone()))
        .collect()
}

pub fn may_be_same(a: Option<&LocationName>, b: &LocationName) -> bool {
    match a {
        None | Some(LocationName::Unnamed) => true,
        Some(a) => a == b || *b == LocationName::Unnamed,
    }
}

/// Where the event stands that ends what a site lost.
pub fn end_of(run: &DecodedRun, lost: &ThinnedAccess) -> Option<u32> {
    let of_site =
        run.trace.events.iter().filter(|event| {
            event.thread == lost.thread && event.source == Source::Probe(lost.site)
        });
    of_site.map(|event| event.position).max()
}
