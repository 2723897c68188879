//! What follows from a run that carries Intel PT.
//!
//! A run of a tracked build is counted where its hooks are, with what its trace
//! adds. A run of P counts for every campaign of its build that is not over: as
//! failing for the failure it showed, as successful for all if it went well. The
//! sketch then needs no tracked build at all; σ and iterations are left alone.

use super::{MADE_BY_HAND, RunFiling};
use crate::storage::{BuildCounts, Changes, Revised, StorageError};
use build_analysis::TraceMap;
use diagnosis::campaign::iteration::Iteration;
use diagnosis::campaign::traced_runs::{KeptTrace, StoredTrace, traced_plan};
use diagnosis::campaign::{Campaign, Family};
use sketch_model::{BuildId, CampaignId, Execution, Placement, RunRecord, Slice, TracedRun};
use slicer::PlanRequest;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Statements of a slice, nearest first, that traces of P are read for.
const FOLLOWED: u32 = 512;
/// Traced successes of a build that has no campaign yet.
const MOST_WAITING: usize = 256;
/// Binaries that are kept ready for traces.
pub(super) const MAPS_KEPT: NonZeroUsize = NonZeroUsize::new(4).unwrap();

impl RunFiling {
    /// What the trace of a run says; `None` if it has none.
    pub(super) fn traced(&mut self, record: &RunRecord) -> Option<TracedRun> {
        record.pt.as_ref()?;
        let reader = self.tools.traces.clone();
        reader.read(record, || self.trace_map(&record.build, record.execution))
    }

    pub(super) fn trace_map(
        &mut self,
        build: &BuildId,
        execution: Execution,
    ) -> Result<Arc<TraceMap>, String> {
        let key = (build.clone(), execution);
        if let Some(map) = self.trace_maps.get(&key) {
            return Ok(Arc::clone(map));
        }
        let tracked = match execution {
            Execution::Original | Execution::Traced { .. } => None,
            Execution::Local { .. } => return Err(MADE_BY_HAND.to_owned()),
            Execution::Tracked(variant) => {
                let iteration = self.wait(self.storage.iteration(variant));
                let iteration = iteration.map_err(|error| error.to_string())?;
                let iteration = iteration.ok_or("its tracked build is not known")?;
                let bytes = self.tools.blobs.get(&iteration.full);
                Some(bytes.map_err(|error| error.to_string())?)
            }
        };
        let map = self.tools.builds.trace_map(build, tracked);
        let map = map.map_err(|error| error.to_string())?;
        self.trace_maps.put(key, Arc::clone(&map));
        Ok(map)
    }

    /// Counts a traced run of P for the campaigns of its build.
    pub(super) fn take_traced(
        &mut self,
        record: &RunRecord,
        failure: Option<&Family>,
        counts: BuildCounts,
        changes: &mut Changes,
    ) -> Result<(), StorageError> {
        let Some(traced) = self.traced(record) else {
            return Ok(());
        };
        let stored = StoredTrace::new(record, traced);
        let bytes = serde_json::to_vec(&stored).unwrap_or_default();
        let kept = KeptTrace {
            run: record.id.clone(),
            failed: record.failed(),
            blob: self.tools.blobs.put(&bytes)?,
        };
        let mut concerned: Vec<Revised> = changes.campaigns.clone();
        let changing: Vec<CampaignId> = concerned.iter().map(|it| it.campaign.id()).collect();
        let others = self.campaigns.values();
        concerned.extend(
            others
                .filter(|it| !changing.contains(&it.campaign.id()))
                .cloned(),
        );
        let counts_for = |Revised { campaign: it, .. }: &Revised| {
            it.identity.build == record.build
                && !it.is_over()
                && failure.is_none_or(|family| it.is_of(family))
        };
        concerned.retain(counts_for);
        if concerned.is_empty() && !record.failed() {
            let waiting = self.waiting_traces.entry(record.build.clone()).or_default();
            if waiting.len() < MOST_WAITING {
                waiting.push(kept);
            }
            return Ok(());
        }
        for revised in concerned {
            self.count_traced(revised, &kept, &stored, counts, changes)?;
        }
        Ok(())
    }

    fn count_traced(
        &mut self,
        revised: Revised,
        kept: &KeptTrace,
        stored: &StoredTrace,
        counts: BuildCounts,
        changes: &mut Changes,
    ) -> Result<(), StorageError> {
        let Revised {
            mut campaign,
            revision,
        } = revised;
        let is_new = !self.campaigns.contains_key(&campaign.id());
        if is_new && let Some(waiting) = self.waiting_traces.get(&campaign.identity.build) {
            for trace in waiting {
                campaign.learned.traced.keep(trace.clone());
            }
        }
        if !is_new {
            self.ensure_iteration(&campaign)?;
        }
        if campaign.learned.traced.keep(kept.clone())
            && let Some(iteration) = self.iterations.get_mut(&campaign.id())
        {
            iteration.add_traced(campaign.id(), stored);
            // Every recurrence is worth a new sketch; of successes ever fewer are.
            let worth_a_look =
                stored.failed || campaign.learned.traced.successful().is_power_of_two();
            if worth_a_look && let Some(look) = iteration.look(&campaign, counts) {
                campaign = campaign.judge_traced(look.verdict);
                let sketch = self.numbered(look.sketch, &mut campaign)?;
                changes.sketches.push(sketch);
            }
        }
        let others = |it: &Revised| it.campaign.id() != campaign.id();
        changes.campaigns.retain(others);
        changes.campaigns.push(Revised { campaign, revision });
        Ok(())
    }

    /// Adds P itself, and the traced runs of it, to what a campaign tracks.
    pub(super) fn add_traced_runs(
        &mut self,
        iteration: &mut Iteration,
        campaign: &Campaign,
        slice: &Slice,
    ) -> Result<(), StorageError> {
        if campaign.learned.traced.is_empty() && !campaign.expects_traces() {
            return Ok(());
        }
        let sigma = FOLLOWED.min(slice.entries.len() as u32);
        let build = &campaign.identity.build;
        let ask = PlanRequest::all(sigma);
        let planned = self.tools.builds.plan(build, slice, &ask);
        let (Ok(mut planned), Ok(code)) = (planned, self.code(build, Execution::Original)?) else {
            return Ok(());
        };
        let Some(whole) = planned.plans.pop() else {
            return Ok(());
        };
        let plan = traced_plan(whole);
        let mut placement = Placement::default();
        if let Ok(map) = self.trace_map(build, Execution::Original) {
            map.place_branches(&plan, &mut placement);
        }
        iteration.add_original(plan, &placement, code);
        for trace in campaign.learned.traced.iter() {
            // A lost blob is one run less, not the end of a diagnosis.
            let stored = self.tools.blobs.get(&trace.blob).ok();
            let stored = stored.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            if let Some(stored) = stored {
                iteration.add_traced(campaign.id(), &stored);
            }
        }
        Ok(())
    }
}
