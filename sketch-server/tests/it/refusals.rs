//! Bad input over real HTTP: a proper status and one clear sentence each, and
//! nothing of it counted.

use crate::service_support::Server;
use crate::service_support::double::Double;
use crate::service_support::records::{crash, tracked, untracked, variant};
use sketch_model::{BuildId, CampaignId, CampaignSummary, Execution, Outcome, RunId, Schema};
use std::io::{Read, Write};
use std::net::TcpStream;

fn server(data: &tempfile::TempDir) -> Server {
    Server::start(data.path(), Double::default())
}

fn nothing_happened(server: Server) {
    server.quiet();
    let all: Vec<CampaignSummary> = server.get("/api/v1/campaigns").json();
    assert_eq!(all, []);
    assert_eq!(server.get("/api/v1/health").text(), r#"{"ok":true}"#);
    server.stop();
}

#[test]
fn what_is_not_a_run_record_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let whole = serde_json::to_vec(&untracked("r", crash(&[120]))).unwrap();
    let bodies: [&[u8]; 6] = [
        b"",
        b"{",
        b"[]",
        b"{\"id\": 7}",
        b"\xff\xfe\x00",
        &whole[..whole.len() / 2],
    ];
    for body in bodies {
        let reply = server.post("/api/v1/runs", body);
        assert_eq!(reply.status, 400, "{body:?}");
        let said = reply.error();
        assert!(
            said.starts_with("the body is not a readable run record: "),
            "{said}"
        );
        let reply = server.post("/api/v1/assignment", body);
        assert_eq!(reply.status, 400, "{body:?}");
    }
    nothing_happened(server);
}

#[test]
fn a_deeply_nested_body_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let reply = server.post("/api/v1/runs", "[".repeat(1 << 20).as_bytes());
    assert_eq!(reply.status, 400);
    nothing_happened(server);
}

#[test]
fn another_format_version_is_refused_as_such() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let mut record = untracked("r", crash(&[120]));
    record.schema = Schema(7);
    let known_fields = server.post_json("/api/v1/runs", &record);
    let unknown_fields = server.post("/api/v1/runs", br#"{"schema": 7, "wholly": "new"}"#);
    for reply in [known_fields, unknown_fields] {
        assert_eq!(reply.status, 400);
        let said = reply.error();
        assert!(
            said.starts_with("this run record has format version 7"),
            "{said}"
        );
    }
    nothing_happened(server);
}

#[test]
fn an_unknown_build_is_refused_with_the_remedy() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let mut record = untracked("r", crash(&[120]));
    record.build = BuildId("../../etc/passwd".into());
    let reply = server.post_json("/api/v1/runs", &record);
    assert_eq!(reply.status, 404);
    assert!(
        reply.error().contains("failsketch register"),
        "{}",
        reply.error()
    );
    let request = serde_json::json!({ "agent": "a", "build": "00", "tier": "inline" });
    let reply = server.post_json("/api/v1/assignment", &request);
    assert_eq!(reply.status, 404);
    nothing_happened(server);
}

#[test]
fn an_unknown_tracked_build_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let variant = variant(u64::MAX, u32::MAX, 0);
    let reply = server.post_json("/api/v1/runs", &tracked("r", variant, Outcome::Success));
    assert_eq!(reply.status, 404, "{}", reply.text());
    let campaign = CampaignId(1);
    for (execution, named) in [
        (Execution::Local { patch: None }, "a patch made by hand"),
        (Execution::Traced { campaign }, "traced for campaign 1"),
    ] {
        let mut record = untracked("r", Outcome::Success);
        record.execution = execution;
        let reply = server.post_json("/api/v1/runs", &record);
        assert_eq!(reply.status, 404, "{}", reply.text());
        assert!(reply.error().contains(named), "{}", reply.error());
    }
    nothing_happened(server);
}

#[test]
fn ids_and_probabilities_out_of_range_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    for id in ["", &"x".repeat(201)] {
        let mut record = untracked("r", crash(&[120]));
        record.id = RunId(id.into());
        let reply = server.post_json("/api/v1/runs", &record);
        assert_eq!(reply.status, 400);
        assert!(reply.error().contains("run id"), "{}", reply.error());
    }
    for probability in [0.0, -1.0, 1.5] {
        let mut record = untracked("r", crash(&[120]));
        record.sampling_probability = probability;
        let reply = server.post_json("/api/v1/runs", &record);
        assert_eq!(reply.status, 422);
        assert!(reply.error().contains("sampling probability"));
    }
    nothing_happened(server);
}

#[test]
fn a_body_over_the_limit_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    // The server answers without reading it all, so the client may find the
    // connection closed before it has the answer: say how much it will be, and wait.
    let address = server.url("");
    let mut connection = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        (16 << 20) + 1
    );
    connection.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 4096];
    let got = connection.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..got]);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("16 MiB"), "{answer}");
    drop(connection);
    nothing_happened(server);
}

#[test]
fn what_does_not_exist_is_not_found() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    for path in [
        "/api/v1/campaigns/7",
        "/api/v1/campaigns/7/sketch",
        "/api/v1/campaigns/7/sketch?version=2",
        "/api/v1/campaigns/7/slice",
        "/campaigns/7",
        "/api/v1/patches/7/1",
        "/api/v1/nothing",
    ] {
        let reply = server.get(path);
        assert_eq!(reply.status, 404, "{path}");
        assert!(!reply.error().is_empty());
    }
    for path in [
        "/api/v1/campaigns/seven",
        "/api/v1/campaigns/-1/sketch",
        "/api/v1/campaigns/1/sketch?version=two",
        "/api/v1/patches/1/x",
        "/campaigns/x",
    ] {
        let reply = server.get(path);
        assert_eq!(reply.status, 400, "{path}");
        assert!(!reply.error().is_empty());
    }
    assert_eq!(server.post("/api/v1/campaigns/7/stop", b"").status, 404);
    nothing_happened(server);
}

#[test]
fn a_missing_sketch_version_names_those_there_are() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    server.upload(&untracked("r", crash(&[120])));
    let reply = server.get("/api/v1/campaigns/1/sketch?version=9");
    assert_eq!(reply.status, 404);
    assert_eq!(
        reply.error(),
        "campaign 1 has no sketch version 9; its versions are 1 to 1"
    );
    server.stop();
}

#[test]
fn pages_forbid_scripts_framing_and_sniffing() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    server.upload(&untracked("r", crash(&[120])));
    for path in ["/", "/campaigns/1", "/campaigns/1?version=1"] {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert!(page.text().contains("consumer"), "{path}");
    }
    server.stop();
}

#[test]
fn no_answer_is_taken_for_another_kind_than_it_says() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    server.upload(&untracked("r", crash(&[120])));
    for (path, status) in [
        ("/", 200),
        ("/login", 200),
        ("/assets/page.js", 200),
        ("/api/openapi.json", 200),
        ("/api/v1/campaigns", 200),
        ("/api/v1/campaigns/1/sketch", 200),
        ("/campaigns/1/export/json", 200),
        ("/health/live", 200),
        ("/metrics", 200),
        ("/nothing", 404),
        ("/api/v1/campaigns/7", 404),
        ("/api/v1/campaigns/seven", 400),
        ("/api/v1/runs", 405),
    ] {
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = server.raw(head.as_bytes());
        let line = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&line), "{path}: {answer}");
        let lines = answer.lines();
        let said = lines.filter(|l| l.eq_ignore_ascii_case("x-content-type-options: nosniff"));
        assert_eq!(said.count(), 1, "{path}: {answer}");
    }
    // Also where the gate itself refuses, and where a body is.
    let foreign = server.raw(b"GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
    assert!(foreign.starts_with("HTTP/1.1 421"), "{foreign}");
    assert!(foreign.contains("nosniff"), "{foreign}");
    for path in ["/api/v1/runs", "/api/v1/campaigns/7/stop"] {
        let refused = server.post(path, b"{");
        assert!(refused.status >= 400);
        let header = refused.header("x-content-type-options");
        assert_eq!(header, Some("nosniff"), "{path}");
    }
    server.stop();
}
