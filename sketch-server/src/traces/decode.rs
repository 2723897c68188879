//! Intel PT of a run, decoded in a process of its own with hard limits.
//!
//! libipt is C and its bytes come from a fleet: it never runs in the server
//! itself (`pt_decoder::worker`). Whatever goes wrong there becomes a sentence of
//! the run, which then simply tells less.
//!
//! Deliberately absent: the code of libraries. Agents trace the program's own
//! code only, and a path that a record names is never opened here. Whoever has
//! the libraries at hand decodes before sending (`failsketch import`).

use build_analysis::TraceMap;
use pt_decoder::worker::{FoundFile, Job, Limits, decode_isolated};
use sketch_model::{BuildId, Gap, PtRecord, RunRecord, SidebandKind, TracedRun};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// What the trace of one run may take. A record has at most 16 MB, which is a
/// second's work.
const LIMITS: Limits = Limits {
    memory: 2 << 30,
    cpu_seconds: 30,
    wall: Duration::from_secs(60),
};

/// Reads traces with the help of a worker command.
#[derive(Clone, Debug, Default)]
pub struct TraceReader {
    /// Run with the argument `pt-worker`; without one no trace is decoded.
    pub worker: Option<PathBuf>,
}

impl TraceReader {
    /// What the trace of a run says; `None` if it has none.
    pub fn read(
        &self,
        record: &RunRecord,
        map: impl FnOnce() -> Result<std::sync::Arc<TraceMap>, String>,
    ) -> Option<TracedRun> {
        let pt = record.pt.as_ref()?;
        if let Some(decoded) = &pt.decoded {
            return Some(decoded.clone());
        }
        let traced = map().and_then(|map| self.decode(record, pt, &map));
        Some(traced.unwrap_or_else(|problem| TracedRun {
            gaps: vec![Gap::TraceNotDecoded { because: problem }],
            ..TracedRun::default()
        }))
    }

    fn decode(
        &self,
        record: &RunRecord,
        pt: &PtRecord,
        map: &TraceMap,
    ) -> Result<TracedRun, String> {
        let worker = self.worker.as_ref();
        let worker = worker.ok_or("this server has no decoder; run it with `failsketch serve`")?;
        let pt = with_build_ids(pt.clone(), record);
        let mut file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        file.write_all(&map.binary)
            .map_err(|error| error.to_string())?;
        let own = |kind: &SidebandKind| match kind {
            SidebandKind::Mapped(mapped) if mapped.build_id.as_ref() == Some(&map.id) => {
                Some(FoundFile {
                    mapped_path: mapped.path.clone(),
                    build_id: mapped.build_id.clone(),
                    file: file.path().to_owned(),
                })
            }
            _ => None,
        };
        let mut files: Vec<FoundFile> = pt.sideband.iter().filter_map(|it| own(&it.kind)).collect();
        if files.is_empty() {
            return Err(format!("it names no mapping of build {}", map.id));
        }
        files.dedup();
        let job = Job {
            record: pt,
            files,
            build: map.id.clone(),
            map: Some(map.statements.clone()),
            branches: Some(map.branches.clone()),
        };
        let mut command = Command::new(worker);
        command.arg("pt-worker");
        let answer = decode_isolated(command, &job, LIMITS).map_err(|error| error.to_string())?;
        Ok(answer.traced())
    }
}

/// Kernels before 5.12 do not say the build-ids of what was mapped; the agent
/// does, beside the trace.
fn with_build_ids(mut pt: PtRecord, record: &RunRecord) -> PtRecord {
    let known = |path: &str| -> Option<BuildId> {
        let mut mappings = record.mappings.iter();
        mappings.find(|it| it.path == path)?.build_id.clone()
    };
    for event in &mut pt.sideband {
        if let SidebandKind::Mapped(mapped) = &mut event.kind
            && mapped.build_id.is_none()
        {
            mapped.build_id = known(&mapped.path);
        }
    }
    pt
}
