//! Decoding in a process of its own, with hard limits.
//!
//! libipt is C and its bytes come from a fleet. A job goes to the worker's
//! standard input, the answer comes from its standard output, both as JSON; the
//! kernel ends a worker that takes too much memory or time, and the caller goes
//! on with a sentence about it. Limits are set before the program is executed.
//!
//! The worker is whatever command the caller names: `failsketch pt-worker` runs
//! [`serve`]. Files are opened by the worker, so only paths travel.

use crate::{
    address_space::{CodeSource, MissingCode},
    branches::BranchMap,
    executed::{ExecutedRecording, executed_statements},
    mapped_bytes::mapped_bytes,
    recording::stream_recording,
};
use formats::statement_map::StatementMap;
use nix::sys::resource::{Resource, setrlimit};
use serde::{Deserialize, Serialize};
use sketch_model::{BuildId, Gap, MappedCode, PtRecord, ThreadStatements, TracedRun};
use std::{
    collections::HashMap,
    io::{self, Read, Write},
    ops::ControlFlow,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};
use thiserror::Error;

/// No answer is longer.
const LONGEST_ANSWER: u64 = 256 << 20;

/// What a worker may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of address space.
    pub memory: u64,
    pub cpu_seconds: u64,
    pub wall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 4 << 30,
            cpu_seconds: 120,
            wall: Duration::from_secs(300),
        }
    }
}

/// Where the code of a mapped file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// As mapped.
    pub mapped_path: String,
    pub build_id: Option<BuildId>,
    /// Where it lies here.
    pub file: PathBuf,
}

/// What to decode.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    pub record: PtRecord,
    pub files: Vec<FoundFile>,
    pub build: BuildId,
    pub map: Option<StatementMap>,
    /// Which machine jumps are which branches.
    #[serde(default)]
    pub branches: Option<BranchMap>,
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub threads: Vec<ThreadStatements>,
    pub missing: Vec<MissingCode>,
    /// Stretches of trace that no thread can be named for.
    pub unassigned: u64,
    pub gaps: Vec<Gap>,
}

impl Answer {
    /// The answer as a diagnosis takes it.
    pub fn traced(&self) -> TracedRun {
        let mut gaps = self.gaps.clone();
        if self.unassigned > 0 {
            let count = self.unassigned;
            gaps.push(Gap::TraceUnassigned { count });
        }
        for thread in &self.threads {
            gaps.extend(thread.gaps.iter().cloned());
        }
        if self.threads.is_empty() {
            gaps.push(Gap::TraceWithoutProgram);
        }
        TracedRun {
            complete: !self.threads.is_empty()
                && self.unassigned == 0
                && self.gaps.is_empty()
                && self.threads.iter().all(|it| it.complete),
            threads: self.threads.clone(),
            gaps,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum WorkerError {
    #[error("the decoder's process cannot be started: {0}")]
    Start(io::Error),
    #[error("decoding took longer than {0:?} and was ended; the trace is too long or is not one")]
    TooLong(Duration),
    #[error(
        "decoding was ended by signal {signal} after it used its {memory} MB of memory or its {cpu} s of processor time, or because of a fault in it; the trace is too long or is not one"
    )]
    Ended { signal: i32, memory: u64, cpu: u64 },
    #[error("the decoder's process gave no answer: {0}")]
    BadAnswer(String),
}

/// The found files, each read once.
struct Files {
    found: Vec<FoundFile>,
    read: Mutex<HashMap<PathBuf, Arc<[u8]>>>,
}

impl CodeSource for Files {
    fn code(&self, mapped: &MappedCode) -> Result<Arc<[u8]>, String> {
        if mapped.path.starts_with("//anon") || mapped.path.starts_with("[anon") {
            return Err("it was made at run time and is in no file".to_owned());
        }
        let same =
            |it: &&FoundFile| it.mapped_path == mapped.path && it.build_id == mapped.build_id;
        let found = self.found.iter().find(same);
        let found = found.ok_or_else(|| "the file is not here".to_owned())?;
        let mut read = self.read.lock().map_err(|error| error.to_string())?;
        let bytes = match read.get(&found.file) {
            Some(bytes) => Arc::clone(bytes),
            None => {
                let bytes = std::fs::read(&found.file)
                    .map_err(|error| format!("{} cannot be read: {error}", found.file.display()))?;
                let bytes: Arc<[u8]> = bytes.into();
                read.insert(found.file.clone(), Arc::clone(&bytes));
                bytes
            }
        };
        mapped_bytes(&bytes, mapped)
    }
}

/// Decodes in this process.
pub fn run_job(job: &Job) -> Answer {
    let files = Files {
        found: job.files.clone(),
        read: Mutex::default(),
    };
    let branches = job.branches.as_ref();
    let decoded = match &job.map {
        Some(map) => executed_statements(&job.record, &files, &job.build, map, branches),
        None => ExecutedRecording {
            threads: Vec::new(),
            known: stream_recording(&job.record, &files, |_, _| ControlFlow::Continue(())),
        },
    };
    Answer {
        threads: decoded.threads,
        missing: decoded.known.missing.into_iter().collect(),
        unassigned: decoded.known.unassigned,
        gaps: decoded.known.losses,
    }
}

/// The worker's side: one job, one answer.
pub fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let job: Job = serde_json::from_reader(io::BufReader::new(input))?;
    serde_json::to_writer(&mut output, &run_job(&job))?;
    output.flush()
}

/// The caller's side: starts `command`, which must run [`serve`].
pub fn decode_isolated(
    mut command: Command,
    job: &Job,
    limits: Limits,
) -> Result<Answer, WorkerError> {
    let limit = move || {
        setrlimit(Resource::RLIMIT_AS, limits.memory, limits.memory)?;
        setrlimit(Resource::RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds)?;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        Ok(())
    };
    // SAFETY: between fork and exec only `setrlimit` is called, which is
    // async-signal-safe and allocates nothing.
    unsafe { command.pre_exec(limit) };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(WorkerError::Start)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (done, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A worker that dies early stops reading; its status tells why.
            if let Some(stdin) = stdin {
                let mut stdin = io::BufWriter::new(stdin);
                let _ = serde_json::to_writer(&mut stdin, job);
                let _ = stdin.flush();
            }
        });
        scope.spawn(move || {
            let mut answer = Vec::new();
            let read = stdout.map(|it| it.take(LONGEST_ANSWER).read_to_end(&mut answer));
            let read = read.unwrap_or(Ok(0)).map(|_| answer);
            let _ = done.send(read);
        });
        let answer = finished.recv_timeout(limits.wall);
        if answer.is_err() {
            // It may have ended by itself just now; then there is nothing to kill.
            let _ = child.kill();
        }
        let status = child.wait().map_err(WorkerError::Start)?;
        let answer = answer.map_err(|_| WorkerError::TooLong(limits.wall))?;
        if let Some(signal) = status.signal() {
            return Err(WorkerError::Ended {
                signal,
                memory: limits.memory >> 20,
                cpu: limits.cpu_seconds,
            });
        }
        let answer = answer.map_err(|error| WorkerError::BadAnswer(error.to_string()))?;
        serde_json::from_slice(&answer).map_err(|error| match status.success() {
            true => WorkerError::BadAnswer(error.to_string()),
            false => WorkerError::BadAnswer(status.to_string()),
        })
    })
}
