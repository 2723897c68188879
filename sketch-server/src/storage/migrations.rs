//! The databases' schemas, as numbered steps that only go forward.
//!
//! Each step is a file of SQL under `migrations/` that ends by noting its number:
//! in SQLite's `PRAGMA user_version`, in PostgreSQL in a table of its own. A step
//! is never edited once released; a change is a new step. Going back is refused:
//! an older release would misread what a newer one wrote.
//!
//! Absent: `sqlx::migrate!`. It keeps its own table of numbers and checksums, into
//! which ours would have to be carried over, and releases before this one would not
//! see its numbers and would open what they cannot read.

use super::StorageError;
use super::rows::{column, failing_to};
use sqlx::AnyPool;

/// How a database gets its tables.
#[derive(Debug)]
pub struct Schema {
    /// Run first, in the same transaction: keeps servers that start at once apart.
    pub alone: &'static str,
    /// Reads the number of the last step, as `version`.
    pub version: &'static str,
    pub steps: &'static [&'static str],
}

/// Takes the steps that `database` lacks, all or none.
pub async fn migrate(
    pool: &AnyPool,
    schema: &Schema,
    database: String,
) -> Result<(), StorageError> {
    let failed = failing_to("bring its schema up to date");
    let mut transaction = pool.begin().await.map_err(&failed)?;
    sqlx::raw_sql(schema.alone)
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
    let taken = sqlx::query(schema.version)
        .fetch_one(&mut *transaction)
        .await
        .map_err(&failed)?;
    let taken: i64 = column(&taken, "version")?;
    let ahead = usize::try_from(taken).ok().map(|n| schema.steps.get(n..));
    let ahead = ahead.flatten().ok_or(StorageError::Newer {
        database,
        found: taken,
        known: schema.steps.len() as i64,
    })?;
    for step in ahead {
        sqlx::raw_sql(*step)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
    }
    transaction.commit().await.map_err(&failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sqlite::SQLITE;

    #[tokio::test]
    async fn what_the_first_release_wrote_is_carried_along() {
        sqlx::any::install_default_drivers();
        let old = sqlx::any::AnyPoolOptions::new().max_connections(1);
        let old = old.connect("sqlite::memory:").await.unwrap();
        let rows = [
            "INSERT INTO iterations VALUES (7, 2, 'plan', 'placement', 5, 'patch', 'full')",
            "INSERT INTO campaigns VALUES (7, 'ab', 's', '{\"state\":\"preparing\"}')",
            "INSERT INTO campaigns VALUES (8, 'ab', 't', '{\"state\":\"tracking\",\"iteration\":4}')",
            "INSERT INTO runs (id, build, record) VALUES ('r', 'ab', x'00')",
        ];
        for statement in [SQLITE.schema.steps[0]].into_iter().chain(rows) {
            sqlx::raw_sql(statement).execute(&old).await.unwrap();
        }
        migrate(&old, &SQLITE.schema, "db".into()).await.unwrap();
        let found = sqlx::query("SELECT * FROM iterations WHERE campaign = 7");
        let found = found.fetch_one(&old).await.unwrap();
        assert_eq!(column::<i64>(&found, "plan_number").unwrap(), 0);
        assert_eq!(column::<i64>(&found, "patch_version").unwrap(), 5);
        assert_eq!(column::<String>(&found, "full_binary").unwrap(), "full");
        for (what, expected) in [
            (
                "SELECT value AS n FROM counters WHERE name = 'patch_version'",
                5,
            ),
            ("SELECT preparing AS n FROM campaigns WHERE id = 7", 1),
            ("SELECT preparing AS n FROM campaigns WHERE id = 8", 0),
            ("SELECT revision AS n FROM campaigns WHERE id = 8", 1),
            ("SELECT live_iteration AS n FROM campaigns WHERE id = 8", 4),
            // Not as old as 1970: retention would drop it at once.
            ("SELECT received > 1700000000 AS n FROM runs", 1),
        ] {
            let row = sqlx::query(what).fetch_one(&old).await.unwrap();
            assert_eq!(column::<i64>(&row, "n").unwrap(), expected, "{what}");
        }
        // Taken once: a second start changes nothing.
        migrate(&old, &SQLITE.schema, "db".into()).await.unwrap();
    }
}
