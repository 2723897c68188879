//! One run of the command, from preparation to record.

use crate::{
    clock,
    error::AgentError,
    failure,
    modules::ModuleCache,
    perf::collector::{Collected, Collector},
    process::{
        environment,
        launch::{Executable, Launch},
        signals::{OriginalSignals, SignalQueue},
        supervise::{self, Ended},
        sys,
    },
    program::{KnownProgram, Program},
    record,
    shared_memory::{RegionFile, RegionSettings, Remains},
    tracked::TrackedBuild,
};
use runtime::layout::WATCH_SLOTS;
use sketch_model::{AgentId, RunRecord, Schema, Tier};
use std::{
    ffi::CString,
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    time::Instant,
};

/// Each re-aim costs the program tens of microseconds per thread.
const ARM_LIMIT: u64 = 4096;
/// The answer takes about a millisecond; this bounds the start of a program on a
/// machine so busy that the agent does not get to run.
const REPLY_PATIENCE_MS: u64 = 2000;

/// What stays the same from run to run.
pub struct Supervisor<'a> {
    pub program: &'a Program,
    pub arguments: &'a [CString],
    pub environment: Vec<CString>,
    pub original: OriginalSignals,
    pub queue: Option<&'a SignalQueue>,
}

/// What recording needs beside.
pub struct Recorder {
    pub agent: AgentId,
    pub tier: Tier,
    /// The runtime to preload into untouched programs, or why there is none.
    pub preload: Result<PathBuf, String>,
    pub failing_exits: Vec<i32>,
    pub modules: ModuleCache,
}

impl Supervisor<'_> {
    fn launch(
        &self,
        executable: Executable<'_>,
        environment: &[CString],
        inherited: &[RawFd],
    ) -> Result<i32, AgentError> {
        Launch {
            executable,
            arguments: self.arguments,
            environment,
            inherited,
        }
        .start(&self.original)
    }

    /// Runs the command without recording anything.
    pub fn run_bare(&self) -> Result<Ended, AgentError> {
        let executable = Executable::Path(&self.program.path);
        let pid = self.launch(executable, &self.environment, &[])?;
        supervise::wait(pid, self.queue)
    }

    /// Runs P, or the tracked build, and records it. `gaps` are sentences that
    /// belong into the record. What cannot be prepared is left out and said.
    pub fn run_recorded(
        &self,
        known: &KnownProgram,
        tracked: Option<&TrackedBuild>,
        recorder: &mut Recorder,
        mut gaps: Vec<String>,
    ) -> Result<(Ended, RunRecord), AgentError> {
        let random = sys::random_u64().map_err(|e| AgentError::call("getrandom", e))?;
        let preparation = self.prepare(known, tracked, recorder, &mut gaps);
        let asked_to_watch = preparation.as_ref().is_some_and(|p| p.collector.is_some());

        let started = Instant::now();
        let start = clock::read();
        let pid = match (&preparation, tracked) {
            (Some(p), Some(build)) => {
                let executable = Executable::Sealed(build.fd(), &self.program.path);
                self.launch(executable, &p.environment, &p.inherited())
            }
            (Some(p), None) => {
                let executable = Executable::Path(&self.program.path);
                self.launch(executable, &p.environment, &p.inherited())
            }
            (None, _) => {
                let executable = Executable::Path(&self.program.path);
                self.launch(executable, &self.environment, &[])
            }
        }?;
        // From here on the socket belongs to the program alone: when it closes
        // its end, the collector must see that.
        let preparation = preparation.map(|mut p| {
            p.programs_socket = None;
            p
        });
        let ended = supervise::wait(pid, self.queue)?;
        let end = clock::read();
        let wall_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);

        let mut collected = Collected::default();
        let mut remains = Remains::read(&[]);
        let ran_tracked = preparation.is_some().then_some(tracked).flatten();
        if let Some(preparation) = preparation {
            match preparation.region.bytes() {
                Ok(bytes) => remains = Remains::read(&bytes),
                Err(error) => gaps.push(format!("the records could not be read: {error}")),
            }
            if let Some(collector) = preparation.collector {
                collected = collector.finish(remains.pid);
            }
            if remains.pid.is_none() {
                gaps.push("the runtime was not activated in the program".into());
            }
        }
        gaps.append(&mut remains.gaps);
        let main = ran_tracked.map_or_else(|| known.main_module(), TrackedBuild::main_module);
        let outcome = failure::judge(
            ended.ending,
            &recorder.failing_exits,
            &remains,
            &main,
            &mut recorder.modules,
            &mut gaps,
        );
        let at_crash = remains.crash.as_ref().map(|crash| &crash.maps);
        let maps = at_crash
            .filter(|maps| !maps.is_empty())
            .unwrap_or(&remains.maps);
        let mappings = record::mappings(&recorder.modules.modules(maps, &main));
        let watch = record::watch_record(
            ran_tracked.is_some(),
            asked_to_watch,
            &remains.watch,
            collected,
            &mut gaps,
        );
        let record = RunRecord {
            schema: Schema::default(),
            id: record::run_id(&recorder.agent.0, random),
            agent: recorder.agent.clone(),
            build: known.build.clone(),
            tier: recorder.tier,
            variant: ran_tracked.map(|build| build.variant),
            sampling_probability: 1.0,
            outcome,
            wall_us,
            cpu_us: ended.cpu_us,
            threads: remains.threads,
            watch,
            clock: clock::tie(start, end),
            mappings,
            gaps,
        };
        Ok((ended, record))
    }

    /// Shared memory, environment and watchpoint reader for one run; `None`,
    /// with the reason in `gaps`, if the run must go without.
    fn prepare(
        &self,
        known: &KnownProgram,
        tracked: Option<&TrackedBuild>,
        recorder: &Recorder,
        gaps: &mut Vec<String>,
    ) -> Option<Preparation> {
        let preload = match (tracked, &recorder.preload) {
            (Some(_), _) => None,
            (None, _) if !known.facts.dynamic => {
                gaps.push(
                    "the program is statically linked: crashes of the untouched build cannot \
                     be captured"
                        .into(),
                );
                return None;
            }
            (None, Ok(path)) => Some(path.as_path()),
            (None, Err(reason)) => {
                gaps.push(format!("crashes cannot be captured: {reason}"));
                return None;
            }
        };
        let mut sockets = None;
        if tracked.is_some() && recorder.tier >= Tier::Watchpoints {
            match UnixStream::pair()
                .and_then(|(ours, programs)| Ok((Collector::start(ours)?, programs)))
            {
                Ok(pair) => sockets = Some(pair),
                Err(error) => gaps.push(format!("watchpoints cannot be received: {error}")),
            }
        }
        let (collector, programs_socket) = sockets.unzip();
        let settings = RegionSettings {
            want_watch: if collector.is_some() {
                WATCH_SLOTS as u32
            } else {
                0
            },
            cpus: sys::processors(),
            socket: programs_socket.as_ref().map(|s: &UnixStream| s.as_raw_fd()),
            arm_limit: ARM_LIMIT,
            reply_patience_ms: REPLY_PATIENCE_MS,
        };
        let region = match RegionFile::create(&settings) {
            Ok(region) => region,
            Err(error) => {
                gaps.push(format!("the run could not be recorded: {error}"));
                return None;
            }
        };
        Some(Preparation {
            environment: environment::activated(&self.environment, &region.activation(), preload),
            region,
            collector,
            programs_socket,
        })
    }
}

struct Preparation {
    region: RegionFile,
    environment: Vec<CString>,
    collector: Option<Collector>,
    programs_socket: Option<UnixStream>,
}

impl Preparation {
    fn inherited(&self) -> Vec<RawFd> {
        self.programs_socket
            .iter()
            .map(|socket| socket.as_raw_fd())
            .chain([self.region.fd().as_raw_fd()])
            .collect()
    }
}
