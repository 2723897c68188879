//! Prepares an iteration: slices if there is no slice yet, plans, builds, signs.

use super::{JobError, Made, Tools};
use crate::storage::IterationRecord;
use build_analysis::{BuildError, TrackedBinary};
use code_patch::Terms;
use diagnosis::campaign::Campaign;
use sketch_model::{BuildId, Slice, TrackingPlan};
use slicer::{Fleet, Iteration, PlanRequest};
use std::time::{Duration, SystemTime};

/// How long agents may apply a patch. A campaign that takes longer than this
/// for one iteration is not going anywhere.
const PATCH_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// One iteration to prepare.
pub struct Preparation {
    pub campaign: Campaign,
    /// The slice, if an earlier iteration made it.
    pub slice: Option<Slice>,
    /// The version of the first patch; each further one has the next.
    pub patch_version: u64,
    /// How many versions were reserved for it.
    pub patch_versions: u64,
}

impl Preparation {
    /// Makes the tracked builds; tells of the slice through `made` if it had to be made.
    pub fn run(self, tools: &Tools, made: &impl Fn(Made)) -> Result<Made, JobError> {
        let problem = |words: &str| JobError::Impossible(words.to_owned());
        let campaign = self.campaign;
        let build = campaign.identity.build.clone();
        let Some(failure) = &campaign.identity.failure else {
            return Err(problem(
                "no statement of the program is known to have failed",
            ));
        };
        let slice = match self.slice {
            Some(slice) => slice,
            None => {
                let slice = tools.builds.slice(&build, failure)?;
                made(Made::Slice(slice.clone()));
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
                    offers: learned.fleet.clone(),
                    watching_given_up: campaign.watches_nothing(),
                }),
            };
            let iteration = tools.builds.plan(&build, &slice, &ask)?;
            match track_all(&build, iteration, tools) {
                Ok(tracked) => break tracked,
                Err(BuildError::NothingToHook) => {}
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
        if tracked.len() as u64 > self.patch_versions {
            return Err(problem(
                "the iteration has more plans than patches can be numbered",
            ));
        }
        let base = tools.builds.deployed(&build)?;
        let mut iterations = Vec::new();
        for (patch_version, (plan, tracked)) in (self.patch_version..).zip(tracked) {
            let variant = campaign.variant(plan.variant);
            let patch = code_patch::make(
                &base,
                &tracked.deployed,
                Terms {
                    build: build.clone(),
                    variant: Some(variant),
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
                patch: tools.blobs.put(&patch)?,
                full: tools.blobs.put(&tracked.full)?,
            });
        }
        Ok(Made::Iteration(iterations, sigma))
    }
}

/// The tracked builds of an iteration. What the first one shows may change the plans.
fn track_all(
    build: &BuildId,
    mut iteration: Iteration,
    tools: &Tools,
) -> Result<Vec<(TrackingPlan, TrackedBinary)>, BuildError> {
    let track = |plan: TrackingPlan| {
        let tracked = tools.builds.track(build, &plan)?;
        Ok((plan, tracked))
    };
    loop {
        let first = iteration.plans.first().cloned();
        let first = track(first.ok_or(BuildError::NothingToHook)?)?;
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
