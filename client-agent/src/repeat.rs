//! `failsketch-agent run`: once, as a transparent supervisor, or again and
//! again, asking the server before each run what to run.

use crate::{
    cli::RunArguments,
    clock,
    error::AgentError,
    governor::steward::Costs,
    modules::ModuleCache,
    perf::probe,
    preload,
    process::{environment, inherited::Inherited, signals::SignalQueue, supervise::Ended, sys},
    program::{KnownProgram, Program, ProgramKind},
    run::{Recorder, Supervisor},
    say::say,
    server::Server,
    tracked::{PatchSource, TrackedBuild},
};
use code_patch::PublicKey;
use sketch_model::{AgentId, AssignmentRequest, RunRecord, Tier, VariantRef};
use std::{
    ffi::CString, fs::File, io::Write, os::unix::ffi::OsStrExt, path::PathBuf, thread,
    time::Duration,
};

/// A simulated fleet member gives up after this many unanswered questions.
const MOST_SILENCES: u32 = 30;
const AFTER_SILENCE: Duration = Duration::from_secs(1);

/// Runs the command as asked. The result is how the agent itself is to end:
/// like the command (`Some`), or with success after repeated runs.
pub fn run(arguments: &RunArguments) -> Result<Option<Ended>, AgentError> {
    let inherited = Inherited::take().map_err(|e| AgentError::call("sigprocmask", e))?;
    // Without a queue the command still runs; signals to us then end us alone.
    let queue = SignalQueue::open()
        .inspect_err(|e| say(format_args!("signals are not passed on: {e}")))
        .ok();
    let Some(command) = arguments.command.first() else {
        return Err(AgentError::CommandNotFound {
            command: String::new(),
        });
    };
    let program = Program::find(command, std::env::var_os("PATH"))?;
    // The kernel hands out arguments without zero bytes.
    let command_line: Vec<CString> = arguments
        .command
        .iter()
        .filter_map(|argument| CString::new(argument.as_bytes()).ok())
        .collect();
    let supervisor = Supervisor {
        program: &program,
        arguments: &command_line,
        environment: environment::own(),
        inherited,
        queue: queue.as_ref(),
    };
    let mut session = Session::open(arguments, &supervisor);
    let repeated = arguments.repeat.is_some() || arguments.until_finished;
    let mut runs = 0;
    loop {
        let ended = match session.as_mut() {
            Some(session) => match session.next_run(&supervisor)? {
                Some(ended) => ended,
                None => return Ok(None),
            },
            None => supervisor.run_bare()?,
        };
        runs += 1;
        if !repeated {
            return Ok(Some(ended));
        }
        if ended.asked_to_end || arguments.repeat.is_some_and(|most| runs >= most) {
            return Ok(None);
        }
        if session.is_none() && arguments.repeat.is_none() {
            say("--until-finished needs a server and a program with a build-id");
            return Ok(None);
        }
    }
}

/// What the server wants run, and why it may not be.
struct Next {
    variant: Option<VariantRef>,
    gaps: Vec<String>,
}

/// What is kept between runs that are recorded.
struct Session<'a> {
    known: &'a KnownProgram,
    recorder: Recorder,
    server: Option<Server>,
    key: Option<PublicKey>,
    cache: PathBuf,
    store: Option<File>,
    tracked: Option<TrackedBuild>,
    /// The variant that could not be made, and why: said once, in every record.
    refused: Option<(VariantRef, String)>,
    /// Why runs go unrecorded: said once.
    unrecorded: Option<String>,
    stops_when_finished: bool,
    silences: u32,
}

impl<'a> Session<'a> {
    /// `None` if runs of this command are not recorded.
    fn open(arguments: &RunArguments, supervisor: &Supervisor<'a>) -> Option<Session<'a>> {
        if arguments.server.is_none() && arguments.store_record.is_none() {
            return None;
        }
        let known = match &supervisor.program.kind {
            ProgramKind::Known(known) => known,
            ProgramKind::LeftAlone(reason) => {
                let path = supervisor.program.path.display();
                say(format_args!("{path} is run without recording: {reason}"));
                return None;
            }
        };
        let cache = arguments
            .cache
            .clone()
            .unwrap_or_else(preload::default_cache);
        let preload = preload::prepare_cache(&cache)
            .and_then(|()| preload::preload_file(&cache))
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
        let key = arguments.key().unwrap_or_else(|error| {
            say(&error);
            None
        });
        let store = arguments.store_record.as_ref().and_then(|path| {
            File::create(path)
                .inspect_err(|reason| {
                    let path = path.display();
                    say(format_args!(
                        "records are not stored: cannot write {path}: {reason}"
                    ));
                })
                .ok()
        });
        let tier = probe::tier();
        let costs = Costs {
            ticks_per_ns: clock::ticks_per_ns(),
            hit_ns: match tier {
                Tier::Inline => 0,
                Tier::Watchpoints | Tier::IntelPt => probe::hit_cost_ns(),
            },
        };
        Some(Session {
            known,
            recorder: Recorder {
                agent: AgentId(arguments.agent.clone().unwrap_or_else(sys::host_name)),
                tier,
                preload,
                failing_exits: arguments.fail_exit.clone(),
                max_overhead: arguments.overhead_share(),
                costs,
                modules: ModuleCache::default(),
            },
            server: arguments.server.as_deref().map(Server::at),
            key,
            cache,
            store,
            tracked: None,
            refused: None,
            unrecorded: None,
            stops_when_finished: arguments.until_finished,
            silences: 0,
        })
    }

    /// One run; `None` when there is nothing more to do.
    fn next_run(&mut self, supervisor: &Supervisor<'_>) -> Result<Option<Ended>, AgentError> {
        let asked = match supervisor.queue {
            Some(queue) => queue.mortal(&supervisor.inherited, || self.ask()),
            None => self.ask(),
        };
        let Some(next) = asked? else {
            return Ok(None);
        };
        let tracked = self
            .tracked
            .as_ref()
            .filter(|build| Some(build.variant) == next.variant);
        let run = supervisor.run_recorded(self.known, tracked, &mut self.recorder, next.gaps)?;
        if let (Some(variant), Some(reason)) = (next.variant, run.refused) {
            say(&reason);
            self.tracked = None;
            self.refused = Some((variant, reason));
        }
        if let Some(reason) = run.unrecorded
            && self.unrecorded.as_ref() != Some(&reason)
        {
            say(&reason);
            self.unrecorded = Some(reason);
        }
        self.keep(&run.record);
        Ok(Some(run.ended))
    }

    /// Asks the server what to run, and gets it; `None` when it has finished.
    fn ask(&mut self) -> Result<Option<Next>, AgentError> {
        let mut variant = None;
        if let Some(server) = &self.server {
            let request = AssignmentRequest {
                agent: self.recorder.agent.clone(),
                build: self.known.build.clone(),
                tier: self.recorder.tier,
            };
            match server.assignment(&request) {
                Ok(assignment) if assignment.finished && self.stops_when_finished => {
                    return Ok(None);
                }
                Ok(assignment) => {
                    variant = assignment.variant;
                    self.silences = 0;
                }
                Err(error) => {
                    if self.silences == 0 {
                        say(format_args!("the untouched program is run: {error}"));
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
        let gaps = self.prepare_tracked(variant).into_iter().collect();
        Ok(Some(Next { variant, gaps }))
    }

    /// Makes the assigned build unless it is there already. The result is the
    /// reason why it is not.
    fn prepare_tracked(&mut self, variant: Option<VariantRef>) -> Option<String> {
        let (variant, server) = (variant?, self.server.as_ref()?);
        if self.tracked.as_ref().is_some_and(|t| t.variant == variant) {
            return None;
        }
        if let Some((refused, reason)) = &self.refused
            && *refused == variant
        {
            return Some(reason.clone());
        }
        let source = PatchSource {
            server,
            key: self.key.as_ref(),
            cache: &self.cache,
        };
        match source.build(self.known, variant) {
            Ok(build) => {
                self.tracked = Some(build);
                None
            }
            Err(error) => {
                let reason = format!("the assigned tracked build was not run: {error}");
                say(&reason);
                // A server that could not be reached may answer next time.
                if !matches!(error, AgentError::ServerUnreachable { .. }) {
                    self.refused = Some((variant, reason.clone()));
                }
                Some(reason)
            }
        }
    }

    /// Stores and uploads; failing to is said, and changes nothing.
    fn keep(&mut self, record: &RunRecord) {
        if let Some(file) = &mut self.store {
            let stored = serde_json::to_vec(record)
                .map_err(std::io::Error::other)
                .and_then(|mut line| {
                    line.push(b'\n');
                    file.write_all(&line)
                });
            if let Err(error) = stored {
                say(format_args!("the record could not be stored: {error}"));
            }
        }
        // Also to a server that did not answer before the run: it may be back.
        if let Some(server) = &self.server
            && let Err(error) = server.upload(record)
        {
            say(format_args!("the record could not be sent: {error}"));
        }
    }
}
