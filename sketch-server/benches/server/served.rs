//! The server under measurement: a process of its own, and how far it is.

use super::service_support;
use super::service_support::double::Double;
use super::service_support::records::{crash, untracked};
use sketch_model::{CampaignState, CampaignSummary};
use sketch_server::storage::Database;
use sketch_server::{ServerConfig, serve_with};
use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs a server until it is killed.
pub fn run(data: &str, database: &str) {
    let config = ServerConfig {
        database: match database {
            "embedded" => Database::Embedded,
            url => url.parse().expect("a database"),
        },
        ..service_support::config(Path::new(data))
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let served = runtime.block_on(serve_with(
        config,
        Arc::new(Double::default()),
        std::future::pending(),
        |address, _| println!("{address}"),
    ));
    served.expect("the server runs");
}

pub struct Served {
    process: Child,
    pub address: String,
    batches: Cell<u32>,
    _data: tempfile::TempDir,
}

impl Served {
    /// Starts a server and lets it come to where it tracks a failure.
    pub fn start(database: &str) -> Served {
        // Not in /tmp, which may be memory.
        let data = tempfile::Builder::new()
            .prefix("failsketch-bench-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .expect("a folder");
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .arg("serve")
            .arg(data.path())
            .arg(database)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut address = String::new();
        BufReader::new(process.stdout.take().expect("a pipe"))
            .read_line(&mut address)
            .expect("its address");
        let served = Served {
            process,
            address: address.trim().to_owned(),
            batches: Cell::new(0),
            _data: data,
        };
        let body = serde_json::to_vec(&untracked("first", crash(&[120, 210]))).expect("JSON");
        let url = format!("http://{}/api/v1/runs", served.address);
        ureq::post(url).send(&body).expect("the first failure");
        served.wait_for(|c| c.state == CampaignState::Tracking);
        served
    }

    /// A name that keeps the runs of one measurement apart from those of others.
    pub fn next_batch(&self) -> u32 {
        self.batches.set(self.batches.get() + 1);
        self.batches.get()
    }

    /// Runs that the engine has understood, durably.
    pub fn filed(&self) -> u64 {
        self.campaign().map_or(0, |c| c.runs)
    }

    /// How long it took from now until so many runs were filed.
    pub fn wait_until_filed(&self, runs: u64) -> Duration {
        let from = Instant::now();
        self.wait_for(|c| c.runs >= runs);
        from.elapsed()
    }

    pub fn megabytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.process.id());
        let pages = std::fs::read_to_string(path).unwrap_or_default();
        let resident = pages.split_whitespace().nth(1);
        resident.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 4 / 1024
    }

    fn campaign(&self) -> Option<CampaignSummary> {
        let url = format!("http://{}/api/v1/campaigns", self.address);
        let mut reply = ureq::get(url).call().expect("the campaigns");
        let body = reply.body_mut().read_to_vec().expect("a body");
        let all: Vec<CampaignSummary> = serde_json::from_slice(&body).expect("JSON");
        all.into_iter().next()
    }

    fn wait_for(&self, there: impl Fn(&CampaignSummary) -> bool) {
        for _ in 0..60_000 {
            if self.campaign().is_some_and(|c| there(&c)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server does not get there: {:?}", self.campaign());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It is ours, and has nothing left to say.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
