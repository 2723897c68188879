//! What is dropped after a while, and what never.
//!
//! Records are most of what a server keeps, and once a run is filed its record is
//! needed for little: to look at it, and, while its campaign is at the iteration
//! that it counted for, to make that iteration's population again after a restart.
//! So the record goes when it is old or when the campaign has plenty, except in
//! that last case. Counts, campaigns, slices, plans and all sketch versions stay.
//!
//! The run's id stays too, without its record, so that a run that is sent again is
//! still known; ids go after [`IDS_KEPT`] days. A few at a time: each statement
//! takes at most a thousand, so that arriving runs do not wait for it.

use super::{Storage, StorageError};
use std::sync::Arc;
use std::time::Duration;

/// How long records are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Days; `None` for ever.
    pub days: Option<u64>,
    /// Records of one campaign, or of one build's untracked runs; `None` for all.
    pub runs: Option<u64>,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            days: Some(90),
            runs: Some(100_000),
        }
    }
}

/// Days for which a run that comes again is known, at least.
const IDS_KEPT: u64 = 365;

/// The time between two sweeps.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(3600);

const DAY: u64 = 24 * 3600;

pub fn seconds(days: u64) -> u64 {
    days.saturating_mul(DAY)
}

pub fn seconds_of_ids(days: u64) -> u64 {
    seconds(days.saturating_mul(2).max(IDS_KEPT))
}

/// Sweeps now and then, for as long as the server runs.
pub async fn keep_sweeping(storage: Arc<dyn Storage>, keep: Retention) {
    if keep.days.is_none() && keep.runs.is_none() {
        return;
    }
    let mut hour = tokio::time::interval(BETWEEN_SWEEPS);
    loop {
        hour.tick().await;
        match sweep_all(&*storage, keep).await {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(dropped, "records that were kept long enough are gone"),
            Err(error) => tracing::warn!(%error, "old records are dropped another time"),
        }
    }
}

/// Sweeps until there is nothing left to drop.
pub async fn sweep_all(storage: &dyn Storage, keep: Retention) -> Result<u64, StorageError> {
    let mut dropped = 0;
    loop {
        match storage.sweep(keep).await? {
            0 => return Ok(dropped),
            some => dropped += some,
        }
    }
}
