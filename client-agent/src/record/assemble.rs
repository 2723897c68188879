//! What is known of a run that goes on or has ended → its record.

use crate::governor::context_switches::SWITCH_NS;
use crate::intel_pt::Tracing;
use crate::patches::tracked_build::TrackedBuild;
use crate::policy::WatchWay;
use crate::process::hang::Hang;
use crate::process::modules::MainModule;
use crate::process::region::{EndedThreads, Remains};
use crate::process::supervise::Ended;
use crate::process::{clock, sys};
use crate::record::limits;
use crate::run::program::KnownProgram;
use crate::run::{Preparation, Recorder, Running, check, outcome};
use crate::watchpoints::collector::Collected;
use sketch_model::{FailureKind, Gap, Outcome, Privacy, PtRecord, RunRecord, Schema, WatchRefusal};
use std::mem::take;

/// When the record is made.
pub enum Moment<'a> {
    Ended(Ended),
    /// It hangs, and goes on doing so.
    Hangs(&'a Hang),
    /// It was found to hang, and then ended.
    EndedAfter(&'a Hang, Ended),
}

impl Moment<'_> {
    fn hang(&self) -> Option<&Hang> {
        match self {
            Moment::Hangs(hang) | Moment::EndedAfter(hang, _) => Some(hang),
            Moment::Ended(_) => None,
        }
    }

    fn ended(&self) -> Option<Ended> {
        match self {
            Moment::Ended(ended) | Moment::EndedAfter(_, ended) => Some(*ended),
            Moment::Hangs(_) => None,
        }
    }
}

/// A run from its start to its record.
pub struct Recording<'a> {
    pub known: &'a KnownProgram,
    /// The tracked build, if it is what runs.
    pub tracked: Option<&'a TrackedBuild>,
    pub asked_to_watch: bool,
    pub running: Running,
    pub preparation: Option<Preparation>,
    pub gaps: Vec<Gap>,
}

impl Recording<'_> {
    /// The run's Intel PT so far; it ends here.
    fn take_trace(&mut self, gaps: &mut Vec<Gap>) -> Option<PtRecord> {
        let trace = self.running.trace.take()?;
        let traced = trace.map_err(|refusal| Gap::TraceRefused {
            because: refusal.to_string(),
        });
        match traced.and_then(Tracing::finish) {
            Ok(traced) => {
                gaps.extend(traced.gaps);
                Some(traced.record)
            }
            Err(gap) => {
                gaps.push(gap);
                None
            }
        }
    }

    /// The record of this moment; a run has one.
    pub fn record(&mut self, recorder: &mut Recorder, moment: &Moment<'_>) -> RunRecord {
        let end = clock::read();
        let elapsed = self.running.started.elapsed();
        let mut gaps = take(&mut self.gaps);
        // Before anything else is executed that would be traced as well.
        let pt = self.take_trace(&mut gaps);
        let mut collected = Collected::default();
        let mut remains = Remains::read(&[], EndedThreads::default());
        if let Some(preparation) = &mut self.preparation {
            // The steward must have stopped taking slots before they are read. Of
            // a program that goes on it has not: what it took is not in the report.
            match (moment.ended(), preparation.collector.take()) {
                (Some(_), Some(collector)) => collected = collector.finish(),
                (_, collector) => preparation.collector = collector,
            }
            if moment.ended().is_none() {
                gaps.push(Gap::HangGoesOn);
            }
            match preparation.region.bytes() {
                Ok(bytes) => remains = Remains::read(&bytes, take(&mut collected.report.ended)),
                Err(error) => gaps.push(Gap::RecordsUnreadable {
                    because: error.to_string(),
                }),
            }
            if remains.pid.is_none() {
                gaps.push(Gap::RuntimeNotActive);
            }
        }
        gaps.append(&mut remains.gaps);
        let main = self
            .tracked
            .map_or_else(|| self.known.main_module(), TrackedBuild::main_module);
        let outcome = outcome(recorder, moment, &remains, &main, &mut gaps);
        let at_crash = remains.crash.as_ref().map(|crash| &crash.maps);
        let maps = at_crash
            .filter(|maps| !maps.is_empty())
            .unwrap_or(&remains.maps);
        // Only hits are attributed by them, and reading the files behind them takes
        // longer than many a command.
        let mappings = match self.tracked {
            Some(_) => limits::mappings(&recorder.modules.modules(maps, &main)),
            None => Vec::new(),
        };
        let mut tracking = take(&mut collected.report.tracking);
        if remains.watch.stayed_open() && tracking.max_overhead.is_some() {
            let switches = moment.ended().map_or(0, |ended| ended.switches);
            tracking.cost_ns += switches.saturating_sub(collected.report.switches) * SWITCH_NS;
        }
        gaps.extend(limits::pauses(&tracking));
        let mut watch = limits::watch_record(
            self.tracked.is_some_and(TrackedBuild::watches),
            self.asked_to_watch,
            &remains.watch,
            collected,
            &mut gaps,
        );
        if recorder.watch_way == WatchWay::None && watch.refused.is_some() {
            watch.refused = Some(WatchRefusal::Policy);
        }
        RunRecord {
            schema: Schema::default(),
            id: limits::run_id(&recorder.agent.0, sys::unique_u64()),
            agent: recorder.agent.clone(),
            build: self.known.build.clone(),
            tier: recorder.tier,
            variant: self.tracked.map(|build| build.variant),
            sampling_probability: 1.0,
            outcome,
            wall_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            cpu_us: moment.ended().map_or(0, |ended| ended.cpu_us),
            unrecorded_threads: match remains.pid {
                Some(_) => remains.unrecorded_threads,
                None => 1,
            },
            threads: remains.threads,
            watch,
            tracking,
            clock: clock::tie(self.running.clock, end),
            mappings,
            gaps,
            privacy: Privacy::Full,
            pt,
        }
    }
}

fn outcome(
    recorder: &mut Recorder,
    moment: &Moment<'_>,
    remains: &Remains,
    main: &MainModule,
    gaps: &mut Vec<Gap>,
) -> Outcome {
    if let Some(hang) = moment.hang() {
        let report = outcome::hang_report(hang, main, &mut recorder.modules);
        return Outcome::Failure(report);
    }
    let Some(ended) = moment.ended() else {
        return Outcome::Success;
    };
    let modules = &mut recorder.modules;
    let exits = &recorder.failing_exits;
    let judged = outcome::judge(ended.ending, exits, remains, main, modules, gaps);
    if judged == Outcome::Success
        && let Some(command) = &recorder.check
    {
        match check::check(command, ended.ending) {
            Ok(None) => {}
            Ok(Some(code)) => {
                let kind = FailureKind::Check(code);
                return Outcome::Failure(outcome::report(kind, None, remains, main, modules));
            }
            Err(because) => gaps.push(Gap::CheckerFailed { because }),
        }
    }
    judged
}
