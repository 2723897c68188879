//! Branch predictors: did the branch at this place ever go this way?
//!
//! A record says which successor was taken, so there is nothing doubtful about
//! one; what can be missing is the hook, or a stretch that was not recorded.
//! Events that a thread lost do not matter: its account of edges has them. Where
//! the processor traces, branches have no hooks and the trace is the account.

use super::{Aspect, Coverage, Observations};
use crate::evidence::decoded_run::DecodedRun;
use sketch_model::{EventKind, Predictor, Source, StatementId, TrackingPlan};

pub(super) fn observe(run: &DecodedRun, plan: &TrackingPlan, observations: &mut Observations) {
    for event in &run.trace.events {
        let (EventKind::Branch { successor }, Source::Probe(site)) = (event.kind, event.source)
        else {
            continue;
        };
        if let Some(site) = plan.site(site) {
            observations.held.insert(Predictor::Branch {
                statement: site.statement,
                column: site.column,
                successor,
            });
        }
    }
}

/// What the threads' accounts say beyond their events.
pub(super) fn observe_accounts(
    run: &DecodedRun,
    plan: &TrackingPlan,
    observations: &mut Observations,
) {
    for (site, successor) in &run.passed.ways {
        if let Some(site) = plan.site(*site) {
            observations.held.insert(Predictor::Branch {
                statement: site.statement,
                column: site.column,
                successor: *successor,
            });
        }
    }
    observations.coverage.branches_complete = run.passed.complete;
}

/// A branch of which some outcomes pass no hook would count only in runs in which
/// it was seen: it cannot be compared.
pub(super) fn forget_partial(observations: &mut Observations) {
    let coverage = &observations.coverage;
    observations.held.retain(|predictor| match predictor {
        Predictor::Branch {
            statement, column, ..
        } => shown(coverage, *statement, *column),
        _ => true,
    });
}

pub(super) fn shown(coverage: &Coverage, statement: StatementId, column: u32) -> bool {
    coverage.hooked(statement, |h| {
        h.aspect == Aspect::Branch && h.column == column
    })
}
