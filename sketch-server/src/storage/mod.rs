//! What the server remembers, in SQLite or in PostgreSQL.
//!
//! The HTTP side only adds runs; engines file them. Everything that follows from
//! a batch of runs is written by one [`Storage::commit`], so that a server killed
//! at any moment counts each accepted run exactly once: a run is either pending
//! or filed together with all of its consequences.
//!
//! Several servers may share one PostgreSQL. What keeps them from each other's
//! feet is a claim ([`Storage::pending`], [`Storage::claim_job`]): work is taken
//! by one server and stays with it while it says that it is alive. What keeps the
//! counts right is not the claim but the condition on every write: a run is filed
//! only if nobody has filed it, and a campaign is written only over the revision
//! that was read. A server that was thought dead and was not therefore does no
//! harm; its commit is a [`StorageError::Conflict`].
//!
//! Campaigns are stored as JSON beside the columns that are searched, because
//! only this server reads them and their fields grow with each release.

mod blobs;
mod claims;
mod database;
mod dialect;
mod error;
mod intake;
mod migrations;
mod postgres;
mod queries;
mod retention;
mod rows;
mod sqlite;
mod writes;

pub use blobs::{BlobPlace, Blobs};
pub use database::Database;
pub use error::StorageError;
pub use retention::{Retention, keep_sweeping, sweep_all};

pub use diagnosis::campaign::{BuildCounts, CountedAs};
pub use sketch_model::BlobId;

use diagnosis::campaign::Campaign;
use dialect::Dialect;
use intake::{Added, Intake};
use postgres::Claims;
use sketch_model::{
    BuildId, CampaignId, FailureSketch, Placement, RunRecord, Slice, TrackingPlan, VariantRef,
};
use sqlx::AnyPool;

/// Position of a run in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(pub i64);

/// A run as it was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    pub arrival: Arrival,
    pub record: RunRecord,
}

/// The word that stands in the database for what a run counted as.
fn stored_word(counted_as: CountedAs) -> &'static str {
    match counted_as {
        CountedAs::Untracked => "untracked",
        CountedAs::Failing => "failing",
        CountedAs::Successful => "successful",
        CountedAs::OtherFailure => "other_failure",
        CountedAs::TooLate => "late",
        CountedAs::Refused => "refused",
    }
}

/// A tracked build: what was planned, where it was placed, and its files.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationRecord {
    pub variant: VariantRef,
    pub plan: TrackingPlan,
    pub placement: Placement,
    pub patch_version: u64,
    /// The signed patch container.
    pub patch: BlobId,
    /// P′ with its debug info.
    pub full: BlobId,
}

/// A campaign with the number of times it has been written.
#[derive(Clone, Debug, PartialEq)]
pub struct Revised {
    pub campaign: Campaign,
    /// 0 for one that has never been written.
    pub revision: i64,
}

impl Revised {
    pub fn new(campaign: Campaign) -> Revised {
        Revised {
            campaign,
            revision: 0,
        }
    }
}

/// How the engine filed a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Filing {
    pub arrival: Arrival,
    pub build: BuildId,
    pub counted_as: CountedAs,
    pub failed: bool,
    /// Whether P itself ran.
    pub untracked: bool,
}

/// All that a batch of events changes; written together or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub filings: Vec<Filing>,
    /// Each at most once, with the revision that it was read at.
    pub campaigns: Vec<Revised>,
    pub slices: Vec<(CampaignId, Slice)>,
    pub iterations: Vec<IterationRecord>,
    pub sketches: Vec<FailureSketch>,
}

/// Where campaigns, runs, tracked builds and sketches are kept.
#[derive(Debug)]
pub struct Storage {
    dialect: &'static Dialect,
    readers: AnyPool,
    writer: AnyPool,
    intake: Intake,
    /// This server's name among those that share the database; `None` if it has it
    /// for itself.
    claims: Option<Claims>,
}

impl Storage {
    fn over(
        dialect: &'static Dialect,
        readers: AnyPool,
        writer: AnyPool,
        claims: Option<Claims>,
    ) -> Storage {
        let added = Added {
            pool: writer.clone(),
            dialect,
        };
        Storage {
            dialect,
            readers,
            writer,
            intake: Intake::start(added),
            claims,
        }
    }

    /// Adds a run durably. `false` if a run of that id is already there.
    pub async fn accept_run(&self, record: &RunRecord) -> Result<bool, StorageError> {
        self.intake.add(intake::Row::of(record)?).await
    }
}
