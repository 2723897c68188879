//! What changes a campaign beside runs: a job to begin, a job that reported, a
//! developer's steering.
//!
//! A developer may be talking to any server, and a job may be another server's than
//! the one that files the campaign's runs. Each change is therefore made to the
//! campaign as the storage has it now, and again if that has changed meanwhile.

use super::RunFiling;
use crate::campaigns::engine::Steered;
use crate::jobs::{Job, JobError, JobReport, Made, Preparation};
use crate::storage::{Changes, Revised, StorageError};
use diagnosis::campaign::iteration::first_sketch;
use diagnosis::campaign::{Campaign, PlanRuns, Steering};
use sketch_model::{CampaignId, FailureSketch, Slice};

/// Patch versions of one job: more than it can have plans.
const VERSIONS_OF_A_JOB: u64 = 64;

/// How often steering is tried while other servers change the campaign.
const TRIES: usize = 5;

impl RunFiling {
    /// A campaign that waits for a tracked build and is this server's, as a job.
    pub fn next_job(&mut self) -> Result<Option<Job>, StorageError> {
        let Some(id) = self.wait(self.storage.claim_job())? else {
            return Ok(None);
        };
        self.refresh()?;
        let waiting = self.campaigns.get(&id).map(|revised| &revised.campaign);
        let Some(campaign) = waiting.filter(|c| c.is_preparing()) else {
            return Ok(None);
        };
        Ok(Some(Job::PrepareIteration(Box::new(Preparation {
            campaign: campaign.clone(),
            slice: self.wait(self.storage.slice(campaign.id()))?,
            patch_version: self.wait(self.storage.reserve_patch_versions(VERSIONS_OF_A_JOB))?,
            patch_versions: VERSIONS_OF_A_JOB,
        }))))
    }

    /// Takes note of what a job reports. A campaign that ended meanwhile ignores it.
    pub fn job_reported(&mut self, report: JobReport) -> Result<(), StorageError> {
        self.refresh()?;
        let id = report.campaign;
        let Some(Revised { campaign, revision }) = self.campaigns.get(&id).cloned() else {
            return Ok(());
        };
        if !campaign.is_preparing() {
            return Ok(());
        }
        // Steered on while its job was going: this is not the build it waits for.
        if let Ok(Made::Iteration(builds, _)) = &report.outcome
            && builds
                .iter()
                .any(|built| built.variant.iteration != campaign.iteration())
        {
            return Ok(());
        }
        let mut changes = Changes::default();
        let campaign = match report.outcome {
            Ok(Made::Slice(slice)) => {
                let mut campaign = campaign.sliced(slice.entries.len() as u32);
                if let Some(mut sketch) = self.sketch_of_slice(&campaign, &slice)? {
                    sketch.version = campaign.next_sketch();
                    changes.sketches.push(sketch);
                }
                changes.slices.push((id, slice));
                campaign
            }
            Ok(Made::Iteration(iterations, sigma)) => {
                let plans = iterations.iter().map(|i| PlanRuns::of(&i.plan)).collect();
                changes.iterations = iterations;
                campaign.built(sigma, plans)
            }
            // It is still preparing, and its job is run again.
            Err(JobError::TryAgain(_)) => return Ok(()),
            Err(problem @ (JobError::Impossible(_) | JobError::Defect)) => {
                let problem = problem.to_string();
                tracing::warn!(campaign = %id, problem, "a campaign failed");
                campaign.fail(problem)
            }
        };
        changes.campaigns.push(Revised { campaign, revision });
        self.commit(changes)
    }

    /// The first sketch. Before any tracked run a traced one may have failed already.
    fn sketch_of_slice(
        &mut self,
        campaign: &Campaign,
        slice: &Slice,
    ) -> Result<Option<FailureSketch>, StorageError> {
        let build = &campaign.identity.build;
        let counts = self.wait(self.storage.build_counts(build))?;
        if campaign.learned.traced.is_empty() {
            return Ok(first_sketch(campaign, slice, counts));
        }
        let mut iteration = self.new_iteration(build, slice.clone());
        self.add_traced_runs(&mut iteration, campaign, slice)?;
        Ok(iteration.look(campaign, counts).map(|look| look.sketch))
    }

    /// Does with a campaign what a developer asks, as it is now and again if another
    /// server changed it meanwhile.
    pub fn steer(&mut self, id: CampaignId, steering: Steering) -> Result<Steered, StorageError> {
        for tries_left in (0..TRIES).rev() {
            self.refresh()?;
            let Some(Revised { campaign, revision }) = self.campaigns.get(&id).cloned() else {
                return Ok(Steered::NoSuchCampaign);
            };
            let campaign = match campaign.steer(steering) {
                Ok(campaign) => self.with_its_builds(campaign)?,
                Err(why) => return Ok(Steered::Refused(why)),
            };
            let changes = Changes {
                campaigns: vec![Revised {
                    campaign: campaign.clone(),
                    revision,
                }],
                ..Changes::default()
            };
            match self.commit(changes) {
                Ok(()) => return Ok(Steered::Done(Box::new(campaign))),
                Err(error) if error.is_conflict() && tries_left > 0 => {}
                Err(error) => return Err(error),
            }
        }
        Err(StorageError::Conflict { what: "campaign" })
    }

    /// A campaign that is to track builds which are not there makes them again. One
    /// whose records were dropped while it was over begins an iteration of the same σ:
    /// its counts would speak of runs that nobody can look at any more.
    fn with_its_builds(&self, campaign: Campaign) -> Result<Campaign, StorageError> {
        let plans = campaign.tracking().map(|tracking| &tracking.plans);
        let Some(first) = plans.and_then(|plans| plans.first()) else {
            return Ok(campaign);
        };
        let built = self.wait(self.storage.iteration(campaign.variant(first.plan)))?;
        if built.is_none() {
            return Ok(campaign.rebuild());
        }
        let mut dropped = false;
        for plan in plans.into_iter().flatten() {
            let records = self.storage.records_of(campaign.variant(plan.plan));
            dropped |= self.wait(records)? < plan.failing + plan.successful;
        }
        Ok(match dropped {
            true => campaign.begin_again(),
            false => campaign,
        })
    }
}
