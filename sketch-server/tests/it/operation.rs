//! Running the server: counters, health, agents that ask about all their programs
//! and wait for news, who can read its files, and an orderly end.

use crate::service_support;
use crate::service_support::Server;
use crate::service_support::double::{self, Double};
use crate::service_support::records::{crash, tracked, untracked, variant};
use sketch_model::{
    AgentId, Assignments, AssignmentsRequest, BuildId, Capabilities, Outcome, VariantRef,
};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const VARIANT: VariantRef = variant(1, 1, 0);

fn question(seen: Option<String>, wait_s: u32) -> AssignmentsRequest {
    AssignmentsRequest {
        agent: AgentId("agent-1".into()),
        capabilities: Capabilities::hooks(),
        builds: vec![double::build(), BuildId("0000".into())],
        seen,
        wait_s,
    }
}

fn all(server: &Server, request: &AssignmentsRequest) -> Assignments {
    server.post_json("/api/v1/assignments", request).json()
}

#[test]
fn counters_tell_what_was_accepted_refused_and_is_going_on() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    server.upload(&untracked("first", crash(&[120])));
    server.upload(&tracked("second", VARIANT, Outcome::Success));
    server.upload(&tracked("second", VARIANT, Outcome::Success));
    server.post("/api/v1/runs", b"{");
    let page = server.get("/metrics");
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    let text = page.text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    for (name, value) in [
        (
            "failsketch_runs_accepted_total{outcome=\"failure\",build=\"original\"}",
            1,
        ),
        (
            "failsketch_runs_accepted_total{outcome=\"success\",build=\"tracked\"}",
            1,
        ),
        ("failsketch_runs_repeated_total", 1),
        ("failsketch_refusals_total{reason=\"malformed\"}", 1),
        (
            "failsketch_requests_total{route=\"/api/v1/runs\",method=\"POST\",status=\"202\"}",
            3,
        ),
        (
            "failsketch_requests_total{route=\"/api/v1/runs\",method=\"POST\",status=\"400\"}",
            1,
        ),
        ("failsketch_campaigns{state=\"tracking\"}", 1),
        ("failsketch_agents", 1),
        ("failsketch_upload_bytes", 0),
    ] {
        assert_eq!(
            service_support::counter(&text, name),
            value,
            "{name} in\n{text}"
        );
    }
    // What strangers ask for does not become a label.
    for path in ["/a", "/b", "/campaigns/77"] {
        server.get(path);
    }
    let text = server.get("/metrics").text();
    assert!(
        !text.contains("/campaigns/77") && !text.contains("\"/a\""),
        "{text}"
    );
    server.stop();
}

#[test]
fn an_agent_asks_once_and_gets_all_it_needs() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    let before = all(&server, &question(None, 0));
    assert_eq!(before.programs.len(), 2);
    assert_eq!(before.programs[0].variant, None);
    let problem = before.programs[1].problem.as_ref().unwrap();
    assert!(problem.contains("failsketch register"), "{problem}");

    server.upload(&untracked("first", crash(&[120])));
    let now = all(&server, &question(Some(before.tag.clone()), 50));
    assert_ne!(now.tag, before.tag);
    let program = &now.programs[0];
    assert_eq!(program.variant, Some(VARIANT));
    assert_eq!((program.tracked_share, program.canary_share), (0.875, 0.25));
    let patch = program.patch.unwrap();
    let bytes = server.get("/api/v1/patches/1/1").body;
    assert_eq!(patch.bytes, bytes.len() as u64);
    let key = code_patch::PublicKey::from_text(&server.get("/api/v1/key").text()).unwrap();
    let opened = code_patch::open(&bytes, &key, 0).unwrap();
    assert_eq!(
        (patch.version, patch.expires),
        (opened.manifest().version, opened.manifest().expires)
    );
    // The same question has the same answer.
    assert_eq!(all(&server, &question(None, 0)), now);

    server.post("/api/v1/campaigns/1/stop", b"");
    let after = all(&server, &question(Some(now.tag), 50));
    assert!(after.programs[0].finished);
    assert_eq!(after.programs[0].variant, None);
    server.stop();
}

#[test]
fn a_waiting_agent_hears_of_a_change_and_of_the_end() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    let before = all(&server, &question(None, 0));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| all(&server, &question(Some(before.tag.clone()), 50)));
        server.upload(&untracked("first", crash(&[120])));
        let heard = waiting.join().unwrap();
        assert_eq!(heard.programs[0].variant, Some(VARIANT));
    });
    // One that waits when the server ends gets its answer then.
    let known = all(&server, &question(None, 0));
    let body = serde_json::to_vec(&question(Some(known.tag.clone()), 50)).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = format!(
        "POST /api/v1/assignments HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    let asked =
        "failsketch_requests_total{route=\"/api/v1/assignments\",method=\"POST\",status=\"200\"}";
    let answered = server.counter(asked);
    while server.counter("failsketch_connections") < 2 {
        std::thread::yield_now();
    }
    assert_eq!(server.counter(asked), answered);
    server.stop();
    let heard = service_support::until_closed(stream);
    assert!(heard.contains(&known.tag), "{heard}");
}

#[test]
fn a_server_that_ends_finishes_what_it_has_begun_and_closes_its_streams() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    server.upload(&untracked("first", crash(&[120])));
    // A page that follows the campaign.
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .write_all(b"GET /api/v1/campaigns/1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut events = BufReader::new(stream);
    let mut line = String::new();
    while !line.starts_with("data:") {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "no event came");
    }
    // An upload of which half is there.
    let record = serde_json::to_vec(&untracked("last", Outcome::Success)).unwrap();
    let mut upload = TcpStream::connect(server.address()).unwrap();
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        record.len()
    );
    upload.write_all(head.as_bytes()).unwrap();
    upload.write_all(&record[..record.len() / 2]).unwrap();
    while server.counter("failsketch_upload_bytes") == 0 {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| server.stop());
        // The stream's end is the sign that the server is ending.
        let mut rest = String::new();
        let _ = std::io::Read::read_to_string(&mut events, &mut rest);
        upload.write_all(&record[record.len() / 2..]).unwrap();
        let heard = service_support::until_closed(upload);
        assert!(heard.starts_with("HTTP/1.1 202"), "{heard}");
        stopping.join().unwrap();
    });
    let again = Server::start(data.path(), Double::default());
    again.quiet();
    assert_eq!(again.campaign(1).runs, 2, "what was acknowledged is there");
    again.stop();
}

/// The modes of a folder and of all in it.
fn modes(folder: &Path) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        let name = path.strip_prefix(folder).unwrap().display().to_string();
        found.insert(name, metadata.permissions().mode() & 0o777);
    }
    found
}

/// Those that anybody but the owner can use.
fn open_to_others(folder: &Path) -> Vec<(String, u32)> {
    let all = modes(folder).into_iter();
    all.filter(|(_, mode)| mode & 0o077 != 0).collect()
}

#[test]
fn nobody_else_can_read_what_the_server_keeps() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    server.upload(&untracked("first", crash(&[120])));
    let found = modes(data.path());
    for name in [
        "failsketch.sqlite",
        "failsketch.sqlite-wal",
        "failsketch.sqlite-shm",
        "blobs",
        "lock",
        "signing.key",
        "signing.pub",
    ] {
        assert!(found.contains_key(name), "{name} in {found:?}");
    }
    let blobs = found.keys().filter(|name| name.starts_with("blobs/"));
    assert!(
        blobs.count() >= 2,
        "a tracked build and its patch: {found:?}"
    );
    assert_eq!(open_to_others(data.path()), []);
    server.stop();
}

#[test]
fn an_older_data_folder_is_closed_to_others_and_what_is_not_the_servers_is_left() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    server.upload(&untracked("first", crash(&[120])));
    server.stop();
    for (name, _) in modes(data.path()) {
        let path = data.path().join(&name);
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        if name != "signing.key" {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }
    let theirs = data.path().join("notes.txt");
    fs::write(&theirs, "mine").unwrap();
    fs::set_permissions(&theirs, Permissions::from_mode(0o644)).unwrap();
    let server = Server::start(data.path(), Double::default());
    assert_eq!(
        open_to_others(data.path()),
        [("notes.txt".to_owned(), 0o644)]
    );
    assert_eq!(server.campaign(1).failures, 1);
    server.stop();
}

#[test]
fn closing_the_folder_does_not_hide_that_the_key_was_open() {
    let data = tempfile::tempdir().unwrap();
    Server::start(data.path(), Double::default()).stop();
    let key = data.path().join("signing.key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    for _ in 0..2 {
        let refusal = Server::refusal(data.path());
        assert!(refusal.contains("may be read by others"), "{refusal}");
    }
}
