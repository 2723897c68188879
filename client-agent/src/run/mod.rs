//! One run of the command, from preparation to record.

pub(crate) mod barrier;
pub(crate) mod check;
pub(crate) mod decision;
pub(crate) mod outcome;
pub(crate) mod program;
pub(crate) mod repeat;

use crate::error::AgentError;
use crate::governor::run_governor::{Costs, Steward};
use crate::intel_pt::{PtRefusal, PtSource, TraceRequest, Tracing};
use crate::patches::tracked_build::TrackedBuild;
use crate::policy::WatchWay;
use crate::process::hang::HangPolicy;
use crate::process::inherited::Inherited;
use crate::process::launch::{Executable, Launch};
use crate::process::modules::{MainModule, ModuleCache};
use crate::process::region::{RegionFile, RegionSettings};
use crate::process::signals::SignalQueue;
use crate::process::supervise::{self, Ended};
use crate::process::{clock, environment, sys};
use crate::record::assemble::{Moment, Recording};
use crate::stderr_log::say;
use crate::watchpoints::collector::Collector;
use barrier::guarded;
use formats::dynamic;
use program::{KnownProgram, Program};
use runtime::layout::WATCH_SLOTS;
use sketch_model::{
    AgentId, Capabilities, Capability, Gap, PreloadObstacle, RunRecord, WatchRefusal,
};
use std::{
    cell::LazyCell,
    ffi::CString,
    os::{
        fd::{AsRawFd, BorrowedFd, RawFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    time::Instant,
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
    /// The share of processor time that tracking may cost; `None` for any.
    pub max_overhead: Option<f64>,
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

impl Supervisor<'_> {
    fn launch(
        &self,
        executable: Executable<'_>,
        environment: &[CString],
        inherited: &[RawFd],
        trace: Option<TraceRequest<'_>>,
    ) -> Result<Running, AgentError> {
        if let Some(queue) = self.queue {
            queue.die_if_asked(&self.inherited);
        }
        let trace = trace.map(TraceRequest::start);
        let started = Instant::now();
        let clock = clock::read();
        let pid = Launch {
            executable,
            arguments: self.arguments,
            environment,
            inherited,
        }
        .start(&self.inherited)?;
        Ok(Running {
            pid,
            started,
            clock,
            trace,
        })
    }

    /// Runs the command without recording anything.
    pub fn run_bare(&self) -> Result<Ended, AgentError> {
        let executable = Executable::Path(&self.program.path);
        let running = self.launch(executable, &self.environment, &[], None)?;
        supervise::wait(running.pid, self.queue)
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
            if let Some(preparation) = self.prepare(known, tracked, recorder, &mut said) {
                let executable = Executable::Sealed(build.fd(), &self.program.path);
                let (environment, inherited) = preparation.for_the_program();
                let trace = recorder.trace(&build.main_module(), Some(build.fd()));
                match self.launch(executable, environment, &inherited, trace) {
                    Ok(running) => {
                        gaps.append(&mut said);
                        return Ok(Started::new(running, Some(preparation), None));
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
        if let Some(preparation) = self.prepare(known, None, recorder, gaps) {
            let (environment, inherited) = preparation.for_the_program();
            let trace = recorder.trace(&known.main_module(), None);
            match self.launch(executable, environment, &inherited, trace) {
                Ok(running) => return Ok(Started::new(running, Some(preparation), refused)),
                // A longer environment may be too long.
                Err(error) => gaps.push(Gap::RunNotRecorded {
                    because: error.to_string(),
                }),
            }
        }
        let trace = recorder.trace(&known.main_module(), None);
        let running = self.launch(executable, &self.environment, &[], trace)?;
        Ok(Started::new(running, None, refused))
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
            preparation,
            refused,
        } = self.start(known, tracked, recorder, &mut gaps)?;
        let unrecorded = match preparation {
            Some(_) => None,
            None => gaps.last().cloned(),
        };
        let pid = running.pid;
        let mut recording = Recording {
            known,
            tracked: tracked.filter(|_| preparation.as_ref().is_some_and(|p| p.tracked)),
            asked_to_watch: preparation.as_ref().is_some_and(|p| p.asked_to_watch),
            running,
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
        let ended = supervise::wait_watching(pid, self.queue, policy, &mut |hang| {
            if goes_on {
                // Nobody knows when it ends, and the report is wanted now.
                keep(recording.record(recorder, &Moment::Hangs(&hang)));
                kept = true;
            } else {
                hung = Some(hang);
            }
        })?;
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
        let started = RegionFile::create(&settings).and_then(|region| {
            let share = recorder.max_overhead.filter(|_| tracked.is_some());
            let costs = share.map_or(Costs::NONE, |_| *recorder.costs);
            let steward = Steward::new(region.live()?, share, costs);
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

/// A process, and when it was started.
pub(crate) struct Running {
    pub pid: i32,
    pub started: Instant,
    pub clock: clock::Reading,
    /// Its Intel PT, or why there is none; `None` if it is not to have any.
    pub trace: Option<Result<Tracing, PtRefusal>>,
}

/// A command that runs, with what was prepared for it.
struct Started {
    running: Running,
    preparation: Option<Preparation>,
    refused: Option<Gap>,
}

impl Started {
    fn new(running: Running, preparation: Option<Preparation>, refused: Option<Gap>) -> Started {
        // From here on the socket belongs to the program alone: when it closes
        // its end, the collector must see that.
        let preparation = preparation.map(|mut p| {
            p.programs_socket = None;
            p
        });
        Started {
            running,
            preparation,
            refused,
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
