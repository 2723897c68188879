//! Branch predictors: did the branch at this place ever go this way?
//!
//! A record says which successor was taken, so there is nothing doubtful about
//! one; what can be missing is the hook, or a stretch that was not recorded.
//! Events that a thread lost do not matter: its account of edges has them. Where
//! the processor traces, branches have no hooks and the trace is the account.
//!
//! A branch of which some outcomes pass no hook would count only in runs in which
//! it was seen, so it cannot be compared and is no predictor.

use super::{Aspect, Coverage, Detector, Found, RecordedRun};
use crate::sketch::condition::{Decision, decision};
use crate::sketch::sentences::Names;
use sketch_model::{EventKind, Predictor, SiteId, Source, StatementId};

pub struct Branch;

impl Detector for Branch {
    fn name(&self) -> &'static str {
        "branch"
    }

    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found) {
        let (run, plan) = (recorded.run(), recorded.plan);
        found.coverage.branches_traced = plan.traces_branches();
        found.coverage.branches_complete = run.passed.complete;
        let by_events = run.trace.events.iter().filter_map(taken);
        // What the threads' accounts say beyond their events.
        let by_account = run.passed.ways.iter().copied();
        for (site, successor) in by_events.chain(by_account) {
            let Some(site) = plan.site(site) else {
                continue;
            };
            if is_hooked(&found.coverage, site.statement, site.column) {
                found.held.insert(Predictor::Branch {
                    statement: site.statement,
                    column: site.column,
                    successor,
                });
            }
        }
    }

    fn asks(&self, predictor: &Predictor) -> bool {
        matches!(predictor, Predictor::Branch { .. })
    }

    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool {
        let Predictor::Branch {
            statement, column, ..
        } = predictor
        else {
            return false;
        };
        let by_hooks = coverage.complete && !coverage.branches_traced;
        (by_hooks || coverage.branches_complete) && is_hooked(coverage, *statement, *column)
    }

    fn sentence(&self, predictor: &Predictor, names: &Names) -> Option<String> {
        match predictor {
            Predictor::Branch {
                statement,
                column,
                successor,
            } => Some(claim(*statement, *column, *successor, names)),
            _ => None,
        }
    }
}

/// "the condition `x == 1` (main, a.c:3) was true"
fn claim(id: StatementId, column: u32, outcome: u32, names: &Names) -> String {
    let phrase = names.phrase(id);
    let statement = names.statements.get(&id);
    let text = statement.map_or("", |statement| &statement.text);
    match (decision(text, outcome), statement) {
        (Decision::Condition { tested, holds }, Some(statement)) => {
            let place = names.place(statement);
            format!("the condition `{tested}` {place} was {holds}")
        }
        (Decision::OneOfSeveral { holds }, _) => {
            format!("{phrase} found its condition at column {column} {holds}")
        }
        (Decision::Switch { value }, _) => format!("{phrase} switched on the value {value}"),
        _ => format!("{phrase} took outcome {outcome} of its branch at column {column}"),
    }
}

fn taken(event: &sketch_model::TraceEvent) -> Option<(SiteId, u32)> {
    match (event.kind, event.source) {
        (EventKind::Branch { successor }, Source::Probe(site)) => Some((site, successor)),
        _ => None,
    }
}

fn is_hooked(coverage: &Coverage, statement: StatementId, column: u32) -> bool {
    coverage.hooked(statement, |h| {
        h.aspect == Aspect::Branch && h.column == column
    })
}
