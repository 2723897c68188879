//! The database that several servers share: a PostgreSQL, or what speaks its
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

use super::dialect::Dialect;
use super::migrations::{Schema, migrate};
use super::rows::failing_to;
use super::{Storage, StorageError};
use sqlx::AnyPool;
use sqlx::any::AnyPoolOptions;
use sqlx::postgres::PgConnectOptions;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

/// How long a server may be silent before others take over its work.
pub const LEASE: Duration = Duration::from_secs(15);

/// Connections of one server.
const CONNECTIONS: u32 = 8;

/// Builds that one claim takes: what one server leaves, another may take.
const BUILDS_AT_ONCE: i64 = 4;

pub static POSTGRES: Dialect = Dialect {
    schema: Schema {
        // By any number that nothing else in the database locks by.
        alone: "SELECT pg_advisory_xact_lock(1717660012);
                CREATE TABLE IF NOT EXISTS failsketch_schema (version BIGINT NOT NULL)",
        version: "SELECT COALESCE(MAX(version), 0) AS version FROM failsketch_schema",
        // PostgreSQL came later and begins with all of it.
        steps: &[include_str!("../../migrations/postgres/1.sql")],
    },
    now: "clock_timestamp()",
    ago: "clock_timestamp() - $1 * INTERVAL '1 second'",
    no_bytes: "''",
    skip_locked: "FOR UPDATE SKIP LOCKED",
    numbers: "SELECT value::BIGINT FROM json_array_elements_text($2::JSON)",
    shared: true,
    // Also makes their builds known, to be claimed.
    add_runs: "WITH given (id, build, campaign, iteration, plan, record, received) AS (
            VALUES {values}),
         known AS (
            INSERT INTO builds (build) SELECT DISTINCT build FROM given ORDER BY 1
            ON CONFLICT DO NOTHING)
         INSERT INTO runs (id, build, campaign, iteration, plan, record, received)
         SELECT * FROM given ON CONFLICT (id) DO NOTHING RETURNING id",
    ours: "AND build IN (SELECT build FROM builds WHERE holder = $3)",
    claim_job: "UPDATE campaigns SET holder = $1 FROM (
            SELECT id FROM campaigns
            WHERE preparing = 1 AND (holder IS NULL OR holder = $1 OR NOT EXISTS (
                    SELECT FROM servers WHERE servers.holder = campaigns.holder
                        AND until > clock_timestamp()))
            ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) AS free
         WHERE campaigns.id = free.id RETURNING campaigns.id AS id",
};

impl Storage {
    /// Connects to the PostgreSQL that `url` names, and makes or upgrades its tables.
    pub async fn open_postgres(url: &str, lease: Duration) -> Result<Storage, StorageError> {
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
        sqlx::any::install_default_drivers();
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(Duration::from_secs(10))
            .connect(url)
            .await
            .map_err(failing_to("be opened"))?;
        migrate(&pool, &POSTGRES.schema, named).await?;
        let claims = Claims {
            holder: name_of_this_server(),
            lease,
        };
        let storage = Storage::over(&POSTGRES, pool.clone(), pool, Some(claims));
        storage.still_alive().await?;
        Ok(storage)
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

/// A server among others.
#[derive(Debug)]
pub struct Claims {
    /// The name of this server, new at each start.
    pub holder: String,
    pub lease: Duration,
}

impl Claims {
    /// Takes builds whose runs wait and that no living server holds.
    pub async fn claim_builds(&self, pool: &AnyPool) -> Result<(), sqlx::Error> {
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
        .execute(pool)
        .await
        .map(|_| ())
    }

    /// Moves the date up to which this server's claims hold.
    pub async fn renew(&self, pool: &AnyPool) -> Result<(), sqlx::Error> {
        sqlx::query(
            "INSERT INTO servers (holder, until)
             VALUES ($1, clock_timestamp() + $2 * INTERVAL '1 millisecond')
             ON CONFLICT (holder) DO UPDATE SET until = excluded.until",
        )
        .bind(&self.holder)
        .bind(self.lease.as_millis() as f64)
        .execute(pool)
        .await?;
        // Names of servers that are long gone.
        sqlx::query("DELETE FROM servers WHERE until < clock_timestamp() - INTERVAL '1 day'")
            .execute(pool)
            .await
            .map(|_| ())
    }

    pub async fn give_up(&self, pool: &AnyPool) -> Result<(), sqlx::Error> {
        sqlx::query("DELETE FROM servers WHERE holder = $1")
            .bind(&self.holder)
            .execute(pool)
            .await
            .map(|_| ())
    }
}
