//! Assembles the record of a run that has ended, or of a hang that goes on.

use crate::governor::context_switches::SWITCH_NS;
use crate::governor::token_bucket::BUCKET_NS;
use crate::intel_pt::{PtRefusal, Tracing};
use crate::patches::tracked_build::TrackedBuild;
use crate::policy::WatchWay;
use crate::process::hang::Hang;
use crate::process::launch::Start;
use crate::process::modules::{MainModule, Module};
use crate::process::region::Remains;
use crate::process::supervise::Ended;
use crate::process::{clock, sys};
use crate::record::{freed, watch_part};
use crate::run::barrier::guarded;
use crate::run::program::KnownProgram;
use crate::run::{Preparation, Recorder, check, outcome};
use crate::watchpoints::collector::Collected;
use sketch_model::{
    FailureKind, Gap, Outcome, Privacy, PtRecord, RunId, RunRecord, Schema, TrackingRecord,
    WatchRecord, WatchRefusal,
};
use std::{mem::take, time::Duration};

#[cfg(test)]
mod scribble_tests;

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
    pub start: Start,
    /// Its Intel PT, or why there is none; `None` if it is not to have any.
    pub trace: Option<Result<Tracing, PtRefusal>>,
    pub preparation: Option<Preparation>,
    pub gaps: Vec<Gap>,
}

impl Recording<'_> {
    /// The run's Intel PT so far; it ends here.
    fn take_trace(&mut self, gaps: &mut Vec<Gap>) -> Option<PtRecord> {
        let trace = self.trace.take()?;
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

    /// The record of this moment; a run has one. Of a run whose remains make us fail
    /// it says that, and how the run ended.
    pub fn record(&mut self, recorder: &mut Recorder, moment: &Moment<'_>) -> RunRecord {
        let timing = Timing {
            end: clock::read(),
            elapsed: self.start.at.elapsed(),
        };
        let gaps = take(&mut self.gaps);
        let made = guarded("making the record of a run", || {
            let left = self.gather(moment, gaps.clone());
            self.assemble(recorder, moment, timing, left)
        });
        made.unwrap_or_else(|defect| {
            let mut record = self.without_evidence(recorder, moment, timing);
            record.outcome = self.ending_alone(recorder, moment);
            record.gaps = gaps;
            record.gaps.push(defect);
            record
        })
    }

    /// Takes everything that the run has left.
    fn gather(&mut self, moment: &Moment<'_>, mut gaps: Vec<Gap>) -> Left {
        #[cfg(test)]
        scribble_tests::fail_if_asked();
        // Before anything else is executed that would be traced as well.
        let pt = self.take_trace(&mut gaps);
        let mut collected = Collected::default();
        let mut remains = Remains::nothing();
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
        Left {
            remains,
            collected,
            pt,
            gaps,
        }
    }

    fn assemble(
        &self,
        recorder: &mut Recorder,
        moment: &Moment<'_>,
        timing: Timing,
        left: Left,
    ) -> RunRecord {
        let Left {
            remains,
            mut collected,
            pt,
            mut gaps,
        } = left;
        let main = self.main_module();
        let outcome = outcome(recorder, moment, &remains, &main, &mut gaps);
        let at_crash = remains.crash.as_ref().map(|crash| &crash.maps);
        let maps = at_crash
            .filter(|maps| !maps.is_empty())
            .unwrap_or(&remains.maps);
        // Only hits are attributed by them, and reading the files behind them takes
        // longer than many a command.
        let (mut mappings, mut freed) = (Vec::new(), None);
        if self.tracked.is_some() {
            let modules = recorder.modules.modules(maps, &main);
            mappings = modules.iter().map(Module::mapping).collect();
            let crash = remains.crash.as_ref();
            let crash = crash.filter(|_| matches!(outcome, Outcome::Failure(_)));
            freed = remains
                .freed
                .as_ref()
                .map(|blocks| freed::touched(blocks, &remains.threads, crash, &modules));
        }
        let mut tracking = take(&mut collected.report.tracking);
        if let Some(ended) = moment.ended() {
            let open = remains.watch.stayed_open() && tracking.max_overhead.is_some();
            let unseen = ended.switches.saturating_sub(collected.report.switches);
            let switches_ns = if open { unseen } else { 0 }.saturating_mul(SWITCH_NS);
            // The account lies where the program can write: more than all its processor
            // time and the first credit is no cost, and would be a debt for ever.
            let most_ns = ended.cpu_us.saturating_mul(1000).saturating_add(BUCKET_NS);
            tracking.cost_ns = tracking.cost_ns.saturating_add(switches_ns).min(most_ns);
        }
        gaps.extend(pauses(&tracking));
        let mut watch = watch_part::watch_record(
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
            outcome,
            unrecorded_threads: match remains.pid {
                Some(_) => remains.unrecorded_threads,
                None => 1,
            },
            threads: remains.threads,
            watch,
            freed,
            tracking,
            mappings,
            gaps,
            pt,
            ..self.without_evidence(recorder, moment, timing)
        }
    }

    fn main_module(&self) -> MainModule {
        self.tracked
            .map_or_else(|| self.known.main_module(), TrackedBuild::main_module)
    }

    /// The outcome of a run whose shared memory cannot be used: from its exit alone.
    fn ending_alone(&self, recorder: &mut Recorder, moment: &Moment<'_>) -> Outcome {
        let (main, nothing) = (self.main_module(), Remains::nothing());
        match (moment.hang(), moment.ended()) {
            (Some(_), _) => Outcome::Failure(outcome::report(
                FailureKind::Hang,
                None,
                &nothing,
                &main,
                &mut recorder.modules,
            )),
            (None, Some(ended)) => outcome::judge(
                ended.ending,
                &recorder.failing_exits,
                &nothing,
                &main,
                &mut recorder.modules,
                &mut Vec::new(),
            ),
            (None, None) => Outcome::Success,
        }
    }

    /// The record of a run that has shown nothing.
    fn without_evidence(
        &self,
        recorder: &Recorder,
        moment: &Moment<'_>,
        timing: Timing,
    ) -> RunRecord {
        RunRecord {
            schema: Schema::default(),
            id: run_id(&recorder.agent.0, sys::unique_u64()),
            agent: recorder.agent.clone(),
            build: self.known.build.clone(),
            capabilities: recorder.capabilities.clone(),
            execution: self
                .tracked
                .map(|build| build.execution)
                .unwrap_or_default(),
            sampling_probability: 1.0,
            outcome: Outcome::Success,
            wall_us: u64::try_from(timing.elapsed.as_micros()).unwrap_or(u64::MAX),
            cpu_us: moment.ended().map_or(0, |ended| ended.cpu_us),
            unrecorded_threads: 1,
            threads: Vec::new(),
            watch: WatchRecord::default(),
            freed: None,
            tracking: TrackingRecord::default(),
            clock: clock::tie(self.start.clock, timing.end),
            mappings: Vec::new(),
            gaps: Vec::new(),
            privacy: Privacy::Full,
            privacy_key: None,
            pt: None,
        }
    }
}

/// When the record was begun.
#[derive(Clone, Copy)]
struct Timing {
    end: clock::Reading,
    elapsed: Duration,
}

/// What a run has left.
struct Left {
    remains: Remains,
    collected: Collected,
    pt: Option<PtRecord>,
    gaps: Vec<Gap>,
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

/// A name for a run that no other run has.
fn run_id(agent: &str, random: u64) -> RunId {
    RunId(format!("{agent}-{}-{random:016x}", std::process::id()))
}

/// What the pauses of a run amount to.
fn pauses(tracking: &TrackingRecord) -> Option<Gap> {
    let share = tracking.max_overhead?;
    if tracking.pauses.is_empty() {
        return None;
    }
    Some(Gap::RecordingPaused {
        times: tracking.pauses.len() as u64,
        limit_ppm: (share * 1e6).round() as u64,
        on_permille: (tracking.coverage() * 1e3).round() as u64,
    })
}
