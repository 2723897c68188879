//! The storage that several servers share: a PostgreSQL, or what speaks its
//! protocol.
//!
//! Work is claimed by rows. A build whose runs wait, and a campaign whose tracked
//! build is to be made, carry the name of the server that took them; `FOR UPDATE
//! SKIP LOCKED` lets two servers that ask at once take different ones instead of
//! waiting for each other. A claim lasts while its server is alive, which it says
//! by moving one date of its own in `servers`; dates are the database's, because
//! servers' clocks differ. A server that was killed says nothing any more, and
//! after [`LEASE`] the others take over what it held.
//!
//! All runs of a build are filed by one server, since each carries the
//! populations of its campaigns in memory. A build stays with its server while
//! that lives: moving it costs reading its runs again.
//!
//! Absent: TLS to the database. Put it on a network of its own, on a socket, or
//! behind a tunnel.

use super::intake::{Insert, Intake, Row};
use super::migrations::migrate_postgres;
use super::queries::{MOST_BYTES_READ, by_role};
use super::rows::{campaign, column, failing_to, json, parsed, readable, stored_run};
use super::{
    Answer, Arrival, BlobId, BuildCounts, Changes, Filing, IterationRecord, Retention, Revised,
    Storage, StorageError, StoredRun, retention,
};
use diagnosis::campaign::Campaign;
use futures_util::TryStreamExt;
use sketch_model::{BuildId, CampaignId, FailureSketch, RunRecord, Slice, VariantRef};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use std::collections::HashSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long a server may be silent before others take over its work.
pub const LEASE: Duration = Duration::from_secs(15);

/// Connections of one server.
const CONNECTIONS: u32 = 8;

/// Builds that one claim takes: what one server leaves, another may take.
const BUILDS_AT_ONCE: i64 = 4;

#[derive(Debug)]
pub struct PostgresStorage {
    /// One pool; the shared statements know two names for it.
    readers: PgPool,
    writer: PgPool,
    intake: Intake,
    /// The name of this server, new at each start.
    holder: String,
    lease: Duration,
}

impl PostgresStorage {
    /// Connects to the database that `url` names, and makes or upgrades its tables.
    pub async fn open(url: &str, lease: Duration) -> Result<PostgresStorage, StorageError> {
        let options = PgConnectOptions::from_str(url).map_err(|_| {
            StorageError::UnknownDatabase {
                // The rest may hold a password.
                given: "postgres://…".into(),
            }
        })?;
        let named = format!(
            "{} on {}",
            options.get_database().unwrap_or("of the user's name"),
            options.get_host()
        );
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(Duration::from_secs(10))
            .connect_with(options)
            .await
            .map_err(failing_to("be opened"))?;
        let mut connection = pool.acquire().await.map_err(failing_to("be opened"))?;
        migrate_postgres(&mut connection, &named).await?;
        drop(connection);
        let storage = PostgresStorage {
            intake: Intake::start(Arc::new(Runs(pool.clone()))),
            readers: pool.clone(),
            writer: pool,
            holder: name_of_this_server(),
            lease,
        };
        storage.still_alive().await?;
        Ok(storage)
    }

    /// Takes builds whose runs wait and that no living server holds.
    async fn claim_builds(&self) -> Result<(), StorageError> {
        sqlx::query(
            "UPDATE builds SET holder = $1 FROM (
                SELECT build FROM builds
                WHERE (holder IS NULL OR NOT EXISTS (
                        SELECT FROM servers WHERE servers.holder = builds.holder
                            AND until > clock_timestamp()))
                  AND EXISTS (
                        SELECT FROM runs WHERE runs.build = builds.build AND role IS NULL)
                ORDER BY build LIMIT $2 FOR UPDATE SKIP LOCKED) AS free
             WHERE builds.build = free.build",
        )
        .bind(&self.holder)
        .bind(BUILDS_AT_ONCE)
        .execute(&self.writer)
        .await
        .map_err(failing_to("claim runs"))?;
        Ok(())
    }
}

/// Unique among all servers that ever were: process, time and chance.
fn name_of_this_server() -> String {
    use std::hash::{BuildHasher, RandomState};
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_nanos();
    let chance = RandomState::new().hash_one(now);
    format!("{}-{now:x}-{chance:x}", std::process::id())
}

/// Records that are older than so many seconds.
const OLD: &str = "UPDATE runs SET record = '' WHERE arrival IN (
    SELECT arrival FROM runs
    WHERE LENGTH(record) > 0 AND role IS NOT NULL
      AND received < clock_timestamp() - $1 * INTERVAL '1 second'
      AND NOT (role IN ('failing', 'successful') AND EXISTS (
            SELECT FROM campaigns WHERE id = runs.campaign AND live_iteration = runs.iteration))
    ORDER BY received LIMIT 1000 FOR UPDATE SKIP LOCKED)";

/// Records beyond the newest so many of their campaign, or of their build's
/// untracked runs.
const SURPLUS: &str = "UPDATE runs SET record = '' WHERE arrival IN (
    SELECT arrival FROM (
        SELECT arrival, campaign, iteration, role,
            ROW_NUMBER() OVER (PARTITION BY build, campaign ORDER BY arrival DESC) AS place
        FROM runs WHERE LENGTH(record) > 0 AND role IS NOT NULL) AS kept
    WHERE place > $1
      AND NOT (role IN ('failing', 'successful') AND EXISTS (
            SELECT FROM campaigns WHERE id = kept.campaign AND live_iteration = kept.iteration))
    ORDER BY arrival LIMIT 1000)";

/// Ids of runs whose records have been dropped long ago.
const FORGOTTEN: &str = "DELETE FROM runs WHERE arrival IN (
    SELECT arrival FROM runs
    WHERE LENGTH(record) = 0 AND received < clock_timestamp() - $1 * INTERVAL '1 second'
    ORDER BY arrival LIMIT 1000 FOR UPDATE SKIP LOCKED)";

/// Where arriving runs go.
struct Runs(PgPool);

impl Insert for Runs {
    fn insert<'a>(&'a self, rows: &'a [Row]) -> Answer<'a, HashSet<String>> {
        Box::pin(async move {
            // Always in one order: two servers that are sent the same runs would
            // otherwise wait for each other.
            let mut rows: Vec<&Row> = rows.iter().collect();
            rows.sort_by(|a, b| a.id.cmp(&b.id));
            let ids: Vec<&str> = rows.iter().map(|r| r.id.as_str()).collect();
            let builds: Vec<&str> = rows.iter().map(|r| r.build.as_str()).collect();
            let campaigns: Vec<Option<i64>> = rows.iter().map(|r| r.campaign).collect();
            let iterations: Vec<Option<i64>> = rows.iter().map(|r| r.iteration).collect();
            let plans: Vec<i64> = rows.iter().map(|r| r.plan).collect();
            let records: Vec<&[u8]> = rows.iter().map(|r| r.record.as_slice()).collect();
            // One statement is one transaction, and its build is there to be claimed.
            sqlx::query(
                "WITH known AS (
                    INSERT INTO builds (build) SELECT DISTINCT UNNEST($2::TEXT[]) ORDER BY 1
                    ON CONFLICT DO NOTHING),
                 added AS (
                    INSERT INTO runs (id, build, campaign, iteration, plan, record)
                    SELECT * FROM UNNEST($1::TEXT[], $2::TEXT[], $3::BIGINT[], $4::BIGINT[],
                                         $5::BIGINT[], $6::BYTEA[])
                    ON CONFLICT (id) DO NOTHING RETURNING id)
                 SELECT id FROM added",
            )
            .bind(ids)
            .bind(builds)
            .bind(campaigns)
            .bind(iterations)
            .bind(plans)
            .bind(records)
            .fetch_all(&self.0)
            .await
            .map_err(failing_to("add runs"))?
            .iter()
            .map(|row| column(row, "id"))
            .collect()
        })
    }
}

impl Storage for PostgresStorage {
    shared_queries!();

    fn accept_run<'a>(&'a self, record: &'a RunRecord) -> Answer<'a, bool> {
        Box::pin(async move { self.intake.add(Row::of(record)?).await })
    }

    fn pending(&self, most: usize) -> Answer<'_, Vec<StoredRun>> {
        Box::pin(async move {
            self.claim_builds().await?;
            loop {
                let rows = sqlx::query(
                    "SELECT arrival, id, record FROM (
                        SELECT arrival, id, record, SUM(LENGTH(record)) OVER (ORDER BY arrival)
                            - LENGTH(record) AS before
                        FROM (SELECT arrival, id, record FROM runs
                              WHERE role IS NULL
                                AND build IN (SELECT build FROM builds WHERE holder = $3)
                              ORDER BY arrival LIMIT $1) AS oldest) AS few
                     WHERE before < $2 ORDER BY arrival",
                )
                .bind(most as i64)
                .bind(MOST_BYTES_READ as i64)
                .bind(&self.holder)
                .fetch_all(&self.writer)
                .await
                .map_err(failing_to("find the next runs"))?;
                let (runs, damaged) = readable(&rows)?;
                sqlx::query("UPDATE runs SET role = 'refused' WHERE arrival = ANY($1)")
                    .bind(&damaged)
                    .execute(&self.writer)
                    .await
                    .map_err(failing_to("pass over a run"))?;
                if !runs.is_empty() || damaged.is_empty() {
                    return Ok(runs);
                }
            }
        })
    }

    fn claim_job(&self) -> Answer<'_, Option<CampaignId>> {
        Box::pin(async move {
            sqlx::query(
                "UPDATE campaigns SET holder = $1 FROM (
                    SELECT id FROM campaigns
                    WHERE preparing = 1 AND (holder IS NULL OR holder = $1 OR NOT EXISTS (
                            SELECT FROM servers WHERE servers.holder = campaigns.holder
                                AND until > clock_timestamp()))
                    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) AS free
                 WHERE campaigns.id = free.id RETURNING campaigns.id AS id",
            )
            .bind(&self.holder)
            .fetch_optional(&self.writer)
            .await
            .map_err(failing_to("claim a campaign to prepare"))?
            .map(|row| Ok(CampaignId(column::<_, i64>(&row, "id")?.max(0) as u64)))
            .transpose()
        })
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(self.lease / 3)
    }

    fn still_alive(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let failed = failing_to("note that this server is alive");
            sqlx::query(
                "INSERT INTO servers (holder, until)
                 VALUES ($1, clock_timestamp() + $2 * INTERVAL '1 millisecond')
                 ON CONFLICT (holder) DO UPDATE SET until = excluded.until",
            )
            .bind(&self.holder)
            .bind(self.lease.as_millis() as f64)
            .execute(&self.writer)
            .await
            .map_err(&failed)?;
            // Names of servers that are long gone.
            sqlx::query("DELETE FROM servers WHERE until < clock_timestamp() - INTERVAL '1 day'")
                .execute(&self.writer)
                .await
                .map_err(&failed)?;
            Ok(())
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let left = sqlx::query("DELETE FROM servers WHERE holder = $1")
                .bind(&self.holder)
                .execute(&self.writer)
                .await;
            self.writer.close().await;
            left.map_err(failing_to("note that this server ends"))?;
            Ok(())
        })
    }
}

shared_writes!(PgConnection);

async fn file_runs(connection: &mut PgConnection, filings: &[Filing]) -> Result<(), StorageError> {
    for (role, arrivals) in by_role(filings) {
        let done =
            sqlx::query("UPDATE runs SET role = $1 WHERE role IS NULL AND arrival = ANY($2)")
                .bind(role)
                .bind(&arrivals)
                .execute(&mut *connection)
                .await
                .map_err(failing_to("file runs"))?;
        if done.rows_affected() != arrivals.len() as u64 {
            return Err(StorageError::Conflict { what: "run" });
        }
    }
    Ok(())
}
