//! A run that is recorded: asks for its assignment, decides between the original and
//! the tracked build, and keeps and sends the record.

use crate::cli::RunArguments;
use crate::delivery::client::Server;
use crate::delivery::spool::Worth;
use crate::error::AgentError;
use crate::governor::ledger::{Cost, Ledger, Reserved};
use crate::governor::run_governor::{Budget, Costs};
use crate::governor::token_bucket::BUCKET_NS;
use crate::intel_pt::PtSource;
use crate::patches::canary::{self, Canary};
use crate::patches::share::Turns;
use crate::patches::tracked_build::{self, PatchSource, TrackedBuild};
use crate::policy::WatchWay;
use crate::policy::settings::Settings;
use crate::preload;
use crate::process::modules::ModuleCache;
use crate::process::supervise::Ended;
use crate::process::{environment, sys};
use crate::record::{limits, redaction};
use crate::run::barrier::guarded;
use crate::run::program::{KnownProgram, ProgramKind};
use crate::run::{Recorder, Supervisor};
use crate::stderr_log::say;
use crate::watchpoints::probe;
use sketch_model::{
    AssignmentsRequest, Capabilities, Capability, Execution, FailureKind, Gap, RunRecord,
};
use std::{cell::LazyCell, fs::File, io::Write, path::PathBuf, thread, time::Duration};

/// A simulated fleet member gives up after this many unanswered questions.
const MOST_SILENCES: u32 = 30;
const AFTER_SILENCE: Duration = Duration::from_secs(1);
/// Servers take 16 MiB in one request.
const LARGEST_RECORD: usize = 15 << 20;

/// What the server or the operator wants run, and why it may not be.
struct Next {
    wanted: Execution,
    /// Whether this run is to run it.
    tracked: bool,
    expected: Option<FailureKind>,
    /// What was set aside for tracking this run.
    reserved: Reserved,
    gaps: Vec<Gap>,
}

impl Next {
    /// The original, about which nothing was said.
    fn original() -> Next {
        Next {
            wanted: Execution::Original,
            tracked: true,
            expected: None,
            reserved: Reserved::none(),
            gaps: Vec::new(),
        }
    }
}

/// What is kept between runs that are recorded.
pub struct Session<'a> {
    known: &'a KnownProgram,
    recorder: Recorder,
    settings: Settings,
    store: Option<File>,
    tracked: Option<TrackedBuild>,
    /// The build of the patch that the operator named, or why there is none.
    named: Option<Result<TrackedBuild, Gap>>,
    /// It runs only if the program's account allows, as others do.
    sampled: bool,
    /// The tracked build that could not be made, and why: said once, in every record.
    refused: Option<(Execution, Gap)>,
    /// Why runs go unrecorded: said once.
    unrecorded: Option<Gap>,
    stops_when_finished: bool,
    silences: u32,
    /// Which runs a tracked build gets.
    turns: Turns,
}

impl<'a> Session<'a> {
    /// `None` if runs of this command are not recorded.
    pub fn open(arguments: &RunArguments, supervisor: &Supervisor<'a>) -> Option<Session<'a>> {
        let settings = Settings::gather(arguments, &supervisor.program.path);
        let alone = settings.upstream.is_none() && arguments.patch.is_none();
        if alone && arguments.store_record.is_none() {
            return None;
        }
        let known = match &supervisor.program.kind {
            ProgramKind::Known(known) => known,
            ProgramKind::LeftAlone(reason) => {
                supervisor.say_unrecorded(reason);
                return None;
            }
        };
        let preload = preload::prepare_cache(&settings.cache)
            .and_then(|()| preload::preload_file(&settings.cache))
            .map_err(|e| e.to_string())
            .and_then(|path| match environment::can_preload(&path) {
                true => Ok(path),
                false => Err(format!(
                    "the path {} has a colon or a space, which LD_PRELOAD cannot express; give \
                     another --cache",
                    path.display()
                )),
            });
        if let Err(reason) = &preload {
            say(reason);
        }
        let store = arguments.store_record.as_ref().and_then(|path| {
            private_files::create_private(path)
                .inspect_err(|reason| {
                    let path = path.display();
                    say(format_args!(
                        "records are not stored: cannot write {path}: {reason}"
                    ));
                })
                .ok()
        });
        let named = arguments.patch.as_ref().map(|path| {
            tracked_build::from_file(path, settings.key.as_ref(), known)
                .map_err(|error| Gap::NamedPatchRefused {
                    because: error.to_string(),
                })
                .inspect_err(|gap| say(gap))
        });
        let pt = match settings.policy.intel_pt {
            true => PtSource::of_this_machine().ok(),
            false => None,
        };
        let capabilities = match settings.policy.watch_way {
            WatchWay::None if pt.is_some() => Capabilities::hooks().and(Capability::IntelPt),
            WatchWay::None => Capabilities::hooks(),
            WatchWay::Ring => probe::capabilities(pt.is_some()),
        };
        let measure: fn() -> Costs = match capabilities.has(Capability::Watchpoints) {
            false => || Costs::measure(false),
            true => || Costs::measure(true),
        };
        Some(Session {
            known,
            recorder: Recorder {
                agent: settings.agent.clone(),
                capabilities,
                pt,
                preload,
                failing_exits: settings.policy.fail_exits.clone(),
                hang: settings.policy.hang(),
                check: settings.policy.check.clone(),
                budget: settings.policy.overhead_share().map(Budget::of_share),
                trap_budget: settings.policy.trap_budget,
                watch_way: settings.policy.watch_way,
                costs: LazyCell::new(measure),
                modules: ModuleCache::default(),
            },
            settings,
            store,
            tracked: None,
            named,
            sampled: arguments.sampled,
            refused: None,
            unrecorded: None,
            stops_when_finished: arguments.until_finished,
            silences: 0,
            turns: Turns::begin(),
        })
    }

    /// One run; `None` when there is nothing more to do.
    pub fn next_run(&mut self, supervisor: &Supervisor<'_>) -> Result<Option<Ended>, AgentError> {
        let asked = match supervisor.queue {
            // Only a question to somebody else takes long enough for a signal.
            Some(queue) if self.settings.upstream.is_some() => {
                queue.mortal(&supervisor.inherited, || self.ask_guarded())
            }
            _ => self.ask_guarded(),
        };
        let Some(next) = asked? else {
            return Ok(None);
        };
        let ledger = match next.wanted.is_original() {
            true => None,
            false => self.ledger(),
        };
        let Session {
            known,
            recorder,
            settings,
            store,
            tracked,
            named,
            ..
        } = self;
        if let (Some(budget), Some(_)) = (&mut recorder.budget, &ledger) {
            budget.bucket_ns = next.reserved.bucket_ns.max(BUCKET_NS);
        }
        let named = named.as_ref().and_then(|named| named.as_ref().ok());
        let tracked = named.or(tracked.as_ref());
        let tracked = tracked.filter(|build| next.tracked && build.execution == next.wanted);
        let counts = next.wanted.tracked().and_then(|variant| {
            let upstream = settings.upstream.as_ref()?;
            Some((canary_path(&upstream.server, settings, known), variant))
        });
        let mut keep = |mut record: RunRecord| {
            let mut seen_ns = 0;
            if let Some((path, variant)) = &counts {
                let mut canary = Canary::load(path);
                canary.add(
                    &record,
                    next.expected.as_ref(),
                    settings.policy.max_slowdown,
                );
                if let Some(reason) = canary.withdrawn(*variant) {
                    say(format_args!("the tracked build is withdrawn: {reason}"));
                }
                canary.save(path);
                seen_ns = canary.seen_cost_ns(*variant);
            }
            if let Some(ledger) = &ledger {
                let cost = (!record.execution.is_original()).then(|| Cost {
                    ns: record.tracking.cost_ns.max(seen_ns),
                    was_cut_off: !record.tracking.pauses.is_empty(),
                });
                let cpu_ns = record.cpu_us.saturating_mul(1000);
                record.tracking.owed_ns = ledger.settle(cpu_ns, next.reserved, cost);
            }
            keep_record(record, settings, store.as_mut());
        };
        let run = supervisor.run_recorded(known, tracked, recorder, next.gaps, &mut keep)?;
        if let Some(reason) = run.refused.filter(|_| !next.wanted.is_original()) {
            say(&reason);
            self.tracked = None;
            self.refused = Some((next.wanted, reason));
        }
        if let Some(reason) = run.unrecorded
            && self.unrecorded.as_ref() != Some(&reason)
        {
            say(&reason);
            self.unrecorded = Some(reason);
        }
        Ok(Some(run.ended))
    }

    /// Asks what to run, and gets it; `None` when the server has finished. After a
    /// defect of ours it is the original.
    fn ask_guarded(&mut self) -> Result<Option<Next>, AgentError> {
        guarded("asking what to run", || self.ask()).unwrap_or_else(|defect| {
            Ok(Some(Next {
                gaps: vec![defect],
                ..Next::original()
            }))
        })
    }

    fn ask(&mut self) -> Result<Option<Next>, AgentError> {
        let mut next = Next::original();
        match &self.named {
            Some(Ok(build)) => {
                next.wanted = build.execution;
                if !self.sampled {
                    return Ok(Some(next));
                }
            }
            Some(Err(reason)) => next.gaps.push(reason.clone()),
            None => {}
        }
        if let Some(upstream) = &self.settings.upstream {
            let request = AssignmentsRequest {
                agent: self.recorder.agent.clone(),
                capabilities: self.recorder.capabilities.clone(),
                builds: vec![self.known.build.clone()],
                seen: None,
                wait_s: 0,
            };
            match upstream.server.assignment(&request) {
                Ok(told) if told.finished && self.stops_when_finished => {
                    return Ok(None);
                }
                Ok(told) => {
                    let tracked = self.turns.take(told.tracked_share);
                    let variant = told.variant.filter(|_| tracked);
                    next.wanted = variant.map_or(Execution::Original, Execution::Tracked);
                    next.expected = told.expected;
                    self.silences = 0;
                }
                Err(error) => {
                    if self.silences == 0 {
                        say(format_args!("running the original program: {error}"));
                    }
                    self.silences += 1;
                    if self.stops_when_finished {
                        if self.silences >= MOST_SILENCES {
                            return Err(error);
                        }
                        thread::sleep(AFTER_SILENCE);
                    }
                }
            }
        }
        if let Some(reason) = self.withheld(next.wanted) {
            next.gaps.extend(reason);
            next.tracked = false;
        }
        if let Some(ledger) = self.ledger()
            && next.tracked
            && !next.wanted.is_original()
        {
            let borrower = next.wanted.tracked().map(|variant| variant.campaign);
            match ledger.admit(borrower) {
                Ok(reserved) => next.reserved = reserved,
                Err(reason) => {
                    next.gaps.push(reason);
                    next.tracked = false;
                }
            }
        }
        // Last, because making a build takes tens of milliseconds. What was set aside for
        // one that cannot be made comes back when the run ends.
        if next.tracked
            && let Some(reason) = self.prepare_tracked(next.wanted)
        {
            next.gaps.extend(reason);
            next.tracked = false;
        }
        Ok(Some(next))
    }

    /// The program's account on this machine; none where tracking may cost anything.
    fn ledger(&self) -> Option<Ledger> {
        let share = self.settings.policy.overhead_share()?;
        let cache = &self.settings.cache;
        let loan_ns = self.settings.policy.loan_ns();
        Some(Ledger::of_build(cache, &self.known.build.0, share, loan_ns))
    }

    /// Whether policy or canary let this run go with the original, and what the
    /// record should say of it, if anything.
    fn withheld(&self, wanted: Execution) -> Option<Option<Gap>> {
        let (variant, upstream) = (wanted.tracked()?, self.settings.upstream.as_ref()?);
        let canary = canary_path(&upstream.server, &self.settings, self.known);
        let canary = Canary::load(&canary);
        if let Some(because) = canary.withdrawn(variant).cloned() {
            return Some(Some(Gap::TrackedBuildWithdrawn { because }));
        }
        let policy = &self.settings.policy;
        (!by_chance(policy.track * canary.share(variant, policy.canary))).then_some(None)
    }

    /// Makes the assigned build unless it is there already. The result is the
    /// reason why it is not.
    fn prepare_tracked(&mut self, wanted: Execution) -> Option<Option<Gap>> {
        let (variant, upstream) = (wanted.tracked()?, self.settings.upstream.as_ref()?);
        if self.tracked.as_ref().is_some_and(|t| t.execution == wanted) {
            return None;
        }
        if let Some((refused, reason)) = &self.refused
            && *refused == wanted
        {
            return Some(Some(reason.clone()));
        }
        let source = patch_source(&upstream.server, &self.settings);
        match source.build(self.known, variant) {
            Ok(build) => {
                self.tracked = Some(build);
                None
            }
            Err(error) => {
                let because = error.to_string();
                let reason = Gap::TrackedBuildRefused { because };
                say(&reason);
                // Whoever could not be reached may answer next time.
                let passing = matches!(
                    error,
                    AgentError::ServerUnreachable { .. }
                        | AgentError::DaemonUnreachable { .. }
                        | AgentError::DaemonRefused(_)
                );
                if !passing {
                    self.refused = Some((wanted, reason.clone()));
                }
                Some(Some(reason))
            }
        }
    }
}

fn patch_source<'s>(server: &'s Server, settings: &'s Settings) -> PatchSource<'s> {
    PatchSource {
        server,
        key: settings.key.as_ref(),
        cache: &settings.cache,
    }
}

fn canary_path(server: &Server, settings: &Settings, known: &KnownProgram) -> PathBuf {
    canary::file(&settings.cache, server.name(), &known.build)
}

/// True with the given probability.
fn by_chance(probability: f64) -> bool {
    // 53 random bits are a fraction that a double holds exactly.
    let fraction = (sys::unique_u64() >> 11) as f64 / (1u64 << 53) as f64;
    fraction < probability
}

/// Reduces, stores and sends a record; an error is logged, and the run is not affected.
fn keep_record(mut record: RunRecord, settings: &mut Settings, store: Option<&mut File>) {
    if !record.failed() {
        record.sampling_probability = settings.policy.report_successes;
    }
    redaction::reduce(&mut record, settings.policy.privacy, &settings.secret);
    let worth = match record.failed() {
        true => Worth::Failure,
        false => Worth::Success,
    };
    let mut line = match limits::written(&mut record, LARGEST_RECORD) {
        Ok(line) => line,
        Err(error) => {
            say(format_args!("the record could not be written: {error}"));
            return;
        }
    };
    if let Some(upstream) = &mut settings.upstream
        && by_chance(record.sampling_probability)
    {
        upstream.deliver(&line, worth);
    }
    if let Some(file) = store {
        line.push(b'\n');
        if let Err(error) = file.write_all(&line) {
            say(format_args!("the record could not be stored: {error}"));
        }
    }
}
