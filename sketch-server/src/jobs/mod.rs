//! Work for a campaign that takes long and runs beside the engine.
//!
//! A kind of work is a file here and a variant of [`Job`], of what it makes a variant of
//! [`Made`]. `campaigns/run_filing/orders.rs` finds work to do and files what was made;
//! `campaigns/engine.rs` runs it and knows no kinds. Periodic work is not here: its
//! loops are started in `serve.rs`.
//!
//! A job runs on a blocking thread, takes values and reports values; the engine alone
//! changes campaigns. Nothing of a job is stored before it reports except blobs, which
//! are named by content: a job that dies with its server is simply run again.

mod prepare_iteration;

pub use prepare_iteration::Preparation;

use crate::storage::{Blobs, IterationRecord, StorageError};
use crate::traces::decode::TraceReader;
use build_analysis::{BuildError, BuildTools};
use code_patch::SecretKey;
use sketch_model::{CampaignId, Slice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What a job needs; shared by all jobs of a server.
#[derive(Clone)]
pub struct Tools {
    pub builds: Arc<dyn BuildTools>,
    pub blobs: Arc<Blobs>,
    pub key: Arc<SecretKey>,
    pub traces: TraceReader,
}

/// Something to be done for a campaign, with all that was known when it began.
pub enum Job {
    PrepareIteration(Box<Preparation>),
}

/// What a job has made.
pub enum Made {
    Slice(Slice),
    /// The tracked builds, one for each plan, and the σ they were made with.
    Iteration(Vec<IterationRecord>, u32),
}

/// Why a job made nothing, by what follows.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It never will.
    #[error("{0}")]
    Impossible(String),
    /// It may if it is run again.
    #[error(transparent)]
    TryAgain(#[from] StorageError),
    /// This server is to blame.
    #[error("preparing the tracked build came upon a defect of this server; its log says where")]
    Defect,
}

impl From<BuildError> for JobError {
    fn from(error: BuildError) -> JobError {
        JobError::Impossible(error.to_string())
    }
}

/// What a job tells the engine.
pub struct JobReport {
    pub campaign: CampaignId,
    pub outcome: Result<Made, JobError>,
}

impl Job {
    /// For whom it is done.
    pub fn campaign(&self) -> CampaignId {
        match self {
            Job::PrepareIteration(preparation) => preparation.campaign.id(),
        }
    }

    /// Does it. What it makes on the way is told through `report`, its end too.
    pub fn run(self, tools: &Tools, report: impl Fn(JobReport)) {
        let campaign = self.campaign();
        let tell = |outcome| report(JobReport { campaign, outcome });
        let made = |made| tell(Ok(made));
        let done = catch_unwind(AssertUnwindSafe(|| match self {
            Job::PrepareIteration(preparation) => preparation.run(tools, &made),
        }));
        tell(done.unwrap_or(Err(JobError::Defect)));
    }
}
