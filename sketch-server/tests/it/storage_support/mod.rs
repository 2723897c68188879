//! Databases to test storages on, and things to put into them.

use diagnosis::campaign::{Campaign, LocatedFailure};
use sketch_model::{
    BuildId, CampaignId, Capabilities, Execution, FailureKind, FailureSketch, Provenance,
    RunRecord, Schema, VariantRef,
};
use sketch_server::storage::{
    Arrival, BuildCounts, Changes, CountedAs, Database, Filing, Revised, Storage,
};
use sqlx::Connection;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use test_support::postgres::Postgres;
use test_support::records::{failing, statement, successful};

/// A database that can be opened again and again.
pub struct Place {
    pub folder: TempDir,
    pub database: Database,
}

impl Place {
    pub fn sqlite() -> Place {
        Place {
            folder: tempfile::tempdir().unwrap(),
            database: Database::Embedded,
        }
    }

    pub fn postgres() -> Place {
        Place {
            folder: tempfile::tempdir().unwrap(),
            database: Database::Postgres {
                url: Postgres::shared().database(),
                lease: Duration::from_secs(600),
            },
        }
    }

    pub async fn open(&self) -> Arc<Storage> {
        self.database.open(self.folder.path()).await.unwrap()
    }

    /// Does something to the database behind the storage's back.
    pub async fn meddle(&self, statements: &str) {
        match &self.database {
            Database::Postgres { url, .. } => Postgres::shared().execute(url, statements),
            Database::Embedded => {
                let path = self.folder.path().join("failsketch.sqlite");
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
                let mut other = sqlx::SqliteConnection::connect_with(&options)
                    .await
                    .unwrap();
                sqlx::raw_sql(sqlx::AssertSqlSafe(statements.to_owned()))
                    .execute(&mut other)
                    .await
                    .unwrap();
                other.close().await.unwrap();
            }
        }
    }
}

pub fn run(id: &str, variant: Option<VariantRef>, failed: bool) -> RunRecord {
    let run = match failed {
        true => failing(id),
        false => successful(id),
    };
    RunRecord {
        execution: variant.map_or(Execution::Original, Execution::Tracked),
        ..run
    }
}

pub fn campaign(id: u64, line: u32) -> Campaign {
    let failure = LocatedFailure {
        kind: FailureKind::ExitCode(3),
        failing: statement(line, "main", "/src/a.c", line),
        callers: Vec::new(),
        others: Vec::new(),
        said: None,
    };
    Campaign::begin(
        CampaignId(id),
        BuildId("ab".into()),
        "a".into(),
        failure,
        BuildCounts::default(),
        16,
    )
}

pub fn sketch(campaign: u64, version: u32) -> FailureSketch {
    FailureSketch {
        schema: Schema::default(),
        campaign: CampaignId(campaign),
        version,
        build: BuildId("ab".into()),
        program: "a".into(),
        title: "exit code 3 in main (a.c:1)".into(),
        summary: format!("version {version}"),
        said: None,
        settled: false,
        stack: Vec::new(),
        threads: Vec::new(),
        steps: Vec::new(),
        arrows: Vec::new(),
        predictors: Vec::new(),
        provenance: Provenance {
            failing_runs: 0,
            successful_runs: 0,
            all_runs: 0,
            all_failures: 0,
            sigma: 2,
            iteration: 1,
            slice_statements: 4,
            predictors_tested: 0,
            looks: 0,
            control_flow: "inline branch recorder".into(),
            capabilities: Capabilities::hooks(),
            privacy: "none".into(),
            drawn_run: None,
            untracked_failure_rate: Some(1.0 / 3.0),
            tracked_failure_rate: None,
            coverage: None,
            paused_runs: 0,
            watched: Vec::new(),
            promoted: Vec::new(),
        },
        gaps: Vec::new(),
    }
}

pub fn filed(arrival: Arrival, counted_as: CountedAs, record: &RunRecord) -> Changes {
    Changes {
        filings: vec![Filing {
            arrival,
            build: record.build.clone(),
            counted_as,
            failed: record.failed(),
            untracked: record.execution.is_original(),
        }],
        ..Changes::default()
    }
}

pub fn new(id: u64, line: u32) -> Revised {
    Revised::new(campaign(id, line))
}
