//! `failsketch import`: a `perf.data` file with Intel PT to a run record like an
//! agent's, so that people with such a processor need nothing but perf.
//!
//! The file is read here; libipt runs in a process of its own with limits on
//! memory and time (`failsketch pt-worker`, not listed in the help), because the
//! file may come from anybody. perf does not tell how a program ended: whoever
//! imports says it with `--failed`, and the trace tells where.

mod find;
mod record;

use crate::connection::{Connection, Trust};
use anyhow::{Context, Result, bail};
use build_analysis::{BitcodeReader, LoadedBuild};
use build_store::{BuildStore, RegisteredBuild};
use pt_decoder::PerfRecording;
use pt_decoder::worker::{self, Answer, Job, Limits};
use sketch_model::{Gap, PtRecord, RunRecord};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use viewer::printable;

const LARGEST_BODY: usize = 15 << 20;

#[derive(clap::Args)]
pub struct Arguments {
    /// What `perf record -e intel_pt//u …` wrote.
    file: PathBuf,
    /// The build store that `failsketch register` filled.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// A binary or library that ran, or a folder of them; found by build-id.
    #[arg(long = "binary", value_name = "PATH")]
    binaries: Vec<PathBuf>,
    /// How the program failed, if it did: a signal ("SIGSEGV") or an exit status ("3").
    #[arg(long, value_name = "HOW")]
    failed: Option<String>,
    /// Write the run record to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Send the run record to this server; where it has tokens, with one of role
    /// agent that was made with --fleet, or of role admin.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    trust: Trust,
    /// Print the executed statements of each thread, most frequent last.
    #[arg(long)]
    statements: bool,
    /// Megabytes of memory that decoding may use.
    #[arg(long, default_value_t = 4096)]
    memory: u64,
    /// Seconds of time that decoding may take.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let file = &arguments.file;
    let bytes =
        std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let recording = pt_decoder::read_perf_data(&bytes)
        .with_context(|| format!("{} cannot be imported", file.display()))?;
    drop(bytes);
    print_recording(&recording);
    let store = crate::open_store(arguments.store.as_ref())?;
    let build = registered(&store, &recording.record)?;
    let folder = tempfile::tempdir()?;
    let files = find::files(
        &recording.record,
        build.as_ref(),
        &arguments.binaries,
        folder.path(),
    )?;
    let reader = BitcodeReader::this();
    let build = build.map(|build| LoadedBuild::of(build, &reader));
    let build = build.transpose()?;
    let id = build.as_ref().map(|it| it.id().clone());
    let map = build.as_ref().map(|build| build.trace_map(None));
    let (map, branches) = match map.transpose()? {
        Some(map) => (Some(map.statements), Some(map.branches)),
        None => (None, None),
    };
    let job = Job {
        record: recording.record.clone(),
        files,
        build: id.clone().unwrap_or(sketch_model::BuildId(String::new())),
        map,
        branches,
    };
    let answer = decode(&job, arguments)?;
    print_answer(&answer, &recording);
    let (Some(build), Some(id), Some(map)) = (build, id, &job.map) else {
        if arguments.output.is_some() || arguments.server.is_some() {
            bail!(
                "no registered build ran in this recording, so there is no run record; register the program with `failsketch register`"
            );
        }
        println!(
            "No registered build ran in this recording, so its statements are unknown. Register \
             the program with `failsketch register`."
        );
        return Ok(());
    };
    if arguments.statements {
        print_statements(&answer, &build);
    }
    let record = record::run_record(recording, &answer, id, map, arguments.failed.as_deref())?;
    if let Some(output) = &arguments.output {
        std::fs::write(output, serde_json::to_vec(&record)?)
            .with_context(|| format!("{} cannot be written", output.display()))?;
        println!("run record written to {}", output.display());
    }
    match &arguments.server {
        Some(server) => {
            let connection = Connection {
                server: server.clone(),
                trust: arguments.trust.clone(),
            };
            send(&connection, record)
        }
        None => Ok(()),
    }
}

/// The worker: one job on standard input, one answer on standard output.
pub fn serve_worker() -> Result<()> {
    Ok(worker::serve(
        std::io::stdin().lock(),
        std::io::stdout().lock(),
    )?)
}

fn decode(job: &Job, arguments: &Arguments) -> Result<Answer> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("pt-worker");
    let limits = Limits {
        memory: arguments.memory.saturating_mul(1 << 20),
        cpu_seconds: arguments.seconds,
        wall: Duration::from_secs(arguments.seconds),
    };
    Ok(worker::decode_isolated(command, job, limits)?)
}

/// The first registered build that was mapped.
fn registered(store: &BuildStore, record: &PtRecord) -> Result<Option<RegisteredBuild>> {
    let known: Vec<_> = store.list()?.into_iter().map(|it| it.build_id).collect();
    let found = find::mapped(record)
        .filter_map(|mapped| mapped.build_id.as_ref())
        .find(|id| known.contains(id));
    Ok(found.map(|id| store.load(id)).transpose()?)
}

fn print_recording(recording: &PerfRecording) {
    let record = &recording.record;
    let bytes: usize = record.buffers.iter().map(|it| it.bytes.len()).sum();
    let host = recording.host.as_deref().unwrap_or("an unnamed machine");
    let cpu = record.cpu.map_or("unknown processor".to_owned(), |it| {
        format!(
            "Intel family {} model {} stepping {}",
            it.family, it.model, it.stepping
        )
    });
    println!(
        "{bytes} bytes of Intel PT in {} buffers, {} sideband records, from {} ({cpu})",
        record.buffers.len(),
        record.sideband.len(),
        printable(host)
    );
    if !recording.command.is_empty() {
        println!("recorded by: {}", printable(&recording.command.join(" ")));
    }
    if recording.with_kernel {
        println!(
            "note: the kernel was traced as well and its code is not known; record with intel_pt//u"
        );
    }
    for gap in &recording.gaps {
        println!("note: {gap}");
    }
}

fn print_answer(answer: &Answer, recording: &PerfRecording) {
    for missing in &answer.missing {
        let id = match &missing.build_id {
            Some(id) => format!("build-id {id}"),
            None => "no build-id".to_owned(),
        };
        let missing = format!("missing: {} ({id}): {}", missing.path, missing.why);
        println!("{}", printable(&missing));
    }
    for thread in &answer.threads {
        println!(
            "thread {} of process {}: {} blocks, {} instructions, {} statements executed{}",
            thread.tid,
            thread.pid,
            thread.blocks,
            thread.instructions,
            thread.executed.len(),
            if thread.complete { "" } else { ", with gaps" }
        );
        for gap in &thread.gaps {
            println!("  gap: {gap}");
        }
    }
    if answer.unassigned > 0 {
        let count = answer.unassigned;
        println!("note: {}", Gap::TraceUnassigned { count });
    }
    for gap in &answer.gaps {
        println!("note: {gap}");
    }
    if answer.threads.is_empty() {
        let packets = recording.record.buffers.iter();
        let (mut count, mut psbs) = (0, 0);
        for buffer in packets {
            psbs += pt_decoder::psb_offsets(&buffer.bytes).len();
            count += pt_decoder::Packets::new(&buffer.bytes).count();
        }
        println!("the trace itself: {count} packets, {psbs} synchronisation points");
    }
}

fn print_statements(answer: &Answer, build: &LoadedBuild) {
    for thread in &answer.threads {
        println!("thread {}:", thread.tid);
        let mut executed = thread.executed.clone();
        executed.sort_by_key(|it| it.times);
        for it in executed {
            let Some(statement) = build.statement(it.statement) else {
                continue;
            };
            println!(
                "{:>10}  {:<24} {:<20} {}",
                it.times,
                printable(&statement.location.to_string()),
                printable(&statement.function),
                printable(&statement.text)
            );
        }
    }
}

fn send(connection: &Connection, mut record: RunRecord) -> Result<()> {
    let mut body = serde_json::to_vec(&record)?;
    if body.len() > LARGEST_BODY
        && let Some(pt) = &mut record.pt
    {
        // What it says goes in any case.
        pt.buffers.clear();
        pt.sideband.clear();
        println!("note: the trace is too long to be sent; only what was decoded from it is");
        body = serde_json::to_vec(&record)?;
    }
    connection
        .post_json("/api/v1/runs", &body)
        .context("the server did not accept the run")?;
    let (run, server) = (printable(&record.id.0), printable(&connection.server));
    println!("run {run} sent to {server}");
    Ok(())
}

/// The file name of a path, for people.
fn short(path: &str) -> &str {
    Path::new(path)
        .file_name()
        .and_then(|it| it.to_str())
        .unwrap_or(path)
}
