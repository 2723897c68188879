//! Simulated agents: connections that send runs and wait for the answer.
//!
//! They speak just as much HTTP as the server needs, because on two cores every
//! microsecond of theirs is the server's.

use super::service_support::records::{tracked, variant};
use sketch_model::{Outcome, RunRecord};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant as Later, sleep_until};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The next run when the last is acknowledged.
    Fast,
    OneASecond,
}

impl Pace {
    pub fn words(self) -> &'static str {
        match self {
            Pace::Fast => "as fast as it goes",
            Pace::OneASecond => "1/s each",
        }
    }
}

pub struct Measured {
    pub accepted: u64,
    pub took: Duration,
    /// Milliseconds, sorted.
    latencies: Vec<f64>,
}

impl Measured {
    pub fn percentile(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        self.latencies.get(place).copied().unwrap_or(f64::NAN)
    }
}

const PLACEHOLDER: &str = "RUN-ID-HERE";

/// A successful run of the first tracked build with a few dozen recorded events.
fn record() -> RunRecord {
    let mut record = tracked(PLACEHOLDER, variant(1, 1, 0), Outcome::Success);
    for thread in &mut record.threads {
        let first = thread.head.clone();
        for turn in 1..16 {
            for event in &first {
                let mut event = *event;
                event.before.0 += turn * 10_000;
                event.after.0 += turn * 10_000;
                thread.head.push(event);
            }
        }
    }
    record.clock.end_tsc.0 = 1_000_000;
    record
}

/// Bytes of one report.
pub fn size() -> usize {
    serde_json::to_vec(&record()).expect("JSON").len()
}

/// Lets agents send for a while; `batch` names their runs.
pub fn load(server: &str, batch: u32, agents: u32, pace: Pace, time: Duration) -> Measured {
    let text = serde_json::to_string(&record()).expect("JSON");
    let (before, after) = text.split_once(PLACEHOLDER).expect("the id");
    let parts = Arc::new((before.to_owned(), after.to_owned()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let server = server.to_owned();
    runtime.block_on(async move {
        let mut connections = Vec::new();
        for _ in 0..agents {
            let stream = TcpStream::connect(&server).await.expect("a connection");
            stream.set_nodelay(true).expect("no delay");
            connections.push(stream);
        }
        let from = Instant::now();
        let sending: Vec<_> = (0u32..)
            .zip(connections)
            .map(|(agent, stream)| {
                let (parts, until) = (Arc::clone(&parts), from + time);
                tokio::spawn(async move {
                    let name = format!("{batch}-{agent}");
                    send(stream, &parts, &name, agent, agents, pace, until).await
                })
            })
            .collect();
        let mut latencies = Vec::new();
        for sent in sending {
            latencies.extend(sent.await.expect("an agent"));
        }
        let took = from.elapsed();
        latencies.sort_by(f64::total_cmp);
        Measured {
            accepted: latencies.len() as u64,
            took,
            latencies,
        }
    })
}

async fn send(
    mut stream: TcpStream,
    (before, after): &(String, String),
    name: &str,
    agent: u32,
    agents: u32,
    pace: Pace,
    until: Instant,
) -> Vec<f64> {
    let mut latencies = Vec::new();
    let mut answer = Vec::new();
    // Paced agents do not all begin at the same moment.
    let second = Duration::from_secs(1);
    let mut turn = Later::now() + second * agent / agents;
    for number in 0u64.. {
        if pace == Pace::OneASecond {
            sleep_until(turn).await;
            turn += second;
        }
        if Instant::now() >= until {
            break;
        }
        let id = format!("{name}-{number}");
        let length = before.len() + id.len() + after.len();
        let request = format!(
            "POST /api/v1/runs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{before}{id}{after}"
        );
        let from = Instant::now();
        stream.write_all(request.as_bytes()).await.expect("sent");
        read_answer(&mut stream, &mut answer).await;
        latencies.push(from.elapsed().as_secs_f64() * 1e3);
    }
    latencies
}

/// Reads one answer, which must be an acknowledgement.
async fn read_answer(stream: &mut TcpStream, answer: &mut Vec<u8>) {
    answer.clear();
    loop {
        let read = stream.read_buf(answer).await.expect("an answer");
        assert!(read > 0, "the server closed the connection");
        let text = String::from_utf8_lossy(answer);
        assert!(text.starts_with("HTTP/1.1 202"), "{text}");
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let ours = name.eq_ignore_ascii_case("content-length");
            ours.then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.expect("a length") {
            return;
        }
    }
}
