//! Daemon, supervisors and server are killed at random moments under load: no
//! acknowledged record is lost, and no service is disturbed.
//!
//! Whether a record has reached the server is asked the way an agent would: it is
//! sent again, and the server, which takes each run once, does not count it.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use system_tests::command;
use tempfile::TempDir;

const KILLS: u32 = 36;
const CLIENTS: usize = 3;
const MOST_RUNS: u64 = 3000;

/// A service that says when it begins and when it ends, with two threads at work
/// in between; with "crash" it fails.
const SERVICE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static int *work(int *items, int count) {
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(&lock);
        total += items[i % 4];
        pthread_mutex_unlock(&lock);
    }
    return items;
}
static void *clerk(void *items) { return work(items, 400); }
static void say(const char *file, const char *what, const char *number) {
    FILE *out = fopen(file, "a");
    fprintf(out, "%s %s\n", what, number);
    fclose(out);
}
int main(int argc, char **argv) {
    static int items[4] = {1, 2, 3, 4};
    int *given = argc > 1 && !strcmp(argv[1], "crash") ? NULL : items;
    if (argc > 2) say(argv[2], "begin", argv[1]);
    pthread_t other;
    pthread_create(&other, NULL, clerk, items);
    work(given, 400);
    pthread_join(other, NULL);
    usleep(20000);
    if (argc > 2) say(argv[2], "end", argv[1]);
    return total == 2000 + VARIANT - VARIANT ? 0 : 1;
}
"#;

/// Everything that is killed and started again.
struct Fleet {
    folder: TempDir,
    port: u16,
    server: Mutex<Option<Child>>,
    daemon: Mutex<Option<Child>>,
    /// What each client is just running.
    runs: Vec<Mutex<Option<Child>>>,
}

fn ended(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.runs.iter().chain([&self.daemon, &self.server]) {
            ended(&mut child.lock().unwrap_or_else(|e| e.into_inner()));
        }
    }
}

fn eventually(mut done: impl FnMut() -> bool) -> bool {
    (0..2400).any(|_| {
        thread::sleep(Duration::from_millis(50));
        done()
    })
}

impl Fleet {
    fn new() -> Fleet {
        // Free a moment ago; the server needs the same one again and again.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        Fleet {
            folder: tempfile::tempdir().unwrap(),
            port: port.unwrap().port(),
            server: Mutex::new(None),
            daemon: Mutex::new(None),
            runs: (0..CLIENTS).map(|_| Mutex::new(None)).collect(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles and registers the service; the file to deploy.
    fn service(&self, name: &str, variant: u32) -> PathBuf {
        let source = self.path("service.c");
        fs::write(&source, SERVICE).unwrap();
        let (built, deployed) = (self.path(name), self.path(&format!("{name}.deployed")));
        let compiled = Command::new(command("failsketch"))
            .args([
                "cc",
                "-O1",
                "-pthread",
                &format!("-DVARIANT={variant}"),
                "-o",
            ])
            .args([&built, &source])
            .status();
        assert!(compiled.unwrap().success());
        let registered = Command::new(command("failsketch"))
            .arg("register")
            .arg(&built)
            .arg("--store")
            .arg(self.path("store"))
            .arg("--deploy")
            .arg(&deployed)
            .stdout(Stdio::null())
            .status();
        assert!(registered.unwrap().success());
        deployed
    }

    fn start_server(&self) {
        let log = fs::File::create(self.path("server.log")).unwrap();
        let child = Command::new(command("failsketch"))
            .args(["serve", "--listen", &format!("127.0.0.1:{}", self.port)])
            .arg("--data")
            .arg(self.path("data"))
            .arg("--store")
            .arg(self.path("store"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        *self.server.lock().unwrap() = Some(child.unwrap());
    }

    fn start_daemon(&self) {
        let log = fs::File::create(self.path("daemon.log")).unwrap();
        let child = Command::new(command("failsketch-agent"))
            .args(["daemon", "--config"])
            .arg(self.path("agent.toml"))
            .stderr(log)
            .spawn();
        *self.daemon.lock().unwrap() = Some(child.unwrap());
    }

    fn answers(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    /// One HTTP exchange: status and body.
    fn http(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let split = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..split]).into_owned();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
        (status.unwrap(), answer[split + 4..].to_vec())
    }

    fn campaigns(&self) -> Vec<Value> {
        let (status, body) = self.http("GET", "/api/v1/campaigns", b"");
        assert_eq!(status, 200);
        serde_json::from_slice(&body).unwrap()
    }

    /// Runs that the server has counted for a build.
    fn counted(&self, build: &Value) -> Option<u64> {
        let campaigns = self.campaigns();
        let of_build = campaigns.iter().find(|c| c["build"] == *build);
        of_build.and_then(|c| c["runs"].as_u64())
    }

    fn upload(&self, record: &Value) {
        let body = serde_json::to_vec(record).unwrap();
        let (status, answer) = self.http("POST", "/api/v1/runs", &body);
        let answer = String::from_utf8_lossy(&answer);
        assert!(matches!(status, 200 | 202), "{status} {answer}");
    }

    /// Returns when everything that arrived before is counted: runs are filed in
    /// the order of their arrival, and this one is the last.
    fn everything_is_counted(&self, other: &Value, name: &str) {
        let before = self.counted(&other["build"]).unwrap();
        let mut last = other.clone();
        last["id"] = name.into();
        self.upload(&last);
        assert!(eventually(
            || self.counted(&other["build"]).unwrap() > before
        ));
    }

    fn agent(&self, record: &str) -> Command {
        let mut agent = Command::new(command("failsketch-agent"));
        agent
            .args(["run", "--config"])
            .arg(self.path("agent.toml"))
            .arg("--store-record")
            .arg(self.path(record))
            .arg("--");
        agent
    }

    fn record(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.path(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// One run by a client: `None` if its supervisor was killed.
    fn run(&self, client: usize, service: &PathBuf, number: u64) -> Option<String> {
        let record = format!("record-{number}.json");
        let said = fs::File::create(self.path(&format!("said-{number}"))).unwrap();
        let child = self
            .agent(&record)
            .arg(service)
            .arg(number.to_string())
            .arg(self.path("services"))
            .stderr(said)
            .spawn()
            .unwrap();
        *self.runs[client].lock().unwrap() = Some(child);
        loop {
            let mut running = self.runs[client].lock().unwrap();
            let status = running.as_mut().map(|child| child.try_wait().unwrap());
            match status {
                // Killed, and waited for by who did it.
                None => return None,
                Some(Some(status)) => {
                    running.take();
                    let said = fs::read_to_string(self.path(&format!("said-{number}"))).unwrap();
                    assert_eq!(status.code(), Some(0), "{said}");
                    assert!(!said.contains("lost"), "{said}");
                    return Some(record);
                }
                Some(None) => {
                    drop(running);
                    thread::sleep(Duration::from_millis(3));
                }
            }
        }
    }

    /// Services that began and have not ended.
    fn unfinished(&self) -> BTreeSet<String> {
        let text = fs::read_to_string(self.path("services")).unwrap();
        let with = |what: &str| -> BTreeSet<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(what));
            lines.map(str::to_owned).collect()
        };
        with("begin ").difference(&with("end ")).cloned().collect()
    }
}

/// Pseudo-random numbers, the same in every test.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

#[test]
fn whatever_is_killed_no_acknowledged_record_is_lost_and_no_service_is_disturbed() {
    let fleet = Fleet::new();
    let service = fleet.service("service", 1);
    let other = fleet.service("other", 2);
    fleet.start_server();
    let key = fleet.path("data/signing.pub");
    assert!(eventually(|| fleet.answers() && key.exists()));
    let config = format!(
        "server = \"http://127.0.0.1:{}\"\nkey = {key:?}\nsocket = {:?}\ncache = {:?}\n\
         [policy]\ncanary = 1\n",
        fleet.port,
        fleet.path("agent.sock"),
        fleet.path("cache"),
    );
    fs::write(fleet.path("agent.toml"), config).unwrap();
    fleet.start_daemon();
    assert!(eventually(|| fleet.path("agent.sock").exists()));
    // Both fail once: from then on their runs are counted, and tracked builds of
    // the first are made while everything falls over.
    for (service, record) in [(&service, "first.json"), (&other, "other.json")] {
        fleet
            .agent(record)
            .arg(service)
            .arg("crash")
            .status()
            .unwrap();
    }
    assert!(eventually(|| fleet.campaigns().len() == 2));
    let (first, sentinel) = (fleet.record("first.json"), fleet.record("other.json"));

    let done = AtomicBool::new(false);
    let next = AtomicU64::new(0);
    let acknowledged: Vec<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (fleet, service, done, next) = (&fleet, &service, &done, &next);
                scope.spawn(move || {
                    let mut records = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= MOST_RUNS {
                            break;
                        }
                        records.extend(fleet.run(client, service, number));
                    }
                    records
                })
            })
            .collect();
        let mut dice = Dice(0x5eed);
        for _ in 0..KILLS {
            thread::sleep(Duration::from_millis(dice.roll(300)));
            match dice.roll(4) {
                0 => {
                    ended(&mut fleet.daemon.lock().unwrap());
                    thread::sleep(Duration::from_millis(dice.roll(100)));
                    fleet.start_daemon();
                }
                1 => {
                    ended(&mut fleet.server.lock().unwrap());
                    thread::sleep(Duration::from_millis(dice.roll(500)));
                    fleet.start_server();
                }
                _ => {
                    let client = dice.roll(CLIENTS as u64) as usize;
                    ended(&mut fleet.runs[client].lock().unwrap());
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        let records = clients.into_iter().map(|client| client.join());
        records
            .flat_map(|r| r.expect("no run was disturbed"))
            .collect()
    });

    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    let finished = eventually(|| fleet.unfinished().is_empty());
    assert!(
        finished,
        "services that never ended: {:?}",
        fleet.unfinished()
    );

    // Peace: everybody is there, and whatever waits on disk is sent.
    assert!(eventually(|| fleet.answers()));
    for number in MOST_RUNS + 1..MOST_RUNS + 4 {
        assert!(fleet.run(0, &service, number).is_some());
    }
    let waiting = |folder: &str| {
        let files = fs::read_dir(fleet.path("cache").join(folder));
        files.map_or(0, |files| files.count())
    };
    let sent = eventually(|| waiting("spool") == 0 && waiting("handover") == 0);
    assert!(
        sent,
        "{} wait, {} more",
        waiting("spool"),
        waiting("handover")
    );

    fleet.everything_is_counted(&sentinel, "sentinel-1");
    let before = fleet.counted(&first["build"]).unwrap();
    assert!(before as usize >= acknowledged.len());
    for record in &acknowledged {
        fleet.upload(&fleet.record(record));
    }
    fleet.everything_is_counted(&sentinel, "sentinel-2");
    let after = fleet.counted(&first["build"]).unwrap();
    assert_eq!(after, before, "of {} acknowledged", acknowledged.len());
}
