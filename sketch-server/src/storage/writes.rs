//! Writing all that follows from a batch of events, together or not at all.

use super::rows::{failing_to, json};
use super::{BuildCounts, Changes, Filing, Revised, Storage, StorageError, stored_word};
use sketch_model::BuildId;
use sqlx::{AnyConnection, AssertSqlSafe};
use std::collections::BTreeMap;

impl Storage {
    pub async fn commit(&self, changes: Changes) -> Result<(), StorageError> {
        let failed = failing_to("write what follows from a run");
        let mut transaction = self.writer.begin().await.map_err(&failed)?;
        write_changes(&mut transaction, self.dialect.numbers, &changes).await?;
        transaction.commit().await.map_err(&failed)
    }
}

async fn write_changes(
    connection: &mut AnyConnection,
    numbers: &str,
    changes: &Changes,
) -> Result<(), StorageError> {
    file_runs(connection, numbers, &changes.filings).await?;
    for (build, counts) in by_build(&changes.filings) {
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
    connection: &mut AnyConnection,
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

/// Only runs that nobody has filed.
async fn file_runs(
    connection: &mut AnyConnection,
    numbers: &str,
    filings: &[Filing],
) -> Result<(), StorageError> {
    for (role, arrivals) in by_role(filings) {
        let file =
            format!("UPDATE runs SET role = $1 WHERE role IS NULL AND arrival IN ({numbers})");
        let done = sqlx::query(AssertSqlSafe(file))
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

/// What filings add to the counters of their builds, in the order of builds, so
/// that no two servers wait for each other's rows.
fn by_build(filings: &[Filing]) -> BTreeMap<&BuildId, BuildCounts> {
    let mut counts: BTreeMap<&BuildId, BuildCounts> = BTreeMap::new();
    for filing in filings {
        let counted = counts.entry(&filing.build).or_default();
        *counted = counted.with(filing.failed, filing.untracked);
    }
    counts
}

/// The arrivals that were filed as each role.
fn by_role(filings: &[Filing]) -> BTreeMap<&'static str, Vec<i64>> {
    let mut arrivals: BTreeMap<&'static str, Vec<i64>> = BTreeMap::new();
    for filing in filings {
        arrivals
            .entry(stored_word(filing.counted_as))
            .or_default()
            .push(filing.arrival.0);
    }
    arrivals
}
