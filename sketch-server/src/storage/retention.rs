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

use super::dialect::Dialect;
use super::rows::failing_to;
use super::{Storage, StorageError};
use sqlx::AssertSqlSafe;
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

/// A thousand years: PostgreSQL has no dates long before its calendar begins.
const MOST_DAYS: u64 = 365_000;

fn seconds(days: u64) -> u64 {
    days.min(MOST_DAYS) * DAY
}

/// A filed run of `table` whose record nothing needs any more.
fn not_needed(table: &str) -> String {
    format!(
        "role IS NOT NULL AND NOT (role IN ('failing', 'successful') AND EXISTS (
            SELECT 1 FROM campaigns
            WHERE id = {table}.campaign AND live_iteration = {table}.iteration))"
    )
}

/// Drops records that are older than so many seconds.
fn drop_old(dialect: &Dialect) -> String {
    let (
        Dialect {
            ago,
            no_bytes,
            skip_locked,
            ..
        },
        free,
    ) = (dialect, not_needed("runs"));
    format!(
        "UPDATE runs SET record = {no_bytes} WHERE arrival IN (
            SELECT arrival FROM runs WHERE LENGTH(record) > 0 AND received < {ago} AND {free}
            ORDER BY received LIMIT 1000 {skip_locked})"
    )
}

/// Drops records beyond the newest so many of their campaign, or of their build's
/// untracked runs.
fn drop_surplus(dialect: &Dialect) -> String {
    let (no_bytes, free) = (dialect.no_bytes, not_needed("kept"));
    format!(
        "UPDATE runs SET record = {no_bytes} WHERE arrival IN (
            SELECT arrival FROM (
                SELECT arrival, campaign, iteration, role,
                    ROW_NUMBER() OVER (PARTITION BY build, campaign ORDER BY arrival DESC) AS place
                FROM runs WHERE LENGTH(record) > 0 AND role IS NOT NULL) AS kept
            WHERE place > $1 AND {free} ORDER BY arrival LIMIT 1000)"
    )
}

/// Drops ids of runs whose records have been dropped long ago.
fn forget(dialect: &Dialect) -> String {
    let Dialect {
        ago, skip_locked, ..
    } = dialect;
    format!(
        "DELETE FROM runs WHERE arrival IN (
            SELECT arrival FROM runs WHERE LENGTH(record) = 0 AND received < {ago}
            ORDER BY arrival LIMIT 1000 {skip_locked})"
    )
}

impl Storage {
    /// Drops some of the records that need not be kept; returns how many. 0: all are.
    pub async fn sweep(&self, keep: Retention) -> Result<u64, StorageError> {
        let (old, ids) = (drop_old(self.dialect), forget(self.dialect));
        let age = keep.days.map(seconds);
        let known = keep
            .days
            .map(|days| seconds(days.saturating_mul(2).max(IDS_KEPT)));
        let dropped =
            self.drop(old, age).await? + self.drop(drop_surplus(self.dialect), keep.runs).await?;
        self.drop(ids, known).await?;
        Ok(dropped)
    }

    async fn drop(&self, statement: String, limit: Option<u64>) -> Result<u64, StorageError> {
        let Some(limit) = limit else { return Ok(0) };
        sqlx::query(AssertSqlSafe(statement))
            .bind(limit.min(i64::MAX as u64) as i64)
            .execute(&self.writer)
            .await
            .map(|done| done.rows_affected())
            .map_err(failing_to("drop old records"))
    }
}

/// Sweeps now and then, for as long as the server runs.
pub async fn keep_sweeping(storage: Arc<Storage>, keep: Retention) {
    if keep.days.is_none() && keep.runs.is_none() {
        return;
    }
    let mut hour = tokio::time::interval(BETWEEN_SWEEPS);
    loop {
        hour.tick().await;
        match sweep_all(&storage, keep).await {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(dropped, "old records were deleted"),
            Err(error) => tracing::warn!(%error, "old records could not be deleted; trying again \
                                                  later"),
        }
    }
}

/// Sweeps until there is nothing left to drop.
pub async fn sweep_all(storage: &Storage, keep: Retention) -> Result<u64, StorageError> {
    let mut dropped = 0;
    loop {
        match storage.sweep(keep).await? {
            0 => return Ok(dropped),
            some => dropped += some,
        }
    }
}
