//! A daemon that is killed again and again, at any moment, loses nothing.

use crate::common::{
    AGENT, FakeServer, Workshop,
    daemon::{Daemon, eventually, segments, silent_server},
};
use sketch_model::{RunId, RunRecord};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

const KILLS: u32 = 20;
const CLIENTS: usize = 3;
const MOST_RUNS: usize = 4000;

/// Some runs by the daemon's configuration; their records' ids. Whether daemon or
/// server or spool took it, no run may say that it is lost, or end otherwise.
fn runs(workshop: &Workshop, program: &Path, name: &str) -> Vec<RunId> {
    let file = workshop.path(name);
    let output = Command::new(AGENT)
        .args(["run", "--config"])
        .arg(workshop.path("agent.toml"))
        .arg("--store-record")
        .arg(&file)
        .args(["--repeat", "10", "--"])
        .arg(program)
        .arg("none")
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("lost"), "{said}");
    let lines = fs::read_to_string(&file).expect("records");
    let ids: Vec<RunId> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<RunRecord>(line)
                .expect("a record")
                .id
        })
        .collect();
    assert_eq!(ids.len(), 10);
    ids
}

/// Moments between nothing and a tenth of a second, the same in every run.
fn moments(seed: u64) -> impl Iterator<Item = Duration> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Duration::from_micros(state % 100_000)
    })
}

#[test]
fn what_was_handed_over_reaches_the_server_however_often_the_daemon_is_killed() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let server = FakeServer::start(None);
    // First nobody takes what the daemon has, so that it is killed over a full
    // spool and while it writes there; then it is killed while it sends.
    let silent = silent_server();
    let mut daemon = Daemon::start(&workshop, &silent, "", "");
    let done = AtomicBool::new(false);
    let mut kept: BTreeSet<RunId> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (workshop, program, done) = (&workshop, &program, &done);
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    while !done.load(Ordering::Relaxed) && ids.len() < MOST_RUNS {
                        let name = format!("record-{client}.json");
                        ids.extend(runs(workshop, program, &name));
                    }
                    ids
                })
            })
            .collect();
        for (kill, moment) in (0..KILLS).zip(moments(0x5eed)) {
            thread::sleep(moment);
            daemon.kill();
            let url = if kill < KILLS / 2 {
                &silent
            } else {
                &server.url
            };
            daemon = Daemon::launch(&workshop, url, "", "");
        }
        done.store(true, Ordering::Relaxed);
        let ids = clients.into_iter().map(|client| client.join());
        ids.flat_map(|ids| ids.expect("no run was disturbed"))
            .collect()
    });
    drop(daemon);
    let _daemon = Daemon::start(&workshop, &server.url, "", "");
    // These hand over what waits with its user.
    kept.extend(runs(&workshop, &program, "last.json"));
    assert!(kept.len() > 10, "{}", kept.len());
    let cache = workshop.path("daemon-cache");
    let missing = || -> BTreeSet<RunId> {
        let arrived: BTreeSet<RunId> = server
            .records()
            .into_iter()
            .map(|it: RunRecord| it.id)
            .collect();
        kept.difference(&arrived).cloned().collect()
    };
    assert!(
        eventually(|| missing().is_empty()),
        "{:?} of {}",
        missing(),
        kept.len()
    );
    for spool in ["spool", "handover"] {
        let emptied = eventually(|| segments(&cache.join(spool)) == 0);
        assert!(emptied, "{spool} can be read to its end");
    }
}
