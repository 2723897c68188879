//! Reading back what is stored, and the small things that servers agree upon.

use super::rows::{campaign, column, failing_to, parsed, stored_run};
use super::{
    Arrival, BlobId, BuildCounts, IterationRecord, Revised, Storage, StorageError, StoredRun,
};
use diagnosis::campaign::Campaign;
use futures_util::TryStreamExt;
use sketch_model::{BuildId, CampaignId, FailureSketch, Slice, VariantRef};

/// Packed bytes after which a read of many runs stops; one more run may follow.
pub const MOST_BYTES_READ: usize = 4 << 20;

impl Storage {
    /// Whether the database can be read at all.
    pub async fn answers(&self) -> Result<(), StorageError> {
        let looked = sqlx::query("SELECT name FROM counters").fetch_one(&self.readers);
        looked.await.map(|_| ()).map_err(failing_to("be read"))
    }

    /// Runs after `after` that count for a variant as failing or successful, at most
    /// `most` and not more than a few megabytes.
    pub async fn counted(
        &self,
        variant: VariantRef,
        after: Arrival,
        most: usize,
    ) -> Result<Vec<StoredRun>, StorageError> {
        let mut rows = sqlx::query(
            "SELECT arrival, id, record FROM runs
             WHERE campaign = $1 AND iteration = $2 AND plan = $3 AND arrival > $4
               AND role IN ('failing', 'successful') AND LENGTH(record) > 0
             ORDER BY arrival LIMIT $5",
        )
        .bind(variant.campaign.0 as i64)
        .bind(i64::from(variant.iteration))
        .bind(i64::from(variant.plan))
        .bind(after.0)
        .bind(most as i64)
        .fetch(&self.readers);
        let failed = failing_to("read back tracked runs");
        let mut runs = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.try_next().await.map_err(&failed)? {
            runs.push(stored_run(&row)?);
            bytes += column::<Vec<u8>>(&row, "record")?.len();
            if bytes > MOST_BYTES_READ {
                break;
            }
        }
        Ok(runs)
    }

    /// The next run after `after` that counts for a variant.
    pub async fn next_counted(
        &self,
        variant: VariantRef,
        after: Arrival,
    ) -> Result<Option<StoredRun>, StorageError> {
        Ok(self.counted(variant, after, 1).await?.pop())
    }

    /// How many runs that counted for a tracked build still have their record.
    pub async fn records_of(&self, variant: VariantRef) -> Result<u64, StorageError> {
        sqlx::query(
            "SELECT COUNT(*) AS records FROM runs
             WHERE campaign = $1 AND iteration = $2 AND plan = $3
               AND role IN ('failing', 'successful') AND LENGTH(record) > 0",
        )
        .bind(variant.campaign.0 as i64)
        .bind(i64::from(variant.iteration))
        .bind(i64::from(variant.plan))
        .fetch_one(&self.readers)
        .await
        .map_err(failing_to("count the records of a tracked build"))
        .and_then(|row| column::<i64>(&row, "records"))
        .map(|records| records.max(0) as u64)
    }

    /// All campaigns, oldest first.
    pub async fn campaigns(&self) -> Result<Vec<Campaign>, StorageError> {
        sqlx::query("SELECT id, state FROM campaigns ORDER BY id")
            .fetch_all(&self.readers)
            .await
            .map_err(failing_to("list the campaigns"))?
            .iter()
            .map(campaign)
            .collect()
    }

    /// The campaigns of one build, oldest first.
    pub async fn campaigns_of(&self, build: &BuildId) -> Result<Vec<Campaign>, StorageError> {
        sqlx::query("SELECT id, state FROM campaigns WHERE build = $1 ORDER BY id")
            .bind(&build.0)
            .fetch_all(&self.readers)
            .await
            .map_err(failing_to("list the campaigns of a build"))?
            .iter()
            .map(campaign)
            .collect()
    }

    pub async fn campaign(&self, id: CampaignId) -> Result<Option<Campaign>, StorageError> {
        Ok(self.revised(id).await?.map(|found| found.campaign))
    }

    pub async fn revised(&self, id: CampaignId) -> Result<Option<Revised>, StorageError> {
        sqlx::query("SELECT id, state, revision FROM campaigns WHERE id = $1")
            .bind(id.0 as i64)
            .fetch_optional(&self.readers)
            .await
            .map_err(failing_to("read a campaign"))?
            .map(|row| {
                Ok(Revised {
                    campaign: campaign(&row)?,
                    revision: column(&row, "revision")?,
                })
            })
            .transpose()
    }

    /// Which campaigns there are, and how often each has been written.
    pub async fn revisions(&self) -> Result<Vec<(CampaignId, i64)>, StorageError> {
        sqlx::query("SELECT id, revision FROM campaigns ORDER BY id")
            .fetch_all(&self.readers)
            .await
            .map_err(failing_to("see which campaigns changed"))?
            .iter()
            .map(|row| {
                let id = CampaignId(column::<i64>(row, "id")?.max(0) as u64);
                Ok((id, column(row, "revision")?))
            })
            .collect()
    }

    pub async fn build_counts(&self, build: &BuildId) -> Result<BuildCounts, StorageError> {
        let row = sqlx::query(
            "SELECT runs, failures, untracked_runs, untracked_failures
             FROM builds WHERE build = $1",
        )
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
    }

    pub async fn slice(&self, id: CampaignId) -> Result<Option<Slice>, StorageError> {
        sqlx::query("SELECT slice FROM slices WHERE campaign = $1")
            .bind(id.0 as i64)
            .fetch_optional(&self.readers)
            .await
            .map_err(failing_to("read a slice"))?
            .map(|row| parsed(&row, "slice", "slice of campaign", id))
            .transpose()
    }

    pub async fn iteration(
        &self,
        variant: VariantRef,
    ) -> Result<Option<IterationRecord>, StorageError> {
        sqlx::query(
            "SELECT plan, placement, patch_version, patch, full_binary FROM iterations
             WHERE campaign = $1 AND iteration = $2 AND plan_number = $3",
        )
        .bind(variant.campaign.0 as i64)
        .bind(i64::from(variant.iteration))
        .bind(i64::from(variant.plan))
        .fetch_optional(&self.readers)
        .await
        .map_err(failing_to("read a tracked build"))?
        .map(|row| {
            let id = variant.campaign;
            let version: i64 = column(&row, "patch_version")?;
            Ok(IterationRecord {
                variant,
                plan: parsed(&row, "plan", "plan of campaign", id)?,
                placement: parsed(&row, "placement", "placement of campaign", id)?,
                patch_version: version.max(0) as u64,
                patch: BlobId(column(&row, "patch")?),
                full: BlobId(column(&row, "full_binary")?),
            })
        })
        .transpose()
    }

    /// Reserves `count` patch versions above all earlier ones; returns the first.
    pub async fn reserve_patch_versions(&self, count: u64) -> Result<u64, StorageError> {
        let count = count.max(1) as i64;
        sqlx::query(
            "UPDATE counters SET value = value + $1 WHERE name = 'patch_version'
             RETURNING value",
        )
        .bind(count)
        .fetch_one(&self.writer)
        .await
        .map_err(failing_to("number a patch"))
        .and_then(|row| column::<i64>(&row, "value"))
        .map(|last| (last - count + 1).max(1) as u64)
    }

    /// A version of a sketch, or the latest.
    pub async fn sketch(
        &self,
        id: CampaignId,
        version: Option<u32>,
    ) -> Result<Option<FailureSketch>, StorageError> {
        sqlx::query(
            "SELECT sketch FROM sketches WHERE campaign = $1 AND version = COALESCE($2,
                (SELECT MAX(version) FROM sketches WHERE campaign = $1))",
        )
        .bind(id.0 as i64)
        .bind(version.map(i64::from))
        .fetch_optional(&self.readers)
        .await
        .map_err(failing_to("read a sketch"))?
        .map(|row| parsed(&row, "sketch", "sketch of campaign", id))
        .transpose()
    }

    /// What all servers of one storage must have in common: notes `value` under
    /// `name` unless something stands there already, and returns what stands there.
    pub async fn agree(&self, name: &'static str, value: &str) -> Result<String, StorageError> {
        let failed = failing_to("compare the settings of its servers");
        sqlx::query("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(value)
            .execute(&self.writer)
            .await
            .map_err(&failed)?;
        sqlx::query("SELECT value FROM settings WHERE name = $1")
            .bind(name)
            .fetch_one(&self.writer)
            .await
            .map_err(&failed)
            .and_then(|row| column(&row, "value"))
    }
}
