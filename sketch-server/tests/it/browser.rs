//! The server's pages in a real browser: they load without a complaint and ask
//! for nothing elsewhere, progress appears while a campaign runs, the buttons
//! work, and a page of another site cannot press them.

use crate::service_support::Server;
use crate::service_support::double::{self, Double};
use crate::service_support::records::{crash, tracked, untracked, variant};
use server_files::{Role, TokenFile};
use sketch_model::{AgentId, AssignmentsRequest, CampaignState, Capabilities, Outcome};
use std::collections::HashMap;
use test_support::browser::chromium::{Browser, Scheme};
use test_support::browser::site::{Served, Site};

const FAILING: [u32; 2] = [120, 110];

fn started(data: &std::path::Path) -> Server {
    let server = Server::start(data, Double::default());
    server.upload(&untracked("first", crash(&FAILING)));
    server
}

fn run(server: &Server, number: u64, iteration: u32) {
    let variant = variant(1, iteration, 0);
    let outcome = match number % 11 {
        0 => crash(&FAILING),
        _ => Outcome::Success,
    };
    server.upload(&tracked(&format!("run-{number}"), variant, outcome));
}

/// Runs until the campaign is over.
fn feed(server: &Server) {
    for number in 0..2_000 {
        let campaign = server.campaign(1);
        if campaign.state != CampaignState::Tracking {
            return;
        }
        run(server, number, campaign.iteration);
    }
    panic!("the campaign never ended");
}

/// The text of an element, and whether it is what is expected.
fn field(name: &str, value: &str) -> String {
    format!("document.querySelector('[data-field={name}]')?.textContent === '{value}'")
}

#[test]
fn every_page_loads_without_a_complaint_and_asks_for_nothing_elsewhere() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    feed(&server);
    let campaign = server.campaign(1);
    let seen = campaign.seen.expect("when it failed is noted");
    let by_day: u64 = seen.days.iter().map(|(_, n)| n).sum();
    assert_eq!(by_day, campaign.failures, "every failure, tracked or not");
    assert!(seen.first > 0 && seen.first <= seen.last);
    let request = AssignmentsRequest {
        agent: AgentId("<script>alert(1)</script>\u{202e}".into()),
        capabilities: Capabilities::watchpoints(),
        builds: vec![double::build()],
        seen: None,
        wait_s: 0,
    };
    server.post_json("/api/v1/assignments", &request);
    let mut browser = Browser::start();
    for (path, heading, name) in [
        ("/", "Failures", "failures"),
        ("/fleet", "Fleet", "fleet"),
        ("/builds", "Builds", "builds"),
        (
            "/campaigns/1",
            "SIGSEGV in consumer (pbzip2.c:120)",
            "sketch",
        ),
        (
            "/campaigns/1?version=1",
            "SIGSEGV in consumer (pbzip2.c:120)",
            "sketch-1",
        ),
        (
            "/campaigns/1?unfolded=true",
            "SIGSEGV in consumer (pbzip2.c:120)",
            "sketch-unfolded",
        ),
        (
            "/campaigns/1/progress",
            "SIGSEGV in consumer (pbzip2.c:120)",
            "progress",
        ),
        (
            "/campaigns/1/slice",
            "Slice of SIGSEGV in consumer (pbzip2.c:120)",
            "slice",
        ),
        (
            "/campaigns/1/runs",
            "Runs of SIGSEGV in consumer (pbzip2.c:120)",
            "runs",
        ),
        ("/campaigns/1/source", "/src/pbzip2.c", "source"),
    ] {
        browser.open(&server.url(path));
        browser.expect("document.querySelector('h1').innerText", heading);
        assert_eq!(browser.complaints(), [""; 0], "{path} complained");
        let origin = server.url("/");
        for asked in browser.requests() {
            assert!(asked.starts_with(&origin), "{path} asked for {asked}");
        }
        let overflow =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.eval(overflow), 0, "{path} scrolls sideways");
        browser.picture(&format!("server-{name}"));
    }
    browser.open(&server.url("/fleet"));
    let agents = browser.eval("document.querySelector('main').innerText");
    let agents = agents.as_str().unwrap();
    assert!(
        agents.contains("<script>alert(1)</script>\\u{202e}"),
        "{agents}"
    );
    assert!(agents.contains("hooks and watchpoints"), "{agents}");
    browser.open(&server.url("/campaigns/1/runs"));
    let rows =
        browser.eval("[...document.querySelectorAll('.runs tbody tr')].map(r => r.innerText)");
    let rows = rows.to_string();
    assert!(
        rows.contains("line 210;") && rows.contains("NULL"),
        "{rows}"
    );
    // In a narrow window and the dark, all of it must still fit.
    browser.window((390, 900), Scheme::Dark);
    for name in ["progress", "slice", "runs", "source"] {
        browser.open(&server.url(&format!("/campaigns/1/{name}")));
        let overflow =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.eval(overflow), 0, "{name} scrolls sideways");
        browser.picture(&format!("server-{name}-narrow"));
    }
    drop(browser);
    server.stop();
}

#[test]
fn progress_appears_while_the_campaign_runs() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let mut browser = Browser::start();
    browser.open(&server.url("/campaigns/1"));
    browser.eval("window.same = true");
    browser.wait_for(&field("tracked_successful", "0"));
    run(&server, 1, 1);
    browser.wait_for(&field("tracked_successful", "1"));
    run(&server, 2, 1);
    browser.wait_for(&field("tracked_successful", "2"));
    assert_eq!(
        browser.eval("window.same === true"),
        true,
        "without a reload"
    );
    // A failing run brings a newer sketch: the reader is told, not interrupted.
    let told = "!document.querySelector('[data-newer]').hidden";
    browser.expect(told, false);
    run(&server, 0, 1);
    browser.wait_for(told);
    assert_eq!(browser.eval("window.same === true"), true);
    browser.picture("server-live");
    for number in 3..2_000 {
        let campaign = server.campaign(1);
        if campaign.state != CampaignState::Tracking {
            break;
        }
        run(&server, number, campaign.iteration);
    }
    assert_eq!(server.campaign(1).state, CampaignState::Settled);
    // The end is worth a reload: the answer stands on top.
    browser.wait_for("document.querySelector('.eyebrow .state')?.textContent === 'settled'");
    assert_eq!(browser.complaints(), [""; 0]);
    server.stop();
}

#[test]
fn the_server_ends_although_a_page_follows_it() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let mut browser = Browser::start();
    browser.open(&server.url("/campaigns/1/progress"));
    run(&server, 1, 1);
    browser.wait_for(&field("tracked_successful", "1"));
    server.stop();
}

#[test]
fn the_buttons_stop_resume_widen_and_declare() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let mut browser = Browser::start();
    let mut press = |verb: &str, state: &str| {
        browser.open(&server.url("/campaigns/1"));
        browser.eval(&format!(
            "document.querySelector('form[action=\"/campaigns/1/{verb}\"] button').click()"
        ));
        browser.wait_for(
            "location.pathname === '/campaigns/1/progress' && document.readyState === 'complete'",
        );
        server.quiet();
        browser.wait_for(&field("state", state));
        assert_eq!(browser.complaints(), [""; 0], "{verb}");
    };
    press("stop", "stopped");
    assert_eq!(server.campaign(1).state, CampaignState::Stopped);
    press("resume", "tracking");
    run(&server, 1, 1);
    assert_eq!(server.campaign(1).tracked_successful, 1, "it counts again");
    press("widen", "tracking");
    let campaign = server.campaign(1);
    assert_eq!((campaign.sigma, campaign.iteration), (4, 2));
    assert_eq!(campaign.tracked_successful, 0, "runs are never pooled");
    press("declare", "settled");
    let campaign = server.campaign(1);
    assert_eq!(
        (campaign.state, campaign.declared),
        (CampaignState::Settled, true)
    );
    press("resume", "tracking");
    assert!(!server.campaign(1).declared);
    // What cannot be done is refused in words.
    let refused = server.post("/api/v1/campaigns/1/resume", b"");
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (409, "this campaign is running already")
    );
    for number in 2..=3 {
        server.post("/api/v1/campaigns/1/widen", b"");
        server.quiet();
        assert!(server.campaign(1).iteration <= number + 1);
    }
    let refused = server.post("/api/v1/campaigns/1/widen", b"");
    assert_eq!(refused.status, 409);
    assert!(
        refused.error().contains("whole slice"),
        "{}",
        refused.error()
    );
    assert_eq!(server.post("/api/v1/campaigns/1/dance", b"").status, 404);
    drop(browser);
    server.stop();
}

#[test]
fn a_page_of_another_site_cannot_press_them() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let (listener, origin) = Site::listen();
    let form = format!(
        "<!doctype html><form method=post action='{}'></form><script>document.forms[0].submit()</script>",
        server.url("/campaigns/1/stop")
    );
    let api = form.replace("/campaigns/1/stop", "/api/v1/campaigns/1/stop");
    let pages = HashMap::from([
        ("/form", Served::html(form, None)),
        ("/api", Served::html(api, None)),
    ]);
    let other = Site::serve(listener, origin, pages);
    let mut browser = Browser::start();
    for page in ["/form", "/api"] {
        // It leads elsewhere by itself, perhaps before it has loaded.
        browser.leave_for(&format!("{}{page}", other.origin));
        browser.wait_for("document.body?.innerText.includes('a page of another site')");
        assert_eq!(server.campaign(1).state, CampaignState::Tracking, "{page}");
    }
    drop(browser);
    server.stop();
}

#[test]
fn sketches_are_exported_as_files_in_which_nothing_acts() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    feed(&server);
    for (format, kind, begins) in [
        ("html", "text/html; charset=utf-8", "<!DOCTYPE html>"),
        ("svg", "image/svg+xml", "<?xml"),
        ("text", "text/plain; charset=utf-8", "✗ SIGSEGV"),
        ("ansi", "text/plain; charset=utf-8", "\u{1b}[1;31m"),
        ("markdown", "text/markdown; charset=utf-8", "## SIGSEGV"),
        ("json", "application/json", "{"),
        (
            "callgrind",
            "text/plain; charset=utf-8",
            "# callgrind format",
        ),
    ] {
        let reply = server.get(&format!("/campaigns/1/export/{format}"));
        assert_eq!(reply.status, 200, "{format}");
        assert_eq!(reply.header("content-type"), Some(kind));
        assert!(
            reply.text().starts_with(begins),
            "{format}: {}",
            reply.text()
        );
        let sent = reply.header("content-disposition").unwrap_or_default();
        assert!(
            sent.starts_with("attachment; filename=\"failsketch-1-"),
            "{sent}"
        );
        let policy = reply.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("sandbox"),
            "{policy}"
        );
    }
    let page = server.get("/campaigns/1/export/html").text();
    assert!(
        !page.contains("<script") && !page.contains("href=\"/"),
        "it stands alone"
    );
    assert_eq!(server.get("/campaigns/1/export/pdf").status, 404);
    server.stop();
}

#[test]
fn a_reader_logs_in_reads_and_steers_until_the_token_is_revoked() {
    let data = tempfile::tempdir().unwrap();
    let server = started(data.path());
    let book = TokenFile::at(&data.path().join("tokens.json"));
    let token = book.add("dora", Role::Developer, false, 0).unwrap().text();
    let mut browser = Browser::start();
    browser.open(&server.url("/campaigns/1"));
    browser.expect("location.pathname", "/login");
    browser.expect("document.querySelector('h1').innerText", "Log in");
    browser.picture("server-login");
    let fill = |token: &str| {
        format!(
            "document.querySelector('#token').value = '{token}'; document.querySelector('form.login button').click()"
        )
    };
    browser.eval(&fill("fsk_wrong"));
    browser.wait_for("document.querySelector('#wrong')?.innerText.includes('not known here')");
    browser.picture("server-login-wrong");
    browser.eval(&fill(&token));
    // To the page that was asked for, and its live strip works with the cookie.
    browser.wait_for("location.pathname === '/campaigns/1' && document.readyState === 'complete'");
    assert_eq!(
        browser.eval("document.cookie"),
        "",
        "scripts cannot read it"
    );
    browser.eval("document.querySelector('form[action=\"/campaigns/1/pin\"] button').click()");
    browser.wait_for("location.pathname === '/campaigns/1/progress' && !!document.querySelector('form[action=\"/campaigns/1/unpin\"]')");
    // The browser notes the refused attempt, and nothing else.
    let complaints = browser.complaints();
    let refused = |said: &String| said.contains("/login") && said.contains("401");
    assert!(complaints.iter().all(refused), "{complaints:?}");
    browser.picture("server-pinned");
    book.revoke("dora").unwrap();
    browser.open(&server.url("/"));
    browser.expect("location.pathname", "/login");
    drop(browser);
    server.stop();
}
