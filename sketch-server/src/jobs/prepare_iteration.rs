//! The job that prepares an iteration: slice if there is none, plan, build, sign.
//!
//! Runs on a blocking thread, takes values and reports values; the engine alone
//! changes campaigns. Nothing of a job is stored before it reports except blobs,
//! which are named by content: a job that dies with its server is simply run
//! again.

use crate::storage::{Blobs, IterationRecord, StorageError};
use crate::traces::decode::TraceReader;
use build_analysis::workshop::{TrackedBinary, Workshop, WorkshopError};
use code_patch::{SecretKey, Terms};
use diagnosis::campaign::Campaign;
use sketch_model::{BuildId, CampaignId, Slice, TrackingPlan};
use slicer::{Fleet, Iteration, PlanRequest};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long agents may apply a patch. A campaign that takes longer than this
/// for one iteration is not going anywhere.
const PATCH_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a job needs; shared by all jobs of a server.
#[derive(Clone)]
pub struct Tools {
    pub workshop: Arc<dyn Workshop>,
    pub blobs: Arc<Blobs>,
    pub key: Arc<SecretKey>,
    pub traces: TraceReader,
}

/// One iteration to prepare.
pub struct Job {
    pub campaign: Campaign,
    /// The slice, if an earlier iteration made it.
    pub slice: Option<Slice>,
    /// The version of the first patch; each further one has the next.
    pub patch_version: u64,
    /// How many versions were reserved for it.
    pub patch_versions: u64,
}

/// What a job tells the engine, in this order.
pub enum JobReport {
    Sliced(CampaignId, Slice),
    /// The tracked builds, one for each plan, and the σ they were made with.
    Built(CampaignId, Vec<IterationRecord>, u32),
    Failed(CampaignId, String),
    /// The storage did not take what was made: the job is to be run again.
    Interrupted(CampaignId, StorageError),
}

impl JobReport {
    pub fn campaign(&self) -> CampaignId {
        match self {
            JobReport::Sliced(id, _)
            | JobReport::Built(id, ..)
            | JobReport::Failed(id, _)
            | JobReport::Interrupted(id, _) => *id,
        }
    }
}

/// Why a job made nothing.
enum Obstacle {
    /// It never will.
    Problem(String),
    /// It may if it is tried again.
    Storage(StorageError),
}

impl From<WorkshopError> for Obstacle {
    fn from(error: WorkshopError) -> Obstacle {
        Obstacle::Problem(error.to_string())
    }
}

/// Does a job, telling each step through `report`.
pub fn run(job: Job, tools: &Tools, report: impl Fn(JobReport)) {
    let id = job.campaign.id();
    let done = catch_unwind(AssertUnwindSafe(|| prepare(job, tools, &report)));
    match done {
        Ok(Ok((iterations, sigma))) => report(JobReport::Built(id, iterations, sigma)),
        Ok(Err(Obstacle::Problem(problem))) => report(JobReport::Failed(id, problem)),
        Ok(Err(Obstacle::Storage(error))) => report(JobReport::Interrupted(id, error)),
        Err(_) => report(JobReport::Failed(
            id,
            "preparing the tracked build came upon a defect of this server; its log says where"
                .into(),
        )),
    }
}

fn prepare(
    job: Job,
    tools: &Tools,
    report: &impl Fn(JobReport),
) -> Result<(Vec<IterationRecord>, u32), Obstacle> {
    let problem = |words: &str| Obstacle::Problem(words.to_owned());
    let campaign = job.campaign;
    let build = campaign.identity.build.clone();
    let Some(failure) = &campaign.identity.failure else {
        return Err(problem(
            "no statement of the program is known to have failed",
        ));
    };
    let slice = match job.slice {
        Some(slice) => slice,
        None => {
            let slice = tools.workshop.slice(&build, failure)?;
            report(JobReport::Sliced(campaign.id(), slice.clone()));
            slice
        }
    };
    let campaign = campaign.sliced(slice.entries.len() as u32);
    let (learned, mut sigma) = (&campaign.learned, campaign.sigma());
    let tracked = loop {
        let ask = PlanRequest {
            sigma,
            discovered: learned.beyond_sigma(),
            promotions: learned.promotions.clone(),
            fleet: Some(Fleet {
                tiers: learned.fleet.clone(),
                watching_given_up: learned.watching_given_up,
            }),
        };
        let iteration = tools.workshop.plan(&build, &slice, &ask)?;
        match track_all(&build, iteration, tools) {
            Ok(tracked) => break tracked,
            Err(WorkshopError::NothingToHook) => {}
            Err(error) => return Err(error.into()),
        }
        // A build that records nothing teaches nothing: widen at once.
        sigma = learned.wider(sigma).ok_or_else(|| {
            problem(
                "nothing that led to the failure can be recorded: the optimiser left no access, \
                 branch or call of the slice to hook",
            )
        })?;
    };
    if tracked.len() as u64 > job.patch_versions {
        return Err(problem(
            "the iteration has more plans than patches can be numbered",
        ));
    }
    let base = tools.workshop.deployed(&build)?;
    let mut iterations = Vec::new();
    for (patch_version, (plan, tracked)) in (job.patch_version..).zip(tracked) {
        let variant = campaign.variant(plan.variant);
        let patch = code_patch::make(
            &base,
            &tracked.deployed,
            Terms {
                build: build.clone(),
                variant,
                version: patch_version,
                expires: expiry(),
                watches_nothing: plan.watched.is_empty(),
            },
            &tools.key,
        )
        .map_err(|e| problem(&e.to_string()))?;
        iterations.push(IterationRecord {
            variant,
            plan,
            placement: tracked.placement,
            patch_version,
            patch: tools.blobs.put(&patch).map_err(Obstacle::Storage)?,
            full: tools.blobs.put(&tracked.full).map_err(Obstacle::Storage)?,
        });
    }
    Ok((iterations, sigma))
}

/// The tracked builds of an iteration. What the first one shows may change the plans.
fn track_all(
    build: &BuildId,
    mut iteration: Iteration,
    tools: &Tools,
) -> Result<Vec<(TrackingPlan, TrackedBinary)>, WorkshopError> {
    let track = |plan: TrackingPlan| {
        let tracked = tools.workshop.track(build, &plan)?;
        Ok((plan, tracked))
    };
    loop {
        let first = iteration.plans.first().cloned();
        let first = track(first.ok_or(WorkshopError::NothingToHook)?)?;
        let Some(revised) = iteration.revised(&first.1.placement) else {
            let others = iteration.plans.into_iter().skip(1).map(track);
            return std::iter::once(Ok(first)).chain(others).collect();
        };
        iteration = revised;
    }
}

fn expiry() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .saturating_add(PATCH_LIFE)
        .as_secs()
}
