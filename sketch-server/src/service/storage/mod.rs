//! What the server remembers, behind one trait.
//!
//! The engine is the only writer of campaigns; the HTTP side only adds runs.
//! Everything that follows from one run is written by one [`Storage::commit`],
//! so that a server killed at any moment counts each accepted run exactly once:
//! a run is either pending or filed together with all of its consequences.
//!
//! Campaigns are stored as JSON beside the columns that are searched, because
//! only this server reads them and their fields grow with each release.
//! Absent for now: PostgreSQL, object stores and retention, which issue 7 adds
//! behind the same trait.

mod blobs;
mod error;
mod migrations;
mod rows;
mod sqlite;

pub use blobs::{BlobId, Blobs};
pub use error::StorageError;
pub use sqlite::SqliteStorage;

use crate::service::campaign::Campaign;
use serde::{Deserialize, Serialize};
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

/// What a run counted as, once the engine had looked at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunRole {
    /// P itself ran.
    Untracked,
    /// A tracked run that failed as its campaign's failure does.
    Failing,
    /// A tracked run that succeeded.
    Successful,
    /// A tracked run that failed in another way: neither failing nor successful.
    OtherFailure,
    /// A tracked run of an iteration that was already over when it arrived.
    Late,
    /// A record that could not be made sense of.
    Refused,
}

impl RunRole {
    fn word(self) -> &'static str {
        match self {
            RunRole::Untracked => "untracked",
            RunRole::Failing => "failing",
            RunRole::Successful => "successful",
            RunRole::OtherFailure => "other_failure",
            RunRole::Late => "late",
            RunRole::Refused => "refused",
        }
    }
}

/// Runs of one build, whatever campaigns it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildCounts {
    pub runs: u64,
    pub failures: u64,
    pub untracked_runs: u64,
    pub untracked_failures: u64,
}

impl BuildCounts {
    /// The counts with one more run.
    pub fn and(mut self, record: &RunRecord) -> BuildCounts {
        let failed = u64::from(record.failed());
        let untracked = u64::from(record.variant.is_none());
        self.runs += 1;
        self.failures += failed;
        self.untracked_runs += untracked;
        self.untracked_failures += untracked * failed;
        self
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

/// How the engine filed a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Filing {
    pub arrival: Arrival,
    pub build: BuildId,
    pub role: RunRole,
    pub failed: bool,
    /// Whether P itself ran.
    pub untracked: bool,
}

/// All that one event changes; written together or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub filing: Option<Filing>,
    pub campaigns: Vec<Campaign>,
    pub slices: Vec<(CampaignId, Slice)>,
    pub iterations: Vec<IterationRecord>,
    pub sketches: Vec<FailureSketch>,
}

/// Where campaigns, runs, tracked builds and sketches are kept.
pub trait Storage: Send + Sync {
    /// Adds a run durably. `false` if a run of that id is already there.
    fn accept_run<'a>(&'a self, record: &'a RunRecord) -> Answer<'a, bool>;
    /// The oldest run that the engine has not filed yet.
    fn next_pending(&self) -> Answer<'_, Option<StoredRun>>;
    /// The next run after `after` that counts for a variant as failing or successful.
    fn next_counted(&self, variant: VariantRef, after: Arrival) -> Answer<'_, Option<StoredRun>>;
    fn commit(&self, changes: Changes) -> Answer<'_, ()>;
    /// All campaigns, oldest first.
    fn campaigns(&self) -> Answer<'_, Vec<Campaign>>;
    /// The campaigns of one build, oldest first.
    fn campaigns_of<'a>(&'a self, build: &'a BuildId) -> Answer<'a, Vec<Campaign>>;
    fn campaign(&self, id: CampaignId) -> Answer<'_, Option<Campaign>>;
    fn build_counts<'a>(&'a self, build: &'a BuildId) -> Answer<'a, BuildCounts>;
    fn slice(&self, id: CampaignId) -> Answer<'_, Option<Slice>>;
    fn iteration(&self, variant: VariantRef) -> Answer<'_, Option<IterationRecord>>;
    /// One more than the version of any patch made so far.
    fn next_patch_version(&self) -> Answer<'_, u64>;
    /// A version of a sketch, or the latest.
    fn sketch(&self, id: CampaignId, version: Option<u32>) -> Answer<'_, Option<FailureSketch>>;
}
