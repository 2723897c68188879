//! A daemon knows what to run before runs ask for it.

use crate::common::{
    FakeServer, VARIANT, Workshop,
    daemon::{Daemon, eventually},
    signed_patch,
};
use std::{
    net::TcpListener,
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
    assert_eq!(asked(&server, "POST /api/v1/assignment"), 0);
    assert_eq!(asked(&server, "GET /api/v1/patches/3/2"), 1);
    assert_eq!(asked(&server, "POST /api/v1/assignments"), questions);
}

#[test]
fn a_server_that_answers_for_single_runs_is_asked_that_way() {
    let workshop = Workshop::new();
    let (base, tracked) = workshop.compile_pair(&[]);
    let patch = signed_patch(&base, &tracked);
    let key = patch.public_key.clone();
    let server = FakeServer::start_single(Some(patch));
    let daemon = Daemon::start(&workshop, &server.url, &key, "[policy]\ncanary = 1\n");
    daemon.run(&base, &["kinds"]);
    assert!(eventually(|| server.records().len() == 1));
    assert_eq!(server.records()[0].execution.tracked(), Some(VARIANT));
    assert_eq!(asked(&server, "POST /api/v1/assignment"), 1);
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
