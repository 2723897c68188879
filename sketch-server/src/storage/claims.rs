//! Taking work: runs to file and campaigns to prepare.
//!
//! A server that has its database for itself takes whatever there is. One among
//! others takes what no living server holds; `postgres.rs` says how.

use super::queries::MOST_BYTES_READ;
use super::rows::{column, failing_to, readable};
use super::{Storage, StorageError, StoredRun};
use sketch_model::CampaignId;
use sqlx::AssertSqlSafe;
use std::time::Duration;

impl Storage {
    /// The oldest runs that nobody has filed yet and that are this server's to
    /// file, at most `most` and not more than a few megabytes.
    pub async fn pending(&self, most: usize) -> Result<Vec<StoredRun>, StorageError> {
        if let Some(claims) = &self.claims {
            let claimed = claims.claim_builds(&self.writer).await;
            claimed.map_err(failing_to("claim runs"))?;
        }
        let oldest = format!(
            "SELECT arrival, id, record FROM (
                SELECT arrival, id, record, SUM(LENGTH(record)) OVER (ORDER BY arrival)
                    - LENGTH(record) AS before
                FROM (SELECT arrival, id, record FROM runs WHERE role IS NULL {}
                      ORDER BY arrival LIMIT $1) AS oldest) AS few
             WHERE before < $2 ORDER BY arrival",
            self.dialect.ours
        );
        loop {
            let mut query = sqlx::query(AssertSqlSafe(oldest.clone()))
                .bind(most as i64)
                .bind(MOST_BYTES_READ as i64);
            if let Some(claims) = &self.claims {
                query = query.bind(&claims.holder);
            }
            let rows = query.fetch_all(&self.readers).await;
            let (runs, damaged) = readable(&rows.map_err(failing_to("find the next runs"))?)?;
            for arrival in &damaged {
                self.pass_over(*arrival).await?;
            }
            if !runs.is_empty() || damaged.is_empty() {
                return Ok(runs);
            }
        }
    }

    /// Files a run that cannot be read as refused, unless another server has filed it
    /// meanwhile.
    async fn pass_over(&self, arrival: i64) -> Result<(), StorageError> {
        let passed =
            sqlx::query("UPDATE runs SET role = 'refused' WHERE arrival = $1 AND role IS NULL")
                .bind(arrival)
                .execute(&self.writer)
                .await;
        passed.map(|_| ()).map_err(failing_to("pass over a run"))
    }

    /// The oldest campaign that waits for a tracked build and that no other
    /// living server prepares; it is this server's from now on.
    pub async fn claim_job(&self) -> Result<Option<CampaignId>, StorageError> {
        let mut query = sqlx::query(self.dialect.claim_job);
        if let Some(claims) = &self.claims {
            query = query.bind(&claims.holder);
        }
        let claimed = query.fetch_optional(&self.writer).await;
        claimed
            .map_err(failing_to("claim a campaign to prepare"))?
            .map(|row| Ok(CampaignId(column::<i64>(&row, "id")?.max(0) as u64)))
            .transpose()
    }

    /// How often [`Storage::still_alive`] must be called; `None` if there can be
    /// no other server that would have to know.
    pub fn heartbeat(&self) -> Option<Duration> {
        self.claims.as_ref().map(|claims| claims.lease / 3)
    }

    /// Keeps what this server has claimed.
    pub async fn still_alive(&self) -> Result<(), StorageError> {
        let Some(claims) = &self.claims else {
            return Ok(());
        };
        let renewed = claims.renew(&self.writer).await;
        renewed.map_err(failing_to("note that this server is alive"))
    }

    /// Gives up what this server has claimed and ends.
    pub async fn close(&self) -> Result<(), StorageError> {
        let given_up = match &self.claims {
            Some(claims) => claims.give_up(&self.writer).await,
            None => Ok(()),
        };
        self.readers.close().await;
        self.writer.close().await;
        given_up.map_err(failing_to("note that this server ends"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::CountedAs;
    use sketch_model::VariantRef;
    use test_support::records::{RunBuilder, successful, variant};

    #[tokio::test]
    async fn a_run_that_another_server_has_filed_is_not_passed_over() {
        const COUNTED: VariantRef = variant(1, 1, 0);
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::open_sqlite(&folder.path().join("db.sqlite")).await;
        let storage = storage.unwrap();
        let run = successful("a").tracked(COUNTED);
        storage.accept_run(&run).await.unwrap();
        let pending = storage.pending(1).await.unwrap().pop().unwrap();
        let filing = crate::storage::Filing {
            arrival: pending.arrival,
            build: run.build.clone(),
            counted_as: CountedAs::Successful,
            failed: false,
            untracked: false,
        };
        let changes = crate::storage::Changes {
            filings: vec![filing],
            ..Default::default()
        };
        storage.commit(changes).await.unwrap();
        storage.pass_over(pending.arrival.0).await.unwrap();
        let counted = storage
            .next_counted(COUNTED, crate::storage::Arrival(0))
            .await;
        assert!(counted.unwrap().is_some(), "it still counts");
    }
}
