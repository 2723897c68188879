//! What the server remembers, behind one trait.
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

// First: its macros are used in the others.
#[macro_use]
mod queries;

mod blobs;
mod database;
mod error;
mod intake;
mod migrations;
mod postgres;
mod retention;
mod rows;
mod sqlite;

pub use blobs::{BlobPlace, Blobs};
pub use database::Database;
pub use error::StorageError;
pub use postgres::PostgresStorage;
pub use retention::{Retention, keep_sweeping, sweep_all};
pub use sqlite::SqliteStorage;

pub use diagnosis::campaign::{BuildCounts, CountedAs};
pub use sketch_model::BlobId;

use diagnosis::campaign::Campaign;
use sketch_model::{
    BuildId, CampaignId, FailureSketch, Placement, RunRecord, Slice, TrackingPlan, VariantRef,
};
use std::future::Future;
use std::pin::Pin;

/// The future of a storage call. Spelled out so that the trait can be used as
/// an object: which database it is, is decided when the server starts.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send + 'a>>;

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
pub trait Storage: Send + Sync {
    /// Adds a run durably. `false` if a run of that id is already there.
    fn accept_run<'a>(&'a self, record: &'a RunRecord) -> Answer<'a, bool>;
    /// The oldest runs that nobody has filed yet and that are this server's to
    /// file, at most `most` and not more than a few megabytes.
    fn pending(&self, most: usize) -> Answer<'_, Vec<StoredRun>>;
    /// Runs after `after` that count for a variant as failing or successful, by
    /// the same limits.
    fn counted(
        &self,
        variant: VariantRef,
        after: Arrival,
        most: usize,
    ) -> Answer<'_, Vec<StoredRun>>;
    /// The next run after `after` that counts for a variant.
    fn next_counted(&self, variant: VariantRef, after: Arrival) -> Answer<'_, Option<StoredRun>> {
        Box::pin(async move { Ok(self.counted(variant, after, 1).await?.pop()) })
    }
    fn commit(&self, changes: Changes) -> Answer<'_, ()>;
    /// All campaigns, oldest first.
    fn campaigns(&self) -> Answer<'_, Vec<Campaign>>;
    /// The campaigns of one build, oldest first.
    fn campaigns_of<'a>(&'a self, build: &'a BuildId) -> Answer<'a, Vec<Campaign>>;
    fn campaign(&self, id: CampaignId) -> Answer<'_, Option<Campaign>>;
    fn revised(&self, id: CampaignId) -> Answer<'_, Option<Revised>>;
    /// Which campaigns there are, and how often each has been written.
    fn revisions(&self) -> Answer<'_, Vec<(CampaignId, i64)>>;
    /// The oldest campaign that waits for a tracked build and that no other
    /// living server prepares; it is this server's from now on.
    fn claim_job(&self) -> Answer<'_, Option<CampaignId>>;
    fn build_counts<'a>(&'a self, build: &'a BuildId) -> Answer<'a, BuildCounts>;
    fn slice(&self, id: CampaignId) -> Answer<'_, Option<Slice>>;
    fn iteration(&self, variant: VariantRef) -> Answer<'_, Option<IterationRecord>>;
    /// Reserves `count` patch versions above all earlier ones; returns the first.
    fn reserve_patch_versions(&self, count: u64) -> Answer<'_, u64>;
    /// A version of a sketch, or the latest.
    fn sketch(&self, id: CampaignId, version: Option<u32>) -> Answer<'_, Option<FailureSketch>>;
    /// What all servers of one storage must have in common: notes `value` under
    /// `name` unless something stands there already, and returns what stands there.
    fn agree<'a>(&'a self, name: &'static str, value: &'a str) -> Answer<'a, String>;
    /// Drops some of the records that need not be kept; returns how many. 0: all are.
    fn sweep(&self, keep: Retention) -> Answer<'_, u64>;
    /// How often [`Storage::still_alive`] must be called; `None` if there can be
    /// no other server that would have to know.
    fn heartbeat(&self) -> Option<std::time::Duration>;
    /// Keeps what this server has claimed.
    fn still_alive(&self) -> Answer<'_, ()>;
    /// Gives up what this server has claimed and ends.
    fn close(&self) -> Answer<'_, ()>;
}
