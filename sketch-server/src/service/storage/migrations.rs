//! The database's schema, as numbered steps that only go forward.
//!
//! `PRAGMA user_version` holds the number of steps taken. A step is never
//! edited once released; a change is a new step. Going back is refused: an
//! older release would misread what a newer one wrote.

use super::StorageError;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Row};
use std::path::Path;

const STEPS: &[&[&str]] = &[&[
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
]];

/// Takes the steps that the database has not taken yet.
pub async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<(), StorageError> {
    let failed = |source| StorageError::Database {
        doing: "bring its schema up to date",
        source,
    };
    let known = STEPS.len() as i64;
    let mut transaction = connection.begin().await.map_err(failed)?;
    let taken: i64 = sqlx::query("PRAGMA user_version")
        .fetch_one(&mut *transaction)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(failed)?;
    if !(0..=known).contains(&taken) {
        return Err(StorageError::Newer {
            path: path.to_owned(),
            found: taken,
            known,
        });
    }
    for step in &STEPS[taken as usize..] {
        for statement in *step {
            sqlx::query(*statement)
                .execute(&mut *transaction)
                .await
                .map_err(failed)?;
        }
    }
    // A pragma takes no bound values; the number is ours.
    sqlx::query(sqlx::AssertSqlSafe(format!(
        "PRAGMA user_version = {known}"
    )))
    .execute(&mut *transaction)
    .await
    .map_err(failed)?;
    transaction.commit().await.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tracked_builds_of_the_first_release_become_plan_0() {
        let mut old = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let row = "INSERT INTO iterations VALUES (7, 2, 'plan', 'placement', 5, 'patch', 'full')";
        let version = "PRAGMA user_version = 1";
        for statement in STEPS[0].iter().chain(&[row, version]) {
            sqlx::query(*statement).execute(&mut old).await.unwrap();
        }
        migrate(&mut old, Path::new("db")).await.unwrap();
        let found = sqlx::query("SELECT * FROM iterations WHERE campaign = 7");
        let found = found.fetch_one(&mut old).await.unwrap();
        assert_eq!(found.get::<i64, _>("plan_number"), 0);
        assert_eq!(found.get::<i64, _>("patch_version"), 5);
        assert_eq!(found.get::<String, _>("full_binary"), "full");
    }
}
