//! Two server processes on one PostgreSQL, one of them killed with SIGKILL.
//!
//! Has a `main` of its own instead of the usual harness, because it starts itself
//! again as the servers: `service_two_servers serve …`. The servers are whole ones
//! but for the build tools, which are the double; agents are threads that, like real
//! ones, send a run again, to whichever server answers, until it is acknowledged.

#[path = "it/service_support/mod.rs"]
mod service_support;

use service_support::double::Double;
use service_support::records::{crash, tracked, untracked, variant};
use sketch_model::{
    AgentId, CampaignId, CampaignState, CampaignSummary, Outcome, RunRecord, VariantRef,
};
use sketch_server::storage::{BlobPlace, Database, Storage};
use sketch_server::{ServerConfig, serve_with};
use sqlx::{Connection, Row};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use test_support::postgres::Postgres;

/// How long a server may be silent here.
const LEASE: Duration = Duration::from_secs(10);
const AGENTS: u32 = 12;
const RUNS_EACH: u32 = 150;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, rest @ ..] = arguments.as_slice()
        && word == "serve"
    {
        return serve_double(rest);
    }
    let tests: [(&str, fn()); 3] = [
        ("a_server_killed_under_load_loses_and_doubles_nothing", load),
        ("a_killed_servers_build_is_made_by_another", takeover),
        ("servers_of_one_database_must_sign_with_one_key", keys),
    ];
    let wanted = arguments.iter().find(|a| !a.starts_with('-'));
    for (name, test) in tests {
        if wanted.is_none_or(|wanted| name.contains(wanted.as_str())) {
            println!("test {name} ...");
            test();
            println!("test {name} ... ok");
        }
    }
}

fn serve_double(arguments: &[String]) {
    let [data, blobs, url, stuck] = arguments else {
        panic!("serve DATA BLOBS URL stuck|free");
    };
    let config = ServerConfig {
        database: Database::Postgres {
            url: url.clone(),
            lease: LEASE,
        },
        blobs: Some(BlobPlace::Folder(blobs.into())),
        ..service_support::config(Path::new(data))
    };
    let double = Double {
        stuck: stuck == "stuck",
        ..Double::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let served = runtime.block_on(serve_with(
        config,
        Arc::new(double),
        std::future::pending(),
        |address, _| println!("{address}"),
    ));
    eprintln!("{}", served.expect_err("ends only by being killed"));
    std::process::exit(1);
}

/// A server process, killed when dropped.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(folder: &Path, name: &str, url: &str, stuck: &str) -> Server {
        let mut process = command(folder, name, url, stuck)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server starts");
        let stdout = process.stdout.take().expect("a pipe");
        let mut address = String::new();
        let said = BufReader::new(stdout).read_line(&mut address);
        said.expect("its address");
        Server {
            process,
            address: address.trim().to_owned(),
        }
    }

    fn kill(&mut self) {
        self.process.kill().expect("SIGKILL");
        self.process.wait().expect("its end");
    }

    fn campaigns(&self) -> Vec<CampaignSummary> {
        let url = format!("http://{}/api/v1/campaigns", self.address);
        let mut reply = ureq::get(url).call().expect("the campaigns");
        let body = reply.body_mut().read_to_vec().expect("a body");
        serde_json::from_slice(&body).expect("JSON")
    }

    /// Waits until a campaign is as it should be.
    fn wait_for(&self, what: &str, there: impl Fn(&CampaignSummary) -> bool) -> CampaignSummary {
        for _ in 0..1_200 {
            if let Some(found) = self.campaigns().into_iter().find(&there) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("no campaign is {what}: {:?}", self.campaigns());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(folder: &Path, name: &str, url: &str, stuck: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .arg("serve")
        .args([folder.join(name), folder.join("blobs")])
        .args([url, stuck]);
    command
}

/// A database and a folder with the data folders of two servers that sign alike.
fn places() -> (tempfile::TempDir, String) {
    let url = Postgres::shared().database();
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    std::fs::create_dir_all(&b).expect("a folder");
    drop(Server::start(folder.path(), "a", &url, "free"));
    std::fs::copy(a.join("signing.key"), b.join("signing.key")).expect("the key");
    (folder, url)
}

/// Sends a run to one server or the other until one has acknowledged it.
fn send(record: &RunRecord, servers: &[String], first: usize) {
    let body = serde_json::to_vec(record).expect("JSON");
    for turn in 0..600 {
        let server = &servers[(first + turn) % servers.len()];
        let url = format!("http://{server}/api/v1/runs");
        match ureq::post(url).send(&body) {
            Ok(reply) if reply.status() == 202 => return,
            // Killed, or not there any more.
            Ok(_) | Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    panic!("{} was never acknowledged", record.id);
}

fn variant_of(campaign: &CampaignSummary) -> VariantRef {
    variant(campaign.id.0, campaign.iteration, 0)
}

fn load() {
    let (folder, url) = places();
    let mut a = Server::start(folder.path(), "a", &url, "free");
    let b = Server::start(folder.path(), "b", &url, "free");
    let servers = [a.address.clone(), b.address.clone()];
    send(&untracked("first", crash(&[120, 210])), &servers, 0);
    b.wait_for("tracked", |c| c.state == CampaignState::Tracking);

    let acknowledged = Arc::new(AtomicU32::new(0));
    let agents: Vec<_> = (0..AGENTS)
        .map(|agent| {
            let (servers, acknowledged) = (servers.clone(), Arc::clone(&acknowledged));
            std::thread::spawn(move || {
                for number in 0..RUNS_EACH {
                    // Asked now and then, as agents do; of a server that may be dead.
                    let outcome = match number % 10 {
                        0 => crash(&[120, 210]),
                        _ => Outcome::Success,
                    };
                    let id = format!("{agent}-{number}");
                    let mut record = match number % 4 {
                        0 => untracked(&id, outcome),
                        _ => tracked(&id, FIRST_VARIANT, outcome),
                    };
                    record.agent = AgentId(format!("agent-{agent}"));
                    send(&record, &servers, (agent + number) as usize);
                    // Now and then an agent does not hear the answer and asks again.
                    if number % 7 == 0 {
                        send(&record, &servers, (agent + number + 1) as usize);
                    }
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let all = AGENTS * RUNS_EACH;
    while acknowledged.load(Ordering::SeqCst) < all / 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    a.kill();
    let at_death = acknowledged.load(Ordering::SeqCst);
    for agent in agents {
        agent.join().expect("an agent");
    }
    println!("killed one of two servers after {at_death} of {all} runs");
    assert!(at_death < all, "the kill came too late to mean anything");

    let expected = u64::from(all) + 1;
    let done = b.wait_for("complete", |c| c.runs == expected);
    let failures = u64::from(AGENTS) * u64::from(RUNS_EACH / 10) + 1;
    assert_eq!((done.runs, done.failures), (expected, failures));
    let counts = filed_runs(&url);
    assert_eq!(counts.rows, expected as i64, "each run is there once");
    assert_eq!(counts.pending, 0);
    // What the campaign says is what its runs say.
    assert_eq!(counts.live_failing, done.tracked_failing as i64);
    assert_eq!(counts.live_successful, done.tracked_successful as i64);
    let tracked = u64::from(AGENTS) * u64::from(RUNS_EACH - RUNS_EACH.div_ceil(4));
    assert_eq!(counts.tracked, tracked as i64);
}

/// The tracked build that agents run from the first to the last.
const FIRST_VARIANT: VariantRef = variant(1, 1, 0);

struct Filed {
    rows: i64,
    pending: i64,
    tracked: i64,
    live_failing: i64,
    live_successful: i64,
}

fn filed_runs(url: &str) -> Filed {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut connection = sqlx::PgConnection::connect(url).await.expect("PostgreSQL");
        let row = sqlx::query(
            "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE role IS NULL) AS pending,
                COUNT(*) FILTER (WHERE runs.campaign IS NOT NULL) AS tracked,
                COUNT(*) FILTER (WHERE role = 'failing' AND live) AS failing,
                COUNT(*) FILTER (WHERE role = 'successful' AND live) AS successful
             FROM (SELECT runs.*, runs.iteration = (state::json ->> 'iteration')::bigint AS live
                   FROM runs LEFT JOIN campaigns ON campaigns.id = runs.campaign) AS runs",
        )
        .fetch_one(&mut connection)
        .await
        .expect("the counts");
        Filed {
            rows: row.get("n"),
            pending: row.get("pending"),
            tracked: row.get("tracked"),
            live_failing: row.get("failing"),
            live_successful: row.get("successful"),
        }
    })
}

fn takeover() {
    let (folder, url) = places();
    let mut a = Server::start(folder.path(), "a", &url, "stuck");
    let servers = [a.address.clone()];
    send(&untracked("first", crash(&[120, 210])), &servers, 0);
    // The slice is stored before the build begins.
    a.wait_for("being built", |c| c.sketch_version == Some(1));
    let b = Server::start(folder.path(), "b", &url, "free");
    let other = runtime_claim(&url);
    assert_eq!(other, None, "the job is taken while its server lives");
    assert_eq!(b.campaigns()[0].state, CampaignState::Preparing);
    a.kill();
    let taken = b.wait_for("tracked", |c| c.state == CampaignState::Tracking);
    let record = tracked("second", variant_of(&taken), Outcome::Success);
    send(&record, std::slice::from_ref(&b.address), 0);
    b.wait_for("counted", |c| c.tracked_successful == 1);
}

/// What a third server would get to prepare.
fn runtime_claim(url: &str) -> Option<CampaignId> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let third = Storage::open_postgres(url, LEASE)
            .await
            .expect("PostgreSQL");
        let claimed = third.claim_job().await.expect("an answer");
        third.close().await.expect("its end");
        claimed
    })
}

fn keys() {
    let url = Postgres::shared().database();
    let folder = tempfile::tempdir().expect("a folder");
    let _a = Server::start(folder.path(), "a", &url, "free");
    let refused = command(folder.path(), "b", &url, "free")
        .output()
        .expect("a server starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(said.contains("copy `signing.key`"), "{said}");
}
