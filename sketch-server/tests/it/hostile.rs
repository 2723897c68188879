//! Agents that mean harm, against a real server: each attempt is refused with a
//! proper status, bounded, counted, and no campaign of anyone else notices.

use crate::service_support::double::Double;
use crate::service_support::records::{crash, tracked, untracked, variant};
use crate::service_support::{Server, config, until_closed};
use sketch_model::{Execution, Outcome, ProbeKind, SiteId, ThreadIndex, Tsc, VariantRef};
use sketch_server::ServerConfig;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

const FAILING: [u32; 2] = [120, 110];

const VARIANT: VariantRef = variant(1, 1, 0);

fn refused(server: &Server, reason: &str) -> u64 {
    server.counter(&format!("failsketch_refusals_total{{reason=\"{reason}\"}}"))
}

/// A server with a campaign that must not notice anything.
fn started(data: &tempfile::TempDir) -> Server {
    started_with(config(data.path()))
}

/// The same with so little patience that a test can wait for its end, and enough
/// for those who mean well on a busy machine.
fn impatient(data: &tempfile::TempDir) -> Server {
    let mut config = config(data.path());
    config.limits.head = Duration::from_secs(2);
    config.limits.body_grace = Duration::from_secs(2);
    started_with(config)
}

fn started_with(mut config: ServerConfig) -> Server {
    config.limits.body = 1 << 20;
    config.limits.bodies = 3 << 20;
    let server = Server::configured(config, Double::default());
    server.upload(&untracked("first", crash(&FAILING)));
    server
}

/// The campaign is as it was, and the server serves.
fn unharmed(server: Server) {
    server.quiet();
    let campaign = server.campaign(1);
    assert_eq!((campaign.runs, campaign.failures), (1, 1));
    assert_eq!(
        (campaign.tracked_failing, campaign.tracked_successful),
        (0, 0)
    );
    server.upload(&tracked("honest", VARIANT, Outcome::Success));
    assert_eq!(server.campaign(1).tracked_successful, 1);
    server.stop();
}

#[test]
fn contradictory_records_are_refused_and_counted() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&data);
    let good = tracked("odd", VARIANT, crash(&FAILING));
    let mut twice = good.clone();
    twice.threads[1].index = twice.threads[0].index;
    let mut backwards = good.clone();
    backwards.threads[0].head[0].after = Tsc(0);
    let mut strange = good.clone();
    strange.threads[0].head[0].site = SiteId(77);
    let mut unhooked = good.clone();
    unhooked.execution = Execution::Original;
    let mut unlikely = good.clone();
    unlikely.sampling_probability = -f64::MIN_POSITIVE;
    let cases = [
        (twice, "thread 0 is in the record twice"),
        (backwards, "ended before it began"),
        (strange, "site 77, which the tracked build does not have"),
        (unhooked, "of the original build, which has no hooks"),
        (unlikely, "sampling probability"),
    ];
    let count = cases.len() as u64;
    for (record, said) in cases {
        let reply = server.post_json("/api/v1/runs", &record);
        assert_eq!(reply.status, 422, "{}", reply.text());
        assert!(reply.error().contains(said), "{}", reply.error());
    }
    assert_eq!(refused(&server, "contradictory"), count);
    assert_eq!(good.threads[0].index, ThreadIndex(0));
    unharmed(server);
}

#[test]
fn a_string_is_not_taken_for_a_time() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&data);
    let mut told = tracked("told", VARIANT, Outcome::Success);
    let mut text = told.threads[0].head[0];
    (text.kind, text.size) = (ProbeKind::Text, 1);
    text.after = Tsc(u64::from(b'a'));
    assert!(text.after < text.before);
    told.threads[0].head.push(text);
    server.upload(&told);
    assert_eq!(server.campaign(1).tracked_successful, 1);
    server.stop();
}

#[test]
fn a_foreign_build_and_an_unknown_tracked_build_are_refused_and_counted() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&data);
    let mut foreign = untracked("foreign", crash(&FAILING));
    foreign.build.0 = "00ff".into();
    assert_eq!(server.post_json("/api/v1/runs", &foreign).status, 404);
    let mut unknown = VARIANT;
    unknown.iteration = 9;
    let unknown = tracked("unknown", unknown, Outcome::Success);
    assert_eq!(server.post_json("/api/v1/runs", &unknown).status, 404);
    assert_eq!(refused(&server, "unknown_build"), 1);
    assert_eq!(refused(&server, "unknown_variant"), 1);
    unharmed(server);
}

#[test]
fn a_replayed_record_counts_once_however_often_it_comes() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&data);
    let mut forged = untracked("first", Outcome::Success);
    forged.cpu_us = 1;
    for _ in 0..20 {
        assert_eq!(server.post_json("/api/v1/runs", &forged).status, 202);
    }
    assert_eq!(server.counter("failsketch_runs_repeated_total"), 20);
    unharmed(server);
}

#[test]
fn bodies_over_the_limit_are_refused_declared_or_not() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&data);
    let declared = server.raw(
        b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999\r\n\r\n",
    );
    assert!(declared.starts_with("HTTP/1.1 413"), "{declared}");
    let mut chunked =
        b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    for _ in 0..20 {
        chunked.extend_from_slice(b"20000\r\n");
        chunked.extend(std::iter::repeat_n(b' ', 0x20000));
        chunked.extend_from_slice(b"\r\n");
    }
    // Told or cut off; never taken in.
    let heard = server.raw(&chunked);
    assert!(
        heard.is_empty() || heard.starts_with("HTTP/1.1 413"),
        "{heard}"
    );
    assert_eq!(refused(&server, "too_large"), 2);
    unharmed(server);
}

#[test]
fn compressed_bodies_are_refused_before_they_are_read() {
    let data = tempfile::tempdir().unwrap();
    let server = started(&data);
    for encoding in ["gzip", "deflate", "br", "zstd", "gzip, gzip"] {
        let client: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let bomb = client
            .post(server.url("/api/v1/runs"))
            .header("content-encoding", encoding)
            .send(&[0x1f, 0x8b, 8, 0][..])
            .unwrap();
        assert_eq!(bomb.status(), 415, "{encoding}");
    }
    assert_eq!(refused(&server, "encoded"), 5);
    unharmed(server);
}

#[test]
fn who_never_finishes_a_head_is_let_go() {
    let data = tempfile::tempdir().unwrap();
    let server = impatient(&data);
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream
            .write_all(b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nx-a: ")
            .unwrap();
        streams.push(stream);
    }
    // While they wait, others are served.
    assert_eq!(server.get("/health/ready").status, 200);
    for stream in streams {
        let heard = until_closed(stream);
        assert!(heard.is_empty() || heard.contains(" 408 "), "{heard}");
    }
    assert!(server.counter("failsketch_connections_silent_total") >= 20);
    unharmed(server);
}

#[test]
fn who_sends_a_body_byte_by_byte_is_told_so_and_let_go() {
    let data = tempfile::tempdir().unwrap();
    let server = impatient(&data);
    let head = b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n";
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.write_all(head).unwrap();
    let trickle = slow.try_clone().unwrap();
    let trickling = std::thread::spawn(move || {
        let mut trickle = trickle;
        // Far faster than once in its patience: it is the rate that counts.
        for _ in 0..900 {
            if trickle.write_all(b" ").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let heard = until_closed(slow);
    assert!(
        heard.is_empty() || heard.starts_with("HTTP/1.1 408"),
        "{heard}"
    );
    trickling.join().unwrap();
    assert_eq!(refused(&server, "too_slow"), 1);
    unharmed(server);
}

#[test]
fn uploads_together_hold_no_more_memory_than_is_set_aside() {
    let data = tempfile::tempdir().unwrap();
    let mut config = config(data.path());
    config.limits.body = 1 << 20;
    config.limits.bodies = 2 << 20;
    let server = Server::configured(config, Double::default());
    server.upload(&untracked("first", crash(&FAILING)));
    let head = b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048576\r\n\r\n";
    let most = vec![b' '; (1 << 20) - 1];
    // Two that are nearly through hold what there is …
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(head).unwrap();
        stream.write_all(&most).unwrap();
        held.push(stream);
    }
    while server.counter("failsketch_upload_bytes") < 2 << 20 {
        std::thread::yield_now();
    }
    // … and the third is asked to come again, which costs nothing.
    let record = serde_json::to_vec(&untracked("third", Outcome::Success)).unwrap();
    let turned_away = server.post("/api/v1/runs", &record);
    assert_eq!(turned_away.status, 503, "{}", turned_away.text());
    assert_eq!(turned_away.header("retry-after"), Some("5"));
    drop(held);
    while server.counter("failsketch_upload_bytes") > 0 {
        std::thread::yield_now();
    }
    assert_eq!(server.post("/api/v1/runs", &record).status, 202);
    server.stop();
}

#[test]
fn one_address_cannot_take_all_connections() {
    let data = tempfile::tempdir().unwrap();
    let mut config = config(data.path());
    config.limits.connections = 8;
    let server = Server::configured(config, Double::default());
    // A quarter of eight; the test's own client is one of them.
    assert_eq!(server.get("/health/live").status, 200);
    let _idle = TcpStream::connect(server.address()).unwrap();
    while server.counter("failsketch_connections") < 2 {
        std::thread::yield_now();
    }
    let beyond = TcpStream::connect(server.address()).unwrap();
    assert_eq!(until_closed(beyond), "");
    assert_eq!(
        server.counter("failsketch_connections_turned_away_total"),
        1
    );
    server.stop();
}
