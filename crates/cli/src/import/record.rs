//! The run record of an imported recording.
//!
//! perf has no hooks, no watchpoints and no stack: these parts stay empty, and
//! the record says so. A failure's place is where the trace of the thread that
//! was seen last ends in the program's own code: the instruction that a fault
//! or a signal interrupted, or the last one that was executed before.

use super::short;
use anyhow::{Context, Result, bail};
use formats::statement_map::StatementMap;
use nix::sys::signal::Signal;
use pt_decoder::worker::Answer;
use pt_decoder::{AddressSpaces, PerfRecording};
use sketch_model::{
    AgentId, BuildId, Capabilities, ClockTie, Execution, FailureKind, FailureReport, Gap, Mapping,
    Outcome, PtRecord, RunId, RunRecord, RuntimeAddress, Schema, StackFrame, ThreadStack,
    ThreadStatements, WatchRecord, WatchRefusal,
};

pub fn run_record(
    recording: PerfRecording,
    answer: &Answer,
    build: BuildId,
    map: &StatementMap,
    failed: Option<&str>,
) -> Result<RunRecord> {
    let record = recording.record;
    let mappings = mappings(&record, answer);
    let outcome = match failed {
        None => Outcome::Success,
        Some(how) => {
            let report = failure(kind(how)?, answer, &mappings, &build, map)?;
            Outcome::Failure(report)
        }
    };
    let times = || record.sideband.iter().filter_map(|it| it.time_ns);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let pid = answer.threads.first().map_or(0, |it| it.pid);
    let mut gaps = recording.gaps;
    gaps.push(Gap::ImportedFromPerf);
    gaps.extend(answer.gaps.iter().cloned());
    for thread in answer.threads.iter().filter(|it| !it.complete) {
        gaps.push(Gap::ThreadTraceIncomplete { tid: thread.tid });
    }
    for missing in &answer.missing {
        let path = short(&missing.path).to_owned();
        gaps.push(Gap::CodeUnknown { path });
    }
    let host = recording.host.unwrap_or_else(|| "perf".to_owned());
    Ok(RunRecord {
        schema: Schema::default(),
        // The same recording is the same run, however often it is imported.
        id: RunId(format!("perf-{host}-{pid}-{first}")),
        agent: AgentId(format!("perf on {host}")),
        build,
        capabilities: Capabilities::intel_pt(),
        execution: Execution::Original,
        sampling_probability: 1.0,
        outcome,
        wall_us: (last - first) / 1000,
        cpu_us: 0,
        threads: Vec::new(),
        unrecorded_threads: 0,
        freed: None,
        watch: WatchRecord {
            refused: Some(WatchRefusal::ImportedFromPerf),
            ..WatchRecord::default()
        },
        clock: ClockTie::default(),
        mappings,
        pt: Some(PtRecord {
            decoded: Some(answer.traced()),
            ..record
        }),
        gaps,
        privacy: Default::default(),
        privacy_key: None,
        tracking: Default::default(),
    })
}

/// The code of the program's process.
fn mappings(record: &PtRecord, answer: &Answer) -> Vec<Mapping> {
    let spaces = AddressSpaces::new(&record.sideband);
    let pid = answer.threads.first().map(|it| it.pid);
    let mapped = pid.into_iter().flat_map(|pid| spaces.mapped(pid));
    let mut mappings: Vec<_> = mapped
        .map(|it| Mapping {
            start: it.start,
            end: RuntimeAddress(it.start.0.saturating_add(it.length)),
            file_offset: it.file_offset,
            path: it.path.clone(),
            build_id: it.build_id.clone(),
        })
        .collect();
    mappings.dedup();
    mappings
}

fn kind(how: &str) -> Result<FailureKind> {
    if let Ok(status) = how.parse::<i32>() {
        return Ok(FailureKind::ExitCode(status));
    }
    let name = match how.strip_prefix("SIG") {
        Some(_) => how.to_owned(),
        None => format!("SIG{how}"),
    };
    let signal: Signal = name
        .parse()
        .with_context(|| format!("{how} is neither a signal nor an exit status"))?;
    Ok(FailureKind::Signal {
        number: signal as i32,
        name,
    })
}

fn failure(
    kind: FailureKind,
    answer: &Answer,
    mappings: &[Mapping],
    build: &BuildId,
    map: &StatementMap,
) -> Result<FailureReport> {
    let ended = |it: &&ThreadStatements| it.last_own.is_some();
    let threads = answer.threads.iter().filter(ended);
    let Some(failing) = threads.max_by_key(|it| it.last_seen) else {
        bail!("the trace shows no code of the program, so where it failed is not known");
    };
    let frame = failing
        .last_own
        .and_then(|at| frame(at, mappings, build, map));
    let Some(frame) = frame else {
        bail!(
            "the program's own mapping is missing in the recording, so where it failed is not known"
        );
    };
    Ok(FailureReport {
        schema: Schema::default(),
        kind,
        fault_address: None,
        said: None,
        threads: vec![ThreadStack {
            tid: failing.tid,
            frames: vec![frame],
            truncated: Some("a trace has no stack".to_owned()),
            waits_for: None,
        }],
        mappings: mappings.to_vec(),
        gaps: vec![Gap::FailurePlaceFromTrace],
    })
}

fn frame(
    at: RuntimeAddress,
    mappings: &[Mapping],
    build: &BuildId,
    map: &StatementMap,
) -> Option<StackFrame> {
    let mapping = mappings
        .iter()
        .find(|it| it.build_id.as_ref() == Some(build) && it.start <= at && at < it.end)?;
    let offset = mapping.file_offset.checked_add(at.0 - mapping.start.0)?;
    Some(StackFrame {
        lookup: map.address_of(offset)?,
        module: mapping.path.clone(),
    })
}
