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
