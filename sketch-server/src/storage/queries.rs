//! The statements that SQLite and PostgreSQL share, word for word.
//!
//! Both take `$1` for a value, `ON CONFLICT`, and 64-bit integers; what differs
//! (how a table is made, how many rows go in at once, how work is claimed) stands
//! with each database. Macros and not generics, because sqlx ties every value
//! and row to its database by bounds that would be longer than the statements.
//!
//! Expects `self.readers` and `self.writer` to be pools.

/// The part of `impl Storage` that only reads, and `commit`.
macro_rules! shared_queries {
    () => {
        fn counted(
            &self,
            variant: VariantRef,
            after: Arrival,
            most: usize,
        ) -> Answer<'_, Vec<StoredRun>> {
            Box::pin(async move {
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
                    bytes += column::<_, Vec<u8>>(&row, "record")?.len();
                    if bytes > MOST_BYTES_READ {
                        break;
                    }
                }
                Ok(runs)
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
                sqlx::query("SELECT id, state FROM campaigns WHERE build = $1 ORDER BY id")
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
            Box::pin(async move { Ok(self.revised(id).await?.map(|found| found.campaign)) })
        }

        fn revised(&self, id: CampaignId) -> Answer<'_, Option<Revised>> {
            Box::pin(async move {
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
            })
        }

        fn revisions(&self) -> Answer<'_, Vec<(CampaignId, i64)>> {
            Box::pin(async move {
                sqlx::query("SELECT id, revision FROM campaigns ORDER BY id")
                    .fetch_all(&self.readers)
                    .await
                    .map_err(failing_to("see which campaigns changed"))?
                    .iter()
                    .map(|row| {
                        let id = CampaignId(column::<_, i64>(row, "id")?.max(0) as u64);
                        Ok((id, column(row, "revision")?))
                    })
                    .collect()
            })
        }

        fn build_counts<'a>(&'a self, build: &'a BuildId) -> Answer<'a, BuildCounts> {
            Box::pin(async move {
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
                let count = |name| column::<_, i64>(&row, name).map(|n| n.max(0) as u64);
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
                sqlx::query("SELECT slice FROM slices WHERE campaign = $1")
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
            })
        }

        fn reserve_patch_versions(&self, count: u64) -> Answer<'_, u64> {
            Box::pin(async move {
                let count = count.max(1) as i64;
                sqlx::query(
                    "UPDATE counters SET value = value + $1 WHERE name = 'patch_version'
                     RETURNING value",
                )
                .bind(count)
                .fetch_one(&self.writer)
                .await
                .map_err(failing_to("number a patch"))
                .and_then(|row| column::<_, i64>(&row, "value"))
                .map(|last| (last - count + 1).max(1) as u64)
            })
        }

        fn sketch(
            &self,
            id: CampaignId,
            version: Option<u32>,
        ) -> Answer<'_, Option<FailureSketch>> {
            Box::pin(async move {
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
            })
        }

        fn agree<'a>(&'a self, name: &'static str, value: &'a str) -> Answer<'a, String> {
            Box::pin(async move {
                let failed = failing_to("compare the settings of its servers");
                sqlx::query(
                    "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                )
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
            })
        }

        fn sweep(&self, keep: Retention) -> Answer<'_, u64> {
            Box::pin(async move {
                let failed = failing_to("drop old records");
                let drop = |sql: &'static str, limit: Option<u64>| async move {
                    match limit {
                        None => Ok(0),
                        Some(limit) => sqlx::query(sql)
                            .bind(limit.min(i64::MAX as u64) as i64)
                            .execute(&self.writer)
                            .await
                            .map(|done| done.rows_affected()),
                    }
                };
                let old = keep.days.map(retention::seconds);
                let forgotten = keep.days.map(retention::seconds_of_ids);
                let dropped = drop(OLD, old).await.map_err(&failed)?
                    + drop(SURPLUS, keep.runs).await.map_err(&failed)?;
                drop(FORGOTTEN, forgotten).await.map_err(&failed)?;
                Ok(dropped)
            })
        }
    };
}

/// `write_changes` on a connection of one kind, which needs `file_runs` beside it.
macro_rules! shared_writes {
    ($connection:ty) => {
        async fn write_changes(
            connection: &mut $connection,
            changes: &Changes,
        ) -> Result<(), StorageError> {
            file_runs(connection, &changes.filings).await?;
            for (build, counts) in crate::storage::queries::by_build(&changes.filings) {
                sqlx::query(
                    "INSERT INTO builds (build, runs, failures, untracked_runs, untracked_failures)
                     VALUES ($1, $2, $3, $4, $5)
                     ON CONFLICT (build) DO UPDATE SET
                        runs = builds.runs + excluded.runs,
                        failures = builds.failures + excluded.failures,
                        untracked_runs = builds.untracked_runs + excluded.untracked_runs,
                        untracked_failures =
                            builds.untracked_failures + excluded.untracked_failures",
                )
                .bind(&build.0)
                .bind(counts.runs as i64)
                .bind(counts.failures as i64)
                .bind(counts.untracked_runs as i64)
                .bind(counts.untracked_failures as i64)
                .execute(&mut *connection)
                .await
                .map_err(failing_to("count runs"))?;
            }
            for revised in &changes.campaigns {
                write_campaign(connection, revised).await?;
            }
            for (id, slice) in &changes.slices {
                sqlx::query(
                    "INSERT INTO slices (campaign, slice) VALUES ($1, $2)
                     ON CONFLICT (campaign) DO UPDATE SET slice = excluded.slice",
                )
                .bind(id.0 as i64)
                .bind(json("slice of campaign", id, slice)?)
                .execute(&mut *connection)
                .await
                .map_err(failing_to("write a slice"))?;
            }
            for iteration in &changes.iterations {
                let id = iteration.variant.campaign;
                sqlx::query(
                    "INSERT INTO iterations
                     (campaign, iteration, plan_number, plan, placement, patch_version, patch,
                      full_binary)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                     ON CONFLICT (campaign, iteration, plan_number) DO UPDATE SET
                        plan = excluded.plan,
                        placement = excluded.placement,
                        patch_version = excluded.patch_version,
                        patch = excluded.patch,
                        full_binary = excluded.full_binary",
                )
                .bind(id.0 as i64)
                .bind(i64::from(iteration.variant.iteration))
                .bind(i64::from(iteration.variant.plan))
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
                sqlx::query(
                    "INSERT INTO sketches (campaign, version, sketch) VALUES ($1, $2, $3)
                     ON CONFLICT (campaign, version) DO UPDATE SET sketch = excluded.sketch",
                )
                .bind(sketch.campaign.0 as i64)
                .bind(i64::from(sketch.version))
                .bind(json("sketch of campaign", sketch.campaign, sketch)?)
                .execute(&mut *connection)
                .await
                .map_err(failing_to("write a sketch"))?;
            }
            Ok(())
        }

        /// Only over the revision that was read.
        async fn write_campaign(
            connection: &mut $connection,
            Revised { campaign, revision }: &Revised,
        ) -> Result<(), StorageError> {
            let state = json("campaign", campaign.id(), campaign)?;
            let preparing = i64::from(campaign.is_preparing());
            let live = (!campaign.is_over()).then_some(i64::from(campaign.iteration()));
            let failed = failing_to("write a campaign");
            let written = if *revision == 0 {
                sqlx::query(
                    "INSERT INTO campaigns
                     (id, build, signature, state, preparing, live_iteration, revision)
                     VALUES ($1, $2, $3, $4, $5, $6, 1) ON CONFLICT DO NOTHING",
                )
                .bind(campaign.id().0 as i64)
                .bind(&campaign.identity.build.0)
                // PostgreSQL has no text with NUL in it, and parts of this come
                // from agents.
                .bind(campaign.identity.signature.0.replace('\0', "\u{fffd}"))
                .bind(state)
                .bind(preparing)
                .bind(live)
                .execute(&mut *connection)
                .await
                .map_err(failed)?
            } else {
                sqlx::query(
                    "UPDATE campaigns SET state = $2, preparing = $3, live_iteration = $4,
                        revision = revision + 1, holder = CASE WHEN $3 = 1 THEN holder END
                     WHERE id = $1 AND revision = $5",
                )
                .bind(campaign.id().0 as i64)
                .bind(state)
                .bind(preparing)
                .bind(live)
                .bind(*revision)
                .execute(&mut *connection)
                .await
                .map_err(failed)?
            };
            match written.rows_affected() {
                1 => Ok(()),
                _ => Err(StorageError::Conflict { what: "campaign" }),
            }
        }
    };
}

use super::{BuildCounts, Filing, stored_word};
use sketch_model::BuildId;
use std::collections::BTreeMap;

/// Packed bytes after which a read of many runs stops; one more run may follow.
pub const MOST_BYTES_READ: usize = 4 << 20;

/// What filings add to the counters of their builds, in the order of builds, so
/// that no two servers wait for each other's rows.
pub fn by_build(filings: &[Filing]) -> BTreeMap<&BuildId, BuildCounts> {
    let mut counts: BTreeMap<&BuildId, BuildCounts> = BTreeMap::new();
    for filing in filings {
        let counted = counts.entry(&filing.build).or_default();
        *counted = counted.with(filing.failed, filing.untracked);
    }
    counts
}

/// The arrivals that were filed as each role.
pub fn by_role(filings: &[Filing]) -> BTreeMap<&'static str, Vec<i64>> {
    let mut arrivals: BTreeMap<&'static str, Vec<i64>> = BTreeMap::new();
    for filing in filings {
        let role = stored_word(filing.counted_as);
        arrivals.entry(role).or_default().push(filing.arrival.0);
    }
    arrivals
}
