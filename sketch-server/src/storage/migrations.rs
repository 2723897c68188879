//! The databases' schemas, as numbered steps that only go forward.
//!
//! The number of steps taken stands in SQLite's `PRAGMA user_version`, and in
//! PostgreSQL in a table of its own. A step is never edited once released; a
//! change is a new step. Going back is refused: an older release would misread
//! what a newer one wrote.

use super::StorageError;
use super::rows::failing_to;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row};
use std::path::Path;

const DOING: &str = "bring its schema up to date";

/// Any number that nothing else in the database locks by.
const MIGRATING: i64 = 0x6661_696c;

const SQLITE: &[&[&str]] = &[&[
    "CREATE TABLE builds (
        build TEXT PRIMARY KEY,
        runs INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        untracked_runs INTEGER NOT NULL,
        untracked_failures INTEGER NOT NULL
    ) STRICT",
    "CREATE TABLE campaigns (
        id INTEGER PRIMARY KEY,
        build TEXT NOT NULL,
        signature TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL
    ) STRICT",
    "CREATE INDEX campaigns_of_build ON campaigns (build, id)",
    // `role` is null until the engine has filed the run.
    "CREATE TABLE runs (
        arrival INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        build TEXT NOT NULL,
        campaign INTEGER,
        iteration INTEGER,
        role TEXT,
        record BLOB NOT NULL
    ) STRICT",
    "CREATE INDEX runs_pending ON runs (arrival) WHERE role IS NULL",
    "CREATE INDEX runs_counted ON runs (campaign, iteration, arrival)
        WHERE role IN ('failing', 'successful')",
    "CREATE TABLE slices (
        campaign INTEGER PRIMARY KEY,
        slice TEXT NOT NULL
    ) STRICT",
    "CREATE TABLE iterations (
        campaign INTEGER NOT NULL,
        iteration INTEGER NOT NULL,
        plan TEXT NOT NULL,
        placement TEXT NOT NULL,
        patch_version INTEGER NOT NULL UNIQUE,
        patch TEXT NOT NULL,
        full_binary TEXT NOT NULL,
        PRIMARY KEY (campaign, iteration)
    ) STRICT",
    "CREATE TABLE sketches (
        campaign INTEGER NOT NULL,
        version INTEGER NOT NULL,
        sketch TEXT NOT NULL,
        PRIMARY KEY (campaign, version)
    ) STRICT",
], &[
    // Several plans an iteration.
    "ALTER TABLE runs ADD COLUMN plan INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE iterations RENAME TO single_plan_iterations",
    "CREATE TABLE iterations (
        campaign INTEGER NOT NULL,
        iteration INTEGER NOT NULL,
        plan_number INTEGER NOT NULL,
        plan TEXT NOT NULL,
        placement TEXT NOT NULL,
        patch_version INTEGER NOT NULL UNIQUE,
        patch TEXT NOT NULL,
        full_binary TEXT NOT NULL,
        PRIMARY KEY (campaign, iteration, plan_number)
    ) STRICT",
    "INSERT INTO iterations SELECT campaign, iteration, 0, plan, placement, patch_version, patch,
        full_binary FROM single_plan_iterations",
    "DROP TABLE single_plan_iterations",
], &[
    // Several servers, batches and retention. A record that retention dropped is
    // empty: its id still keeps the run from being counted again.
    "ALTER TABLE runs ADD COLUMN received INTEGER NOT NULL DEFAULT 0",
    "UPDATE runs SET received = unixepoch()",
    "CREATE INDEX runs_kept ON runs (received) WHERE LENGTH(record) > 0",
    "ALTER TABLE campaigns ADD COLUMN revision INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE campaigns ADD COLUMN preparing INTEGER NOT NULL DEFAULT 0",
    "UPDATE campaigns SET preparing = 1 WHERE state ->> 'state' = 'preparing'",
    "ALTER TABLE campaigns ADD COLUMN holder TEXT",
    "ALTER TABLE campaigns ADD COLUMN live_iteration INTEGER",
    "UPDATE campaigns SET live_iteration = state ->> 'iteration'
        WHERE state ->> 'state' IN ('preparing', 'tracking')",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT",
    "INSERT INTO counters SELECT 'patch_version', COALESCE(MAX(patch_version), 0) FROM iterations",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
]];

/// PostgreSQL came later and begins with all of it.
const POSTGRES: &[&[&str]] = &[&[
    "CREATE TABLE builds (
        build TEXT PRIMARY KEY,
        runs BIGINT NOT NULL DEFAULT 0,
        failures BIGINT NOT NULL DEFAULT 0,
        untracked_runs BIGINT NOT NULL DEFAULT 0,
        untracked_failures BIGINT NOT NULL DEFAULT 0,
        holder TEXT
    )",
    "CREATE TABLE campaigns (
        id BIGINT PRIMARY KEY,
        build TEXT NOT NULL,
        signature TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL,
        revision BIGINT NOT NULL,
        preparing BIGINT NOT NULL,
        live_iteration BIGINT,
        holder TEXT
    )",
    "CREATE INDEX campaigns_of_build ON campaigns (build, id)",
    "CREATE TABLE runs (
        arrival BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        build TEXT NOT NULL,
        campaign BIGINT,
        iteration BIGINT,
        plan BIGINT NOT NULL,
        role TEXT,
        received TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
        record BYTEA NOT NULL
    )",
    // Records are packed already.
    "ALTER TABLE runs ALTER COLUMN record SET STORAGE EXTERNAL",
    "CREATE INDEX runs_pending ON runs (arrival) WHERE role IS NULL",
    "CREATE INDEX runs_pending_of_build ON runs (build) WHERE role IS NULL",
    "CREATE INDEX runs_counted ON runs (campaign, iteration, arrival)
        WHERE role IN ('failing', 'successful')",
    "CREATE INDEX runs_kept ON runs (received) WHERE LENGTH(record) > 0",
    "CREATE TABLE slices (campaign BIGINT PRIMARY KEY, slice TEXT NOT NULL)",
    "CREATE TABLE iterations (
        campaign BIGINT NOT NULL,
        iteration BIGINT NOT NULL,
        plan_number BIGINT NOT NULL,
        plan TEXT NOT NULL,
        placement TEXT NOT NULL,
        patch_version BIGINT NOT NULL UNIQUE,
        patch TEXT NOT NULL,
        full_binary TEXT NOT NULL,
        PRIMARY KEY (campaign, iteration, plan_number)
    )",
    "CREATE TABLE sketches (
        campaign BIGINT NOT NULL,
        version BIGINT NOT NULL,
        sketch TEXT NOT NULL,
        PRIMARY KEY (campaign, version)
    )",
    "CREATE TABLE servers (holder TEXT PRIMARY KEY, until TIMESTAMPTZ NOT NULL)",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL)",
    "INSERT INTO counters VALUES ('patch_version', 0)",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
]];

/// The steps that are still to be taken.
fn ahead(
    steps: &'static [&'static [&'static str]],
    taken: i64,
    database: &dyn std::fmt::Display,
) -> Result<&'static [&'static [&'static str]], StorageError> {
    let ahead = usize::try_from(taken).ok().and_then(|n| steps.get(n..));
    ahead.ok_or_else(|| StorageError::Newer {
        database: database.to_string(),
        found: taken,
        known: steps.len() as i64,
    })
}

/// Takes the steps that the database has not taken yet.
pub async fn migrate_sqlite(
    connection: &mut SqliteConnection,
    path: &Path,
) -> Result<(), StorageError> {
    let failed = failing_to(DOING);
    let mut transaction = connection.begin().await.map_err(&failed)?;
    let taken: i64 = sqlx::query("PRAGMA user_version")
        .fetch_one(&mut *transaction)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(&failed)?;
    for step in ahead(SQLITE, taken, &path.display())? {
        for statement in *step {
            sqlx::query(*statement)
                .execute(&mut *transaction)
                .await
                .map_err(&failed)?;
        }
    }
    // A pragma takes no bound values; the number is ours.
    let version = format!("PRAGMA user_version = {}", SQLITE.len());
    sqlx::query(sqlx::AssertSqlSafe(version))
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
    transaction.commit().await.map_err(&failed)
}

/// The same. Of servers that start at once, one does it and the others wait.
pub async fn migrate_postgres(
    connection: &mut PgConnection,
    database: &str,
) -> Result<(), StorageError> {
    let failed = failing_to(DOING);
    let mut transaction = connection.begin().await.map_err(&failed)?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(MIGRATING)
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
    sqlx::query("CREATE TABLE IF NOT EXISTS failsketch_schema (version BIGINT NOT NULL)")
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
    let taken: i64 = sqlx::query("SELECT COALESCE(MAX(version), 0) FROM failsketch_schema")
        .fetch_one(&mut *transaction)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(&failed)?;
    let steps = ahead(POSTGRES, taken, &database)?;
    for step in steps {
        for statement in *step {
            sqlx::query(*statement)
                .execute(&mut *transaction)
                .await
                .map_err(&failed)?;
        }
    }
    if !steps.is_empty() {
        sqlx::query("INSERT INTO failsketch_schema (version) VALUES ($1)")
            .bind(POSTGRES.len() as i64)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
    }
    transaction.commit().await.map_err(&failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_first_release_wrote_is_carried_along() {
        let mut old = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let rows = [
            "INSERT INTO iterations VALUES (7, 2, 'plan', 'placement', 5, 'patch', 'full')",
            "INSERT INTO campaigns VALUES (7, 'ab', 's', '{\"state\":\"preparing\"}')",
            "INSERT INTO campaigns VALUES (8, 'ab', 't', '{\"state\":\"tracking\",\"iteration\":4}')",
            "INSERT INTO runs (id, build, record) VALUES ('r', 'ab', x'00')",
            "PRAGMA user_version = 1",
        ];
        for statement in SQLITE[0].iter().chain(&rows) {
            sqlx::query(*statement).execute(&mut old).await.unwrap();
        }
        migrate_sqlite(&mut old, Path::new("db")).await.unwrap();
        let found = sqlx::query("SELECT * FROM iterations WHERE campaign = 7");
        let found = found.fetch_one(&mut old).await.unwrap();
        assert_eq!(found.get::<i64, _>("plan_number"), 0);
        assert_eq!(found.get::<i64, _>("patch_version"), 5);
        assert_eq!(found.get::<String, _>("full_binary"), "full");
        for (what, expected) in [
            ("SELECT value FROM counters WHERE name = 'patch_version'", 5),
            ("SELECT preparing FROM campaigns WHERE id = 7", 1),
            ("SELECT preparing FROM campaigns WHERE id = 8", 0),
            ("SELECT revision FROM campaigns WHERE id = 8", 1),
            ("SELECT live_iteration FROM campaigns WHERE id = 8", 4),
            // Not as old as 1970: retention would drop it at once.
            ("SELECT received > 1700000000 FROM runs", 1),
        ] {
            let row = sqlx::query(what).fetch_one(&mut old).await.unwrap();
            assert_eq!(row.get::<i64, _>(0), expected, "{what}");
        }
        // Taken once: a second start changes nothing.
        migrate_sqlite(&mut old, Path::new("db")).await.unwrap();
    }
}
