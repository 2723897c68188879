//! One run of the command, from preparation to record.

pub(crate) mod barrier;
pub(crate) mod check;
pub(crate) mod decision;
#[cfg(test)]
mod defect_tests;
mod hang_watch;
pub(crate) mod outcome;
pub(crate) mod program;
pub(crate) mod repeat;

use crate::error::AgentError;
use crate::governor::run_governor::{Budget, Costs, Steward};
use crate::intel_pt::{PtRefusal, PtSource, TraceRequest, Tracing};
use crate::patches::tracked_build::TrackedBuild;
use crate::policy::WatchWay;
use crate::process::hang::HangPolicy;
use crate::process::inherited::Inherited;
use crate::process::launch::{Executable, Prepared, Running, Start, Suspended};
use crate::process::modules::{MainModule, ModuleCache};
use crate::process::region::{RegionFile, RegionSettings};
use crate::process::signals::SignalQueue;
use crate::process::supervise::{Ended, Unwatched};
use crate::process::{environment, sys};
use crate::record::assemble::{Moment, Recording};
use crate::stderr_log::say;
use crate::watchpoints::collector::Collector;
use barrier::guarded;
use formats::dynamic;
use hang_watch::HangReporter;
use program::{KnownProgram, Program};
use runtime::layout::WATCH_SLOTS;
use sketch_model::{
    AgentId, Capabilities, Capability, Gap, Pid, PreloadObstacle, RunRecord, WatchRefusal,
};
use std::{
    cell::{Cell, LazyCell},
    ffi::CString,
    fmt::Display,
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
};

/// The answer takes about a millisecond; this bounds the start of a program on a
/// machine so busy that the agent does not get to run.
const REPLY_PATIENCE_MS: u64 = 2000;

/// What stays the same from run to run.
pub struct Supervisor<'a> {
    pub program: &'a Program,
    pub arguments: &'a [CString],
    pub environment: Vec<CString>,
    pub inherited: Inherited,
    pub queue: Option<&'a SignalQueue>,
    progress: Cell<Progress>,
}

/// How far the run is that was begun last, so that after a defect of ours nothing runs
/// twice and nothing is left alone.
#[derive(Clone, Copy, Debug)]
enum Progress {
    NotStarted,
    Running(Pid, Start),
    Ended(Ended),
}

/// What recording needs beside.
pub struct Recorder {
    pub agent: AgentId,
    pub capabilities: Capabilities,
    /// The trace unit, where the machine has one that can be used.
    pub pt: Option<PtSource>,
    /// The runtime to preload into untouched programs, or why there is none.
    pub preload: Result<PathBuf, String>,
    pub failing_exits: Vec<i32>,
    /// When to call the command hung; `None` never looks.
    pub hang: Option<HangPolicy>,
    /// The operator's command that judges runs that ended well.
    pub check: Option<String>,
    /// What tracking the next run may cost; `None` for any.
    pub budget: Option<Budget>,
    /// How often watchpoints may be aimed in one run.
    pub trap_budget: u64,
    /// Whether there may be any.
    pub watch_way: WatchWay,
    /// Measured when a tracked build first runs.
    pub costs: LazyCell<Costs>,
    pub modules: ModuleCache,
}

impl Recorder {
    /// How to trace a run of this file, which may be one in memory.
    fn trace(&self, main: &MainModule, file: Option<BorrowedFd<'_>>) -> Option<TraceRequest<'_>> {
        let source = self.pt.as_ref()?;
        Some(TraceRequest::of_own_code(source, main, file))
    }
}

/// A run whose record was kept.
pub struct Run {
    pub ended: Ended,
    /// Why the tracked build could not be executed, if it could not.
    pub refused: Option<Gap>,
    /// Why the program ran without any recording, if it did.
    pub unrecorded: Option<Gap>,
}

impl<'a> Supervisor<'a> {
    pub fn new(
        program: &'a Program,
        arguments: &'a [CString],
        environment: Vec<CString>,
        inherited: Inherited,
        queue: Option<&'a SignalQueue>,
    ) -> Supervisor<'a> {
        Supervisor {
            program,
            arguments,
            environment,
            inherited,
            queue,
            progress: Cell::new(Progress::NotStarted),
        }
    }

    /// Says that the program runs, and that there will be no record of it.
    pub fn say_unrecorded(&self, because: impl Display) {
        let path = self.program.path.display();
        say(format_args!("{path} is run without recording: {because}"));
    }

    fn launch(
        &self,
        executable: Executable<'_>,
        environment: &[CString],
        inherited: &[RawFd],
    ) -> Result<Running, AgentError> {
        if let Some(queue) = self.queue {
            queue.die_if_asked(&self.inherited);
        }
        let prepared = Prepared {
            executable,
            arguments: self.arguments,
            environment,
            inherited,
        };
        let running = prepared.fork(&self.inherited).and_then(Suspended::resume);
        let running = running.map_err(|not_started| not_started.because)?;
        let progress = Progress::Running(running.pid(), running.start());
        self.progress.set(progress);
        Ok(running)
    }

    /// Runs the command without recording anything.
    pub fn run_bare(&self) -> Result<Ended, AgentError> {
        let executable = Executable::Path(&self.program.path);
        let running = self.launch(executable, &self.environment, &[])?;
        self.wait_bare(running)
    }

    fn wait_bare(&self, running: Running) -> Result<Ended, AgentError> {
        Ok(running.wait(self.queue, &mut Unwatched)?)
    }

    /// Begins a run and does `run`, which is to launch the program and wait for it. After
    /// a defect of ours in it, `go_on_bare` does the rest.
    pub fn begin<T>(&self, run: impl FnOnce() -> T) -> Result<T, Gap> {
        self.progress.set(Progress::NotStarted);
        guarded("running the program", run)
    }

    /// After a defect of ours: what runs is waited for, what has ended has ended, and
    /// only what was not started yet is started.
    pub fn go_on_bare(&self) -> Result<Ended, AgentError> {
        match self.progress.get() {
            Progress::NotStarted => self.run_bare(),
            Progress::Running(pid, start) => self.wait_bare(Running::found_again(pid, start)),
            Progress::Ended(ended) => Ok(ended),
        }
    }

    /// Begins a trace of what is to run next, where that is wanted and possible.
    fn start_trace(
        &self,
        recorder: &Recorder,
        main: impl FnOnce() -> MainModule,
        file: Option<BorrowedFd<'_>>,
        gaps: &mut Vec<Gap>,
    ) -> Option<Result<Tracing, PtRefusal>> {
        let started = guarded("starting the trace of a run", || {
            Some(recorder.trace(&main(), file)?.start())
        });
        started.unwrap_or_else(|defect| {
            gaps.push(defect);
            None
        })
    }

    /// Starts the tracked build, else P with what recording needs, else P alone;
    /// what is not possible on this machine goes into `gaps`.
    fn start(
        &self,
        known: &KnownProgram,
        tracked: Option<&TrackedBuild>,
        recorder: &Recorder,
        gaps: &mut Vec<Gap>,
    ) -> Result<Started, AgentError> {
        let mut refused = None;
        if let Some(build) = tracked {
            let mut said = Vec::new();
            let prepared = self.prepare_guarded(known, tracked, recorder, &mut said, gaps);
            if let Some(preparation) = prepared {
                let executable = Executable::Sealed(build.fd(), &self.program.path);
                let (environment, inherited) = preparation.for_the_program();
                let file = Some(build.fd());
                let trace = self.start_trace(recorder, || build.main_module(), file, gaps);
                match self.launch(executable, environment, &inherited) {
                    Ok(running) => {
                        gaps.append(&mut said);
                        return Ok(Started::new(running, trace, Some(preparation), None));
                    }
                    Err(error) => {
                        let because = error.to_string();
                        let gap = Gap::TrackedBuildNotExecuted { because };
                        gaps.push(gap.clone());
                        refused = Some(gap);
                    }
                }
            }
        }
        let executable = Executable::Path(&self.program.path);
        let mut said = Vec::new();
        let prepared = self.prepare_guarded(known, None, recorder, &mut said, gaps);
        gaps.append(&mut said);
        if let Some(preparation) = prepared {
            let (environment, inherited) = preparation.for_the_program();
            let trace = self.start_trace(recorder, || known.main_module(), None, gaps);
            match self.launch(executable, environment, &inherited) {
                Ok(running) => {
                    return Ok(Started::new(running, trace, Some(preparation), refused));
                }
                // A longer environment may be too long.
                Err(error) => gaps.push(Gap::RunNotRecorded {
                    because: error.to_string(),
                }),
            }
        }
        let unrecorded = gaps.last().cloned();
        let trace = self.start_trace(recorder, || known.main_module(), None, gaps);
        let running = self.launch(executable, &self.environment, &[])?;
        Ok(Started {
            unrecorded,
            ..Started::new(running, trace, None, refused)
        })
    }

    /// Runs P, or the tracked build, and records it: `keep` gets the record
    /// once, when the command has ended or while it hangs. `gaps` belong into the
    /// record. What cannot be prepared is left out and said.
    pub fn run_recorded(
        &self,
        known: &KnownProgram,
        tracked: Option<&TrackedBuild>,
        recorder: &mut Recorder,
        mut gaps: Vec<Gap>,
        keep: &mut dyn FnMut(RunRecord),
    ) -> Result<Run, AgentError> {
        let Started {
            running,
            trace,
            preparation,
            refused,
            unrecorded,
        } = self.start(known, tracked, recorder, &mut gaps)?;
        let mut recording = Recording {
            known,
            tracked: tracked.filter(|_| preparation.as_ref().is_some_and(|p| p.tracked)),
            asked_to_watch: preparation.as_ref().is_some_and(|p| p.asked_to_watch),
            start: running.start(),
            trace,
            preparation,
            gaps,
        };
        let policy = recorder.hang;
        let goes_on = policy.is_some_and(|policy| !policy.end_it);
        let mut hung = None;
        let mut kept = false;
        // How the command ends is known, or will be, whatever becomes of its record.
        let mut keep = |record: RunRecord| {
            if let Err(defect) = guarded("keeping the record of a run", || keep(record)) {
                say(defect);
            }
        };
        let mut report = |hang| match hang {
            Ok(hang) if goes_on => {
                // Nobody knows when it ends, and the report is wanted now.
                keep(recording.record(recorder, &Moment::Hangs(&hang)));
                kept = true;
            }
            Ok(hang) => hung = Some(hang),
            Err(defect) => recording.gaps.push(defect),
        };
        let mut watch = HangReporter::new(running.pid(), policy, &mut report);
        let ended = running.wait(self.queue, &mut watch)?;
        self.progress.set(Progress::Ended(ended));
        if !kept {
            let moment = match &hung {
                Some(hang) => Moment::EndedAfter(hang, ended),
                None => Moment::Ended(ended),
            };
            keep(recording.record(recorder, &moment));
        }
        Ok(Run {
            ended,
            refused,
            unrecorded,
        })
    }

    /// The sanitizer library that the program brings or is given.
    fn sanitizer(&self, known: &KnownProgram) -> Option<String> {
        let given = environment::preloaded(&self.environment);
        let brought = known.facts.loading.sanitizer().map(str::to_string);
        brought.or_else(|| given.into_iter().find(|name| dynamic::is_sanitizer(name)))
    }

    /// As `prepare`; `None`, with the reason in `gaps`, also after a defect of ours.
    fn prepare_guarded(
        &self,
        known: &KnownProgram,
        tracked: Option<&TrackedBuild>,
        recorder: &Recorder,
        said: &mut Vec<Gap>,
        gaps: &mut Vec<Gap>,
    ) -> Option<Preparation> {
        let prepared = guarded("preparing the recording of a run", || {
            self.prepare(known, tracked, recorder, said)
        });
        prepared.unwrap_or_else(|defect| {
            gaps.push(defect);
            None
        })
    }

    /// Shared memory, environment and watchpoint reader for one run; `None`,
    /// with the reason in `gaps`, if the run must go without.
    fn prepare(
        &self,
        known: &KnownProgram,
        tracked: Option<&TrackedBuild>,
        recorder: &Recorder,
        gaps: &mut Vec<Gap>,
    ) -> Option<Preparation> {
        let sanitizer = self.sanitizer(known);
        let preload = match (tracked, &recorder.preload) {
            // It ends watches with their memory, and keeps our handlers in front.
            (Some(_), Ok(path)) if known.facts.dynamic && sanitizer.is_none() => {
                Some(path.as_path())
            }
            (Some(_), _) => None,
            (None, _) if !known.facts.dynamic => {
                gaps.push(Gap::NothingPreloaded {
                    because: PreloadObstacle::StaticallyLinked,
                });
                return None;
            }
            (None, _) if sanitizer.is_some() => {
                let library = sanitizer.unwrap_or_default();
                let because = PreloadObstacle::Sanitizer { library };
                gaps.push(Gap::NothingPreloaded { because });
                return None;
            }
            (None, Ok(path)) => Some(path.as_path()),
            (None, Err(reason)) => {
                let because = reason.clone();
                let because = PreloadObstacle::NoFile { because };
                gaps.push(Gap::NothingPreloaded { because });
                return None;
            }
        };
        let mut sockets = None;
        let watches = tracked.is_some_and(TrackedBuild::watches);
        if watches && recorder.capabilities.has(Capability::Watchpoints) {
            match UnixStream::pair() {
                Ok(pair) => sockets = Some(pair),
                Err(error) => {
                    let errno = sys::errno(&error);
                    let because = WatchRefusal::SocketRefused { errno };
                    gaps.push(Gap::NoWatchpoints { because });
                }
            }
        }
        let (own_socket, programs_socket) = sockets.unzip();
        let asked_to_watch = own_socket.is_some();
        let settings = RegionSettings {
            want_watch: if asked_to_watch {
                WATCH_SLOTS as u32
            } else {
                0
            },
            cpus: sys::processors(),
            socket: programs_socket.as_ref().map(|s: &UnixStream| s.as_raw_fd()),
            arm_limit: recorder.trap_budget,
            reply_patience_ms: REPLY_PATIENCE_MS,
            tracked: tracked.is_some(),
            start: tracked.and_then(TrackedBuild::start),
        };
        let region = RegionFile::create(&settings).map_err(AgentError::from);
        let started = region.and_then(|region| {
            let budget = recorder.budget.filter(|_| tracked.is_some());
            let costs = budget.map_or(Costs::NONE, |_| *recorder.costs);
            let steward = Steward::new(region.live()?, budget, costs);
            let collector = Collector::start(own_socket, steward)
                .map_err(|e| AgentError::call("starting a thread", e))?;
            Ok((region, collector))
        });
        let (region, collector) = match started {
            Ok(started) => started,
            Err(error) => {
                let because = error.to_string();
                gaps.push(Gap::RunNotRecorded { because });
                return None;
            }
        };
        Some(Preparation {
            tracked: tracked.is_some(),
            environment: environment::activated(&self.environment, &region.activation(), preload),
            asked_to_watch,
            region,
            collector: Some(collector),
            programs_socket,
        })
    }
}

/// A command that runs, with what was prepared for it.
struct Started {
    running: Running,
    /// Its Intel PT, or why there is none; `None` if it is not to have any.
    trace: Option<Result<Tracing, PtRefusal>>,
    preparation: Option<Preparation>,
    refused: Option<Gap>,
    /// Why nothing was prepared, if nothing was.
    unrecorded: Option<Gap>,
}

impl Started {
    fn new(
        running: Running,
        trace: Option<Result<Tracing, PtRefusal>>,
        preparation: Option<Preparation>,
        refused: Option<Gap>,
    ) -> Started {
        // From here on the socket belongs to the program alone: when it closes
        // its end, the collector must see that.
        let preparation = preparation.map(|mut p| {
            p.programs_socket = None;
            p
        });
        Started {
            running,
            trace,
            preparation,
            refused,
            unrecorded: None,
        }
    }
}

/// What was prepared for a command that is recorded.
pub(crate) struct Preparation {
    tracked: bool,
    asked_to_watch: bool,
    pub region: RegionFile,
    environment: Vec<CString>,
    pub collector: Option<Collector>,
    programs_socket: Option<UnixStream>,
}

impl Preparation {
    /// The environment and the descriptors that the program gets.
    fn for_the_program(&self) -> (&[CString], Vec<RawFd>) {
        let inherited = self
            .programs_socket
            .iter()
            .map(|socket| socket.as_raw_fd())
            .chain([self.region.fd().as_raw_fd()])
            .collect();
        (&self.environment, inherited)
    }
}
