//! Lifetime predictors: did a statement use memory that another one had freed?
//!
//! Two forms, because they can be denied by different runs. *Seen*: a hook recorded an
//! access at the statement, after the free and before the memory was handed out again.
//! *At failure*: the program failed there, with an address in a block that was free or made
//! from a pointer into one. Both need that every free and every allocation was seen.
//!
//! A use that was seen is denied where all accesses of the statement were. One at failure is
//! denied by every run that ended well, and by one that failed with another freed block in
//! its hands; a run that failed otherwise does not tell, because the table of freed blocks
//! forgets.
//!
//! Deliberately absent: a second free of a block, and memory that was never the heap's.

use super::{Aspect, Coverage, Detector, Found, RecordedRun};
use crate::evidence::freed::{FreedMemory, free_events};
use crate::evidence::order::Evidence;
use crate::sketch::sentences::Names;
use sketch_model::{Predictor, TraceEvent};

/// What a run could show of the lifetimes of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LifetimeCoverage {
    /// Every free and every allocation was seen.
    pub observed: bool,
    /// The run ended well, or it is known with which freed block it failed.
    pub end_known: bool,
}

pub struct Lifetime;

impl Detector for Lifetime {
    fn name(&self) -> &'static str {
        "lifetime"
    }

    fn observe(&self, recorded: &RecordedRun<'_>, found: &mut Found) {
        let run = recorded.run();
        let Some(freed) = &run.freed else {
            return;
        };
        found.coverage.lifetimes = LifetimeCoverage {
            observed: true,
            end_known: !run.trace.failed || freed.iter().any(|free| free.failed_at.is_some()),
        };
        for free in freed {
            let uses = run.trace.events.iter().filter(|e| free.is_used_by(e));
            found
                .held
                .extend(uses.filter_map(|event| seen(free, event)));
            found.held.extend(at_failure(free, recorded.evidence));
        }
    }

    fn asks(&self, predictor: &Predictor) -> bool {
        matches!(predictor, Predictor::Lifetime { .. })
    }

    fn can_deny(&self, coverage: &Coverage, predictor: &Predictor) -> bool {
        let Predictor::Lifetime {
            statements: [_, used_by],
            at_failure,
            ..
        } = predictor
        else {
            return false;
        };
        let of_memory = |aspect| matches!(aspect, Aspect::Load | Aspect::Store);
        let all_seen = || coverage.complete && coverage.hooked(*used_by, |h| of_memory(h.aspect));
        let lifetimes = &coverage.lifetimes;
        lifetimes.observed
            && if *at_failure {
                lifetimes.end_known
            } else {
                all_seen()
            }
    }

    fn occurrence(&self, evidence: &Evidence<'_>, predictor: &Predictor) -> Option<Vec<usize>> {
        let run = evidence.run;
        let frees = free_events(&run.trace.events);
        let all = run.freed.iter().flatten();
        let mut latest = all.collect::<Vec<_>>();
        latest.sort_by_key(|free| std::cmp::Reverse(free.at));
        latest.into_iter().find_map(|free| {
            let number = frees.get(&(free.thread, free.at)).copied()?;
            if at_failure(free, evidence).as_ref() == Some(predictor) {
                return Some(vec![number]);
            }
            let mut uses = run.trace.events.iter().enumerate().rev();
            let used = uses.find(|(_, event)| {
                free.is_used_by(event) && seen(free, event).as_ref() == Some(predictor)
            });
            used.map(|(used, _)| vec![number, used])
        })
    }

    fn sentence(&self, predictor: &Predictor, names: &Names) -> Option<String> {
        let Predictor::Lifetime {
            statements: [freed_by, used_by],
            other_thread,
            ..
        } = predictor
        else {
            return None;
        };
        let thread = if *other_thread {
            ", in another thread,"
        } else {
            ""
        };
        let (freed, used) = (names.phrase(*freed_by), names.phrase(*used_by));
        Some(format!(
            "{freed} freed the memory that {used}{thread} then used"
        ))
    }
}

fn seen(free: &FreedMemory, event: &TraceEvent) -> Option<Predictor> {
    Some(Predictor::Lifetime {
        statements: [free.freed_by, event.statement()?],
        other_thread: event.thread != free.thread,
        at_failure: false,
    })
}

fn at_failure(free: &FreedMemory, evidence: &Evidence<'_>) -> Option<Predictor> {
    Some(Predictor::Lifetime {
        statements: [free.freed_by, free.failed_at?],
        other_thread: evidence.run.failing_thread != Some(free.thread),
        at_failure: true,
    })
}
