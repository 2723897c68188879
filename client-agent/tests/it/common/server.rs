//! A small server that assigns one tracked build and remembers what it is sent.

use super::{VARIANT, build_id};
use code_patch::{SecretKey, Terms};
use sketch_model::{AssignmentsRequest, RunRecord, VariantRef};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::Duration,
};

pub struct SignedPatch {
    pub bytes: Vec<u8>,
    pub public_key: String,
    variant: Option<VariantRef>,
}

pub fn signed_patch(base: &Path, tracked: &Path) -> SignedPatch {
    SignedPatch::on_terms(base, tracked, &new_key(), usual_terms(base))
}

pub fn new_key() -> SecretKey {
    SecretKey::generate().expect("a key")
}

pub fn usual_terms(base: &Path) -> Terms {
    Terms {
        build: build_id(base),
        variant: Some(VARIANT),
        version: 1,
        expires: u64::MAX,
        watches_nothing: false,
    }
}

impl SignedPatch {
    /// A patch to a build that is said to watch nothing, whatever it aims.
    pub fn that_watches_nothing(base: &Path, tracked: &Path) -> SignedPatch {
        let terms = Terms {
            watches_nothing: true,
            ..usual_terms(base)
        };
        SignedPatch::on_terms(base, tracked, &new_key(), terms)
    }

    pub fn on_terms(base: &Path, tracked: &Path, key: &SecretKey, terms: Terms) -> SignedPatch {
        let variant = terms.variant;
        let base = fs::read(base).expect("base");
        let tracked = fs::read(tracked).expect("tracked");
        SignedPatch {
            bytes: code_patch::make(&base, &tracked, terms, key).expect("a patch"),
            public_key: key.public_key_text().expect("a public key"),
            variant,
        }
    }
}

/// What the server is asked about, and what it knows.
#[derive(Default)]
struct State {
    patch: Option<Arc<SignedPatch>>,
    /// What was asked for, with the body, in order.
    received: Vec<(String, Vec<u8>)>,
    assignments: u64,
    finished_after: Option<u64>,
    /// The share of runs that it wants tracked; all, if it does not say.
    tracked_share: Option<f64>,
    /// Questions of daemons that are being held back.
    held_back: u64,
    closed: bool,
    /// What it says of its agents.
    agents: &'static str,
}

/// Assigns its patch, if it has one, and keeps what is sent to it.
pub struct FakeServer {
    pub url: String,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl FakeServer {
    pub fn start(patch: Option<SignedPatch>) -> FakeServer {
        FakeServer::start_with(State {
            patch: patch.map(Arc::new),
            ..State::default()
        })
    }

    /// Says "finished" from the given assignment on.
    pub fn start_finishing_after(patch: Option<SignedPatch>, assignments: u64) -> FakeServer {
        FakeServer::start_with(State {
            patch: patch.map(Arc::new),
            finished_after: Some(assignments),
            ..State::default()
        })
    }

    /// One that wants a share of the runs to stay with the original.
    pub fn start_sharing(patch: Option<SignedPatch>, tracked_share: f64) -> FakeServer {
        FakeServer::start_with(State {
            patch: patch.map(Arc::new),
            tracked_share: Some(tracked_share),
            ..State::default()
        })
    }

    /// One that tells of other agents.
    pub fn start_with_agents(agents: &'static str) -> FakeServer {
        FakeServer::start_with(State {
            agents,
            ..State::default()
        })
    }

    fn start_with(state: State) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let served = shared.clone();
        // Ends with the test's process.
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let served = served.clone();
                thread::spawn(move || serve(connection, &served));
            }
        });
        FakeServer { url, shared }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().expect("no panic")
    }

    /// From now on this is to be run; whoever waits is told.
    pub fn publish(&self, patch: SignedPatch) {
        self.state().patch = Some(Arc::new(patch));
        self.shared.1.notify_all();
    }

    /// Daemons that wait for something new.
    pub fn held_back(&self) -> u64 {
        self.state().held_back
    }

    pub fn key(&self) -> String {
        let state = self.state();
        state
            .patch
            .as_ref()
            .expect("has a patch")
            .public_key
            .clone()
    }

    pub fn paths(&self) -> Vec<String> {
        let state = self.state();
        state
            .received
            .iter()
            .map(|(path, _)| path.clone())
            .collect()
    }

    pub fn body(&self, path: &str) -> Vec<u8> {
        let state = self.state();
        let found = state.received.iter().find(|(p, _)| p == path);
        found.expect("was asked").1.clone()
    }

    pub fn records(&self) -> Vec<RunRecord> {
        let state = self.state();
        let runs = state.received.iter();
        runs.filter(|(path, _)| path == "POST /api/v1/runs")
            .map(|(_, body)| serde_json::from_slice(body).expect("a run record"))
            .collect()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        if let Ok(mut state) = self.shared.0.lock() {
            state.closed = true;
        }
        self.shared.1.notify_all();
    }
}

/// The first line and the body; `None` from one that has gone.
fn receive(connection: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(connection);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader
            .read_line(&mut header)
            .ok()
            .filter(|read| *read > 0)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    // Who was killed while sending has sent nothing.
    reader.read_exact(&mut body).ok()?;
    Some((first, body))
}

fn serve(mut connection: TcpStream, shared: &(Mutex<State>, Condvar)) {
    let Some((first, body)) = receive(&connection) else {
        return;
    };
    let path = first.rsplit_once(' ').map_or("", |(path, _)| path);
    let mut state = shared.0.lock().expect("no panic");
    state.received.push((path.to_string(), body.clone()));
    let answer = match path {
        "POST /api/v1/assignments" => {
            state.assignments += 1;
            let asked: AssignmentsRequest = serde_json::from_slice(&body).expect("a request");
            let longest = Duration::from_secs(asked.wait_s.into());
            state.held_back += 1;
            (state, _) = shared
                .1
                .wait_timeout_while(state, longest, |state| {
                    asked.seen == Some(tag(state)) && !state.closed
                })
                .expect("no panic");
            state.held_back -= 1;
            let programs = asked.builds.iter().map(|build| {
                let (rest, share) = (assignment(&state), state.tracked_share.unwrap_or(1.0));
                format!(
                    r#"{{"build":"{build}","tracked_share":{share},"canary_share":1.0,{rest}}}"#
                )
            });
            let programs = programs.collect::<Vec<_>>().join(",");
            let tag = tag(&state);
            format!(r#"{{"schema":1,"tag":"{tag}","programs":[{programs}]}}"#).into_bytes()
        }
        path if path.starts_with("GET /api/v1/patches/") => match &state.patch {
            Some(patch) => patch.bytes.clone(),
            None => panic!("the agent asked for a patch that was not assigned"),
        },
        "GET /api/v1/agents" => state.agents.as_bytes().to_vec(),
        "GET /api/v1/health" => b"{}".to_vec(),
        "POST /api/v1/runs" => br#"{"accepted":true}"#.to_vec(),
        other => panic!("the agent asked for {other:?}"),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    // An agent that has seen enough may have closed.
    let _ = connection.write_all(&[head.as_bytes(), &answer].concat());
}

/// Names what is to be run.
fn tag(state: &State) -> String {
    match &state.patch {
        // No two keys end alike.
        Some(patch) => patch.public_key.trim().chars().rev().take(20).collect(),
        None => "none".into(),
    }
}

fn assignment(state: &State) -> String {
    let finished = state
        .finished_after
        .is_some_and(|after| state.assignments > after);
    let variant = state.patch.as_ref().and_then(|patch| patch.variant);
    let variant = serde_json::to_string(&variant).expect("a variant or null");
    format!(r#""variant":{variant},"finished":{finished}"#)
}
