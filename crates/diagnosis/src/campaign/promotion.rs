//! Which watched locations may hand over to hooks.
//!
//! A hit that a hook recorded too teaches nothing and costs a thousand times as
//! much. So [`Findings`] gathers, over the runs of an iteration and by location,
//! which accesses were made to it: those that a hook recorded and those that only
//! the watchpoint saw. A location is ready once enough runs have shown it and
//! every access belongs to a certain statement with a known effect: then hooks
//! *can* record all that was ever seen. Whether the next plan has those hooks,
//! and whether the optimiser left them a place, is checked when it is planned
//! (`slicer/src/planner/promotion.rs`); a location whose hooks are missing stays
//! watched.
//!
//! What blocks: a hit made inside a library (no hook of ours records it), a hit
//! that may belong to several statements or to none.
//!
//! A promoted location is watched in audit runs only. What those find is treated
//! the same: a new statement joins the needs, anything else takes the promotion
//! back.

use crate::evidence::decoded_run::DecodedRun;
use sketch_model::{EventKind, LocationName, Need, Promotion, RunRecord, Source, TrackingPlan};
use std::collections::{BTreeMap, BTreeSet};

/// Runs in which a location was hit before its accesses count as known.
pub const RUNS_SEEN: u64 = 10;

#[derive(Debug, Default)]
struct Found {
    /// Runs in which a watchpoint saw an access to it, and those that failed.
    runs: u64,
    failing: u64,
    needs: BTreeSet<Need>,
    /// Hits that no hook can ever record, or that are not certain enough.
    opaque: u64,
}

/// What watchpoints have shown so far, by location.
#[derive(Debug, Default)]
pub struct Findings(BTreeMap<LocationName, Found>);

impl Findings {
    /// Adds a run of a plan.
    pub fn add(&mut self, record: &RunRecord, run: &DecodedRun, plan: &TrackingPlan) {
        let slots: BTreeSet<u8> = record.watch.hits.iter().map(|hit| hit.slot).collect();
        for slot in slots {
            if let Some(location) = plan.watched.get(usize::from(slot)) {
                let found = self.0.entry(location.clone()).or_default();
                found.runs += 1;
                found.failing += u64::from(record.failed());
            }
        }
        for event in &run.trace.events {
            let Some(location) = event.location.as_ref() else {
                continue;
            };
            let watched = event.source == Source::Watchpoint;
            let found = match self.0.get_mut(location) {
                Some(found) if watched || plan.watched.contains(location) => found,
                _ => continue,
            };
            match (event.statement(), event.kind) {
                (Some(statement), EventKind::Read | EventKind::Write) => {
                    found.needs.insert(Need {
                        statement,
                        writes: event.kind == EventKind::Write,
                    });
                }
                _ => found.opaque += u64::from(watched),
            }
        }
    }

    /// The locations that are ready. Those that were before stay so unless this
    /// iteration saw something that speaks against it.
    pub fn promotions(&self, before: &[Promotion]) -> Vec<Promotion> {
        let locations: BTreeSet<&LocationName> = before
            .iter()
            .map(|promotion| &promotion.location)
            .chain(self.0.keys())
            .collect();
        let ready = |location: &LocationName| -> Option<Promotion> {
            let known = before.iter().find(|p| p.location == *location);
            let found = self.0.get(location);
            if found.is_some_and(|found| found.opaque > 0) {
                return None;
            }
            let enough = found.is_some_and(|f| f.runs >= RUNS_SEEN && f.failing > 0);
            if known.is_none() && !enough {
                return None;
            }
            let mut needs = known.map_or_else(BTreeSet::new, |p| p.needs.clone());
            needs.extend(found.iter().flat_map(|found| &found.needs));
            Some(Promotion {
                location: location.clone(),
                needs,
            })
        };
        locations.into_iter().filter_map(ready).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::decoded_run::WatchCoverage;
    use sketch_model::{
        Capabilities, ExecutionTrace, Interval, RunId, SiteId, StatementId, ThreadIndex,
        TraceEvent, Tsc,
    };
    use test_support::records::{self, RunBuilder};

    fn location() -> LocationName {
        LocationName::Global("mut".into())
    }

    fn plan() -> TrackingPlan {
        TrackingPlan {
            sites: Vec::new(),
            watched: vec![location()],
            ..records::plan(Capabilities::watchpoints())
        }
    }

    /// A run in which the location was hit and these accesses were made to it.
    fn run(failed: bool, accesses: &[(Source, &[u32], EventKind)]) -> (RunRecord, DecodedRun) {
        let variant = records::variant(1, 1, 0);
        let event = |(source, candidates, kind): &(Source, &[u32], EventKind)| TraceEvent {
            thread: ThreadIndex(0),
            position: 0,
            candidates: candidates.iter().map(|id| StatementId(*id)).collect(),
            kind: *kind,
            address: None,
            location: Some(location()),
            value: None,
            passed: Vec::new(),
            when: Interval {
                earliest: Tsc(1),
                latest: Tsc(2),
            },
            source: *source,
        };
        let record = match failed {
            true => records::failing("r"),
            false => records::successful("r"),
        };
        let record = record
            .on(Capabilities::watchpoints())
            .tracked(variant)
            .hit(0);
        let run = DecodedRun {
            agent: record.agent.clone(),
            by_trace: false,
            counted: Vec::new(),
            thinned: Vec::new(),
            unseen_calls: Default::default(),
            freed: None,
            trace: ExecutionTrace {
                run: RunId("r".into()),
                execution: record.execution,
                failed,
                events: accesses.iter().map(event).collect(),
                incomplete: Vec::new(),
                gaps: Vec::new(),
            },
            weight: 1.0,
            threads: Vec::new(),
            failing_thread: None,
            holes: Vec::new(),
            missing: false,
            passed: Default::default(),
            watch: WatchCoverage::default(),
        };
        (record, run)
    }

    fn need(statement: u32, writes: bool) -> Need {
        Need {
            statement: StatementId(statement),
            writes,
        }
    }

    fn found(accesses: &[(Source, &[u32], EventKind)]) -> Findings {
        let mut findings = Findings::default();
        for number in 0..RUNS_SEEN {
            let (record, run) = run(number == 0, accesses);
            findings.add(&record, &run, &plan());
        }
        findings
    }

    const SEEN: Source = Source::Watchpoint;
    const HOOKED: Source = Source::Probe(SiteId(0));

    #[test]
    fn a_location_whose_statements_are_all_known_is_ready() {
        let findings = found(&[
            (HOOKED, &[1], EventKind::Read),
            (SEEN, &[2], EventKind::Write),
        ]);
        let [promotion] = findings.promotions(&[]).try_into().expect("one");
        let needs = BTreeSet::from([need(1, false), need(2, true)]);
        assert_eq!(promotion.needs, needs);
    }

    #[test]
    fn what_no_hook_can_record_keeps_the_watchpoint() {
        let library = found(&[(SEEN, &[2], EventKind::Call)]);
        assert_eq!(library.promotions(&[]), []);
        let ambiguous = found(&[(SEEN, &[2, 3], EventKind::Read)]);
        assert_eq!(ambiguous.promotions(&[]), []);
        let nowhere = found(&[(SEEN, &[], EventKind::Write)]);
        assert_eq!(nowhere.promotions(&[]), []);
    }

    #[test]
    fn too_few_runs_prove_nothing_and_neither_do_successful_ones_alone() {
        let mut findings = Findings::default();
        let accesses: &[(Source, &[u32], EventKind)] = &[(SEEN, &[2], EventKind::Read)];
        for _ in 0..3 * RUNS_SEEN {
            let (record, run) = run(false, accesses);
            findings.add(&record, &run, &plan());
        }
        assert_eq!(findings.promotions(&[]), []);
        let (record, run) = run(true, accesses);
        findings.add(&record, &run, &plan());
        assert_eq!(findings.promotions(&[]).len(), 1);
    }

    #[test]
    fn an_audit_adds_a_statement_and_takes_back_what_hooks_cannot_record() {
        let before = [Promotion {
            location: location(),
            needs: BTreeSet::from([need(1, false)]),
        }];
        assert_eq!(Findings::default().promotions(&before), before);
        let audited = |candidates: &[u32], kind| {
            let mut findings = Findings::default();
            let (record, run) = run(false, &[(SEEN, candidates, kind)]);
            findings.add(&record, &run, &plan());
            findings.promotions(&before)
        };
        let added = audited(&[7], EventKind::Write);
        let needs = BTreeSet::from([need(1, false), need(7, true)]);
        assert_eq!(added[0].needs, needs);
        assert_eq!(audited(&[7], EventKind::Call), []);
    }
}
