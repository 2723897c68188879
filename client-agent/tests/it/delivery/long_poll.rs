//! A daemon knows what to run before runs ask for it.

use crate::common::{
    self, AGENT, FakeServer, VARIANT, Workshop,
    daemon::{Daemon, eventually, silent_server},
    signed_patch,
};
use sketch_model::Assignments;
use std::{
    io::{Read, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

fn asked(server: &FakeServer, path: &str) -> usize {
    server.paths().iter().filter(|p| *p == path).count()
}

#[test]
fn a_new_plan_reaches_the_daemon_while_nothing_runs() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let patch = signed_patch(&base, &tracked);
    let server = FakeServer::start(None);
    let policy = "[policy]\ncanary = 1\n";
    let daemon = Daemon::start(&workshop, &server.url, &patch.public_key, policy);
    daemon.run(&base, &["kinds"]);
    assert!(eventually(|| server.held_back() == 1), "it waits for news");
    server.publish(patch);
    let fetched = || asked(&server, "GET /api/v1/patches/3/2") == 1;
    assert!(
        eventually(fetched),
        "the patch is fetched before it is needed"
    );
    assert!(eventually(|| server.held_back() == 1), "it waits again");
    let questions = asked(&server, "POST /api/v1/assignments");
    for _ in 0..5 {
        daemon.run(&base, &["kinds"]);
    }
    assert!(eventually(|| server.records().len() == 6));
    let variants: Vec<_> = server
        .records()
        .iter()
        .map(|r| r.execution.tracked())
        .collect();
    assert_eq!(variants[0], None);
    assert_eq!(variants[1..], [Some(VARIANT); 5]);
    // No run asked the server anything.
    assert_eq!(asked(&server, "GET /api/v1/patches/3/2"), 1);
    assert_eq!(asked(&server, "POST /api/v1/assignments"), questions);
}

/// As with a server itself, whether a daemon stands between or not.
#[test]
fn the_share_of_the_original_is_kept_by_the_agent() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let patch = signed_patch(&base, &tracked);
    let key = patch.public_key.clone();
    let server = FakeServer::start_sharing(Some(patch), 0.75);
    let runs = ["--repeat", "8", "--max-overhead", "0", "--canary", "1"];
    let program = base.to_str().expect("text");
    let of_records = |from: usize| {
        assert!(eventually(|| server.records().len() == from + 8));
        let records = server.records().into_iter().skip(from);
        records
            .filter(|record| record.execution.is_original())
            .count()
    };
    let mut alone = workshop.agent();
    alone.args(["--server", &server.url, "--key", &key]);
    let status = alone
        .args(&runs[..4])
        .args(["--", program, "kinds"])
        .status();
    assert!(status.expect("runs").success());
    assert!((1..=3).contains(&of_records(0)), "a quarter of eight runs");

    let daemon = Daemon::start(&workshop, &server.url, &key, "");
    let mut with_daemon = Command::new(AGENT);
    with_daemon.args(["run", "--config"]).arg(&daemon.config);
    let status = with_daemon
        .args(runs)
        .args(["--", program, "kinds"])
        .status();
    assert!(status.expect("runs").success());
    assert!((1..=3).contains(&of_records(8)), "a quarter of eight runs");
}

#[test]
fn a_daemon_answers_at_the_servers_routes_and_passes_refusals_on() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let patch = signed_patch(&base, &tracked);
    let key = patch.public_key.clone();
    let bytes = patch.bytes.clone();
    let server = FakeServer::start(Some(patch));
    let daemon = Daemon::start(&workshop, &server.url, &key, "");
    let ask = |question: &str, body: &str| {
        let mut stream = UnixStream::connect(workshop.path("agent.sock")).expect("listens");
        let length = body.len();
        let text = format!("{question} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).expect("is heard");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("is answered");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = answer.split_off(end.expect("has a head") + 4);
        let head = String::from_utf8(answer).expect("text");
        let status = head.split_ascii_whitespace().nth(1).expect("a status");
        (status.to_owned(), body)
    };
    let question = format!(
        r#"{{"agent":"a","tier":"inline","builds":["{}"]}}"#,
        common::build_id(&base)
    );
    let (status, answer) = ask("POST /api/v1/assignments", &question);
    let told: Assignments = serde_json::from_slice(&answer).expect("assignments");
    assert_eq!((&*status, told.programs[0].variant), ("200", Some(VARIANT)));
    assert_eq!(ask("GET /api/v1/patches/3/2", ""), ("200".into(), bytes));
    let (status, _) = ask("POST /api/v1/assignments", "{");
    assert_eq!(status, "400");
    let (status, _) = ask("GET /api/v1/campaigns", "");
    assert_eq!(status, "404");
    assert_eq!(ask("POST /api/v1/runs", "{}").0, "200");
    assert!(eventually(|| asked(&server, "POST /api/v1/runs") == 1));

    drop(daemon);
    let silent = silent_server();
    let _daemon = Daemon::start(&workshop, &silent, &key, "");
    let (status, why) = ask("GET /api/v1/patches/3/2", "");
    let why = String::from_utf8(why).expect("text");
    assert_eq!(status, "502");
    assert!(
        why.contains(&silent) && why.contains("cannot be reached"),
        "{why}"
    );
}

#[test]
fn a_server_that_never_answers_holds_up_one_run_and_not_all() {
    let workshop = Workshop::new();
    let program = workshop.compile("crash", "crash", &[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let questions = Arc::new(AtomicUsize::new(0));
    let counted = questions.clone();
    thread::spawn(move || {
        // Ends with the test; answers nobody.
        let mut kept = Vec::new();
        for connection in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            kept.push(connection);
        }
    });
    let mut daemon = Daemon::start(&workshop, &url, "", "[policy]\nreport_successes = 0\n");
    // Ten at once: one question is asked for all of them.
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| assert_eq!(daemon.run(&program, &["exit", "4"]), Some(4)));
        }
    });
    daemon.kill();
    assert_eq!(questions.load(Ordering::Relaxed), 1);
}
