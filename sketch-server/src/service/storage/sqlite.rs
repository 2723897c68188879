//! The embedded storage: one SQLite file in the data folder.
//!
//! Write-ahead logging with full synchronisation: what was acknowledged is on
//! the disk. All writes go through one connection, because SQLite has one
//! writer anyway and a queue in this process is fairer than its busy-waiting;
//! reads have a few connections of their own.

use super::migrations::migrate;
use super::rows::{campaign, column, failing_to, json, packed, parsed, stored_run};
use super::{
    Answer, Arrival, BlobId, BuildCounts, Changes, Filing, IterationRecord, Storage, StorageError,
    StoredRun,
};
use crate::service::campaign::Campaign;
use sketch_model::{BuildId, CampaignId, FailureSketch, RunRecord, Slice, VariantRef};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use std::path::Path;

#[derive(Debug)]
pub struct SqliteStorage {
    writer: SqlitePool,
    readers: SqlitePool,
}

impl SqliteStorage {
    /// Opens the database at `path`, making or upgrading it where needed.
    pub async fn open(path: &Path) -> Result<SqliteStorage, StorageError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(std::time::Duration::from_secs(10));
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options.clone())
            .await
            .map_err(failing_to("be opened"))?;
        let mut connection = writer.acquire().await.map_err(failing_to("be opened"))?;
        migrate(&mut connection, path).await?;
        drop(connection);
        let readers = SqlitePoolOptions::new()
            .max_connections(4)
            .connect_with(options.read_only(true))
            .await
            .map_err(failing_to("be opened for reading"))?;
        Ok(SqliteStorage { writer, readers })
    }

    /// Waits for running statements and closes the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

impl Storage for SqliteStorage {
    fn accept_run<'a>(&'a self, record: &'a RunRecord) -> Answer<'a, bool> {
        Box::pin(async move {
            let done = sqlx::query(
                "INSERT INTO runs (id, build, campaign, iteration, plan, record)
                 VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            )
            .bind(&record.id.0)
            .bind(&record.build.0)
            .bind(record.variant.map(|v| v.campaign.0 as i64))
            .bind(record.variant.map(|v| v.iteration))
            .bind(record.variant.map_or(0, |v| v.plan))
            .bind(packed(record)?)
            .execute(&self.writer)
            .await
            .map_err(failing_to("add a run"))?;
            Ok(done.rows_affected() == 1)
        })
    }

    fn next_pending(&self) -> Answer<'_, Option<StoredRun>> {
        Box::pin(async move {
            loop {
                let row = sqlx::query(
                    "SELECT arrival, id, record FROM runs WHERE role IS NULL
                     ORDER BY arrival LIMIT 1",
                )
                .fetch_optional(&self.writer)
                .await
                .map_err(failing_to("find the next run"))?;
                let Some(row) = row else {
                    return Ok(None);
                };
                match stored_run(&row) {
                    Ok(run) => return Ok(Some(run)),
                    Err(error @ StorageError::Damaged { .. }) => {
                        // It must not stand in the way of all later ones.
                        tracing::error!(%error, "a run is passed over");
                        sqlx::query("UPDATE runs SET role = 'refused' WHERE arrival = ?")
                            .bind(column::<i64>(&row, "arrival")?)
                            .execute(&self.writer)
                            .await
                            .map_err(failing_to("pass over a run"))?;
                    }
                    Err(error) => return Err(error),
                }
            }
        })
    }

    fn next_counted(&self, variant: VariantRef, after: Arrival) -> Answer<'_, Option<StoredRun>> {
        Box::pin(async move {
            sqlx::query(
                "SELECT arrival, id, record FROM runs
                 WHERE campaign = ? AND iteration = ? AND plan = ? AND arrival > ?
                   AND role IN ('failing', 'successful')
                 ORDER BY arrival LIMIT 1",
            )
            .bind(variant.campaign.0 as i64)
            .bind(variant.iteration)
            .bind(variant.plan)
            .bind(after.0)
            .fetch_optional(&self.readers)
            .await
            .map_err(failing_to("read back a tracked run"))?
            .map(|row| stored_run(&row))
            .transpose()
        })
    }

    fn commit(&self, changes: Changes) -> Answer<'_, ()> {
        Box::pin(async move {
            let failed = failing_to("write what follows from a run");
            let mut transaction = self.writer.begin().await.map_err(&failed)?;
            write_changes(&mut transaction, &changes).await?;
            transaction.commit().await.map_err(&failed)
        })
    }

    fn campaigns(&self) -> Answer<'_, Vec<Campaign>> {
        Box::pin(async move {
            sqlx::query("SELECT id, state FROM campaigns ORDER BY id")
                .fetch_all(&self.readers)
                .await
                .map_err(failing_to("list the campaigns"))?
                .iter()
                .map(campaign)
                .collect()
        })
    }

    fn campaigns_of<'a>(&'a self, build: &'a BuildId) -> Answer<'a, Vec<Campaign>> {
        Box::pin(async move {
            sqlx::query("SELECT id, state FROM campaigns WHERE build = ? ORDER BY id")
                .bind(&build.0)
                .fetch_all(&self.readers)
                .await
                .map_err(failing_to("list the campaigns of a build"))?
                .iter()
                .map(campaign)
                .collect()
        })
    }

    fn campaign(&self, id: CampaignId) -> Answer<'_, Option<Campaign>> {
        Box::pin(async move {
            sqlx::query("SELECT id, state FROM campaigns WHERE id = ?")
                .bind(id.0 as i64)
                .fetch_optional(&self.readers)
                .await
                .map_err(failing_to("read a campaign"))?
                .as_ref()
                .map(campaign)
                .transpose()
        })
    }

    fn build_counts<'a>(&'a self, build: &'a BuildId) -> Answer<'a, BuildCounts> {
        Box::pin(async move {
            let row = sqlx::query("SELECT * FROM builds WHERE build = ?")
                .bind(&build.0)
                .fetch_optional(&self.readers)
                .await
                .map_err(failing_to("read the counters of a build"))?;
            let Some(row) = row else {
                return Ok(BuildCounts::default());
            };
            let count = |name| column::<i64>(&row, name).map(|n| n.max(0) as u64);
            Ok(BuildCounts {
                runs: count("runs")?,
                failures: count("failures")?,
                untracked_runs: count("untracked_runs")?,
                untracked_failures: count("untracked_failures")?,
            })
        })
    }

    fn slice(&self, id: CampaignId) -> Answer<'_, Option<Slice>> {
        Box::pin(async move {
            sqlx::query("SELECT slice FROM slices WHERE campaign = ?")
                .bind(id.0 as i64)
                .fetch_optional(&self.readers)
                .await
                .map_err(failing_to("read a slice"))?
                .map(|row| parsed(&row, "slice", "slice of campaign", id))
                .transpose()
        })
    }

    fn iteration(&self, variant: VariantRef) -> Answer<'_, Option<IterationRecord>> {
        Box::pin(async move {
            sqlx::query(
                "SELECT * FROM iterations
                 WHERE campaign = ? AND iteration = ? AND plan_number = ?",
            )
            .bind(variant.campaign.0 as i64)
            .bind(variant.iteration)
            .bind(variant.plan)
            .fetch_optional(&self.readers)
            .await
            .map_err(failing_to("read a tracked build"))?
            .map(|row| {
                let version: i64 = column(&row, "patch_version")?;
                Ok(IterationRecord {
                    variant,
                    plan: parsed(&row, "plan", "plan of campaign", variant.campaign)?,
                    placement: parsed(
                        &row,
                        "placement",
                        "placement of campaign",
                        variant.campaign,
                    )?,
                    patch_version: version.max(0) as u64,
                    patch: BlobId(column(&row, "patch")?),
                    full: BlobId(column(&row, "full_binary")?),
                })
            })
            .transpose()
        })
    }

    fn next_patch_version(&self) -> Answer<'_, u64> {
        Box::pin(async move {
            sqlx::query("SELECT COALESCE(MAX(patch_version), 0) + 1 AS next FROM iterations")
                .fetch_one(&self.writer)
                .await
                .map_err(failing_to("number a patch"))
                .and_then(|row| column::<i64>(&row, "next"))
                .map(|n| n.max(1) as u64)
        })
    }

    fn sketch(&self, id: CampaignId, version: Option<u32>) -> Answer<'_, Option<FailureSketch>> {
        Box::pin(async move {
            sqlx::query(
                "SELECT sketch FROM sketches WHERE campaign = ?1 AND version = COALESCE(?2,
                    (SELECT MAX(version) FROM sketches WHERE campaign = ?1))",
            )
            .bind(id.0 as i64)
            .bind(version)
            .fetch_optional(&self.readers)
            .await
            .map_err(failing_to("read a sketch"))?
            .map(|row| parsed(&row, "sketch", "sketch of campaign", id))
            .transpose()
        })
    }
}

async fn write_changes(
    connection: &mut SqliteConnection,
    changes: &Changes,
) -> Result<(), StorageError> {
    if let Some(filing) = &changes.filing {
        file_run(connection, filing).await?;
    }
    for campaign in &changes.campaigns {
        sqlx::query(
            "INSERT INTO campaigns (id, build, signature, state) VALUES (?, ?, ?, ?)
             ON CONFLICT (id) DO UPDATE SET state = excluded.state",
        )
        .bind(campaign.id.0 as i64)
        .bind(&campaign.build.0)
        .bind(&campaign.signature.0)
        .bind(json("campaign", campaign.id, campaign)?)
        .execute(&mut *connection)
        .await
        .map_err(failing_to("write a campaign"))?;
    }
    for (id, slice) in &changes.slices {
        sqlx::query("INSERT OR REPLACE INTO slices (campaign, slice) VALUES (?, ?)")
            .bind(id.0 as i64)
            .bind(json("slice of campaign", id, slice)?)
            .execute(&mut *connection)
            .await
            .map_err(failing_to("write a slice"))?;
    }
    for iteration in &changes.iterations {
        let id = iteration.variant.campaign;
        sqlx::query(
            "INSERT OR REPLACE INTO iterations
             (campaign, iteration, plan_number, plan, placement, patch_version, patch,
              full_binary)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id.0 as i64)
        .bind(iteration.variant.iteration)
        .bind(iteration.variant.plan)
        .bind(json("plan of campaign", id, &iteration.plan)?)
        .bind(json("placement of campaign", id, &iteration.placement)?)
        .bind(iteration.patch_version as i64)
        .bind(&iteration.patch.0)
        .bind(&iteration.full.0)
        .execute(&mut *connection)
        .await
        .map_err(failing_to("write a tracked build"))?;
    }
    for sketch in &changes.sketches {
        sqlx::query("INSERT OR REPLACE INTO sketches (campaign, version, sketch) VALUES (?, ?, ?)")
            .bind(sketch.campaign.0 as i64)
            .bind(sketch.version)
            .bind(json("sketch of campaign", sketch.campaign, sketch)?)
            .execute(&mut *connection)
            .await
            .map_err(failing_to("write a sketch"))?;
    }
    Ok(())
}

async fn file_run(connection: &mut SqliteConnection, filing: &Filing) -> Result<(), StorageError> {
    let done = sqlx::query("UPDATE runs SET role = ? WHERE arrival = ? AND role IS NULL")
        .bind(filing.role.word())
        .bind(filing.arrival.0)
        .execute(&mut *connection)
        .await
        .map_err(failing_to("file a run"))?;
    if done.rows_affected() == 0 {
        // Filed before: its counts are in already.
        return Ok(());
    }
    let untracked = i64::from(filing.untracked);
    let failed = i64::from(filing.failed);
    sqlx::query(
        "INSERT INTO builds (build, runs, failures, untracked_runs, untracked_failures)
         VALUES (?1, 1, ?2, ?3, ?4)
         ON CONFLICT (build) DO UPDATE SET
            runs = runs + 1,
            failures = failures + ?2,
            untracked_runs = untracked_runs + ?3,
            untracked_failures = untracked_failures + ?4",
    )
    .bind(&filing.build.0)
    .bind(failed)
    .bind(untracked)
    .bind(untracked * failed)
    .execute(&mut *connection)
    .await
    .map_err(failing_to("count a run"))?;
    Ok(())
}
