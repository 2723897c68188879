//! Who may do what, over real HTTP: roles, revocation, the login page, and what a
//! server without tokens still refuses.

use crate::service_support;
use crate::service_support::double::{self, Double};
use crate::service_support::records::{crash, untracked};
use crate::service_support::{Reply, Server, config};
use server_files::{Role, TokenFile};
use sketch_model::{AgentId, AssignmentsRequest, Capabilities};
use std::path::Path;

struct Tokens {
    book: TokenFile,
    agent: String,
    fleet: String,
    developer: String,
    admin: String,
}

fn tokens(data: &Path) -> Tokens {
    let book = TokenFile::at(&data.join("tokens.json"));
    let make = |name, role, fleet| book.add(name, role, fleet, 0).unwrap().text();
    Tokens {
        agent: make("agent-1", Role::Agent, false),
        fleet: make("all-agents", Role::Agent, true),
        developer: make("dora", Role::Developer, false),
        admin: make("ada", Role::Admin, false),
        book,
    }
}

fn record(agent: &str) -> Vec<u8> {
    let mut record = untracked(&format!("run of {agent}"), crash(&[120]));
    record.agent = AgentId(agent.into());
    serde_json::to_vec(&record).unwrap()
}

fn question() -> Vec<u8> {
    let request = AssignmentsRequest {
        agent: AgentId("agent-1".into()),
        capabilities: Capabilities::hooks(),
        builds: vec![double::build()],
        seen: None,
        wait_s: 0,
    };
    serde_json::to_vec(&request).unwrap()
}

#[test]
fn every_role_does_its_own_and_no_more() {
    let data = tempfile::tempdir().unwrap();
    let tokens = tokens(data.path());
    let server = Server::start(data.path(), Double::default());
    let upload = record("agent-1");
    assert_eq!(
        server
            .post_as(&tokens.agent, "/api/v1/runs", &upload)
            .status,
        202
    );
    server.quiet();
    type Request<'a> = &'a dyn Fn(&str) -> Reply;
    let report: Request = &|token| server.post_as(token, "/api/v1/runs", &upload);
    let ask: Request = &|token| server.post_as(token, "/api/v1/assignments", &question());
    let patch: Request = &|token| server.get_as(token, "/api/v1/patches/1/1");
    let read: Request = &|token| server.get_as(token, "/api/v1/campaigns");
    let sketch: Request = &|token| server.get_as(token, "/campaigns/1");
    let steer: Request = &|token| server.post_as(token, "/api/v1/campaigns/1/pin", b"");
    let count: Request = &|token| server.get_as(token, "/metrics");
    let list: Request = &|token| server.get_as(token, "/api/v1/tokens");
    let health: Request = &|token| server.get_as(token, "/health/ready");
    for (what, request, agent, developer, admin) in [
        ("report a run", report, 202, 403, 202),
        ("ask what to run", ask, 200, 403, 200),
        ("fetch a patch", patch, 200, 403, 200),
        ("list failures", read, 403, 200, 200),
        ("read a sketch", sketch, 403, 200, 200),
        ("steer", steer, 403, 200, 409),
        ("read counters", count, 403, 200, 200),
        ("list tokens", list, 403, 403, 200),
        ("ask for health", health, 200, 200, 200),
    ] {
        assert_eq!(request(&tokens.agent).status, agent, "an agent may {what}?");
        assert_eq!(
            request(&tokens.developer).status,
            developer,
            "a developer may {what}?"
        );
        assert_eq!(request(&tokens.admin).status, admin, "an admin may {what}?");
        let stranger = request("fsk_0123456789abcdef_00").status;
        let expected = if what == "ask for health" { 200 } else { 401 };
        assert_eq!(stranger, expected, "a stranger may {what}?");
    }
    let refusal = read(&tokens.agent);
    assert_eq!(
        refusal.error(),
        "the token `agent-1` has role agent; this needs role developer"
    );
    server.stop();
}

#[test]
fn without_a_token_a_request_is_told_how_to_send_one() {
    let data = tempfile::tempdir().unwrap();
    let tokens = tokens(data.path());
    let server = Server::start(data.path(), Double::default());
    let refused = server.get("/api/v1/campaigns");
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert!(
        refused.error().contains("Authorization: Bearer"),
        "{}",
        refused.error()
    );
    // The right public half with a wrong secret half is nobody's token.
    let mut forged = tokens.admin.clone();
    let last = if forged.ends_with('0') { "1" } else { "0" };
    forged.replace_range(forged.len() - 1.., last);
    assert_eq!(server.get_as(&forged, "/api/v1/campaigns").status, 401);
    let text = server.get_as(&tokens.admin, "/metrics").text();
    for (reason, count) in [("no_token", 1), ("unknown_token", 1)] {
        let name = format!("failsketch_refusals_total{{reason=\"{reason}\"}}");
        assert_eq!(service_support::counter(&text, &name), count, "{reason}");
    }
    server.stop();
}

#[test]
fn an_agents_token_speaks_for_that_agent_alone() {
    let data = tempfile::tempdir().unwrap();
    let tokens = tokens(data.path());
    let server = Server::start(data.path(), Double::default());
    let refused = server.post_as(&tokens.agent, "/api/v1/runs", &record("agent-2"));
    assert_eq!(refused.status, 403);
    assert!(
        refused.error().contains("`agent-1` alone"),
        "{}",
        refused.error()
    );
    assert_eq!(
        server
            .post_as(&tokens.fleet, "/api/v1/runs", &record("agent-2"))
            .status,
        202
    );
    server.stop();
}

#[test]
fn a_revoked_token_is_worth_nothing_from_the_next_request_on() {
    let data = tempfile::tempdir().unwrap();
    let tokens = tokens(data.path());
    let server = Server::start(data.path(), Double::default());
    let read = |token: &str| server.get_as(token, "/api/v1/campaigns").status;
    assert_eq!(read(&tokens.developer), 200);
    tokens.book.revoke("dora").unwrap();
    assert_eq!(read(&tokens.developer), 401);
    // With the last of them gone the server is closed, not open.
    for name in ["agent-1", "all-agents", "ada"] {
        tokens.book.revoke(name).unwrap();
    }
    assert_eq!(server.get("/api/v1/campaigns").status, 401);
    assert_eq!(read(&tokens.admin), 401);
    server.stop();
}

#[test]
fn an_admin_lists_and_revokes_over_http() {
    let data = tempfile::tempdir().unwrap();
    let tokens = tokens(data.path());
    let server = Server::start(data.path(), Double::default());
    let listed = server.get_as(&tokens.admin, "/api/v1/tokens");
    let listed: serde_json::Value = listed.json();
    assert_eq!(listed.as_array().unwrap().len(), 4);
    assert_eq!(listed[0]["name"], "agent-1");
    assert_eq!(listed[0].get("hash"), None, "hashes stay here");
    let client = ureq::Agent::new_with_defaults();
    let gone = client
        .delete(server.url("/api/v1/tokens/dora"))
        .header("authorization", format!("Bearer {}", tokens.admin))
        .call()
        .unwrap();
    assert_eq!(gone.status(), 204);
    assert_eq!(
        server.get_as(&tokens.developer, "/api/v1/campaigns").status,
        401
    );
    server.stop();
}

#[test]
fn a_token_file_that_cannot_be_read_lets_nobody_in() {
    let data = tempfile::tempdir().unwrap();
    let tokens = tokens(data.path());
    let server = Server::start(data.path(), Double::default());
    std::fs::write(data.path().join("tokens.json"), "{").unwrap();
    assert_eq!(
        server.get_as(&tokens.admin, "/api/v1/campaigns").status,
        503
    );
    assert_eq!(server.get("/api/v1/campaigns").status, 503);
    server.stop();
    let refusal = Server::refusal(data.path());
    assert!(refusal.contains("is damaged"), "{refusal}");
}

#[test]
fn a_server_that_others_can_reach_needs_tokens_and_tls() {
    let data = tempfile::tempdir().unwrap();
    // Never bound: each refusal comes first.
    let mut reachable = config(data.path());
    reachable.listen = "0.0.0.0:0".parse().unwrap();
    let refusal = Server::refused(reachable.clone());
    assert!(
        refusal.contains("failsketch token add --role admin"),
        "{refusal}"
    );
    let tokens = tokens(data.path());
    let refusal = Server::refused(reachable.clone());
    assert!(refusal.contains("--tls-cert"), "{refusal}");
    for name in ["agent-1", "all-agents", "dora", "ada"] {
        tokens.book.revoke(name).unwrap();
    }
    let refusal = Server::refused(reachable);
    assert!(refusal.contains("holds no token"), "{refusal}");
}

#[test]
fn an_open_server_answers_to_names_of_this_machine_only() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    let asked = |host: &str| {
        server.raw(
            format!("GET /api/v1/campaigns HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        )
    };
    assert!(asked("localhost:7420").starts_with("HTTP/1.1 200"));
    let rebound = asked("evil.example:7420");
    assert!(rebound.starts_with("HTTP/1.1 421"), "{rebound}");
    assert!(rebound.contains("failsketch token add"), "{rebound}");
    // With tokens any name will do: the token is what counts.
    let tokens = tokens(data.path());
    assert!(asked("evil.example").starts_with("HTTP/1.1 401"));
    assert_eq!(
        server.get_as(&tokens.admin, "/api/v1/campaigns").status,
        200
    );
    server.stop();
}

#[test]
fn a_browser_logs_in_and_other_sites_cannot_use_its_cookie() {
    let data = tempfile::tempdir().unwrap();
    let tokens = tokens(data.path());
    let server = Server::start(data.path(), Double::default());
    server.post_as(&tokens.agent, "/api/v1/runs", &record("agent-1"));
    server.quiet();
    let client: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .build()
        .into();
    let page = client
        .get(server.url("/campaigns/1?version=1"))
        .header("accept", "text/html")
        .call()
        .unwrap();
    assert_eq!(page.status(), 303);
    let location = page.headers()["location"].to_str().unwrap();
    assert_eq!(location, "/login?next=/campaigns/1%3Fversion%3D1");
    let log_in = |token: &str, site: &str| {
        client
            .post(server.url("/login"))
            .header("content-type", "application/x-www-form-urlencoded")
            .header("sec-fetch-site", site)
            .send(format!("token={token}&next=%2Fcampaigns%2F1"))
            .unwrap()
    };
    assert_eq!(log_in("fsk_no", "same-origin").status(), 401);
    assert_eq!(log_in(&tokens.agent, "same-origin").status(), 401);
    assert_eq!(log_in(&tokens.developer, "cross-site").status(), 403);
    let entered = log_in(&tokens.developer, "same-origin");
    assert_eq!(entered.status(), 303);
    assert_eq!(entered.headers()["location"], "/campaigns/1");
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let page = client
        .get(server.url("/campaigns/1"))
        .header("cookie", cookie)
        .call()
        .unwrap();
    assert_eq!(page.status(), 200);
    let steer = |site: &str| {
        client
            .post(server.url("/campaigns/1/stop"))
            .header("cookie", cookie)
            .header("sec-fetch-site", site)
            .send_empty()
            .unwrap()
    };
    assert_eq!(steer("cross-site").status(), 403);
    assert_eq!(steer("same-origin").status(), 303);
    // A cookie reports no runs, whoever's it is.
    let admins = log_in(&tokens.admin, "same-origin");
    let admins = admins.headers()["set-cookie"].to_str().unwrap().to_owned();
    let report = client
        .post(server.url("/api/v1/runs"))
        .header("cookie", admins.split(';').next().unwrap())
        .send(record("agent-1"))
        .unwrap();
    assert_eq!(report.status(), 401);
    server.stop();
}

#[test]
fn a_request_that_names_two_hosts_is_refused_before_either_is_believed() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), Double::default());
    let ask = |hosts: &str| {
        server.raw(format!("GET / HTTP/1.1\r\n{hosts}connection: close\r\n\r\n").as_bytes())
    };
    assert!(ask("host: 127.0.0.1\r\n").starts_with("HTTP/1.1 200"));
    for hosts in [
        "host: 127.0.0.1\r\nhost: evil.example\r\n",
        "Host: evil.example\r\nHost: 127.0.0.1\r\n",
        "host: 127.0.0.1\r\nx: y\r\nHOST: 127.0.0.1\r\n",
    ] {
        let answer = ask(hosts);
        assert!(answer.starts_with("HTTP/1.1 400"), "{hosts}{answer}");
        assert!(answer.contains("several Host headers"), "{answer}");
    }
    // With tokens, too: what stands in front of a server may believe the other one.
    tokens(data.path());
    let answer = ask("host: a.example\r\nhost: b.example\r\n");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    server.stop();
}
