//! What follows from one event: a run that arrived, a job that reported, a stop.
//!
//! Each event becomes one [`Changes`] value, committed at once; only then does
//! the memory of this process follow. Should the commit fail, the event is
//! still pending in the storage and nothing here has moved on.
//!
//! The population of a campaign's current iteration is kept in memory only. It
//! is a pure function of the runs that were filed for it, so after a restart it
//! is made again by reading them.

mod traces;

use super::campaign::Campaign;
use super::diagnose::{self, Tracking};
use super::engine::Steered;
use super::plans::PlanRuns;
use super::steering::Steering;
use super::storage::{
    Arrival, BuildCounts, Changes, Filing, RunRole, Storage, StorageError, StoredRun,
};
use super::symbolize::LocatedFailure;
use super::trace_map::TraceMap;
use super::traced_runs::KeptTrace;
use super::worker::{Job, JobReport, Tools};
use super::workshop::{BuildCode, WorkshopError};
use sketch_model::{
    BuildId, CampaignId, CampaignState, FailureReport, FailureSignature, Outcome, RunRecord,
    VariantRef,
};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Binaries whose debug info is kept parsed.
const CODES_KEPT: usize = 8;

pub struct Desk {
    runtime: Handle,
    storage: Arc<dyn Storage>,
    tools: Tools,
    campaigns: BTreeMap<CampaignId, Campaign>,
    tracking: HashMap<CampaignId, Tracking>,
    codes: HashMap<(BuildId, Option<VariantRef>), Arc<dyn BuildCode>>,
    trace_maps: HashMap<(BuildId, Option<VariantRef>), Arc<TraceMap>>,
    /// Traced successes of builds that have no campaign yet.
    waiting_traces: HashMap<BuildId, Vec<KeptTrace>>,
}

/// A failure as far as it could be made out.
struct Failure {
    signature: FailureSignature,
    title: String,
    located: Result<LocatedFailure, String>,
}

impl Desk {
    /// A desk that goes on where the storage says the last one left off.
    pub fn open(
        runtime: Handle,
        storage: Arc<dyn Storage>,
        tools: Tools,
    ) -> Result<Desk, StorageError> {
        let campaigns = runtime.block_on(storage.campaigns())?;
        Ok(Desk {
            runtime,
            storage,
            tools,
            campaigns: campaigns.into_iter().map(|c| (c.id, c)).collect(),
            tracking: HashMap::new(),
            codes: HashMap::new(),
            trace_maps: HashMap::new(),
            waiting_traces: HashMap::new(),
        })
    }

    pub fn next_pending(&self) -> Result<Option<StoredRun>, StorageError> {
        self.wait(self.storage.next_pending())
    }

    /// Files a run with all that follows from it.
    pub fn take(&mut self, run: &StoredRun) -> Result<(), StorageError> {
        let considered = catch_unwind(AssertUnwindSafe(|| self.consider(run)));
        let changes = considered.unwrap_or_else(|_| {
            tracing::error!(run = %run.record.id, "a run came upon a defect of this server and counts for nothing");
            self.forget(run.record.variant);
            Ok(Changes {
                filing: Some(filing(run, RunRole::Refused)),
                ..Changes::default()
            })
        })?;
        self.commit(changes).inspect_err(|_| {
            // Its population holds a run that is still pending.
            self.forget(run.record.variant);
        })
    }

    /// The oldest campaign that waits for a tracked build, as a job.
    pub fn next_job(&self) -> Result<Option<Job>, StorageError> {
        let waiting = self
            .campaigns
            .values()
            .find(|c| c.state == CampaignState::Preparing);
        let Some(campaign) = waiting else {
            return Ok(None);
        };
        Ok(Some(Job {
            campaign: campaign.clone(),
            slice: self.wait(self.storage.slice(campaign.id))?,
            patch_version: self.wait(self.storage.next_patch_version())?,
        }))
    }

    /// Takes note of what a job reports. A campaign that ended meanwhile ignores it.
    pub fn job_reported(&mut self, report: JobReport) -> Result<(), StorageError> {
        let id = match &report {
            JobReport::Sliced(id, _) | JobReport::Built(id, ..) | JobReport::Failed(id, _) => *id,
        };
        let Some(mut campaign) = self.campaigns.get(&id).cloned() else {
            return Ok(());
        };
        if campaign.state != CampaignState::Preparing {
            return Ok(());
        }
        // Steered on while its job was going: this is not the build it waits for.
        if let JobReport::Built(_, builds, _) = &report
            && builds
                .iter()
                .any(|built| built.variant.iteration != campaign.iteration)
        {
            return Ok(());
        }
        let mut changes = Changes::default();
        match report {
            JobReport::Sliced(_, slice) => {
                campaign.sliced(slice.entries.len() as u32);
                if let Some(failure) = campaign.failure.clone() {
                    let version = campaign.next_sketch();
                    let counts = self.wait(self.storage.build_counts(&campaign.build))?;
                    let mut tracking = Tracking::new(slice.clone());
                    self.add_traced_runs(&mut tracking, &campaign, &slice)?;
                    // Before any tracked run a traced one may have failed already.
                    let sketch = match campaign.traced.is_empty() {
                        true => {
                            diagnose::first_sketch(&campaign, &failure, &slice, version, counts)
                        }
                        false => tracking.look(&campaign, &failure, version, counts).sketch,
                    };
                    changes.sketches.push(sketch);
                }
                changes.slices.push((id, slice));
            }
            JobReport::Built(_, iterations, sigma) => {
                let plans = iterations.iter().map(|i| PlanRuns::of(&i.plan));
                campaign.built_for(sigma, plans.collect());
                changes.iterations = iterations;
            }
            JobReport::Failed(_, problem) => {
                tracing::warn!(campaign = %id, problem, "a campaign cannot go on");
                campaign.fail(problem);
            }
        }
        changes.campaigns.push(campaign);
        self.commit(changes)
    }

    /// Stops a campaign; `None` if there is none of that number.
    pub fn stop(&mut self, id: CampaignId) -> Result<Option<Campaign>, StorageError> {
        let Some(mut campaign) = self.campaigns.get(&id).cloned() else {
            return Ok(None);
        };
        campaign.stop();
        self.commit(Changes {
            campaigns: vec![campaign.clone()],
            ..Changes::default()
        })?;
        Ok(Some(campaign))
    }

    /// Does with a campaign what a developer asks, or says why it cannot be done.
    pub fn steer(&mut self, id: CampaignId, steering: Steering) -> Steered {
        let Some(mut campaign) = self.campaigns.get(&id).cloned() else {
            return Ok(None);
        };
        let plan = campaign.plan_numbers().first().copied().unwrap_or(0);
        let built = self.wait(self.storage.iteration(campaign.variant(plan)))?;
        if let Err(why) = campaign.steer(steering, built.is_some()) {
            return Ok(Some(Err(why.to_owned())));
        }
        self.commit(Changes {
            campaigns: vec![campaign.clone()],
            ..Changes::default()
        })?;
        Ok(Some(Ok(campaign)))
    }

    /// Notes when a failure was seen, whatever the run counted as.
    fn note_seen(&self, signature: &FailureSignature, changes: &mut Changes) {
        let changing = changes.campaigns.iter_mut().rev();
        let mut changing = changing.filter(|c| c.signature == *signature);
        let now = super::fleet::now();
        if let Some(campaign) = changing.next() {
            campaign.seen.get_or_insert_default().note(now);
            return;
        }
        let mut known = self.campaigns.values();
        if let Some(known) = known.find(|c| c.signature == *signature) {
            let mut campaign = known.clone();
            campaign.seen.get_or_insert_default().note(now);
            changes.campaigns.push(campaign);
        }
    }

    fn consider(&mut self, run: &StoredRun) -> Result<Changes, StorageError> {
        let record = &run.record;
        let before = self.wait(self.storage.build_counts(&record.build))?;
        let after = before.and(record);
        let failure = match &record.outcome {
            Outcome::Success => None,
            Outcome::Failure(report) => Some(self.failure(record, report)?),
        };
        let mut changes = Changes::default();
        let role = match record.variant {
            None => RunRole::Untracked,
            Some(variant) => self.tracked_role(record, variant, failure.as_ref()),
        };
        changes.filing = Some(filing(run, role));
        let signature = failure.as_ref().map(|f| f.signature.clone());
        if let Some(failure) = failure {
            self.note_failure(record, failure, role, before, &mut changes);
        }
        let counted = matches!(
            role,
            RunRole::Failing | RunRole::Successful | RunRole::OtherFailure
        );
        if let Some(variant) = record.variant.filter(|_| counted) {
            self.count_tracked(record, variant, role, after, &mut changes)?;
        }
        if record.variant.is_none() && record.pt.is_some() {
            self.take_traced(record, signature.as_ref(), after, &mut changes)?;
        }
        if let Some(signature) = signature {
            self.note_seen(&signature, &mut changes);
        }
        Ok(changes)
    }

    fn tracked_role(
        &self,
        record: &RunRecord,
        variant: VariantRef,
        failure: Option<&Failure>,
    ) -> RunRole {
        match self.campaigns.get(&variant.campaign) {
            Some(campaign) if campaign.build == record.build => {
                campaign.role_of(variant.iteration, failure.map(|f| &f.signature))
            }
            _ => RunRole::Refused,
        }
    }

    /// Begins a campaign for a new failure; counts a known one of P.
    fn note_failure(
        &self,
        record: &RunRecord,
        failure: Failure,
        role: RunRole,
        before: BuildCounts,
        changes: &mut Changes,
    ) {
        let known = self
            .campaigns
            .values()
            .find(|c| c.signature == failure.signature);
        if known.is_some() && role != RunRole::Untracked {
            return;
        }
        let mut campaign = known
            .cloned()
            .unwrap_or_else(|| self.new_campaign(&record.build, failure, before));
        // What somebody decoded before sending comes from no agent of the fleet.
        if record.pt.as_ref().is_none_or(|pt| pt.decoded.is_none()) {
            campaign.fleet.insert(record.tier);
        }
        if role == RunRole::Untracked {
            campaign.untracked_failures += 1;
        }
        changes.campaigns.push(campaign);
    }

    fn new_campaign(&self, build: &BuildId, failure: Failure, before: BuildCounts) -> Campaign {
        let id = CampaignId(self.campaigns.keys().last().map_or(1, |last| last.0 + 1));
        let program = self
            .tools
            .workshop
            .program_name(build)
            .unwrap_or_else(|_| build.0.clone());
        tracing::info!(campaign = %id, title = failure.title, "a new failure");
        let named = (failure.signature, failure.title);
        match failure.located {
            Ok(located) => Campaign {
                sigma: self.tools.workshop.first_sigma(),
                ..Campaign::begin(id, build.clone(), program, located, before)
            },
            Err(problem) => {
                Campaign::impossible(id, build.clone(), program, named, before, problem)
            }
        }
    }

    /// Adds a run to the population of its iteration, and looks at it when due.
    fn count_tracked(
        &mut self,
        record: &RunRecord,
        variant: VariantRef,
        role: RunRole,
        counts: BuildCounts,
        changes: &mut Changes,
    ) -> Result<(), StorageError> {
        let Some(mut campaign) = self.campaigns.get(&variant.campaign).cloned() else {
            return Ok(());
        };
        self.ensure_tracking(&campaign)?;
        let traced = self.traced(record);
        let Some(tracking) = self.tracking.get_mut(&campaign.id) else {
            campaign.fail(
                "the files of its tracked build are no longer in the data folder, so its runs \
                 cannot be read"
                    .into(),
            );
            changes.campaigns.push(campaign);
            return Ok(());
        };
        campaign.count_for(variant.plan, role);
        campaign.fleet.insert(record.tier);
        if role != RunRole::OtherFailure {
            tracking.add(record, traced.as_ref());
        }
        let worth_a_look = role == RunRole::Failing || tracking.can_say_more(&campaign);
        let failure = campaign.failure.clone();
        if let Some(failure) = failure.filter(|_| worth_a_look && campaign.look_is_due()) {
            let version = campaign.next_sketch();
            let look = tracking.look(&campaign, &failure, version, counts);
            let step = campaign.judge(look.verdict);
            tracing::info!(campaign = %campaign.id, version, ?step, "a new sketch");
            changes.sketches.push(look.sketch);
        }
        changes.campaigns.push(campaign);
        Ok(())
    }

    /// Makes sure that the population of the current iteration is in memory.
    fn ensure_tracking(&mut self, campaign: &Campaign) -> Result<(), StorageError> {
        if self.tracking.contains_key(&campaign.id) {
            return Ok(());
        }
        let Some(slice) = self.wait(self.storage.slice(campaign.id))? else {
            return Ok(());
        };
        let mut tracking = Tracking::new(slice.clone());
        self.add_traced_runs(&mut tracking, campaign, &slice)?;
        let built = match campaign.state {
            CampaignState::Tracking => campaign.plan_numbers(),
            _ => Vec::new(),
        };
        for plan in built {
            let variant = campaign.variant(plan);
            let Some(mut iteration) = self.wait(self.storage.iteration(variant))? else {
                return Ok(());
            };
            if iteration.plan.traces_branches()
                && let Ok(map) = self.trace_map(&campaign.build, Some(variant))
            {
                map.place_branches(&iteration.plan, &mut iteration.placement);
            }
            let Ok(code) = self.code(&campaign.build, Some(variant))? else {
                return Ok(());
            };
            tracking.add_plan(iteration, code);
            let mut after = Arrival(0);
            while let Some(run) = self.wait(self.storage.next_counted(variant, after))? {
                let traced = self.traced(&run.record);
                tracking.add(&run.record, traced.as_ref());
                after = run.arrival;
            }
        }
        self.tracking.insert(campaign.id, tracking);
        Ok(())
    }

    fn failure(
        &mut self,
        record: &RunRecord,
        report: &FailureReport,
    ) -> Result<Failure, StorageError> {
        let located = match self.code(&record.build, record.variant)? {
            Err(error) => Err(error.to_string()),
            Ok(code) => code
                .locate(report)
                .ok_or_else(|| code.why_unlocated(report)),
        };
        let cut_off = report
            .threads
            .first()
            .is_some_and(|t| t.truncated.is_some());
        Ok(match located {
            Ok(located) => Failure {
                signature: self
                    .known_as(&record.build, &located)
                    .filter(|_| cut_off)
                    .unwrap_or_else(|| located.signature(&record.build)),
                title: located.title(),
                located: Ok(located),
            },
            Err(problem) => Failure {
                signature: FailureSignature(format!(
                    "{} {} at no known statement",
                    record.build, report.kind
                )),
                title: format!("{} at no known statement", report.kind),
                located: Err(problem),
            },
        })
    }

    /// The known failure that this one is a part of, as far as its stack goes.
    fn known_as(&self, build: &BuildId, located: &LocatedFailure) -> Option<FailureSignature> {
        let mut known = self.campaigns.values().filter(|c| c.build == *build);
        let same = known.find(|campaign| {
            let whole = campaign.failure.as_ref();
            whole.is_some_and(|whole| located.is_cut_from(whole))
        });
        same.map(|campaign| campaign.signature.clone())
    }

    /// The code that a run executed: P's, or that of a tracked build.
    fn code(
        &mut self,
        build: &BuildId,
        variant: Option<VariantRef>,
    ) -> Result<Result<Arc<dyn BuildCode>, WorkshopError>, StorageError> {
        let key = (build.clone(), variant);
        if let Some(code) = self.codes.get(&key) {
            return Ok(Ok(Arc::clone(code)));
        }
        let tracked = match variant {
            None => None,
            Some(variant) => match self.wait(self.storage.iteration(variant))? {
                // A lost file is this campaign's problem, not the storage's: the
                // runs behind this one must not wait for it.
                Some(iteration) => match self.tools.blobs.get(&iteration.full) {
                    Ok(bytes) => Some(bytes),
                    Err(error) => return Ok(Err(WorkshopError::Tracking(error.to_string()))),
                },
                None => {
                    return Ok(Err(WorkshopError::Tracking(format!(
                        "campaign {} has no iteration {}",
                        variant.campaign, variant.iteration
                    ))));
                }
            },
        };
        let code = self.tools.workshop.code(build, tracked.as_deref());
        if let Ok(code) = &code {
            if self.codes.len() >= CODES_KEPT {
                self.codes.clear();
            }
            self.codes.insert(key, Arc::clone(code));
        }
        Ok(code)
    }

    fn commit(&mut self, changes: Changes) -> Result<(), StorageError> {
        let campaigns = changes.campaigns.clone();
        self.wait(self.storage.commit(changes))?;
        for campaign in campaigns {
            let same_iteration = self
                .campaigns
                .get(&campaign.id)
                .is_some_and(|old| old.iteration == campaign.iteration);
            if campaign.state != CampaignState::Tracking || !same_iteration {
                self.tracking.remove(&campaign.id);
            }
            self.campaigns.insert(campaign.id, campaign);
        }
        Ok(())
    }

    fn forget(&mut self, variant: Option<VariantRef>) {
        if let Some(variant) = variant {
            self.tracking.remove(&variant.campaign);
        }
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }
}

fn filing(run: &StoredRun, role: RunRole) -> Filing {
    Filing {
        arrival: run.arrival,
        build: run.record.build.clone(),
        role,
        failed: run.record.failed(),
        untracked: run.record.variant.is_none(),
    }
}
