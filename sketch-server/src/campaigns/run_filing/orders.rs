//! What follows from events that are not runs: a job to begin, a job that reported,
//! a developer's word.
//!
//! A developer may be talking to any server, and a job may be another server's than
//! the one that files the campaign's runs. Each change is therefore made to the
//! campaign as the storage has it now, and again if that has changed meanwhile.

use super::Desk;
use crate::campaigns::campaign::Campaign;
use crate::campaigns::diagnose::{self, Tracking};
use crate::campaigns::engine::Steered;
use crate::campaigns::plans::PlanRuns;
use crate::http::steering::Steering;
use crate::jobs::prepare_iteration::{Job, JobReport};
use crate::storage::{Changes, Revised, StorageError};
use sketch_model::{CampaignId, CampaignState};

/// Patch versions of one job: more than it can have plans.
const VERSIONS_OF_A_JOB: u64 = 64;

/// How often a developer's word is tried while other servers change the campaign.
const TRIES: usize = 5;

impl Desk {
    /// A campaign that waits for a tracked build and is this server's, as a job.
    pub fn next_job(&mut self) -> Result<Option<Job>, StorageError> {
        let Some(id) = self.wait(self.storage.claim_job())? else {
            return Ok(None);
        };
        self.refresh()?;
        let waiting = self.campaigns.get(&id).map(|revised| &revised.campaign);
        let Some(campaign) = waiting.filter(|c| c.state == CampaignState::Preparing) else {
            return Ok(None);
        };
        Ok(Some(Job {
            campaign: campaign.clone(),
            slice: self.wait(self.storage.slice(campaign.id))?,
            patch_version: self.wait(self.storage.reserve_patch_versions(VERSIONS_OF_A_JOB))?,
            patch_versions: VERSIONS_OF_A_JOB,
        }))
    }

    /// Takes note of what a job reports. A campaign that ended meanwhile ignores it.
    pub fn job_reported(&mut self, report: JobReport) -> Result<(), StorageError> {
        self.refresh()?;
        let id = report.campaign();
        let Some(Revised { campaign, revision }) = self.campaigns.get(&id).cloned() else {
            return Ok(());
        };
        let mut campaign = campaign;
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
            // It is still preparing, and its job is run again.
            JobReport::Interrupted(..) => return Ok(()),
        }
        changes.campaigns.push(Revised { campaign, revision });
        self.commit(changes)
    }

    /// Stops a campaign; `None` if there is none of that number.
    pub fn stop(&mut self, id: CampaignId) -> Result<Option<Campaign>, StorageError> {
        let stopped = self.change(id, |_, campaign| {
            campaign.stop();
            Ok(Ok(()))
        })?;
        Ok(stopped.and_then(Result::ok))
    }

    /// Does with a campaign what a developer asks, or says why it cannot be done.
    pub fn steer(&mut self, id: CampaignId, steering: Steering) -> Steered {
        self.change(id, |desk, campaign| {
            let plan = campaign.plan_numbers().first().copied().unwrap_or(0);
            let built = desk.wait(desk.storage.iteration(campaign.variant(plan)))?;
            let steered = campaign.steer(steering, built.is_some());
            Ok(steered.map_err(str::to_owned))
        })
    }

    /// Changes a campaign as it is now, again if another server did so meanwhile.
    fn change(
        &mut self,
        id: CampaignId,
        change: impl Fn(&Desk, &mut Campaign) -> Result<Result<(), String>, StorageError>,
    ) -> Steered {
        for tries_left in (0..TRIES).rev() {
            self.refresh()?;
            let Some(mut revised) = self.campaigns.get(&id).cloned() else {
                return Ok(None);
            };
            if let Err(why) = change(self, &mut revised.campaign)? {
                return Ok(Some(Err(why)));
            }
            let changes = Changes {
                campaigns: vec![revised.clone()],
                ..Changes::default()
            };
            match self.commit(changes) {
                Ok(()) => return Ok(Some(Ok(revised.campaign))),
                Err(error) if error.is_conflict() && tries_left > 0 => {}
                Err(error) => return Err(error),
            }
        }
        Err(StorageError::Conflict { what: "campaign" })
    }
}
