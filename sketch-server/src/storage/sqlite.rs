//! The embedded storage: one SQLite file in the data folder.
//!
//! Write-ahead logging with full synchronisation: what was acknowledged is on
//! the disk. All writes go through one connection, because SQLite has one
//! writer anyway and a queue in this process is fairer than its busy-waiting;
//! reads have a few connections of their own.
//!
//! The data folder is locked by its one server, so there is nobody to claim work
//! from: every pending run and every job is this server's.

use super::intake::{Insert, Intake, Row};
use super::migrations::migrate_sqlite;
use super::queries::{MOST_BYTES_READ, by_role};
use super::rows::{campaign, column, failing_to, json, parsed, readable, stored_run};
use super::{
    Answer, Arrival, BlobId, BuildCounts, Changes, Filing, IterationRecord, Retention, Revised,
    Storage, StorageError, StoredRun, retention,
};
use diagnosis::campaign::Campaign;
use futures_util::TryStreamExt;
use server_files::private_files::make_private_file;
use sketch_model::{BuildId, CampaignId, FailureSketch, RunRecord, Slice, VariantRef};
use sqlx::QueryBuilder;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub struct SqliteStorage {
    writer: SqlitePool,
    readers: SqlitePool,
    intake: Intake,
}

impl SqliteStorage {
    /// Opens the database at `path`, making or upgrading it where needed.
    pub async fn open(path: &Path) -> Result<SqliteStorage, StorageError> {
        // SQLite gives its log and its index the mode of the database.
        make_private_file(path).map_err(|source| StorageError::File {
            doing: "create",
            path: path.to_owned(),
            source,
        })?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(10));
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options.clone())
            .await
            .map_err(failing_to("be opened"))?;
        let mut connection = writer.acquire().await.map_err(failing_to("be opened"))?;
        migrate_sqlite(&mut connection, path).await?;
        drop(connection);
        let readers = SqlitePoolOptions::new()
            .max_connections(4)
            .connect_with(options.read_only(true))
            .await
            .map_err(failing_to("be opened for reading"))?;
        let intake = Intake::start(Arc::new(Runs(writer.clone())));
        Ok(SqliteStorage {
            writer,
            readers,
            intake,
        })
    }
}

/// Records that are older than so many seconds.
const OLD: &str = "UPDATE runs SET record = x'' WHERE arrival IN (
    SELECT arrival FROM runs
    WHERE LENGTH(record) > 0 AND received < unixepoch() - $1 AND role IS NOT NULL
      AND NOT (role IN ('failing', 'successful') AND EXISTS (
            SELECT 1 FROM campaigns WHERE id = runs.campaign AND live_iteration = runs.iteration))
    ORDER BY received LIMIT 1000)";

/// Records beyond the newest so many of their campaign, or of their build's
/// untracked runs.
const SURPLUS: &str = "UPDATE runs SET record = x'' WHERE arrival IN (
    SELECT arrival FROM (
        SELECT arrival, campaign, iteration, role,
            ROW_NUMBER() OVER (PARTITION BY build, campaign ORDER BY arrival DESC) AS place
        FROM runs WHERE LENGTH(record) > 0 AND role IS NOT NULL) AS kept
    WHERE place > $1
      AND NOT (role IN ('failing', 'successful') AND EXISTS (
            SELECT 1 FROM campaigns WHERE id = kept.campaign AND live_iteration = kept.iteration))
    LIMIT 1000)";

/// Ids of runs whose records have been dropped long ago.
const FORGOTTEN: &str = "DELETE FROM runs WHERE arrival IN (
    SELECT arrival FROM runs
    WHERE LENGTH(record) = 0 AND received < unixepoch() - $1 LIMIT 1000)";

/// Where arriving runs go.
struct Runs(SqlitePool);

impl Insert for Runs {
    fn insert<'a>(&'a self, rows: &'a [Row]) -> Answer<'a, HashSet<String>> {
        Box::pin(async move {
            let mut insert = QueryBuilder::new(
                "INSERT INTO runs (id, build, campaign, iteration, plan, record, received) ",
            );
            insert.push_values(rows, |mut values, row| {
                values
                    .push_bind(&row.id)
                    .push_bind(&row.build)
                    .push_bind(row.campaign)
                    .push_bind(row.iteration)
                    .push_bind(row.plan)
                    .push_bind(row.record.as_slice())
                    .push("unixepoch()");
            });
            insert.push(" ON CONFLICT (id) DO NOTHING RETURNING id");
            insert
                .build()
                .persistent(false)
                .fetch_all(&self.0)
                .await
                .map_err(failing_to("add runs"))?
                .iter()
                .map(|row| column(row, "id"))
                .collect()
        })
    }
}

impl Storage for SqliteStorage {
    shared_queries!();

    fn accept_run<'a>(&'a self, record: &'a RunRecord) -> Answer<'a, bool> {
        Box::pin(async move { self.intake.add(Row::of(record)?).await })
    }

    fn pending(&self, most: usize) -> Answer<'_, Vec<StoredRun>> {
        Box::pin(async move {
            loop {
                let rows = sqlx::query(
                    "SELECT arrival, id, record FROM (
                        SELECT arrival, id, record, SUM(LENGTH(record)) OVER (ORDER BY arrival)
                            - LENGTH(record) AS before
                        FROM (SELECT arrival, id, record FROM runs WHERE role IS NULL
                              ORDER BY arrival LIMIT $1))
                     WHERE before < $2 ORDER BY arrival",
                )
                .bind(most as i64)
                .bind(MOST_BYTES_READ as i64)
                .fetch_all(&self.readers)
                .await
                .map_err(failing_to("find the next runs"))?;
                let (runs, damaged) = readable(&rows)?;
                for arrival in &damaged {
                    sqlx::query("UPDATE runs SET role = 'refused' WHERE arrival = $1")
                        .bind(arrival)
                        .execute(&self.writer)
                        .await
                        .map_err(failing_to("pass over a run"))?;
                }
                if !runs.is_empty() || damaged.is_empty() {
                    return Ok(runs);
                }
            }
        })
    }

    fn claim_job(&self) -> Answer<'_, Option<CampaignId>> {
        Box::pin(async move {
            sqlx::query("SELECT id FROM campaigns WHERE preparing = 1 ORDER BY id LIMIT 1")
                .fetch_optional(&self.writer)
                .await
                .map_err(failing_to("find a campaign to prepare"))?
                .map(|row| Ok(CampaignId(column::<_, i64>(&row, "id")?.max(0) as u64)))
                .transpose()
        })
    }

    fn heartbeat(&self) -> Option<Duration> {
        None
    }

    fn still_alive(&self) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.readers.close().await;
            self.writer.close().await;
            Ok(())
        })
    }
}

shared_writes!(SqliteConnection);

async fn file_runs(
    connection: &mut SqliteConnection,
    filings: &[Filing],
) -> Result<(), StorageError> {
    for (role, arrivals) in by_role(filings) {
        let done = sqlx::query(
            "UPDATE runs SET role = $1
             WHERE role IS NULL AND arrival IN (SELECT value FROM json_each($2))",
        )
        .bind(role)
        .bind(json("list of runs filed as", role, &arrivals)?)
        .execute(&mut *connection)
        .await
        .map_err(failing_to("file runs"))?;
        if done.rows_affected() != arrivals.len() as u64 {
            return Err(StorageError::Conflict { what: "run" });
        }
    }
    Ok(())
}
