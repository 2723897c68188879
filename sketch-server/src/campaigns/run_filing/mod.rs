//! Files accepted runs: assigns each to a campaign and updates its counts. What
//! follows from jobs and from steering stands in `orders`.
//!
//! A batch of runs becomes one [`Changes`] value, committed at once. What this
//! process keeps in memory is a copy: should the commit fail, because the storage
//! does not answer or because another server was first, what the batch touched is
//! forgotten and read again, and the runs are still pending.
//!
//! The population of a campaign's current iteration is kept in memory only. It
//! is a pure function of the runs that were filed for it, so after a restart, or
//! on another server, it is made again by reading them.

mod orders;
mod traces;

use crate::jobs::Tools;
use crate::storage::{
    Arrival, BuildCounts, Changes, CountedAs, Filing, Revised, Storage, StorageError, StoredRun,
};
use build_analysis::{BuildError, TraceMap};
use diagnosis::campaign::iteration::Iteration;
use diagnosis::campaign::traced_runs::KeptTrace;
use diagnosis::campaign::{Campaign, Face, Family, LocatedFailure};
use formats::address_map::AddressMap;
use lru::LruCache;
use sketch_model::{
    BuildId, CampaignId, Execution, FailureReport, FailureSignature, FailureSketch, Outcome,
    RunRecord, Slice, VariantRef,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Binaries whose debug info is kept parsed.
const CODES_KEPT: NonZeroUsize = NonZeroUsize::new(8).unwrap();

/// Why there is no code for a run of [`Execution::Local`].
const MADE_BY_HAND: &str = "its patch was made by hand, and no campaign knows it";

/// Runs that are read back at once.
const READ_BACK: usize = 256;

pub struct RunFiling {
    runtime: Handle,
    storage: Arc<Storage>,
    tools: Tools,
    campaigns: BTreeMap<CampaignId, Revised>,
    /// What the current iteration of each campaign has shown.
    iterations: HashMap<CampaignId, Iteration>,
    /// The last sketch of campaigns that are being tracked.
    published: HashMap<CampaignId, FailureSketch>,
    codes: LruCache<(BuildId, Execution), Arc<AddressMap>>,
    trace_maps: LruCache<(BuildId, Execution), Arc<TraceMap>>,
    /// Traced successes of builds that have no campaign yet.
    waiting_traces: HashMap<BuildId, Vec<KeptTrace>>,
    /// What this batch has read of the builds' counters, and added to it.
    counts: HashMap<BuildId, BuildCounts>,
    /// Campaigns that have moved on in memory and not yet in the storage.
    ahead: HashSet<CampaignId>,
    /// Other servers may have changed campaigns.
    shared: bool,
    /// So may have this one, without knowing whether it was written.
    stale: bool,
}

/// A failure as far as it could be made out.
struct Failure {
    seen: Seen,
    located: Result<LocatedFailure, String>,
}

/// Which failure a run showed, and where it struck.
#[derive(Clone)]
struct Seen {
    family: Family,
    face: Face,
}

impl RunFiling {
    /// Goes on where the storage says the last one left off.
    pub fn open(
        runtime: Handle,
        storage: Arc<Storage>,
        tools: Tools,
    ) -> Result<RunFiling, StorageError> {
        let mut filing = RunFiling {
            runtime,
            shared: storage.heartbeat().is_some(),
            storage,
            tools,
            campaigns: BTreeMap::new(),
            iterations: HashMap::new(),
            published: HashMap::new(),
            codes: LruCache::new(CODES_KEPT),
            trace_maps: LruCache::new(traces::MAPS_KEPT),
            waiting_traces: HashMap::new(),
            counts: HashMap::new(),
            ahead: HashSet::new(),
            stale: true,
        };
        filing.refresh()?;
        Ok(filing)
    }

    pub fn pending(&self, most: usize) -> Result<Vec<StoredRun>, StorageError> {
        self.wait(self.storage.pending(most))
    }

    /// Files runs with all that follows from them.
    pub fn file(&mut self, batch: &[StoredRun]) -> Result<(), StorageError> {
        self.counts.clear();
        self.refresh()?;
        let mut all = Changes::default();
        for run in batch {
            let changes = match self.considered(run) {
                Ok(changes) => changes,
                Err(error) => {
                    self.forget(run.record.execution);
                    self.fall_back();
                    return Err(error);
                }
            };
            for revised in &changes.campaigns {
                self.ahead.insert(revised.campaign.id());
                self.follow(revised.clone());
            }
            absorb(&mut all, changes);
        }
        self.commit(all)
    }

    fn considered(&mut self, run: &StoredRun) -> Result<Changes, StorageError> {
        let considered = catch_unwind(AssertUnwindSafe(|| self.consider(run)));
        considered.unwrap_or_else(|_| {
            tracing::error!(run = %run.record.id, "internal error while processing a run; it is not counted");
            self.forget(run.record.execution);
            Ok(Changes {
                filings: vec![filing(run, CountedAs::Refused)],
                ..Changes::default()
            })
        })
    }

    /// Reads what other servers have changed, or what may not be as it is here.
    fn refresh(&mut self) -> Result<(), StorageError> {
        if !self.shared && !self.stale {
            return Ok(());
        }
        for (id, revision) in self.wait(self.storage.revisions())? {
            let known = self.campaigns.get(&id).map(|known| known.revision);
            if known == Some(revision) {
                continue;
            }
            self.forget_campaign(id);
            if let Some(revised) = self.wait(self.storage.revised(id))? {
                self.campaigns.insert(id, revised);
            }
        }
        self.stale = false;
        Ok(())
    }

    /// Forgets what was not written.
    fn fall_back(&mut self) {
        for id in std::mem::take(&mut self.ahead) {
            self.forget_campaign(id);
        }
        self.stale = true;
    }

    fn forget_campaign(&mut self, id: CampaignId) {
        self.campaigns.remove(&id);
        self.iterations.remove(&id);
        self.published.remove(&id);
    }

    /// Notes when a failure was seen and where it struck, whatever the run counted as.
    fn note_seen(&self, failure: &Seen, changes: &mut Changes) {
        let note = |revised: &mut Revised| {
            let campaign = &mut revised.campaign;
            let now = crate::campaigns::fleet::now();
            campaign.learned.seen.get_or_insert_default().note(now);
            campaign.note_face(failure.face.clone());
        };
        let changing = changes.campaigns.iter_mut().rev();
        let mut changing = changing.filter(|c| c.campaign.is_of(&failure.family));
        if let Some(changing) = changing.next() {
            note(changing);
        } else if let Some(known) = self.known(&failure.family) {
            let mut known = known.clone();
            note(&mut known);
            changes.campaigns.push(known);
        }
    }

    fn known(&self, family: &Family) -> Option<&Revised> {
        let mut known = self.campaigns.values();
        known.find(|known| known.campaign.is_of(family))
    }

    /// The counters of a build before a run, which they count from now on.
    fn counts_before(&mut self, record: &RunRecord) -> Result<BuildCounts, StorageError> {
        let before = match self.counts.get(&record.build) {
            Some(counts) => *counts,
            None => self.wait(self.storage.build_counts(&record.build))?,
        };
        self.counts.insert(record.build.clone(), before.and(record));
        Ok(before)
    }

    fn consider(&mut self, run: &StoredRun) -> Result<Changes, StorageError> {
        let record = &run.record;
        let before = self.counts_before(record)?;
        let after = before.and(record);
        let failure = match &record.outcome {
            Outcome::Success => None,
            Outcome::Failure(report) => Some(self.failure(record, report)?),
        };
        let mut changes = Changes::default();
        let counted_as = match record.execution {
            Execution::Original => CountedAs::Untracked,
            // What an agent says was read for a campaign, or made by hand, is no
            // campaign's; it was refused on arrival.
            Execution::Traced { .. } | Execution::Local { .. } => CountedAs::Refused,
            Execution::Tracked(variant) => self.tracked_as(record, variant, failure.as_ref()),
        };
        changes.filings.push(filing(run, counted_as));
        let seen = failure.as_ref().map(|f| f.seen.clone());
        if let Some(failure) = failure {
            self.note_failure(record, failure, counted_as, before, &mut changes);
        }
        let counted = matches!(
            counted_as,
            CountedAs::Failing | CountedAs::Successful | CountedAs::OtherFailure
        );
        if let Some(variant) = record.execution.tracked().filter(|_| counted) {
            self.count_tracked(record, variant, counted_as, after, &mut changes)?;
        }
        if counted_as == CountedAs::Untracked && record.pt.is_some() {
            let family = seen.as_ref().map(|seen| &seen.family);
            self.take_traced(record, family, after, &mut changes)?;
        }
        if let Some(seen) = seen {
            self.note_seen(&seen, &mut changes);
        }
        Ok(changes)
    }

    fn tracked_as(
        &self,
        record: &RunRecord,
        variant: VariantRef,
        failure: Option<&Failure>,
    ) -> CountedAs {
        match self.campaigns.get(&variant.campaign) {
            Some(Revised { campaign, .. }) if campaign.identity.build == record.build => {
                campaign.counted_as(variant, failure.map(|f| &f.seen.family))
            }
            _ => CountedAs::Refused,
        }
    }

    /// Begins a campaign for a new failure; counts a known one of P.
    fn note_failure(
        &self,
        record: &RunRecord,
        failure: Failure,
        counted_as: CountedAs,
        before: BuildCounts,
        changes: &mut Changes,
    ) {
        let known = self.known(&failure.seen.family);
        if known.is_some() && counted_as != CountedAs::Untracked {
            return;
        }
        let mut revised = known
            .cloned()
            .unwrap_or_else(|| Revised::new(self.new_campaign(&record.build, failure, before)));
        // What somebody decoded before sending comes from no agent of the fleet.
        if record.pt.as_ref().is_none_or(|pt| pt.decoded.is_none()) {
            revised
                .campaign
                .learned
                .fleet
                .insert(record.capabilities.clone());
        }
        if counted_as == CountedAs::Untracked {
            revised.campaign.learned.untracked_failures += 1;
        }
        changes.campaigns.push(revised);
    }

    fn new_campaign(&self, build: &BuildId, failure: Failure, before: BuildCounts) -> Campaign {
        let id = CampaignId(self.campaigns.keys().last().map_or(1, |last| last.0 + 1));
        let program = self
            .tools
            .builds
            .program_name(build)
            .unwrap_or_else(|_| build.0.clone());
        tracing::info!(campaign = %id, title = failure.seen.face.title, "a new failure");
        let Face {
            signature, title, ..
        } = failure.seen.face;
        let named = (signature, title);
        match failure.located {
            Ok(located) => {
                let sigma = self.tools.builds.first_sigma();
                Campaign::begin(id, build.clone(), program, located, before, sigma)
            }
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
        counted_as: CountedAs,
        counts: BuildCounts,
        changes: &mut Changes,
    ) -> Result<(), StorageError> {
        let Some(known) = self.campaigns.get(&variant.campaign).cloned() else {
            return Ok(());
        };
        let Revised {
            mut campaign,
            revision,
        } = known;
        self.ensure_iteration(&campaign)?;
        let traced = self.traced(record);
        let Some(iteration) = self.iterations.get_mut(&campaign.id()) else {
            let campaign = campaign.fail(
                "the files of its tracked build are no longer in the data folder, so its runs \
                 cannot be read"
                    .into(),
            );
            changes.campaigns.push(Revised { campaign, revision });
            return Ok(());
        };
        campaign.count(variant.plan, counted_as);
        campaign.learned.fleet.insert(record.capabilities.clone());
        if counted_as != CountedAs::OtherFailure {
            iteration.add(record, traced.as_ref());
        }
        let worth_a_look = counted_as == CountedAs::Failing || iteration.can_say_more(&campaign);
        if worth_a_look
            && campaign.look_is_due()
            && let Some(look) = iteration.look(&campaign, counts)
        {
            let sketch = self.numbered(look.sketch, &mut campaign)?;
            let step;
            (campaign, step) = campaign.judge(look.verdict);
            tracing::info!(campaign = %campaign.id(), version = sketch.version, ?step, "a look");
            changes.sketches.push(sketch);
        }
        changes.campaigns.push(Revised { campaign, revision });
        Ok(())
    }

    /// The sketch under the next number, or under that of the last one if it shows
    /// the same with newer figures.
    fn numbered(
        &mut self,
        mut sketch: FailureSketch,
        campaign: &mut Campaign,
    ) -> Result<FailureSketch, StorageError> {
        let last = match self.published.remove(&campaign.id()) {
            Some(last) => Some(last),
            None => self.wait(self.storage.sketch(campaign.id(), None))?,
        };
        sketch.version = match last {
            Some(last) if viewer::changes(&last, &sketch).is_empty() => last.version,
            _ => campaign.next_sketch(),
        };
        self.published.insert(campaign.id(), sketch.clone());
        Ok(sketch)
    }

    /// Makes sure that what the current iteration has shown is in memory.
    fn ensure_iteration(&mut self, campaign: &Campaign) -> Result<(), StorageError> {
        let build = &campaign.identity.build;
        if self.iterations.contains_key(&campaign.id()) {
            return Ok(());
        }
        let Some(slice) = self.wait(self.storage.slice(campaign.id()))? else {
            return Ok(());
        };
        let mut iteration = self.new_iteration(build, slice.clone());
        self.add_traced_runs(&mut iteration, campaign, &slice)?;
        let plans = campaign.tracking().map_or(&[][..], |it| &it.plans);
        for plan in plans {
            let variant = campaign.variant(plan.plan);
            let execution = Execution::Tracked(variant);
            let Some(mut built) = self.wait(self.storage.iteration(variant))? else {
                return Ok(());
            };
            if built.plan.traces_branches()
                && let Ok(map) = self.trace_map(build, execution)
            {
                map.place_branches(&built.plan, &mut built.placement);
            }
            let Ok(code) = self.code(build, execution)? else {
                return Ok(());
            };
            iteration.add_plan(variant, built.plan, &built.placement, code);
            let mut after = Arrival(0);
            loop {
                let runs = self.wait(self.storage.counted(variant, after, READ_BACK))?;
                let Some(last) = runs.last() else { break };
                after = last.arrival;
                for run in &runs {
                    let traced = self.traced(&run.record);
                    iteration.add(&run.record, traced.as_ref());
                }
            }
        }
        self.iterations.insert(campaign.id(), iteration);
        Ok(())
    }

    fn new_iteration(&self, build: &BuildId, slice: Slice) -> Iteration {
        let (tools, build) = (Arc::clone(&self.tools.builds), build.clone());
        Iteration::new(slice, Arc::new(move |id| tools.statement(&build, id)))
    }

    fn failure(
        &mut self,
        record: &RunRecord,
        report: &FailureReport,
    ) -> Result<Failure, StorageError> {
        let located = match self.code(&record.build, record.execution)? {
            Err(error) => Err(error.to_string()),
            Ok(code) => {
                let located = self.tools.builds.locate(&record.build, report, &code);
                located.map_err(|error| error.to_string())
            }
        };
        let face = |signature, title| Face {
            signature,
            title,
            kind: report.kind.clone(),
            failures: 1,
        };
        let (build, kind) = (&record.build, &report.kind);
        let seen = match &located {
            Ok(located) => Seen {
                family: Family::of(build, located),
                face: face(located.signature(build), located.title()),
            },
            Err(_) => {
                let signature = FailureSignature(format!("{build} {kind} at no known statement"));
                Seen {
                    family: Family::of_signature(&signature),
                    face: face(signature, format!("{kind} at no known statement")),
                }
            }
        };
        Ok(Failure { seen, located })
    }

    /// The code that a run executed: P's, or that of a tracked build.
    fn code(
        &mut self,
        build: &BuildId,
        execution: Execution,
    ) -> Result<Result<Arc<AddressMap>, BuildError>, StorageError> {
        let key = (build.clone(), execution);
        if let Some(code) = self.codes.get(&key) {
            return Ok(Ok(Arc::clone(code)));
        }
        let tracked = match execution {
            Execution::Original | Execution::Traced { .. } => None,
            Execution::Local { .. } => {
                return Ok(Err(BuildError::Tracking(MADE_BY_HAND.to_owned())));
            }
            Execution::Tracked(variant) => match self.wait(self.storage.iteration(variant))? {
                // A lost file is this campaign's problem, not the storage's: the
                // runs behind this one must not wait for it.
                Some(iteration) => match self.tools.blobs.get(&iteration.full) {
                    Ok(bytes) => Some(bytes),
                    Err(error) if error.is_lost_blob() => {
                        return Ok(Err(BuildError::Tracking(error.to_string())));
                    }
                    Err(error) => return Err(error),
                },
                None => {
                    return Ok(Err(BuildError::Tracking(format!(
                        "campaign {} has no iteration {}",
                        variant.campaign, variant.iteration
                    ))));
                }
            },
        };
        let code = self.tools.builds.address_map(build, tracked.as_deref());
        if let Ok(code) = &code {
            self.codes.put(key, Arc::clone(code));
        }
        Ok(code)
    }

    fn commit(&mut self, changes: Changes) -> Result<(), StorageError> {
        let campaigns = changes.campaigns.clone();
        if let Err(error) = self.wait(self.storage.commit(changes)) {
            self.ahead.extend(campaigns.iter().map(|c| c.campaign.id()));
            self.fall_back();
            return Err(error);
        }
        self.ahead.clear();
        for mut revised in campaigns {
            revised.revision += 1;
            self.follow(revised);
        }
        Ok(())
    }

    /// Lets the memory of this process follow a change of a campaign.
    fn follow(&mut self, revised: Revised) {
        let campaign = &revised.campaign;
        let same_iteration = self
            .campaigns
            .get(&campaign.id())
            .is_some_and(|old| old.campaign.iteration() == campaign.iteration());
        if campaign.tracking().is_none() || !same_iteration {
            self.iterations.remove(&campaign.id());
        }
        if campaign.is_over() {
            self.published.remove(&campaign.id());
        }
        self.campaigns.insert(campaign.id(), revised);
    }

    fn forget(&mut self, execution: Execution) {
        if let Some(variant) = execution.tracked() {
            self.iterations.remove(&variant.campaign);
        }
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }
}

/// Adds the changes of one run to those of its batch.
fn absorb(batch: &mut Changes, changes: Changes) {
    batch.filings.extend(changes.filings);
    for revised in changes.campaigns {
        let mut known = batch.campaigns.iter_mut();
        match known.find(|known| known.campaign.id() == revised.campaign.id()) {
            Some(known) => *known = revised,
            None => batch.campaigns.push(revised),
        }
    }
    batch.slices.extend(changes.slices);
    batch.iterations.extend(changes.iterations);
    batch.sketches.extend(changes.sketches);
}

fn filing(run: &StoredRun, counted_as: CountedAs) -> Filing {
    Filing {
        arrival: run.arrival,
        build: run.record.build.clone(),
        counted_as,
        failed: run.record.failed(),
        untracked: run.record.execution.is_original(),
    }
}
